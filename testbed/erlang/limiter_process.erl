%% A node of the thesis as a process: what it holds is what its heap holds.
%%
%% It does one thing when told to, answers {done, Id, Answer, Messages, IsQuiet}, and sends its delta states to other
%% nodes itself; a delta state waits in the receiver's mailbox until the node is told to take it in.  What a node does
%% is in token_counter or token_queue:
%%   new(Id, Neighbours, Options) -> State
%%   request(User, Now, Options, State) -> {accept | reject, [{To, DeltaState}], State}     at once: those to be sent
%%   choose(Options, State) -> {To | none, State}                                           whom a round goes to
%%   taken(From, DeltaState, Now, Options, State) -> State
%% A State begins {Name, LocalState, DeltaStates, …}.
-module(limiter_process).
-export([start/3, drawn/1, pending/2]).

-record(process, {id, module, options, clock, neighbours, peers = #{}, state}).

%% A node knows its neighbours beside its states (Fig. 4.3).  own_words: of memory that it has for itself as well.
start(Id, Clock, #{nodes := Count, seed := Seed, own_words := OwnWords, options := {Module, Options}}) ->
    spawn(fun() ->
        rand:seed(exsss, {Seed, Id, 2}),
        put(own, lists:seq(1, OwnWords div 2)),
        Neighbours = [Other || Other <- lists:seq(1, Count), Other =/= Id],
        State = Module:new(Id, Neighbours, Options),
        Process = #process{id = Id, module = Module, options = Options, clock = Clock, neighbours = Neighbours},
        loop(Process#process{state = State})
    end).

loop(Process = #process{module = Module, options = Options, state = State}) ->
    receive
        {peers, Pids} ->
            loop(Process#process{peers = Pids});
        {request, To, User} ->
            {Verdict, Urgent, After} = Module:request(User, now_ms(Process), Options, State),
            done(To, Verdict, [sent(Message, Process) || Message <- Urgent], After, Process);
        {round, To} ->
            {Messages, After} = round_of(Process),
            done(To, ok, Messages, After, Process);
        {deliver, To, From} ->
            receive
                {delta, From, Delta} ->
                    done(To, ok, [], Module:taken(From, Delta, now_ms(Process), Options, State), Process)
            end;
        {weigh, To} ->
            Held = {element(2, State), element(3, State)},
            done(To, {8 * (erts_debug:size_shared(Held) - 3), 8 * (erts_debug:flat_size(Held) - 3)}, [], State, Process)
    end.

done(To, Answer, Messages, State, Process) ->
    IsQuiet = lists:all(fun(Delta) -> map_size(Delta) =:= 0 end, maps:values(element(3, State))),
    To ! {done, Process#process.id, Answer, Messages, IsQuiet},
    loop(Process#process{state = State}).

%% An empty delta state is never sent.
round_of(#process{module = Module, options = Options, state = State} = Process) ->
    {To, Chosen} = Module:choose(Options, State),
    case element(3, Chosen) of
        #{To := Delta} = Deltas when map_size(Delta) > 0 ->
            {[sent({To, Delta}, Process)], setelement(3, Chosen, Deltas#{To := #{}})};
        _ ->
            {[], Chosen}
    end.

sent({To, Delta}, #process{id = Id, peers = Peers}) ->
    maps:get(To, Peers) ! {delta, Id, Delta},
    {To, erlang:external_size(Delta), 8 * erts_debug:flat_size(Delta)}.

%% UNIX time.
now_ms(#process{clock = Clock}) -> atomics:get(Clock, 1).

%% One of a list, drawn uniformly; none of an empty one.
drawn([]) -> none;
drawn([One]) -> One;
drawn(Several) -> lists:nth(rand:uniform(length(Several)), Several).

%% The neighbours that a round chooses among: all, or those for whom something is queued.
pending(all, Deltas) -> maps:keys(Deltas);
pending(pending, Deltas) -> [To || {To, Delta} <- maps:to_list(Deltas), map_size(Delta) > 0].
