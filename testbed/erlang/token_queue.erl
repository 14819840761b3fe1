%% The token-bucket queue: Listings 4.1 to 4.8.
%%
%% Instants are whole numbers of 1/`scale' ms: births in milliseconds have scale 1, and two that one node accepts within
%% one have the same.  With `unique' a birth is later than every one in its queue, which wants a finer scale.
%% Options: capacity; step, 1/r; scale; unique; duplicates: which of the elements that are queued for the sender of a
%% delta state are removed, those that are in it `exact'ly, by `birth', or `not_later' than there (4.2.1 says
%% "duplicates"); choice; linf; counters: LINF by the counters of Listings 4.6 to 4.8, or by true counts; frequency:
%% `none', or {Window, Threshold}.  Listings 4.1 and 4.5 with the signs that the text has.
-module(token_queue).
-export([new/3, request/4, choose/2, taken/5]).

-record(queue, {local = #{}, deltas, priorities}).
-record(element, {birth, death}).

new(_Id, Neighbours, Options) ->
    Priorities =
        case Options of
            #{linf := true} -> maps:from_keys(Neighbours, 0);
            _ -> none
        end,
    #queue{deltas = maps:from_keys(Neighbours, #{}), priorities = Priorities}.

%% --- a request ------------------------------------------------------------------------------------------------------

request(User, NowMs, Options = #{capacity := Capacity, scale := Scale}, Node = #queue{local = Local}) ->
    Now = NowMs * Scale,
    Queue = refilled(maps:get(User, Local, []), Now),
    case length(Queue) < Capacity of
        true ->
            Element = element_after(Queue, Now, Options),
            accepted(User, Element, Options, Node#queue{local = Local#{User => Queue ++ [Element]}});
        false ->
            {reject, [], Node#queue{local = Local#{User => Queue}}}
    end.

%% Listing 4.1.
refilled([#element{death = Death} | Rest], Now) when Death =< Now -> refilled(Rest, Now);
refilled(Queue, _Now) -> Queue.

%% Equation 4.2.
element_after([], Now, #{step := Step}) ->
    #element{birth = Now, death = Now + Step};
element_after(Queue, Now, #{step := Step, unique := Unique}) ->
    #element{birth = Birth, death = Death} = lists:last(Queue),
    #element{
        birth = case Unique of true -> max(Now, Birth + 1); false -> Now end,
        death = Death + Step
    }.

%% Listings 4.6, 4.5 and 4.8.
accepted(User, Element, Options, Node = #queue{deltas = Deltas, priorities = Priorities}) ->
    Queued = maps:map(fun(_, Delta) -> Delta#{User => maps:get(User, Delta, []) ++ [Element]} end, Deltas),
    Counted = Node#queue{deltas = Queued, priorities = raised(Priorities, fun(_) -> 1 end)},
    Urgent = [To || {To, #{User := Queue}} <- maps:to_list(Queued), is_urgent(Queue, Element, Options)],
    lists:foldl(
        fun(To, {accept, Messages, #queue{deltas = Before, priorities = Numbers} = Sender}) ->
            {Queue, Left} = maps:take(User, maps:get(To, Before)),
            Lowered = raised(Numbers, fun(Neighbour) when Neighbour =:= To -> -length(Queue); (_) -> 0 end),
            Cleared = Sender#queue{deltas = Before#{To := Left}, priorities = Lowered},
            {accept, [{To, #{User => Queue}} | Messages], Cleared}
        end,
        {accept, [], Counted},
        lists:reverse(Urgent)
    ).

is_urgent(_Queue, _Latest, #{frequency := none}) ->
    false;
is_urgent(Queue, #element{birth = Latest}, #{frequency := {Window, Threshold}}) ->
    Length = length(Queue),
    Length >= Window andalso Latest - (lists:nth(Length - Window + 1, Queue))#element.birth < Threshold * Window.

raised(none, _By) -> none;
raised(Priorities, By) -> maps:map(fun(Neighbour, Number) -> Number + By(Neighbour) end, Priorities).

%% --- a round --------------------------------------------------------------------------------------------------------

choose(#{linf := false, choice := Choice}, Node) ->
    {limiter_process:drawn(limiter_process:pending(Choice, Node#queue.deltas)), Node};
choose(#{counters := ByCounters}, Node = #queue{deltas = Deltas, priorities = Counters}) ->
    Numbers =
        case ByCounters of
            true -> Counters;
            false -> maps:map(fun(_, Delta) -> element_count(Delta) end, Deltas)
        end,
    Most = lists:max([0 | maps:values(Numbers)]),
    case limiter_process:drawn([Neighbour || {Neighbour, Number} <- maps:to_list(Numbers), Number =:= Most]) of
        none -> {none, Node};
        To -> {To, Node#queue{priorities = Counters#{To := 0}}}
    end.

element_count(Delta) -> maps:fold(fun(_, Queue, Sum) -> Sum + length(Queue) end, 0, Delta).

%% --- a delta state --------------------------------------------------------------------------------------------------

%% 4.2.1, Listings 4.4 and 4.7.
taken(From, Received, NowMs, Options = #{scale := Scale}, Node = #queue{local = Local, deltas = Deltas}) ->
    Now = NowMs * Scale,
    {Known, Updates} = maps:fold(
        fun(User, Queue, {States, News}) ->
            {Merged, New} = taken_in(maps:get(User, States, none), Queue, maps:get(step, Options)),
            {kept(User, refilled(Merged, Now), States), kept(User, New, News)}
        end,
        {Local, #{}},
        Received
    ),
    Unite = fun(_, Queue, New) -> united(Queue, New) end,
    Merged = maps:map(fun(_, Delta) -> maps:merge_with(Unite, Delta, Updates) end, Deltas),
    Priorities = raised(Node#queue.priorities, fun(Neighbour) ->
        element_count(maps:get(Neighbour, Merged)) - element_count(maps:get(Neighbour, Deltas))
    end),
    Duplicates = maps:get(duplicates, Options),
    Echoless = maps:update_with(From, fun(Delta) -> without(Delta, Received, Duplicates) end, Merged),
    Queued = maps:map(fun(_, Delta) -> refilled_as(Received, Now, Delta) end, Echoless),
    Recounted =
        case Priorities of
            none -> none;
            _ -> Priorities#{From := element_count(maps:get(From, Queued))}
        end,
    Node#queue{local = Known, deltas = Queued, priorities = Recounted}.

%% Listing 4.4: of the users of the delta state that was taken in.
refilled_as(Received, Now, Delta) ->
    maps:fold(
        fun(User, _, Left) ->
            case Left of
                #{User := Queue} -> kept(User, refilled(Queue, Now), Left);
                _ -> Left
            end
        end,
        Delta,
        Received
    ).

kept(User, [], State) -> maps:remove(User, State);
kept(User, Queue, State) -> State#{User => Queue}.

%% The local queue, and of it what is new or dies later than before.  A user's first queue is adopted as it is.
taken_in(none, Queue, _Step) -> {Queue, Queue};
taken_in(Own, Queue, Step) -> merged(Own, Queue, Step, none, [], []).

%% Listings 4.2 and 4.3, into the local state.
merged([X = #element{birth = Birth} | Own], [Y = #element{birth = Birth} | Others], Step, Last, Result, News) ->
    Later = if Y#element.death > X#element.death -> Y; true -> X end,
    appended(X, Later, Own, Others, Step, Last, Result, News);
merged([X | Own], Others, Step, Last, Result, News) when Others =:= []; X#element.birth < (hd(Others))#element.birth ->
    appended(X, X, Own, Others, Step, Last, Result, News);
merged(Own, [Y | Others], Step, Last, Result, News) ->
    appended(none, Y, Own, Others, Step, Last, Result, News);
merged([], [], _Step, _Last, Result, News) ->
    {lists:reverse(Result), lists:reverse(News)}.

appended(Before, Element = #element{death = Death}, Own, Others, Step, Last, Result, News) ->
    Chained =
        case Last of
            #element{death = Previous} when Previous + Step > Death -> Element#element{death = Previous + Step};
            _ -> Element
        end,
    More =
        case Before of
            #element{death = Old} when Chained#element.death =< Old -> News;
            _ -> [Chained | News]
        end,
    merged(Own, Others, Step, Chained, [Chained | Result], More).

%% A delta state's queue with the updates: of equal births the later death.  (4.2.1 keeps both, "because updates are
%% new"; they are not, where a death was raised: then elements breed without end.)
united([X = #element{birth = Birth} | Queue], [Y = #element{birth = Birth} | News]) ->
    [if Y#element.death > X#element.death -> Y; true -> X end | united(Queue, News)];
united([X | Queue], [Y | _] = News) when X#element.birth < Y#element.birth -> [X | united(Queue, News)];
united([], News) -> News;
united(Queue, []) -> Queue;
united(Queue, [Y | News]) -> [Y | united(Queue, News)].

%% "Duplicates between the sender's delta state and the received delta state are removed from the former" (4.2.1).
without(Delta, Received, Kind) ->
    maps:filtermap(
        fun(User, Queue) ->
            case Received of
                #{User := Sent} ->
                    case different(Queue, Sent, Kind) of
                        [] -> false;
                        Left -> {true, Left}
                    end;
                _ ->
                    true
            end
        end,
        Delta
    ).

different(Queue, Sent, exact) ->
    Queue -- Sent;
different(Queue, Sent, Kind) ->
    Deaths = maps:from_list([{Birth, Death} || #element{birth = Birth, death = Death} <- Sent]),
    [
        Element
     || Element = #element{birth = Birth, death = Death} <- Queue,
        case Deaths of
            #{Birth := Theirs} -> Kind =:= not_later andalso Death > Theirs;
            _ -> true
        end
    ].
