"""What limiters decided, against the oracle and against the limit: Spark frames in, Spark frames out.

The *oracle* is the centralised limiter at zero delay on the same requests.  Counts are two-sided:
the thesis' share of its rejections (5.1.1) scores above 1 where a limiter rejects too much, so false
admissions, false rejections and the worst excess over the envelope stand beside it.

Curves go by the instant at which a request was *intended*, not decided: both curves then count the
same requests at the same instant, and a slow verdict is the business of ``decision_latency``.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from core.defaults import CAPACITY, RATE
from core.units import SECOND_NS

ORACLE = "centralised"
_EXCESS_DIGITS = 6  # doubles are good for a billionth of a token here; what is on the envelope is not above it

# --- the oracle ----------------------------------------------------------------------------------


def with_oracle(runs: DataFrame) -> DataFrame:
    """Which run is the oracle of which: run_id, oracle_run_id.

    The oracle has the system ``centralised`` and a topology with the option ``delay`` of zero and no
    loss, ran without faults and clock skew and is not invalid.  It shares with its run the
    workload_id, the option ``duration`` of the study, and the limit: ``system.capacity`` and
    ``system.rate``, compared as numbers, defaults where absent.  Of several, the one with as many
    nodes (``topology.nodes``) goes first, then the least run id.  A run without an oracle has no
    row; an oracle is its own, or that of its twin's.
    """
    capacity, rate = _limit()
    shared = {
        "workload_id": F.col("workload_id"),
        "capacity": capacity,
        "rate": rate,
        "duration": _factor("study.duration"),
    }
    facts = runs.withColumns({**shared, "nodes": _factor("topology.nodes"), "is_oracle": _is_oracle()})
    oracles = facts.where("is_oracle").select(
        *shared, F.col("nodes").alias("its_nodes"), F.col("run_id").alias("oracle")
    )
    preference = F.struct(F.col("its_nodes") != F.col("nodes"), F.col("oracle"))
    pairs = facts.select("run_id", "nodes", *shared).join(oracles, [*shared])
    return pairs.groupBy("run_id").agg(F.min_by("oracle", preference).alias("oracle_run_id"))


def _is_oracle() -> Column:
    healthy = _factor("study.faults", "[]") == "[]"
    lossless = _factor("topology.loss_probability", "0").cast("double") == 0
    valid = ~F.col("validity").eqNullSafe("invalid")
    exact = _is_zero_span(_factor("topology.delay")) & _is_zero_span(_factor("study.clock_skew", "0ms"))
    return (F.col("system") == ORACLE) & healthy & lossless & valid & exact


def _factor(name: str, default: str = "") -> Column:
    return F.coalesce(F.col("factors")[name], F.lit(default))


def _is_zero_span(text: Column) -> Column:
    return text.rlike(r"^\s*0+(\.0+)?\s*[a-z]*\s*$")


def _limit() -> tuple[Column, Column]:
    """Capacity in tokens and rate in tokens a second, of a row of ``runs``; the rate is ``0.3`` or ``1/3``."""
    parts = F.split(_factor("system.rate", RATE), "/")
    over = F.coalesce(F.get(parts, F.lit(1)), F.lit("1"))
    capacity = _factor("system.capacity", str(CAPACITY)).cast("long")
    return capacity, F.get(parts, F.lit(0)).cast("double") / over.cast("double")


# --- precision -----------------------------------------------------------------------------------


def precision(requests: DataFrame, oracles: DataFrame) -> DataFrame:
    """Decisions against the oracle's; one row a run of ``oracles`` (``with_oracle``) that has requests.

    run_id and

    * offered_count = admitted_count + rejected_count + lost_count (lost: no verdict); oracle_rejected_count;
    * rejected_ratio: rejections over the oracle's, in total (A15's first reading);
    * area_ratio: sums of the cumulative rejections at 0 s, 1 s, ... over the oracle's, up to the first
      whole second that has seen the last request (A15's other reading: the area under the curve);
    * false_admit_count: admitted here, rejected by the oracle; false_reject_count: the reverse;
      false_admit_share and false_reject_share: of the requests offered.  A lost request is neither.

    Both ratios are null where the oracle rejects nothing.  A run and an oracle that were not offered
    equally many requests are an error.
    """
    counts = requests.groupBy("run_id").agg(
        F.count("*").alias("offered_count"),
        F.count_if(F.col("decision") == "admit").alias("admitted_count"),
        F.count_if(_rejected()).alias("rejected_count"),
        F.count_if(F.col("decision") == "lost").alias("lost_count"),
        _rejection_area().alias("area"),
    )
    theirs = counts.select(
        F.col("run_id").alias("oracle_run_id"),
        F.col("offered_count").alias("oracle_offered_count"),
        F.col("rejected_count").alias("oracle_rejected_count"),
        F.col("area").alias("oracle_area"),
    )
    joined = counts.join(oracles, "run_id").join(theirs, "oracle_run_id")
    joined = joined.join(_both_refused(requests, oracles), "run_id", "left").na.fill(0)
    wrong = F.raise_error(F.concat(F.lit("not offered the same requests as its oracle: run "), F.col("run_id")))
    equal = F.col("offered_count") == F.col("oracle_offered_count")
    joined = joined.where(F.when(equal, F.lit(True)).otherwise(wrong.cast("boolean")))
    false_admit = F.col("oracle_rejected_count") - F.col("both_count") - F.col("lost_here_count")
    false_reject = F.col("rejected_count") - F.col("both_count") - F.col("lost_there_count")
    return joined.select(
        "run_id",
        *("offered_count", "admitted_count", "rejected_count", "lost_count", "oracle_rejected_count"),
        F.try_divide("rejected_count", "oracle_rejected_count").alias("rejected_ratio"),
        F.try_divide("area", "oracle_area").alias("area_ratio"),
        false_admit.alias("false_admit_count"),
        false_reject.alias("false_reject_count"),
        (false_admit / F.col("offered_count")).alias("false_admit_share"),
        (false_reject / F.col("offered_count")).alias("false_reject_share"),
    )


def _rejected() -> Column:
    return F.col("decision") == "reject"


def _steps(at_ns: str, step_ns: int) -> Column:
    """The number of the first grid point at or after an instant, ``ceil(at_ns / step_ns)``."""
    return F.expr(f"({at_ns} + {step_ns - 1}) div {step_ns}")


def _rejection_area() -> Column:
    """Sum over whole seconds k = 0 ... K of the rejections up to then: one in second k counts K - k + 1 times."""
    second = _steps("intended_at_ns", SECOND_NS)
    return F.count_if(_rejected()) * (F.max(second) + 1) - F.coalesce(F.sum(F.when(_rejected(), second)), F.lit(0))


def _both_refused(requests: DataFrame, oracles: DataFrame) -> DataFrame:
    """run_id, both_count (rejected here and there), lost_here_count (rejected there), lost_there_count.

    As both were offered the same requests, the rest follows from totals: only the few requests that
    were not admitted are shuffled and joined.
    """
    refused = requests.where(F.col("decision") != "admit").select("run_id", "request_id", "decision")
    theirs = refused.withColumnsRenamed({"run_id": "oracle_run_id", "decision": "oracle_decision"})
    pair = ["request_id", "oracle_run_id"]  # in this order: sorting by a number first is faster
    both = refused.join(F.broadcast(oracles), "run_id").join(theirs, pair)
    there = F.col("oracle_decision") == "reject"
    return both.groupBy("run_id").agg(
        F.count_if(_rejected() & there).alias("both_count"),
        F.count_if(~_rejected() & there).alias("lost_here_count"),
        F.count_if(_rejected() & ~there).alias("lost_there_count"),
    )


def netted(requests: DataFrame, oracles: DataFrame, runs: DataFrame) -> DataFrame:
    """Errors of both kinds that do not cancel within a user's c/r; one row a run of ``oracles`` that has requests.

    run_id; over_admission_share and false_rejection_share: of the requests offered, how many more of a user's, or
    fewer, than by the oracle were admitted of those that were intended within the same c/r, the time in which a bucket
    fills; summed over users and such times.  Who is admitted a moment before another request of the same user is an
    error on neither side.  A lost request is neither.
    """
    capacity, rate = _limit()
    spans = runs.select("run_id", F.ceil(capacity / rate * SECOND_NS).alias("span_ns"))
    admitted = (F.col("decision") == "admit").cast("int")
    theirs = requests.select(F.col("run_id").alias("oracle_run_id"), "request_id", admitted.alias("there"))
    pairs = requests.join(F.broadcast(oracles.join(spans, "run_id")), "run_id").join(
        theirs, ["request_id", "oracle_run_id"]
    )
    more = F.when(F.col("decision") == "lost", 0).otherwise(admitted - F.col("there"))
    sums = pairs.groupBy("run_id", "user", F.expr("intended_at_ns div span_ns").alias("span")).agg(
        F.sum(more).alias("more"), F.count("*").alias("count")
    )
    over, under = (F.sum(F.greatest(F.lit(0), sign * F.col("more"))) / F.sum("count") for sign in (1, -1))
    return sums.groupBy("run_id").agg(over.alias("over_admission_share"), under.alias("false_rejection_share"))


def worst_excess(requests: DataFrame, runs: DataFrame) -> DataFrame:
    """How far admitted work got above the envelope: run_id, excess_tokens, excess_share, user.

    The largest of ``excess_by_user``, in tokens and as a share of c; 0 and no user where nobody got above it.  Of
    several such users, the first by name.  Instants are those of the decision: the envelope bounds what is let through,
    and a request is let through when it is decided, whenever it was sent.
    """
    first = F.min(F.struct((-F.col("excess_tokens")).alias("below"), "user")).alias("worst")
    worst = excess_by_user(requests, runs).groupBy("run_id").agg(first)
    tokens = F.coalesce(-F.col("worst.below"), F.lit(0.0))
    return (
        requests.select("run_id")
        .distinct()
        .join(F.broadcast(limits(runs)), "run_id")
        .join(worst, "run_id", "left")
        .select(
            "run_id",
            tokens.alias("excess_tokens"),
            (tokens / F.col("capacity")).alias("excess_share"),
            F.col("worst.user").alias("user"),
        )
    )


def excess_by_user(requests: DataFrame, runs: DataFrame, instant: str = "decided_at_ns") -> DataFrame:
    """How far each user's admitted work got above the envelope: run_id, user, excess_tokens; those above it alone.

    The largest value, over all closed intervals [s, t], of the cost admitted in [s, t] less c + r (t - s).
    c and r are the run's ``system.capacity`` and ``system.rate``; ``instant``: the column that says when.

    A cost of null is 1.  With P the cost admitted up to and with a request, the excess of the interval from request i
    to j is (P_j - r t_j) - (P_i - cost_i - r t_i) - c, so one running minimum finds all.  Only users that were
    admitted more than c in all are sorted.  Rounded to a millionth of a token.
    """
    admitted = admissions(requests, instant)
    totals = admitted.groupBy("run_id", "user").agg(F.sum("cost").alias("total"))
    suspects = totals.join(F.broadcast(limits(runs)), "run_id").where("total > capacity").drop("total")
    refilled = F.col("at_ns") * F.col("rate") / SECOND_NS
    so_far = (
        Window.partitionBy(F.xxhash64("run_id", "user"), "run_id", "user")  # sorting by a number first is faster
        .orderBy("at_ns", "request_id")
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    levels = admitted.join(F.broadcast(suspects), ["run_id", "user"]).withColumn(
        "level", F.sum("cost").over(so_far) - refilled
    )
    lowest = F.min(F.col("level") - F.col("cost")).over(so_far)
    above = F.col("level") - lowest - F.col("capacity")
    excess = F.round(F.max("above"), _EXCESS_DIGITS).alias("excess_tokens")
    return (
        levels.select("run_id", "user", above.alias("above"))
        .groupBy("run_id", "user")
        .agg(excess)
        .where("excess_tokens > 0")
    )


def admissions(requests: DataFrame, instant: str) -> DataFrame:
    """What was let through: run_id, user, request_id, at_ns (the column ``instant``), cost (1 where it is null)."""
    cost = F.coalesce(F.col("cost"), F.lit(1)).cast("long").alias("cost")
    admitted = requests.where(F.col("decision") == "admit")
    return admitted.select("run_id", "user", "request_id", F.col(instant).alias("at_ns"), cost)


def limits(runs: DataFrame) -> DataFrame:
    """The limit of each run: run_id, capacity (tokens), rate (tokens a second)."""
    capacity, rate = _limit()
    return runs.select("run_id", capacity.alias("capacity"), rate.alias("rate"))


# --- over time -----------------------------------------------------------------------------------


def rejections_over_time(requests: DataFrame, step_ns: int) -> DataFrame:
    """Cumulative rejections and requests: run_id, t_ns, rejected_count, offered_count.

    Counts of the requests intended at or before t.  t goes over the multiples of ``step_ns``, from 0
    to the first that has seen the run's last request.
    """
    stepped = requests.groupBy("run_id", _steps("intended_at_ns", step_ns).alias("step")).agg(
        F.count_if(_rejected()).alias("rejected_count"), F.count("*").alias("offered_count")
    )
    return _cumulated(stepped.withColumn("last", F.col("step")), step_ns, ("rejected_count", "offered_count"))


def rejection_gap_over_time(requests: DataFrame, oracles: DataFrame, step_ns: int) -> DataFrame:
    """The oracle's cumulative rejections less the run's (thesis, Fig. 5.3): 0 is ideal, above it too few.

    Columns: run_id, t_ns, rejected_count, offered_count, oracle_rejected_count, gap_count; t as in
    ``rejections_over_time``.
    """
    curves = rejections_over_time(requests, step_ns)
    renamed = {"run_id": "oracle_run_id", "rejected_count": "oracle_rejected_count"}
    theirs = curves.drop("offered_count").withColumnsRenamed(renamed)
    gap = F.col("oracle_rejected_count") - F.col("rejected_count")
    return (
        curves.join(F.broadcast(oracles), "run_id")
        .join(theirs, ["oracle_run_id", "t_ns"])
        .select(*curves.columns, "oracle_rejected_count", gap.alias("gap_count"))
    )


def users_seen_over_time(requests: DataFrame, step_ns: int) -> DataFrame:
    """How many users sent a request at or before t (thesis, Fig. 5.14): run_id, t_ns, user_count.

    t as in ``rejections_over_time``.
    """
    users = requests.groupBy("run_id", "user").agg(
        F.min(_steps("intended_at_ns", step_ns)).alias("step"), F.max(_steps("intended_at_ns", step_ns)).alias("last")
    )
    stepped = users.groupBy("run_id", "step").agg(F.count("*").alias("user_count"), F.max("last").alias("last"))
    return _cumulated(stepped, step_ns, ["user_count"])


def _cumulated(stepped: DataFrame, step_ns: int, counts: Sequence[str]) -> DataFrame:
    """Running sums of ``counts`` on every step from 0 to the run's greatest ``last``: run_id, t_ns, counts.

    ``stepped``: run_id, step, last, counts; a row stands for the steps from its own to before the
    next one's, and a run's first row also for those before it, with nothing counted yet.
    """
    run = Window.partitionBy("run_id").orderBy("step")
    so_far = run.rowsBetween(Window.unboundedPreceding, 0)
    first = F.when(F.lag("step").over(run).isNull(), F.lit(0)).otherwise(F.col("step"))
    until = F.coalesce(F.lead("step").over(run) - 1, F.col("run_last"))
    summed = stepped.withColumn("run_last", F.max("last").over(Window.partitionBy("run_id"))).select(
        "run_id",
        "step",
        F.sequence(first.cast("long"), until.cast("long")).alias("covered"),
        *(F.sum(name).over(so_far).alias(name) for name in counts),
    )
    covered = summed.select("run_id", "step", *counts, F.explode("covered").alias("at"))
    values = [F.when(F.col("at") < F.col("step"), F.lit(0)).otherwise(F.col(name)).alias(name) for name in counts]
    return covered.select("run_id", (F.col("at") * step_ns).alias("t_ns"), *values)
