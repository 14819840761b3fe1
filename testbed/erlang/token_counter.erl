%% The token-bucket counter: Listings 3.1 to 3.4.
%%
%% A bucket is a term that is never changed in place: after an accept, or a merge, the local state and the delta
%% states all refer to one.  Options: capacity; rate, tokens a ms; cap: `literal' bounds a refill by the capacity, as
%% printed, `bucket' what is in the bucket; whole: whether a request needs a whole token, or, as printed, any fraction;
%% choice: of a round's neighbour, `pending' or `all'.
-module(token_counter).
-export([new/3, request/4, choose/2, taken/5]).

-record(counter, {local = #{}, deltas, id}).
-record(bucket, {counts = #{}, limit, refilled_at}).

new(Id, Neighbours, _Options) ->
    #counter{id = Id, deltas = maps:from_keys(Neighbours, #{})}.

%% Listing 3.1.
request(User, Now, Options, Node = #counter{local = Local, deltas = Deltas}) ->
    Bucket =
        case Local of
            #{User := Known} -> refilled(Known, Now, Options);
            _ -> #bucket{limit = float(maps:get(capacity, Options)), refilled_at = Now}
        end,
    case is_empty(Bucket, Options) of
        true ->
            {reject, [], Node#counter{local = Local#{User => Bucket}}};
        false ->
            Consumed = consumed(Bucket, Node#counter.id),
            Queued = maps:map(fun(_, Delta) -> Delta#{User => Consumed} end, Deltas),
            {accept, [], Node#counter{local = Local#{User => Consumed}, deltas = Queued}}
    end.

refilled(Bucket = #bucket{limit = Limit, refilled_at = At}, Now, #{rate := Rate, capacity := Capacity, cap := Cap}) ->
    case (Now - At) * Rate of
        Grown when Grown > 0, Cap =:= literal ->
            Bucket#bucket{limit = Limit + min(Grown, Capacity), refilled_at = Now};
        Grown when Grown > 0 ->
            Bucket#bucket{limit = min(Limit + Grown, float(consumed(Bucket) + Capacity)), refilled_at = Now};
        _ ->
            Bucket
    end.

is_empty(Bucket = #bucket{limit = Limit}, #{whole := true}) -> Limit - consumed(Bucket) < 1;
is_empty(Bucket = #bucket{limit = Limit}, #{whole := false}) -> Limit =< consumed(Bucket).

consumed(#bucket{counts = Counts}) -> lists:sum(maps:values(Counts)).

%% Listing 3.2.
consumed(Bucket = #bucket{counts = Counts}, Id) ->
    Bucket#bucket{counts = maps:update_with(Id, fun(Count) -> Count + 1 end, 1, Counts)}.

choose(#{choice := Choice}, Node) ->
    {limiter_process:drawn(limiter_process:pending(Choice, Node#counter.deltas)), Node}.

%% Listing 3.3.  What a delta state has queued of an updated bucket is never more than the update has.
taken(From, Received, _Now, _Options, Node = #counter{local = Local, deltas = Deltas}) ->
    Updates = maps:filtermap(
        fun(User, Bucket) ->
            case Local of
                #{User := Own} ->
                    Merged = merged(Own, Bucket),
                    Merged =/= Own andalso {true, Merged};
                _ ->
                    true
            end
        end,
        Received
    ),
    Queued = maps:map(
        fun
            (Neighbour, Delta) when Neighbour =:= From -> Delta;
            (_, Delta) -> maps:merge(Delta, Updates)
        end,
        Deltas
    ),
    Node#counter{local = maps:merge(Local, Updates), deltas = Queued}.

%% Listing 3.4.
merged(Own = #bucket{counts = Counts, limit = Limit}, #bucket{counts = Others, limit = Other, refilled_at = At}) ->
    Most = maps:merge_with(fun(_, One, Another) -> max(One, Another) end, Counts, Others),
    Counted =
        case Most =:= Counts of
            true -> Own;
            false -> Own#bucket{counts = Most}
        end,
    case Other > Limit of
        true -> Counted#bucket{limit = Other, refilled_at = At};
        false -> Counted
    end.
