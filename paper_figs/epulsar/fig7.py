"""Fig. 7: what moving many topics at once costs their clients and the load manager.

(a) Client downtime: from the old broker's close to the new broker's answer.  (b) Time of a migration at the load
manager as the paper defines it, from "Release Topic" to "Release Complete"; (c) with the wait for an executor, from the
decision on.  The microbenchmark's load manager moves all topics to the other of two brokers, over and over.

``--broker pulsar``: the same on a real Apache Pulsar (study ``placement-on-pulsar``); in virtual time on a model of it,
which was fitted on live runs and so is not judged.  There the table also has the *gap*, the longest time without a
delivery around a move, as Pulsar 4 keeps messages waiting before it closes clients.
"""

from analysis.verdicts import RATIO_TOLERANCE, Check, Claim, Evidence, Tables, above, below
from core.units import MILLISECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.drawing import GREY, interval_points, log_axis, mean_lines, panels
from paper_figs.epulsar.published import EXECUTORS, MOVED_TOPICS, WAN_MS
from paper_figs.epulsar.runs import BROKER, is_on_pulsar, on_pulsar, placed
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.intervals import intervals_by
from paper_figs.keys import key, key_above, legend_above
from paper_figs.light import Axes, Data, Drawing, Frame, SparkFrame
from paper_figs.series import by_repetition, frame_of, samples, steps, where, with_point
from paper_figs.style import Style, looks_of, series, style_of

SYSTEMS = ("pulsar", "epulsar")
DOWNTIME, MIGRATION, WITH_WAIT = "client_downtime_ns", "migration_ns", "migration_with_wait_ns"
VIRTUAL = "virtual"
ANSWERED_NS = 100 * MILLISECOND_NS  # ours: clients' logs have milliseconds, and the last word may come after REST's
GAP = "delivery_gap_ns"  # on Pulsar alone
MOVED_ON_PULSAR = 64  # ours: of one producer and one consumer each, on a small machine
FACTORS = {"wan": "topology.cloud_delay", "topics": "workload.topics", "executors": "system.executors"}


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """(a) over the WAN's delay, (b), (c) over the number of topics, ePulsar with 1 to 16 executors."""
    if is_on_pulsar(options):
        return _points_on_pulsar(scale)
    most = scale.pick(small=6, quick=MOVED_TOPICS)
    wan = scale.pick(
        tiny=(10, WAN_MS), small=(10, 20, WAN_MS), quick=(10, WAN_MS, 80), paper=(5, 10, 20, WAN_MS, 80, 160)
    )
    topics = scale.pick(tiny=(most,), small=(most,), quick=(16, 64, MOVED_TOPICS), paper=(16, 32, 64, 96, MOVED_TOPICS))
    executors = scale.pick(tiny=(1, EXECUTORS), quick=(1, 4, EXECUTORS), paper=(1, 2, 4, 8, EXECUTORS))
    specs = [_point(scale, system, most, one, EXECUTORS) for one in wan for system in SYSTEMS]
    for count in topics:
        specs += [
            _point(scale, "epulsar", count, WAN_MS, threads)
            for threads in executors
            if (count, threads) != (most, EXECUTORS)
        ]
        if count != most:
            specs.append(_point(scale, "pulsar", count, WAN_MS, 1))
    return specs


def _point(scale: Scale, system: str, topics: int, wan_ms: int, executors: int) -> RunSpec:
    """Topics of one producer each, at two brokers of one place, "Each topic has only 1 client"; at small, two."""
    options: Options = {"executors": executors} if system == "epulsar" else {"bundles": 0}
    load = {"topics": topics, "producers": 1, "consumers": 0, "sites": 2, "rate_rps": 1.0, "bound": "10s"}
    if scale.physics == "small":  # somebody who notices what is lost or doubled
        load |= {"consumers": 1, "rate_rps": 20.0}
    # Every move has to be over before the next: the baseline takes a round trip to the store and one to the manager.
    over_s = round(1.2 * topics * (4 * wan_ms + 1) / 1000)
    period_s, rounds, warm_up = (20, 2, 30) if scale.physics == "small" else (max(50, over_s), 1, 600)
    study = {"duration": f"{period_s * (rounds + 1)}s", "access": "1ms", "warm_up_rounds": warm_up}
    where_ = ("city-mec", {"sites": 2, "site_rtt": "2ms", "cloud_delay": f"{wan_ms}ms"})
    return placed(system, ("static-topics", load), where_, study, periodic=f"{period_s}s", probe="5s", **options)


def _points_on_pulsar(scale: Scale) -> list[RunSpec]:
    """Over the WAN's delay, both systems; ePulsar with one executor, too, at least at the longest."""
    wans = scale.pick(tiny=(0, 10), small=(0, WAN_MS), quick=(0, 10, WAN_MS), paper=(0, 10, 20, WAN_MS))
    alone = scale.pick(quick=wans[-1:], paper=wans)
    topics = scale.pick(tiny=4, small=16, quick=MOVED_ON_PULSAR)
    grid = [(system, wan, EXECUTORS) for wan in wans for system in SYSTEMS]
    grid += [("epulsar", wan, 1) for wan in alone]
    return [_on_pulsar(system, topics, wan, executors) for system, wan, executors in grid]


def _on_pulsar(system: str, topics: int, wan_ms: int, executors: int) -> RunSpec:
    """The store and the load manager behind the WAN; brokers, bookie and clients in one place."""
    options: Options = {"executors": executors} if system == "epulsar" else {"bundles": 0}
    load = {"topics": topics, "producers": 1, "consumers": 1, "sites": 2, "rate_rps": 10.0, "bound": "10s"}
    # Every move has to be over before the run is: of one topic it takes some twenty ways to the store, here.
    at_once = executors if system == "epulsar" else 1
    period_s = 15 + round(topics / at_once * (0.15 + 0.02 * wan_ms))
    where_ = ("city-mec", {"sites": 2, "site_rtt": "0ms", "cloud_delay": f"{wan_ms}ms"})
    study = {"duration": f"{2 * period_s - 1}s", "access": "0ms"}  # topics are moved once
    offered = ("static-topics", {**load, "placement": "home"})
    return on_pulsar(placed(system, offered, where_, study, periodic=f"{period_s}s", probe="5s", **options))


def tables(data: Data) -> FigureTables:
    """``migrations``: a row a run and metric: wan (ms), topics, executors, p50_ms, p95_ms, largest_ms, count.

    landed_count: moves of the run that ended where they were to, as far as somebody says so: on Pulsar.
    """
    from pyspark.sql import functions as f

    mine = data.samples.where(f.col("metric").isin(DOWNTIME, MIGRATION, WITH_WAIT, GAP)).select(
        "run_id", "metric", "value"
    )
    mine = mine.unionByName(_downtimes(data.table("downtimes"), data.table("move_steps")))
    landed = (
        data.samples.where("metric = 'migration_count'").groupBy("run_id").agg(f.sum("value").alias("landed_count"))
    )
    spans = {"p50_ms": "percentile(value, 0.5)", "p95_ms": "percentile(value, 0.95)", "largest_ms": "max(value)"}
    in_ms = [f.expr(f"{span} / {MILLISECOND_NS}").alias(name) for name, span in spans.items()]
    metrics = mine.groupBy("run_id", "metric").agg(f.count("value").alias("count"), *in_ms)
    metrics = metrics.join(landed, "run_id", "left")
    migrations = with_point(data, metrics, FACTORS, ("testbed", "system", "repetition"))
    migrations["wan_ms"] = [float(str(text).removesuffix("ms")) for text in migrations.pop("wan")]
    migrations["executors"] = migrations.executors.fillna(1).astype(int)
    point = ["testbed", "system", "repetition", "topics", "executors", "wan_ms"]
    columns = ["run_id", "metric", "count", "landed_count", *point, *spans]
    return {"migrations": migrations[columns]}


def _downtimes(downtimes: SparkFrame, steps: SparkFrame) -> SparkFrame:
    """run_id, metric, value: of each move and client the longest time that it was cut off, of those around the move.

    On Pulsar clients are cut off by others' moves as well: a lookup that comes while a topic is unloaded ends their
    client's connection, which others share.  On our brokers a downtime is a sample, and of one move.
    """
    from pyspark.sql import functions as f

    moves = steps.where("step = 'request'").selectExpr(
        "run_id", "topic", "start_ns as asked_ns", f"end_ns + {ANSWERED_NS} as over_ns"
    )
    around = downtimes.join(moves, ["run_id", "topic"]).where("start_ns <= over_ns and end_ns >= asked_ns")
    longest_ns = f.max(f.expr("cast(end_ns - start_ns as double)")).alias("value")
    longest = around.groupBy("run_id", "client", "topic", "role", "asked_ns").agg(longest_ns)
    return longest.select("run_id", f.lit(DOWNTIME).alias("metric"), "value")


def draw(tables: FigureTables) -> Drawing:
    """(a) over the WAN's delay; (b) and (c) over the number of topics.  On Pulsar: all over the delay, and the gap."""
    migrations = tables["migrations"]
    if _has_gaps(migrations):
        return _drawn_on_pulsar(migrations)
    title = f"{migrations.topics.max()} topics, {EXECUTORS} executors"
    drawing, axes = panels(1, 3, (title, "per topic, (1) to (5)", "per topic, from the decision"), inches=(10.5, 3.1))
    _draw_downtime(axes[0], migrations)
    log_axis(axes[2], steps=(1, 3))
    for panel, metric in ((axes[1], MIGRATION), (axes[2], WITH_WAIT)):
        rows, looks = _lines(migrations[(migrations.metric == metric) & (migrations.wan_ms == WAN_MS)])
        mean_lines(panel, rows, "topics", "p50_ms", "line", looks, apart_points=3.5)
        panel.set(xlabel="topics that move at once", ylabel="median migration time (ms)")
        key_above(panel, [key(look) for look in looks.values()])
    axes[1].set_ylim(0, 1.2 * axes[1].get_ylim()[1])
    return drawing


def _drawn_on_pulsar(migrations: Frame) -> Drawing:
    """Medians over the delay, one panel a measure, as all of them tell of the same moves."""
    rows, looks = _lines(migrations)
    titles = ("client downtime", "without a delivery", "migration, (1) to (5)", "migration, from the decision")
    drawing, axes = panels(1, 4, titles, inches=(10.5, 3.1))
    for panel, metric in zip(axes, (DOWNTIME, GAP, MIGRATION, WITH_WAIT), strict=True):
        log_axis(panel, steps=(1, 2, 5))
        mean_lines(panel, rows[rows.metric == metric], "wan_ms", "p50_ms", "line", looks, apart_points=3.5)
        panel.set(xlabel="one-way delay to the store (ms)", ylabel="")
    axes[0].set_ylabel(f"median of {migrations.topics.max()} topics (ms)")
    legend_above(drawing, [key(look) for look in looks.values()])
    return drawing


def _draw_downtime(axes: Axes, migrations: Frame) -> None:
    """Medians filled and joined; around them the worst client, open."""
    rows = migrations[(migrations.metric == DOWNTIME) & (migrations.topics == migrations.topics.max())]
    rows = rows[(rows.system == "pulsar") | (rows.executors == EXECUTORS)]
    looks = looks_of(SYSTEMS)
    for system, look in looks.items():
        worst = intervals_by(rows[rows.system == system].dropna(subset="largest_ms"), "wan_ms", "largest_ms")
        interval_points(axes, *worst, look._replace(is_open=True), size=8)
    mean_lines(axes, rows, "wan_ms", "p50_ms", "system", looks)
    axes.set_ylim(bottom=0)
    axes.set(xlabel="one-way WAN delay to the load manager (ms)", ylabel="client downtime (ms)")
    worst_key = key(Style("worst client", GREY, "o", "-", is_open=True), line=False)
    medians = [key(look._replace(label=f"{look.label}, median")) for look in looks.values()]
    key_above(axes, [*medians, worst_key], columns=3)


def _lines(rows: Frame) -> tuple[Frame, dict[str, Style]]:
    """With the line of each row: ePulsar's by executors, and Pulsar's."""
    threads = sorted(set(rows[rows.system == "epulsar"].executors))
    looks = {str(one): series(f"ePulsar, {one} executor{'s' if one > 1 else ''}", n) for n, one in enumerate(threads)}
    looks["pulsar"] = style_of("pulsar")._replace(label="Pulsar, sequential", is_open=True)
    return rows.assign(line=rows.executors.astype(str).where(rows.system == "epulsar", "pulsar")), looks


def measure_e8(tables: Tables) -> Evidence:
    """The downtime of ePulsar is far below Pulsar's at every delay, and the difference grows with it.

    Far is ours: 15 % at least (set when most ratios were at 0.4 to 0.6); below at all is the sign.

    On a real Pulsar the gaps have to say the same; else a downtime is only hidden, and the sign alone is there.
    """
    rows = tables["epulsar-fig7/migrations"]
    far, lower = (_gains(where(rows, metric=DOWNTIME), most=most) for most in (1 - RATIO_TOLERANCE, 1.0))
    if not _is_real(rows):
        return Evidence(far, lower)
    return Evidence((*far, *_gains(where(rows, metric=GAP), "gap: ")), lower)


def _gains(rows: Frame, of: str = "", most: float = 1.0) -> tuple[Check, ...]:
    rows = rows[rows.topics == rows.topics.max()]
    rows = rows[(rows.system == "pulsar") | (rows.executors == EXECUTORS)]
    checks, gains, gain = [], [], f"{of}gain_ms"
    for wan_ms in sorted(set(rows.wan_ms)):
        ours, theirs = (by_repetition(rows, "p50_ms", system=system, wan_ms=wan_ms) for system in ("epulsar", "pulsar"))
        checks.append(below(f"{of}WAN {wan_ms:g} ms: ePulsar's median over Pulsar's", samples(ours / theirs), most))
        gains += [(wan_ms, repetition, gain_ms) for repetition, gain_ms in (theirs - ours).items()]
    return (*checks, *steps(frame_of(gains, ["wan_ms", "repetition", gain]), gain, "wan_ms", unit="ms"))


def measure_e9(tables: Tables) -> Evidence:
    """With the wait, the median falls with executors at the largest number of topics; by definition (b) it cannot.

    That is the model's: on a real Pulsar (b) is judged as well, and where it does not fall the sign alone is there.
    """
    rows = tables["epulsar-fig7/migrations"]
    waited = _falls(where(rows, metric=WITH_WAIT))
    if not _is_real(rows):
        return Evidence(waited)
    return Evidence((*waited, *_falls(where(rows, metric=MIGRATION), "by (b): ")), waited)


def _falls(rows: Frame, by: str = "") -> tuple[Check, ...]:
    median = f"{by}p50_ms"
    rows = where(rows, wan_ms=float(WAN_MS)).rename(columns={"p50_ms": median})
    rows = rows[rows.topics == rows.topics.max()]
    ours = where(rows, system="epulsar")
    most = by_repetition(ours, median, executors=int(ours.executors.max()))
    against = by_repetition(rows, median, system="pulsar") - most
    falls = steps(ours, median, "executors", rises=False, unit="ms")
    return (*falls, above(f"{by}Pulsar minus ePulsar", samples(against), unit="ms"))


def _is_real(rows: Frame) -> bool:
    """They are of a real Pulsar; KeyError where they are of its model, and where moves did not land.

    A move that is refused takes no time, and of one that its run does not see the end of nobody knows how long it took.
    On our brokers a move that has ended, and a client that is back, are a sample each.
    """
    is_real = _has_gaps(rows)
    if is_real and (rows.testbed == VIRTUAL).any():
        raise KeyError("a real Pulsar: its model was fitted on what is claimed, so it is not judged")
    ended = rows.landed_count if is_real else rows["count"]
    short = rows.assign(ended=ended)[~(ended >= rows.topics)]
    if len(short):
        one = short.iloc[0]
        moves = f"{one.ended:.0f} of {one.topics:.0f} moves"
        raise KeyError(f"all moves: {moves} landed in repetition {one.repetition} of {one.system} at {one.wan_ms:g} ms")
    return is_real


def _has_gaps(rows: Frame) -> bool:
    return bool((rows.metric == GAP).any())


E8 = "Client downtime is far lower under ePulsar, and the gain grows with the WAN latency."
E9 = "The time to migrate a topic falls with the number of executors, under ePulsar alone."
WHY_E9 = (
    'By the paper\'s own definition ("Release Topic" to "Release Complete") a migration does not get shorter '
    "when others run beside it, panel (b); what is judged counts from the decision, panel (c)."
)
CLAIMS = (
    Claim("E8", "5.7, Fig. 7a", E8, ("epulsar-fig7",), measure_e8, minimum_repetitions=2),
    Claim("E9", "5.7, Fig. 7b", E9, ("epulsar-fig7",), measure_e9, minimum_repetitions=2, why=WHY_E9),
)
NOTES = (
    "Two brokers in one place, load manager and store (1 ms a write) behind the WAN; one producer a topic, no back-off "
    "in either system, as in the public code. Connecting is one round trip. Pulsar migrates one topic at a time and "
    "lets clients look up again. Little is random here (phases), hence few repetitions, and 95 % intervals that hide "
    "behind the marks. (b), (c): lines are set side by side, as some are equal: in (b) all, in (c) Pulsar's and that "
    "of one executor. With --broker pulsar the brokers are a real Apache Pulsar's, or its model's, with a consumer a "
    "topic as well, and all panels are over the delay: medians of a run's moves, means and 95 % intervals over "
    "repetitions, set side by side; see docs/pulsar.md."
)
TITLE = "Migration overheads: client downtime, time of a migration"
EXPERIMENT = Experiment("epulsar-fig7", TITLE, "ePulsar, Fig. 7", points, (BROKER,), repetitions={"quick": 2})
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
