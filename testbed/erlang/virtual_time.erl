%% One run in virtual time: real processes, real messages between them, and one clock that goes from event to event.
%%
%% main([JobFile, RequestsFile, AnswerFile]).  The job is one Erlang map (emulator.py writes it); a request is a line
%% "instant node user", in order of time, the instant in ms since the run's time 0; the answer's lines are
%%   o Release             of Erlang
%%   v Accepted            1 or 0, for each request in their order
%%   m At From To Urgent   each message between nodes, if the job wants them
%%   u At Node Memory Shared Flat Messages External Words      each node, every `look` ms
%%   e Converged Last      instants, or -1: when all delta states were first empty after the last request; of the last
%%                         message
%% Only one process works at a time: it says when it is done.  At an instant, looks come before requests, requests
%% before rounds; all rounds of an instant are sent, in order of nodes, before the first of their messages is taken in.
-module(virtual_time).
-export([main/1]).

-record(run, {job, answer, clock, pids, requests, rounds, look_at, load_end, stop_at, quiet, sent, last = -1}).

main(Files) ->
    try
        played(Files),
        halt(0)
    catch
        Class:Reason:Stack ->
            io:format(standard_error, "~0p~n", [{Class, Reason, Stack}]),
            halt(1)
    end.

played([JobFile, RequestsFile, AnswerFile]) ->
    {ok, [Job]} = file:consult(JobFile),
    {ok, Text} = file:read_file(RequestsFile),
    {ok, Answer} = file:open(AnswerFile, [write, raw, delayed_write]),
    Run = begun(Job, requests(Text), Answer),
    say("o ~s~n", [erlang:system_info(otp_release)], Run),
    play(Run),
    ok = file:close(Answer).

%% Users are copied, lest each refer to the whole text: up to 64 letters, each then lies in the heaps that name it.
requests(Text) ->
    [
        begin
            [At, Node, User] = binary:split(Line, <<" ">>, [global]),
            {binary_to_integer(At), binary_to_integer(Node), binary:copy(User)}
        end
     || Line <- binary:split(Text, <<"\n">>, [global, trim_all])
    ].

begun(Job, Requests, Answer) ->
    Clock = atomics:new(1, []),
    Ids = lists:seq(1, maps:get(nodes, Job)),
    Pids = maps:from_list([{Id, limiter_process:start(Id, Clock, Job)} || Id <- Ids]),
    [Pid ! {peers, Pids} || Pid <- maps:values(Pids)],
    LoadEnd = lists:max([0 | [At || {At, _, _} <- Requests]]),
    #run{
        job = Job,
        answer = Answer,
        clock = Clock,
        pids = Pids,
        requests = Requests,
        rounds = gb_sets:from_list([{first_round(Id, Job), Id} || Id <- Ids]),
        look_at = maps:get(look, Job),
        load_end = LoadEnd,
        stop_at = LoadEnd + maps:get(drain, Job),
        quiet = maps:from_keys(Ids, true),
        sent = #{}
    }.

first_round(_Id, #{phase := aligned, interval := Interval}) ->
    Interval;
first_round(Id, #{phase := random, interval := Interval, seed := Seed}) ->
    {Draw, _} = rand:uniform_s(Interval, rand:seed_s(exsss, {Seed, Id, 1})),
    Draw.

play(Run = #run{requests = Requests, rounds = Rounds, look_at = LookAt}) ->
    RoundAt = element(1, gb_sets:smallest(Rounds)),
    RequestAt =
        case Requests of
            [{At, _, _} | _] -> At;
            [] -> never
        end,
    Now = lists:min([LookAt, RoundAt, RequestAt]),  % an atom is above every number
    atomics:put(Run#run.clock, 1, maps:get(epoch, Run#run.job) + Now),
    if
        Now > Run#run.stop_at -> ended(Run#run.stop_at, -1, Run);
        Now =:= LookAt -> play(looked(Now, Run));
        Now =:= RequestAt -> at_rest(Now, asked(Now, Run));
        true -> at_rest(Now, gossiped(Now, Run))
    end.

at_rest(Now, Run = #run{requests = [], quiet = Quiet}) ->
    case lists:all(fun(Is) -> Is end, maps:values(Quiet)) of
        true -> ended(Now, Now, Run);
        false -> play(Run)
    end;
at_rest(_Now, Run) ->
    play(Run).

asked(Now, Run = #run{requests = [{_, Id, User} | Rest]}) ->
    {Verdict, Messages, Asked} = told(Id, {request, self(), User}, Run#run{requests = Rest}),
    say("v ~b~n", [case Verdict of accept -> 1; reject -> 0 end], Run),
    delivered(Now, [{Id, Message, 1} || Message <- Messages], Asked).

gossiped(Now, Run) ->
    Due = gb_sets:to_list(gb_sets:filter(fun({At, _}) -> At =:= Now end, Run#run.rounds)),
    {Messages, Gossiped} = lists:mapfoldl(
        fun({_, Id}, Before) ->
            {ok, Sent, After} = told(Id, {round, self()}, Before),
            {[{Id, Message, 0} || Message <- Sent], After}
        end,
        Run,
        Due
    ),
    Next = gb_sets:from_list([{At + maps:get(interval, Run#run.job), Id} || {At, Id} <- Due]),
    Later = gb_sets:subtract(Run#run.rounds, gb_sets:from_list(Due)),
    delivered(Now, lists:append(Messages), Gossiped#run{rounds = gb_sets:union(Later, Next)}).

%% Messages are under way already, from process to process; each is taken in when its turn has come.
delivered(Now, Messages, Run) ->
    lists:foldl(
        fun({From, {To, External, Words}, Urgent}, Before) ->
            maps:get(journal, Run#run.job) andalso say("m ~b ~b ~b ~b~n", [Now, From, To, Urgent], Run),
            {ok, [], After} = told(To, {deliver, self(), From}, Before),
            Sent = maps:update_with(
                From, fun({N, E, W}) -> {N + 1, E + External, W + Words} end, {1, External, Words}, After#run.sent
            ),
            After#run{sent = Sent, last = Now}
        end,
        Run,
        Messages
    ).

told(Id, What, Run) ->
    maps:get(Id, Run#run.pids) ! What,
    receive
        {done, Id, Answer, Messages, IsQuiet} ->
            {Answer, Messages, Run#run{quiet = maps:put(Id, IsQuiet, Run#run.quiet)}}
    end.

looked(Now, Run) ->
    Sorted = lists:sort(maps:to_list(Run#run.pids)),
    maps:get(collected, Run#run.job) andalso [erlang:garbage_collect(Pid) || {_, Pid} <- Sorted],
    Memories = [{Id, element(2, erlang:process_info(Pid, memory))} || {Id, Pid} <- Sorted],
    lists:foreach(
        fun({Id, Memory}) ->
            {{Shared, Flat}, [], _} = told(Id, {weigh, self()}, Run),
            {Count, External, Words} = maps:get(Id, Run#run.sent, {0, 0, 0}),
            say("u ~b ~b ~b ~b ~b ~b ~b ~b~n", [Now, Id, Memory, Shared, Flat, Count, External, Words], Run)
        end,
        Memories
    ),
    Run#run{look_at = Now + maps:get(look, Run#run.job), sent = #{}}.

%% What was sent since the last look has a line of its own, with no weight (-1).
ended(Now, Converged, Run) ->
    [
        say("u ~b ~b -1 -1 -1 ~b ~b ~b~n", [Now, Id, Count, External, Words], Run)
     || {Id, {Count, External, Words}} <- lists:sort(maps:to_list(Run#run.sent))
    ],
    say("e ~b ~b~n", [Converged, Run#run.last], Run),
    Run.

say(Format, Values, #run{answer = Answer}) ->
    ok = file:write(Answer, io_lib:format(Format, Values)).
