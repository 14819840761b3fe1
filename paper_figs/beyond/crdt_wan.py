"""Counter and queue as real processes over five cities, beside the same in virtual time.

The evaluation that the thesis names as future work (chapter 7).  What is offered, and where: ``wan``.
Gossip, capacity and rate are the thesis' (Table 4.1).
"""

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf

from analysis.tables import collect
from analysis.verdicts import Check, Claim, Evidence, Tables, at_least, at_most, t_interval
from core.records import Options
from core.units import SECOND_NS
from harness.experiment import LIVE_REPETITIONS, Experiment, RunSpec, Scale
from paper_figs.beyond import wan
from paper_figs.beyond.wan import FLIPPED, LIVE_CLAIM, NAMES, VIRTUAL, draw_flips, from_zero, look_of
from paper_figs.drawing import (
    GREY,
    WHISKER,
    BarPart,
    categories,
    curve,
    interval_points,
    log_axis,
    marks,
    panels,
    rule,
    stacked_bars,
)
from paper_figs.figure import Figure, FigureTables
from paper_figs.intervals import floored, in_turn, interval_table, intervals_of
from paper_figs.keys import key, key_above, legend_above
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import samples, where
from paper_figs.style import Style, style_of

WITHIN = 0.95, 1.05  # ours, set before results: admitted totals of both testbeds
FLOOR_MS = 0.01  # of a log axis: virtual time decides at once


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Every limiter on both testbeds, and the oracle."""
    names = NAMES[::2] if scale.name == "tiny" else NAMES
    return [wan.oracle(scale), *wan.on_both([wan.point(name, scale) for name in names])]


def tables(data: Data) -> FigureTables:
    """``runs``, ``flips`` (a row a pair of twins), ``latency`` and ``gaps``: see ``wan``, ``gaps_of``."""
    return {
        "runs": wan.runs_of(data),
        "flips": wan.flips_of_twins(data),
        "latency": wan.latency_curves(data),
        "gaps": gaps_of(data),
    }


def gaps_of(data: Data) -> Frame:
    """Admitted beyond the oracle by second: name, testbed, t_s, and over repetitions mean, low, high, count."""
    from analysis import limiting

    gaps = limiting.rejection_gap_over_time(data.requests, limiting.with_oracle(data.runs), SECOND_NS)
    of_runs = collect(gaps.select("run_id", "t_ns", "gap_count"), ["run_id", "t_ns"])
    of_runs = of_runs.merge(wan.points_of(data), on="run_id")
    of_runs = of_runs[of_runs.name != "oracle"].assign(t_s=of_runs.t_ns / SECOND_NS)
    point = ["name", "testbed", "t_s"]
    return interval_table(point, [(at, samples(gaps)) for at, gaps in of_runs.groupby(point).gap_count])


def draw(tables: FigureTables) -> Drawing:
    """Errors over time and in all, decisions that flip, latency, bytes, convergence."""
    errors = ("admitted beyond the oracle, over time", "errors against the oracle")
    live = ("decisions that differ from virtual time", "decision latency, emulated")
    drawing, axes = panels(2, 3, (*errors, *live, "gossip of all nodes", "at rest after the last request"))
    runs, flips = tables["runs"], tables["flips"]
    names = [name for name in NAMES if name in set(runs.name)] + sorted(set(runs.name) - set(NAMES))
    _draw_gaps(axes[0], tables["gaps"], names)
    _draw_errors(axes[1], runs, names)
    draw_flips(axes[2], [(style_of(name).label, style_of(name), flips[flips.name == name]) for name in names])
    _draw_latency(axes[3], tables["latency"], names)
    _draw_pairs(axes[4], runs, names, "bytes_per_request")
    axes[4].set_ylabel("sent (bytes a request)")
    _draw_convergence(axes[5], runs, names)
    kinds = [Style("emulated", GREY, "o", "-"), Style("virtual time", GREY, "o", "--", is_open=True)]
    legend_above(drawing, [key(look) for look in (*map(style_of, names), *kinds)])
    return drawing


def _draw_gaps(axes: Axes, gaps: Frame, names: Sequence[str]) -> None:
    """Lines are narrower from one limiter to the next, so that equal ones are seen; intervals, of each in turn."""
    every = list(_groups(gaps, names))
    for number, (place, name, testbed, line) in enumerate(every):
        look = look_of(name, testbed)
        curve(axes, line.t_s, line["mean"], look, width=max(1.2, 3.6 - 1.2 * place) if testbed != VIRTUAL else 0.9)
        told = in_turn(line, number, len(every))
        interval_points(axes, told.t_s, intervals_of(told), look, size=3.5)
    rule(axes, 0, reference=True)
    axes.set(xlabel="time (s)", ylabel="requests")


def _groups(frame: Frame, names: Sequence[str]) -> Iterator[tuple[int, str, str, Frame]]:
    """Place, name, testbed and rows of each limiter on each testbed."""
    for place, name in enumerate(names):
        for testbed, rows in frame[frame.name == name].groupby("testbed"):
            yield place, name, str(testbed), rows


def _draw_errors(axes: Axes, runs: Frame, names: Sequence[str]) -> None:
    """Bars: wrongly admitted below, wrongly rejected above it; intervals of the sum.  Open: virtual time."""
    from matplotlib.patches import Patch

    for place, name, testbed, group in _groups(runs, names):
        look = style_of(name)._replace(is_open=testbed == VIRTUAL)
        admitted, rejected = ([100 * group[f"false_{what}_share"].mean()] for what in ("admit", "reject"))
        parts = [BarPart(admitted, look), BarPart(rejected, look, 0.45, "////")]
        at = [place + (-0.2 if look.is_open else 0.2)]
        stacked_bars(axes, at, parts, 0.36, edge=look.colour)
        interval_points(axes, at, [floored(t_interval(samples(100 * group.error_share)))], WHISKER)
    categories(axes, [style_of(name).label for name in names])
    axes.set_ylabel("of all requests (%)")
    axes.set_ylim(0, 1.1 * max(axes.get_ylim()[1], 0.1))
    hatched = Patch(facecolor="#cccccc", hatch="////", edgecolor="#888888", label="rejected wrongly")
    key_above(axes, [Patch(facecolor="#888888", label="admitted wrongly"), hatched])


def _draw_latency(axes: Axes, latency: Frame, names: Sequence[str]) -> None:
    log_axis(axes, "x", steps=(1,))
    for name in names:
        line = latency[(latency.name == name) & (latency.testbed != VIRTUAL)]
        curve(axes, line.value_ms.clip(lower=FLOOR_MS), line.share, style_of(name)._replace(dashes="-"))
    axes.set(xlabel="intended instant to decision (ms)", ylabel="share of requests", ylim=(0, 1.02))


def _draw_pairs(axes: Axes, runs: Frame, names: Sequence[str], value: str) -> None:
    """Means with intervals, virtual time beside emulated, repetitions as dots."""
    for place, name, testbed, group in _groups(runs, names):
        at, values = place + (-0.15 if testbed == VIRTUAL else 0.15), samples(group[value])
        look = look_of(name, testbed)
        marks(axes, [at + 0.1] * len(values), values, look._replace(is_open=False), size=2, alpha=0.5)
        interval_points(axes, [at], [floored(t_interval(values))], look, size=5.5)
    categories(axes, [style_of(name).label for name in names])
    from_zero(axes, 0.2)


def _draw_convergence(axes: Axes, runs: Frame, names: Sequence[str]) -> None:
    """How long after the last request; below the names, in how many emulated runs all replicas were equal."""
    _draw_pairs(axes, runs, names, "convergence_s")
    live = runs[(runs.testbed != VIRTUAL) & runs.replica_count.notna()]
    words = []
    for name in names:
        gaps = live[live.name == name].replica_gap_count
        words.append(f"{style_of(name).label}\n{(gaps == 0).sum()} of {len(gaps)} runs" if len(gaps) else name)
    categories(axes, words)
    axes.set(xlabel="runs in which replicas are equal", ylabel="time (s)")


def measure_w1(tables: Tables) -> Evidence:
    """Entries that not all replicas hold, in the worst run: one run refutes it."""
    runs = tables["crdt-wan/runs"]
    runs = runs[(runs.testbed != VIRTUAL) & runs.replica_count.notna()]
    if runs.empty:
        raise KeyError("emulated runs with replicas")
    checks = []
    for name in NAMES:
        group = where(runs, name=name)
        worst = [float(group.replica_gap_count.max())] * len(group)
        least = [float(group.replica_entry_count.min())] * len(group)
        checks.append(at_most(f"{name}: entries that not all replicas hold, in the worst run", worst, 0.0))
        checks.append(at_least(f"{name}: entries that the replicas hold, in the emptiest run", least, 1.0))
    return Evidence(tuple(checks))


def measure_pairs(value: str, text: str, low: float, high: float, tables: Tables) -> Evidence:
    """A value of each limiter's pairs of runs is within bounds; KeyError where one has none."""
    flips = tables["crdt-wan/flips"]
    if flips.empty:
        raise KeyError("pairs of runs")
    pairs = ((name, samples(where(flips, name=name)[value])) for name in NAMES)
    return Evidence(tuple(Check(f"{name}: {text}", tuple(its), low, high) for name, its in pairs))


W1 = "Counter and queue as real processes over five cities: once nothing is left to send, all replicas are equal."
W2 = "They admit as many requests as in virtual time, within 5 %."
W3 = "At most 5 % of their decisions differ from those of virtual time, request by request."
admitted = partial(measure_pairs, "admitted_ratio", "admitted, emulated over virtual time", *WITHIN)
differing = partial(measure_pairs, "flipped_share", "share of decisions that differ", -inf, FLIPPED)
CLAIMS = tuple(
    Claim(name, "Ratebed", sentence, ("crdt-wan",), measure, **LIVE_CLAIM)
    for name, sentence, measure in (("W1", W1, measure_w1), ("W2", W2, admitted), ("W3", W3, differing))
)
NOTES = (
    "New York, London, Singapore, Sao Paulo, Sydney; the first minute of data set A (a substitute for the secret "
    "recording). Emulated runs have a process a node in a network namespace of its own, virtual ones the same nodes, "
    "seeds and requests. (a): the oracle's rejections less the limiter's, of requests up to then. Error bars: 95 % "
    "intervals over repetitions, in (a) every few seconds, in (b) of the sum; of a single run (c) has Wilson's. (d): "
    "in virtual time these limiters decide at once. (f): replicas are compared when nothing is left to send."
)
TITLE = "Counter and queue as real processes over five cities"
EXPERIMENT = Experiment("crdt-wan", TITLE, "ours; CRDT thesis, chapter 7", points, repetitions=LIVE_REPETITIONS)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
