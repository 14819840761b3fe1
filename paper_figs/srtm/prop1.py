"""Proposition 1: the running sum of delays S(t) of one bucket, and S^(k)(t) of its k parts.

Token buckets alone, k = 1 to 6, four kinds of arrivals, one of them with publishers so different that
the shares are uneven.  S(t) counts what every message has waited by t, those that still wait
included.  Rounds of 10 s: every message is kept (there is nothing to search, so no 60 s).  The paper
proves it and has no figure: this one is ours.
"""

from analysis.verdicts import Claim, Evidence, Tables, above, at_least, at_most
from core.records import Json
from core.units import MILLISECOND_NS, SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.intervals import floored, interval_table, intervals_of
from paper_figs.light import Data, Drawing, Frame
from paper_figs.series import frame_of, samples, where, with_point
from paper_figs.srtm.grids import at, most_brokers, split
from paper_figs.srtm.published import BROKERS
from paper_figs.style import series

KINDS: dict[str, tuple[str, Json]] = {  # about 1,000 msg/s each
    "Poisson": ("poisson", {"publishers": 100}),
    "Poisson, uneven shares": ("poisson", {"publishers": 60, "rate_rps": 16.0, "rates": "zipf", "rates_shape": 1.0}),
    "periodic, batch 10": ("periodic", {"publishers": 100, "batch": 10}),
    "correlated batches": ("poisson", {"publishers": 100, "batch": 5, "group_size": 5}),
}
FACTORS = {"k": "topology.brokers", "publishers": "workload.publishers", "group_size": "workload.group_size"}
STEP_NS = 50 * MILLISECOND_NS  # the grid of instants t
SHOWN_NS, SHOWN_APART_S = 2 * SECOND_NS, 0.12  # where intervals are drawn, a line's beside the next one's
INTERVALS_MS = (1, 10, 100, 1_000)  # R23: lengths D
ROUNDING_S = 1e-4  # message seconds: waits are rounded up to whole nanoseconds
ROUNDING = 1e-3  # messages: instants are whole nanoseconds, rates a few thousand a second


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Kinds of arrivals x k."""
    most = most_brokers(scale)
    ks = scale.pick(tiny=[1, 2, most], quick=[1, 2, 3, most], paper=list(range(1, most + 1)))
    run: Json = {"calibration": "bucket-only", "round": "10s", "keep": ("messages",)}
    return at(scale, [split(k, workload, arrivals, **run) for arrivals, workload in KINDS.values() for k in ks])


def tables(data: Data) -> FigureTables:
    """``sums``: S(t) by kind and k, means with low, high, count; ``gaps``, of runs; ``output``: most over b + r D."""
    from analysis import metrics

    sums = named(with_point(data, metrics.running_sum_of_delay(data.messages, STEP_NS, ["run_id"]), FACTORS))
    sums["delay_s"] = sums["delay_sum_ns"] / SECOND_NS
    wide = sums.pivot_table(index=["kind", "repetition", "t_ns"], columns="k", values="delay_s").reset_index()
    wide["at_s"] = (wide["t_ns"] - wide["t_ns"].min()) / SECOND_NS
    ks = sorted(set(sums.k))
    tall = wide.melt(["kind", "repetition", "at_s"], ks, "k", "delay_s").dropna()
    groups = tall.groupby(["kind", "k", "at_s"]).delay_s
    means = interval_table(["kind", "k", "at_s"], [(names, samples(values)) for names, values in groups])
    return {"sums": means.rename(columns={"mean": "delay_s"}), "gaps": gaps_of(wide, ks), "output": output_of(data)}


def named(frame: Frame) -> Frame:
    """The rows of lb, with ``kind``: the name in ``KINDS``, whose workloads differ in arrivals, publishers, groups."""
    frame, kinds = frame[frame.system == "lb"].reset_index(drop=True), KINDS.items()
    names = {(arrivals, of["publishers"], of.get("group_size", 1)): name for name, (arrivals, of) in kinds}
    sizes = frame["group_size"].astype(float).fillna(1)
    return frame.assign(kind=[names[key] for key in zip(frame["arrivals"], frame["publishers"], sizes, strict=True)])


def gaps_of(wide: Frame, ks: list[int]) -> Frame:
    """One row a kind, k > 1 and repetition: the least and the last S^(k)(t) - S(t), ``least_s`` and ``last_s``.

    A repetition that lacks the run with k, or the one with k = 1, has no row.
    """
    rows = []
    for (kind, repetition), part in wide.sort_values("t_ns").groupby(["kind", "repetition"], sort=False):
        gaps = {k: (part[k] - part[1]).dropna() for k in ks if k > 1 and 1 in ks}
        rows += [(kind, k, repetition, gap.min(), gap.iloc[-1]) for k, gap in gaps.items() if len(gap)]
    return frame_of(rows, ["kind", "k", "repetition", "least_s", "last_s"])


def output_of(data: Data) -> Frame:
    """One row a run, interval D and "sub-bucket" or "topic": the most messages in D less b + r D, ``excess_count``."""
    import pandas as pd
    from pyspark.sql import functions as f

    from analysis import metrics

    brokers = data.decisions.where("kind = 'final' and bucket_rate_rps is not null")
    brokers = brokers.selectExpr("run_id", "broker", "bucket_rate_rps as r", "bucket_burst_count as b")
    topics = data.runs.selectExpr("run_id", "bucket_rate_rps as r", "bucket_burst_count as b")
    windows_ns = [interval_ms * MILLISECOND_NS for interval_ms in INTERVALS_MS]
    frames = []
    for whose, by, buckets in (("sub-bucket", ["run_id", "broker"], brokers), ("topic", ["run_id"], topics)):
        most = metrics.released_in_window(data.messages, windows_ns, by).join(buckets, by)
        excess = f.max(f.expr(f"released_count - b - r * (window_ns / {SECOND_NS})")).alias("excess_count")
        frames.append(with_point(data, most.groupBy("run_id", "window_ns").agg(excess), FACTORS).assign(of=whose))
    output = pd.concat(frames, ignore_index=True)
    output["interval_ms"] = output.pop("window_ns") // MILLISECOND_NS
    return named(output).sort_values(["of", "interval_ms", "kind", "k", "repetition"], ignore_index=True)


def draw(tables: FigureTables) -> Drawing:
    """One panel a kind of arrivals, one line a k."""
    sheet, axes = drawing.panels(2, 2, tuple(KINDS), share_x=True)
    sums = tables["sums"]
    looks = {k: series("S(t)" if k == 1 else f"$S^{{({k})}}(t)$", k - 1) for k in range(1, BROKERS + 1)}
    for panel, kind in zip(axes, KINDS, strict=True):
        drawing.log_axis(panel, at=(0, 0.1, 1, 10, 100, 1_000, 10_000), linear_below=0.1)
        for k, look in looks.items():
            line = sums[(sums.kind == kind) & (sums.k == k)]
            if len(line):
                drawing.curve(panel, line.at_s, line.delay_s, look)
                is_shown = (line.at_s > 0) & ((line.at_s * SECOND_NS).round() % SHOWN_NS == 0)
                shown = line[is_shown].rename(columns={"delay_s": "mean"})
                at = shown.at_s + SHOWN_APART_S * (k - (BROKERS + 1) / 2)
                drawing.interval_points(panel, at, list(map(floored, intervals_of(shown))), look._replace(marker=""))
        panel.set_ylim(bottom=0)
    for panel in axes[::2]:
        panel.set_ylabel("delay of all messages (s)")
    for panel in axes[2:]:
        panel.set_xlabel("t (s)")
    keys.legend_above(sheet, [keys.key(look, marker=False) for k, look in looks.items() if (sums.k == k).any()])
    return sheet


def measure_r1(tables: Tables) -> Evidence:
    """The least of S^(k)(t) - S(t) over all t; and that it is no zero everywhere, at any k."""
    gaps, checks = where(tables["srtm-prop1/gaps"]), []
    for (kind, k), part in gaps.groupby(["kind", "k"], sort=False):
        least = in_every_run(part.least_s.min(), part)
        checks.append(at_least(f"{kind}, k = {k}: least difference", least, -ROUNDING_S, "message s"))
        last = in_every_run(part.last_s.max(), part)  # correlated batches may leave none for a whole run
        checks.append(above(f"{kind}, k = {k}: largest difference at the end", last, 0.0, "message s"))
    return Evidence(tuple(checks))


def measure_r23(tables: Tables) -> Evidence:
    """The most messages in any interval of length D, less b + r D: of each sub-bucket, and of the topic."""
    output, checks = where(tables["srtm-prop1/output"]), []
    for (whose, interval), part in output.groupby(["of", "interval_ms"], sort=False):
        most = in_every_run(part.excess_count.max(), part)
        checks.append(at_most(f"{whose}, D = {interval:g} ms: output minus b + r D", most, ROUNDING, "messages"))
    return Evidence(tuple(checks))


def in_every_run(worst: float, part: Frame) -> list[float]:
    """Samples for "always": one run that breaks a theorem refutes it, so each repetition counts as the worst one."""
    return [float(worst)] * part.repetition.nunique()


CLAIMS = (
    Claim(
        "R1", "Proposition 1, II-A", "Splitting a token bucket never improves the running sum of delays: S^(k)(t) is "
        "at least S(t) at all t, for any arrivals and any split.", ("srtm-prop1",), measure_r1, minimum_repetitions=2,
        why="It is a theorem: token buckets, shares that do not sum to (r, b), or the sum over messages would be "
        "wrong here; or the same messages were not offered to one bucket and to its parts.",
    ),
    Claim(
        "R23", "report A.1", "The output of a token bucket in any interval of length D is at most b + r D messages.",
        ("srtm-prop1",), measure_r23, minimum_repetitions=2,
        why="It is a theorem: the token bucket would have let out more than it had, by an error of its step, of its "
        "rounding, or of the instants that are kept.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment("srtm-prop1", "Proposition 1: splitting adds delay", "SRTM, Proposition 1", points)
NOTES = (
    "Means over repetitions, 95 % intervals every 2 s. The claims are judged on the worst run: the least difference "
    "S^(k)(t) - S(t) over a grid of instants, the largest output over all intervals; a property test tries any "
    "arrivals and splits."
)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
