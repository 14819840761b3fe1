"""What deployed limiters do, beside models of them, by groups of users: Spark frames in, Spark frames out.

A *group* is users that are offered alike: ``in_groups`` adds to ``requests`` what is known of each user, the *keys*, as
shape and factor of workload ``hot-keys``; functions take these columns as ``by``.  Excess and windows are of single
users, for each has a limit of its own; a group's are those of the user that was worst.

When a deployed limiter let a request through, its own clock knows: after the instant at which it was *intended*, and
before the one at which its node heard the verdict, *decided*.  So whatever counts admissions in time comes twice.

Of decisions request by request, another one is admitted in place of one, by all good ones as well: windows and buckets
are not to be ranked by them (``limiting.precision``).
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analysis.fidelity import VIRTUAL
from analysis.limiting import admissions, excess_by_user, limits
from core.units import SECOND_NS

BUCKET, FIXED_WINDOW, SLIDING_WINDOW, SPLIT = CONTRACTS = ("bucket", "fixed-window", "sliding-window", "split")
INSTANTS = ("intended", "decided")
BY = ("shape", "factor")


def in_groups(requests: DataFrame, groups: DataFrame) -> DataFrame:
    """``requests`` with the keys of their users; those of other users are left out.  ``groups``: user, keys."""
    return requests.join(F.broadcast(groups), "user")


# --- how much ------------------------------------------------------------------------------------


def granted(requests: DataFrame, oracles: DataFrame, by: Sequence[str] = BY) -> DataFrame:
    """What a limiter admits of what it should: one row a run of ``oracles`` (``limiting.with_oracle``) and group.

    run_id, ``by``, offered_count, admitted_count, lost_count, oracle_admitted_count, granted_ratio: admitted over what
    the oracle, a token bucket in the middle without delay, admits of the same requests; null where that admits none.
    A group that was not offered equally many requests as by the oracle is an error.
    """
    admitted = F.count_if(F.col("decision") == "admit").alias("admitted_count")
    lost = F.count_if(F.col("decision") == "lost").alias("lost_count")
    counts = requests.groupBy("run_id", *by).agg(F.count("*").alias("offered_count"), admitted, lost)
    theirs = counts.select(
        F.col("run_id").alias("oracle_run_id"),
        *by,
        F.col("offered_count").alias("oracle_offered_count"),
        F.col("admitted_count").alias("oracle_admitted_count"),
    )
    joined = counts.join(F.broadcast(oracles), "run_id").join(theirs, ["oracle_run_id", *by], "left")
    wrong = F.raise_error(F.concat(F.lit("not offered the same requests as its oracle: run "), F.col("run_id")))
    equal = F.col("offered_count").eqNullSafe(F.col("oracle_offered_count"))
    return joined.where(F.when(equal, F.lit(True)).otherwise(wrong.cast("boolean"))).select(
        "run_id",
        *by,
        *("offered_count", "admitted_count", "lost_count", "oracle_admitted_count"),
        F.try_divide("admitted_count", "oracle_admitted_count").alias("granted_ratio"),
    )


def admitted_over_time(
    requests: DataFrame, step_ns: int = SECOND_NS, by: Sequence[str] = BY, instant: str = "intended"
) -> DataFrame:
    """Offered and admitted in each step, per user: run_id, ``by``, t_ns, user_count, offered_rps, admitted_rps.

    The step at t covers [t, t + step_ns); steps go from 0 to that of the run's last instant, with zeros where nothing
    was.  Rates are per second and user of the group.  ``instant``: of ``INSTANTS``, by which admissions are counted;
    what is offered counts when it was intended.
    """
    run_and_group = ["run_id", *by]
    group = [F.col(name) for name in run_and_group]
    is_admitted = F.col("decision") == "admit"
    events = requests.select(
        *group,
        F.explode(
            F.array(
                F.struct(F.col("intended_at_ns").alias("at_ns"), F.lit(1).alias("offered"), F.lit(0).alias("admitted")),
                F.struct(
                    F.when(is_admitted, F.col(f"{instant}_at_ns")).alias("at_ns"),
                    F.lit(0).alias("offered"),
                    F.lit(1).alias("admitted"),
                ),
            )
        ).alias("event"),
    )
    step = F.expr(f"event.at_ns div {step_ns}").alias("step")
    stepped = (
        events.where("event.at_ns is not null")
        .groupBy(*group, step)
        .agg(F.sum("event.offered").alias("offered"), F.sum("event.admitted").alias("admitted"))
    )
    last = stepped.groupBy("run_id").agg(F.max("step").alias("last"))
    users = requests.groupBy(*group).agg(F.count_distinct("user").alias("user_count"))
    steps = F.explode(F.sequence(F.lit(0).cast("long"), F.col("last"))).alias("step")
    grid = users.join(F.broadcast(last), "run_id").select(*run_and_group, "user_count", steps)
    rates = [
        (F.coalesce(F.col(name), F.lit(0)) * (SECOND_NS / step_ns) / F.col("user_count")).alias(f"{name}_rps")
        for name in ("offered", "admitted")
    ]
    filled = grid.join(stepped, [*run_and_group, "step"], "left")
    return filled.select(*run_and_group, (F.col("step") * step_ns).alias("t_ns"), "user_count", *rates)


# --- beyond the limit ----------------------------------------------------------------------------


def excess(requests: DataFrame, runs: DataFrame, by: Sequence[str] = BY) -> DataFrame:
    """The most admitted above the envelope c + r t, over any interval, in units of c.

    run_id, ``by``, intended_excess_share, decided_excess_share: see ``limiting.excess_by_user``; 0 where nobody got
    above it.
    """
    users = _users(requests, by).join(F.broadcast(limits(runs)), "run_id")
    for instant in INSTANTS:
        its = excess_by_user(requests, runs, f"{instant}_at_ns").withColumnRenamed("excess_tokens", instant)
        users = users.join(its, ["run_id", "user"], "left")
    return users.groupBy("run_id", *by).agg(
        *((F.coalesce(F.max(name), F.lit(0.0)) / F.max("capacity")).alias(f"{name}_excess_share") for name in INSTANTS)
    )


def busiest_windows(requests: DataFrame, runs: DataFrame, by: Sequence[str] = BY) -> DataFrame:
    """The most that was admitted of a user in a window of one period c / r, in N = c.

    run_id, ``by`` and

    * intended_window_share, decided_window_share: in any window [t, t + period);
    * intended_aligned_share, decided_aligned_share: in one that begins at a multiple of the period from time 0.

    0 where nothing was admitted.
    """
    users = _users(requests, by).join(F.broadcast(limits(runs)), "run_id")
    names: list[str] = []
    for instant in INSTANTS:
        any_window, aligned = f"{instant}_window_share", f"{instant}_aligned_share"
        counted = _windows_by_user(requests, runs, f"{instant}_at_ns")
        counted = counted.withColumnsRenamed({"window_tokens": any_window, "aligned_tokens": aligned})
        users, names = users.join(counted, ["run_id", "user"], "left"), [*names, any_window, aligned]
    shares = [(F.coalesce(F.max(name), F.lit(0)) / F.max("capacity")).alias(name) for name in names]
    return users.groupBy("run_id", *by).agg(*shares)


def over_contract(
    excesses: DataFrame, windows: DataFrame, runs: DataFrame, contracts: Mapping[str, str], by: Sequence[str] = BY
) -> DataFrame:
    """How far a limiter went beyond what it promises itself, in units of N = c; of ``excess`` and ``busiest_windows``.

    run_id, ``by``, contract, intended_over_share, decided_over_share; one of them 0 where it kept its word.  By
    ``contract``, of ``CONTRACTS``:

    * bucket, and split, whose parts make one: ``excess``;
    * fixed-window: the most in a window of a period, aligned to time 0, less N;
    * sliding-window: the most in any window of a period, less N.  Strictly: who weighs this window's count and the
      last one's, as HAProxy does, may have nearly N here without any delay.

    A verdict was given between the two instants: what is beyond by both of them is beyond; by one alone it need not be.

    ``contracts``: system -> contract; of others it is bucket.  Where clocks of servers do not begin their windows at
    the run's time 0, a fixed window is not theirs: see the study's option ``align``.
    """
    assert set(contracts.values()) <= set(CONTRACTS), contracts
    contract = F.lit(BUCKET)
    for system, its in sorted(contracts.items()):
        contract = F.when(F.col("system") == system, F.lit(its)).otherwise(contract)
    promised = F.broadcast(runs.select("run_id", contract.alias("contract")))
    both = excesses.join(windows, ["run_id", *by]).join(promised, "run_id")

    def over(instant: str) -> Column:
        beyond = F.when(F.col("contract") == FIXED_WINDOW, F.col(f"{instant}_aligned_share") - 1)
        beyond = beyond.when(F.col("contract") == SLIDING_WINDOW, F.col(f"{instant}_window_share") - 1)
        most = F.greatest(F.lit(0.0), beyond.otherwise(F.col(f"{instant}_excess_share")))
        return most.alias(f"{instant}_over_share")

    return both.select("run_id", *by, "contract", *(over(instant) for instant in INSTANTS))


def _users(requests: DataFrame, by: Sequence[str]) -> DataFrame:
    return requests.select("run_id", *by, "user").distinct()


def _windows_by_user(requests: DataFrame, runs: DataFrame, instant: str) -> DataFrame:
    """run_id, user, window_tokens, aligned_tokens: the most admitted in any window of a period, and in an aligned one.

    The best window begins with an admission, so two searches in a sorted array find it.
    """
    import numpy as np
    import pyarrow as pa

    def most(group: pa.Table) -> pa.Table:
        at_ns, cost = group["at_ns"].to_numpy(), group["cost"].to_numpy()
        order = np.argsort(at_ns, kind="stable")
        at_ns, cost, period_ns = at_ns[order], cost[order], group["period_ns"][0].as_py()
        so_far = np.concatenate([[0], np.cumsum(cost)])
        inside = so_far[np.searchsorted(at_ns, at_ns + period_ns, "left")] - so_far[:-1]
        begins = np.flatnonzero(np.diff(at_ns // period_ns, prepend=-1))
        row = {"window_tokens": [int(inside.max())], "aligned_tokens": [int(np.add.reduceat(cost, begins).max())]}
        return pa.table({name: [group[name][0].as_py()] for name in ("run_id", "user")} | row).cast(schema)

    period_ns = F.round(F.col("capacity") / F.col("rate") * SECOND_NS).cast("long").alias("period_ns")
    periods = F.broadcast(limits(runs).select("run_id", period_ns))
    rows = admissions(requests, instant).join(periods, "run_id").drop("request_id")
    nothing = [F.lit(0).cast("long").alias(name) for name in ("window_tokens", "aligned_tokens")]
    empty = rows.select("run_id", "user", *nothing)
    schema = empty.limit(0).toArrow().schema
    return rows.groupBy("run_id", "user").applyInArrow(most, empty.schema)


# --- answers -------------------------------------------------------------------------------------


def by_second(requests: DataFrame, samples: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Both with t_ns, the begin of the second to which a row belongs, so that ``answers`` can take it as ``by``.

    A request belongs to the second in which it was decided, a lost one to that in which it was intended.  Of samples:
    ``unanswered_count`` is of the second that ends at its instant, all others are of theirs.
    """
    at_ns = F.when(F.col("metric") == "unanswered_count", F.col("at_ns") - 1).otherwise(F.col("at_ns"))
    return (
        requests.withColumn("t_ns", _second(F.coalesce("decided_at_ns", "intended_at_ns"))),
        samples.withColumn("t_ns", _second(at_ns)),
    )


def _second(at_ns: Column) -> Column:
    return at_ns - F.pmod(at_ns, F.lit(SECOND_NS))


def within(frame: DataFrame, spans: DataFrame, instant: str = "t_ns") -> DataFrame:
    """The rows of a span: ``instant`` is from_ns or later, and before until_ns.

    ``spans``: run_id, from_ns, until_ns; rows of other runs are left out.  With ``t_ns`` of ``by_second``, from_ns and
    until_ns have to be whole seconds.
    """
    inside = (F.col(instant) >= F.col("from_ns")) & (F.col(instant) < F.col("until_ns"))
    return frame.join(F.broadcast(spans), "run_id").where(inside).drop("from_ns", "until_ns")


def waits(requests: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """How long users waited, from the intended instant to the verdict: run_id, ``by``, decided_count, p50_ns, p99_ns.

    Of requests that have a verdict, those whose node had no answer from its server as well.  ``by``: ``("node",)``, or
    groups.  A quantile is the smallest value that at least so many are not above; the histogram ``decision_latency``
    of a run has the same, but for its buckets.
    """
    waited = requests.where("decided_at_ns is not null").withColumn(
        "wait_ns", F.col("decided_at_ns") - F.col("intended_at_ns")
    )
    quantiles = [
        F.expr(f"percentile_disc({q}) within group (order by wait_ns)").cast("long").alias(name)
        for q, name in ((0.5, "p50_ns"), (0.99, "p99_ns"))
    ]
    return waited.groupBy("run_id", *by).agg(F.count("*").alias("decided_count"), *quantiles)


def answers(requests: DataFrame, samples: DataFrame, runs: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """Requests without an answer.

    run_id, ``by``, offered_count, lost_count, unanswered_count, error_answer_count, and of the requests offered

    * lost_share: no verdict came;
    * unanswered_share: the node decided alone, as no answer came in time, or an error;
    * error_answer_share: of these, an error.

    Unanswered ones and errors are null in virtual time, where nobody counts them.  ``by``: nothing, or ``("node",)``.
    """
    keys = ["run_id", *by]
    offered = requests.groupBy(*keys).agg(
        F.count("*").alias("offered_count"), F.count_if(F.col("decision") == "lost").alias("lost_count")
    )
    named = ("unanswered_count", "error_answer_count")
    sums = [F.sum(F.when(F.col("metric") == name, F.col("value"))).alias(name) for name in named]
    told = samples.where(F.col("metric").isin(*named)).groupBy(*keys).agg(*sums)
    is_live = F.broadcast(runs.select("run_id", (F.col("testbed") != VIRTUAL).alias("is_live")))
    counted = [F.when(F.col("is_live"), F.coalesce(F.col(name), F.lit(0)).cast("long")).alias(name) for name in named]
    both = offered.join(told, keys, "left").join(is_live, "run_id")
    both = both.select(*keys, "offered_count", "lost_count", *counted)
    shares = {f"{name}_share": F.col(f"{name}_count") for name in ("lost", "unanswered", "error_answer")}
    return both.withColumns({name: count / F.col("offered_count") for name, count in shares.items()})
