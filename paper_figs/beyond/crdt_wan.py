"""Counter and queue as real processes over five cities, beside the same in virtual time.

The evaluation that the thesis names as future work (chapter 7).  What is offered, and where: ``wan_runs``.
Gossip, capacity and rate are the thesis' (Table 4.1).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Check, Claim, Evidence, Tables, at_least, at_most, t_interval
from core.units import SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.beyond import wan_runs
from paper_figs.beyond.wan_runs import FEWEST, LIVE, REPETITIONS, VIRTUAL
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import samples, where
from paper_figs.style import letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

NAMES = ("counter", "queue", "queue+F+L")
TOTALS = 0.05  # ours, set before results: admitted totals of both testbeds
FLIPPED = 0.05  # the same: decisions that differ
FLOOR_MS = 0.01  # of a log axis: virtual time decides at once


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Every limiter on both testbeds, and the oracle."""
    names = NAMES[::2] if scale.name == "tiny" else NAMES
    specs = [wan_runs.point(name, scale, LIVE) for name in names]
    return [wan_runs.oracle(scale), *wan_runs.on_both(specs)]


def tables(data: "Data") -> FigureTables:
    """``runs``, ``flips`` (a row a pair of twins), ``latency`` and ``gaps``: see ``wan_runs``, ``gaps_of``."""
    flips = wan_runs.flips_of(data, wan_runs.twins(data)).drop(columns=["virtual_run_id", "live_run_id"])
    return {
        "runs": wan_runs.runs_of(data),
        "flips": flips.sort_values(["name", "repetition"], ignore_index=True),
        "latency": wan_runs.latency_curves(data),
        "gaps": gaps_of(data),
    }


def gaps_of(data: "Data") -> "pd.DataFrame":
    """Admitted beyond the oracle by second: name, testbed, t_s, mean, low, high (over repetitions)."""
    from analysis import limiting
    from analysis.spark import collect

    gaps = limiting.rejection_gap_over_time(data.requests, limiting.with_oracle(data.runs), SECOND_NS)
    found = collect(gaps.select("run_id", "t_ns", "gap_count"), ["run_id", "t_ns"])
    found = found.merge(wan_runs.points_of(data), on="run_id")
    found = found[found.name != "oracle"].assign(t_s=found.t_ns / SECOND_NS)
    curves = found.groupby(["name", "testbed", "t_s"])["gap_count"].agg(mean="mean", low="min", high="max")
    return curves.reset_index()


# --- drawing -------------------------------------------------------------------------------------


def draw(found: FigureTables) -> "Drawing":
    """Errors over time and in all, decisions that flip, latency, bytes, convergence."""
    drawing, axes = panels(2, 3)
    runs, names = found["runs"], present(found["runs"])
    _draw_gaps(axes[0][0], found["gaps"], names)
    _draw_errors(axes[0][1], runs, names)
    _draw_flips(axes[0][2], found["flips"], names)
    _draw_latency(axes[1][0], found["latency"], names)
    _pairs(axes[1][1], runs, names, "bytes_per_request", "sent (bytes a request)")
    _draw_convergence(axes[1][2], runs, names)
    titles = (
        "admitted beyond the oracle, over time",
        "errors against the oracle",
        "decisions that differ from virtual time",
        "decision latency, emulated",
        "gossip of all nodes",
        "at rest after the last request",
    )
    for panel, name, title in zip(axes.flat, "abcdef", titles, strict=True):
        letter(panel, f"({name}) {title}")
    _legend(drawing, names)
    return drawing


def present(runs: "pd.DataFrame") -> list[str]:
    """Names in the order of the registry, then those that joined."""
    there = set(runs.name)
    return [name for name in NAMES if name in there] + sorted(there - set(NAMES))


def is_live(testbed: str) -> bool:
    """Whether a run had real processes."""
    return testbed != VIRTUAL


def _legend(drawing: "Drawing", names: Sequence[str]) -> None:
    """Colours and markers of the limiters; dashes and open markers of virtual time."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=style_of(name).colour, marker=style_of(name).marker, markersize=4, linewidth=1.2,
               label=style_of(name).label)
        for name in names
    ] + [
        Line2D([], [], color="#555555", marker="o", markersize=4, linewidth=1.2, label="emulated"),
        Line2D([], [], color="#555555", marker="o", markersize=4, linewidth=1.2, linestyle=(0, (3, 2)),
               markerfacecolor="white", label="virtual time"),
    ]  # fmt: skip
    drawing.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=7)


def _draw_gaps(axes: "Axes", gaps: "pd.DataFrame", names: Sequence[str]) -> None:
    """Means over repetitions; lines are narrower from one limiter to the next, so that equal ones are seen."""
    for place, name in enumerate(names):
        for testbed, curve in gaps[gaps.name == name].groupby("testbed"):
            live = is_live(testbed)
            axes.plot(curve.t_s, curve["mean"], color=style_of(name).colour, zorder=2 if live else 3,
                      linewidth=max(1.2, 3.6 - 1.2 * place) if live else 0.9,
                      linestyle="-" if live else (0, (3, 2)))  # fmt: skip
    axes.axhline(0, color="#555555", linewidth=0.6)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("requests")


def _draw_errors(axes: "Axes", runs: "pd.DataFrame", names: Sequence[str]) -> None:
    """Bars: wrongly admitted below, wrongly rejected above it; intervals of the sum."""
    from matplotlib.patches import Patch

    for place, name in enumerate(names):
        for testbed, group in runs[runs.name == name].groupby("testbed"):
            at, colour = place + (0.2 if is_live(testbed) else -0.2), style_of(name).colour
            face = colour if is_live(testbed) else "white"
            admitted, rejected = 100 * group.false_admit_share.mean(), 100 * group.false_reject_share.mean()
            look: dict[str, Any] = {"width": 0.36, "edgecolor": colour, "linewidth": 0.9}
            axes.bar(at, admitted, color=face, **look)
            axes.bar(at, rejected, bottom=admitted, color=face, alpha=0.45, hatch="////", **look)
            errorbar(axes, at, [100 * value for value in samples(group.error_share)], "#333333")
    _names_below(axes, names)
    axes.set_ylabel("of all requests (%)")
    axes.set_ylim(0, 1.35 * max(axes.get_ylim()[1], 0.1))
    handles = [Patch(facecolor="#888888", label="admitted wrongly"),
               Patch(facecolor="#cccccc", hatch="////", edgecolor="#888888", label="rejected wrongly")]  # fmt: skip
    axes.legend(handles=handles, fontsize=6.5, loc="upper right")


def errorbar(axes: "Axes", at: float, values: Sequence[float], colour: str) -> None:
    """The 95 % interval of the mean, where there are two values or more; not below 0."""
    row = t_interval(values)
    if row.count > 1:
        axes.errorbar(at, row.mean, yerr=[[min(row.mean, row.mean - row.low)], [row.high - row.mean]], fmt="none",
                      ecolor=colour, elinewidth=0.9, capsize=2.5)  # fmt: skip


def _draw_flips(axes: "Axes", flips: "pd.DataFrame", names: Sequence[str]) -> None:
    """The share with its interval, repetitions as dots, and what that does to the admitted total as text."""
    for place, name in enumerate(names):
        group, style = flips[flips.name == name], style_of(name)
        if group.empty:
            continue
        mean, low, high = (100 * value for value in interval(group))
        axes.plot([place - 0.22] * len(group), 100 * group.flipped_share, ".", color=style.colour, alpha=0.5)
        axes.errorbar(place, mean, yerr=[[mean - low], [high - mean]], fmt=style.marker, color=style.colour,
                      markersize=5, capsize=3, linewidth=1.2)  # fmt: skip
        axes.annotate(change_text(group), (place, high), xytext=(0, 4), ha="center",
                      textcoords="offset points", fontsize=6.5, color=style.colour)  # fmt: skip
    _names_below(axes, names)
    from_zero(axes, 0.3)
    axes.set_ylabel("of all decisions (%)")


def change_text(group: "pd.DataFrame") -> str:
    """By how much the admitted total of all repetitions changes."""
    change = f"{group.live_admitted_count.sum() / group.virtual_admitted_count.sum() - 1:+.2%}"
    return f"admitted {'±0' if float(change[:-1]) == 0 else change.replace('-', '−')}"


def interval(group: "pd.DataFrame") -> tuple[float, float, float]:
    """The share of flipped decisions and its 95 % interval: over repetitions; of one run alone, Wilson's."""
    if len(group) == 1:
        row = group.iloc[0]
        return row.flipped_share, row.flipped_low, row.flipped_high
    found = t_interval(samples(group.flipped_share))
    return found.mean, max(0.0, found.low), found.high


def _draw_latency(axes: "Axes", latency: "pd.DataFrame", names: Sequence[str]) -> None:
    """Distribution functions of the emulated runs, on a log axis."""
    for name in names:
        curve = latency[(latency.name == name) & (latency.testbed != VIRTUAL)]
        axes.plot(curve.value_ms.clip(lower=FLOOR_MS), curve.share, color=style_of(name).colour, linewidth=1.2)
    _plain_log(axes)
    axes.set_xlabel("intended instant to decision (ms)")
    axes.set_ylabel("share of requests")
    axes.set_ylim(0, 1.02)


def _plain_log(axes: "Axes") -> None:
    """A log x axis with plain numbers."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _pairs(axes: "Axes", runs: "pd.DataFrame", names: Sequence[str], value: str, label: str) -> None:
    """Means with intervals, virtual time beside emulated, repetitions as dots."""
    for place, name in enumerate(names):
        style = style_of(name)
        for testbed, group in runs[runs.name == name].groupby("testbed"):
            live = is_live(testbed)
            at, values = place + (0.15 if live else -0.15), samples(group[value])
            axes.plot([at + 0.1] * len(values), values, ".", color=style.colour, alpha=0.5, markersize=4)
            errorbar(axes, at, values, style.colour)
            axes.plot(at, t_interval(values).mean, style.marker, color=style.colour, markersize=5.5,
                      markerfacecolor=style.colour if live else "white")  # fmt: skip
    _names_below(axes, names)
    from_zero(axes, 0.2)
    axes.set_ylabel(label)


def _draw_convergence(axes: "Axes", runs: "pd.DataFrame", names: Sequence[str]) -> None:
    """How long after the last request; above, in how many emulated runs all replicas were equal."""
    _pairs(axes, runs, names, "convergence_s", "time (s)")
    live = runs[runs.testbed != VIRTUAL]
    for place, name in enumerate(names):
        group = live[(live.name == name) & live.replica_count.notna()]
        if len(group):
            axes.annotate(f"replicas equal:\n{int((group.replica_gap_count == 0).sum())} of {len(group)} runs",
                          (place, 1.0), xycoords=("data", "axes fraction"), ha="center", va="top", fontsize=6.5,
                          color=style_of(name).colour)  # fmt: skip
    axes.set_ylim(top=max(axes.get_ylim()[1] * 1.2, 0.1))


def from_zero(axes: "Axes", room: float, least: float = 0.1) -> None:
    """A y axis from 0, a marker at which is still whole, to the largest value and ``room`` above it."""
    top = max(least, axes.dataLim.y1) * (1 + room)
    axes.set_ylim(-0.03 * top, top)


def _names_below(axes: "Axes", names: Sequence[str]) -> None:
    """The limiters as places on the x axis."""
    axes.set_xticks(range(len(names)), [style_of(name).label for name in names])
    axes.set_xlim(-0.6, max(1, len(names)) - 0.4)
    axes.grid(visible=False, axis="x")


# --- claims --------------------------------------------------------------------------------------


def live_runs(tables: Tables) -> "pd.DataFrame":
    """The rows of ``crdt-wan/runs`` that had real processes and replicas; KeyError if there are none."""
    runs = tables["crdt-wan/runs"]
    runs = runs[(runs.testbed != VIRTUAL) & runs.replica_count.notna()]
    if runs.empty:
        raise KeyError("emulated runs with replicas")
    return runs


def measure_w1(tables: Tables) -> Evidence:
    """Entries that not all replicas hold, in the worst run: one run refutes it."""
    checks: list[Check] = []
    for name, group in live_runs(tables).groupby("name", sort=True):
        worst = [float(group.replica_gap_count.max())] * len(group)
        least = [float(group.replica_entry_count.min())] * len(group)
        checks += [
            at_most(f"{name}: entries that not all replicas hold, in the worst run", worst, 0.0),
            at_least(f"{name}: entries that the replicas hold, in the emptiest run", least, 1.0),
        ]
    return Evidence(tuple(checks))


def measure_w2(tables: Tables) -> Evidence:
    """Admitted totals, emulated over virtual."""
    flips = tables["crdt-wan/flips"]
    return Evidence(tuple(
        Check(f"{name}: admitted, emulated over virtual time", tuple(samples(where(flips, name=name).admitted_ratio)),
              1 - TOTALS, 1 + TOTALS)
        for name in _names(flips)
    ))  # fmt: skip


def measure_w3(tables: Tables) -> Evidence:
    """The share of decisions that differ."""
    flips = tables["crdt-wan/flips"]
    return Evidence(tuple(
        at_most(f"{name}: share of decisions that differ", samples(where(flips, name=name).flipped_share), FLIPPED)
        for name in _names(flips)
    ))  # fmt: skip


def _names(flips: "pd.DataFrame") -> list[str]:
    if flips.empty:
        raise KeyError("pairs of runs")
    return sorted(set(flips.name))


CLAIMS = (
    Claim(
        "W1", "Ratebed", "Counter and queue as real processes over five cities: once nothing is left to send, all "
        "replicas are equal.", ("crdt-wan",), measure_w1,
        needs="mininet", testbed="mininet", minimum_repetitions=FEWEST,
    ),
    Claim(
        "W2", "Ratebed", "They admit as many requests as in virtual time, within 5 %.", ("crdt-wan",), measure_w2,
        needs="mininet", testbed="mininet", minimum_repetitions=FEWEST,
    ),
    Claim(
        "W3", "Ratebed", "At most 5 % of their decisions differ from those of virtual time, request by request.",
        ("crdt-wan",), measure_w3, needs="mininet", testbed="mininet", minimum_repetitions=FEWEST,
    ),
)  # fmt: skip
EXPERIMENT = Experiment(
    "crdt-wan", "Counter and queue as real processes over five cities", "ours; CRDT thesis, chapter 7", points,
    repetitions=REPETITIONS,
)  # fmt: skip
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes="New York, London, Singapore, Sao Paulo, Sydney; the first minute of data set A (a substitute for the secret "
    "recording). Emulated runs have a process a node in a network namespace of its own, virtual ones the same nodes, "
    "seeds and requests. (a): the oracle's rejections less the limiter's, of requests up to then, a mean over "
    "repetitions. (c): 95 % intervals over repetitions. (d): in virtual time these limiters decide at once. (f): "
    "replicas are compared when nothing is left to send.",
)  # fmt: skip
