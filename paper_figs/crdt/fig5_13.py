"""Fig. 5.13: memory and bandwidth of counter and queue for 5,000 users within one hour (data set C).

(a), (b) Means over nodes and repetitions, the counter's peak as 100 %.  (c) Areas under the curves over the
counter's, with the thesis' numbers.  (d) Ours: errors of both kinds against the centralised limiter.

At the quick scale a smaller C stands in: 120 users and 12,000 requests in eight minutes, which
leaves each user's traffic as it is; the figure says which.  The queue has both extensions (A17).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from analysis.verdicts import Check, Claim, Evidence, Tables, below, t_interval, within
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt import grids
from paper_figs.crdt.grids import COUNTER, FL, ORACLE
from paper_figs.crdt.runs import PRECISION_NOTE, curves
from paper_figs.crdt.usage import (
    BANDWIDTH,
    MEMORY,
    USAGE_NOTE,
    draw_ratios,
    draw_usage,
    ratio,
    ratios,
    usage_of,
)
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import samples
from paper_figs.style import letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

FULL_USERS = 5_000  # thesis 4.3.4
SMALLER: dict[str, dict[str, Any]] = {  # scale -> options of the data set; the paper scale has the full one
    "small": {"users": 40, "requests": 4_000, "duration": "3min"},
    "tiny": {"users": 100, "requests": 10_000, "duration": "6min"},
    "quick": {"users": 120, "requests": 12_000, "duration": "8min"},
}
VARIANTS = (COUNTER, FL)
PUBLISHED = {FL: {MEMORY: (0.136,), BANDWIDTH: (1.0,)}}  # 5.3 and chapter 7: 13.6 %, and "0.0025 % more"
ABOUT_EQUAL = (0.5, 2.0)  # the direction of "equal"


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Centralised limiter, counter and queue with both extensions."""
    found = [grids.oracle("C"), *(grids.limited(variant, "C") for variant in VARIANTS)]
    smaller = SMALLER.get(scale.name, {})
    found = [msgspec.structs.replace(spec, workload_options={**spec.workload_options, **smaller}) for spec in found]
    return grids.at(scale, found)


def tables(data: "Data") -> FigureTables:
    """``runs``: one row a run, with users and duration; ``curves`` by second; ``ratios``: areas over the counter's."""
    runs, rows = usage_of(data, more={"users": "workload.users"})
    runs["users"] = runs["users"].fillna(FULL_USERS).astype(int)
    limiters = runs[runs.variant != ORACLE]
    over_time = curves(rows, limiters, "state_bytes", "sent_bytes", zero_after_end=True)
    return {"runs": runs, "curves": over_time, "ratios": ratios(limiters)}


def draw(found: FigureTables) -> "Drawing":
    """Four panels."""
    drawing, axes = panels(2, 2)
    drawing.set_size_inches(7.6, 5.2)
    runs = found["runs"]
    size = f"{runs.users.max():,} users, {runs.offered_count.max():,} requests"
    titles = (f"(a) memory of a node: {size}", "(b) bandwidth of a node")
    for panel, value, title in zip(axes[0], ("state_bytes", "sent_bytes"), titles, strict=True):
        draw_usage(panel, found["curves"], value, VARIANTS, runs.load_end_s.max())
        letter(panel, title)
    draw_ratios(axes[1][0], found["ratios"], [FL], PUBLISHED)
    letter(axes[1][0], "(c) areas under the curves")
    _draw_errors(axes[1][1], runs)
    letter(axes[1][1], "(d) errors of both kinds")
    handles, labels = axes[0][0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=7)
    return drawing


def _draw_errors(axes: "Axes", runs: "pd.DataFrame") -> None:
    """Shares of all requests, with intervals."""
    measures = {"false_admit_share": "admitted wrongly", "false_reject_share": "rejected wrongly"}
    for n, variant in enumerate(VARIANTS):
        look, part = style_of(variant), runs[runs.variant == variant]
        for place, measure in enumerate(measures):
            row = t_interval(samples(100 * part[measure]))
            half = [row.high - row.mean] if row.count > 1 else None
            axes.bar([place + 0.36 * (n - 0.5)], [row.mean], width=0.34, color=look.colour, yerr=half,
                     error_kw={"elinewidth": 0.8, "capsize": 2})  # fmt: skip
    axes.set_xticks(range(len(measures)), list(measures.values()))
    axes.set_ylabel("of all requests (%)")
    axes.set_ylim(bottom=0)
    axes.grid(visible=False, axis="x")


def measure_t18(tables: Tables) -> Evidence:
    """Areas of the queue over the counter's."""
    runs = tables["crdt-fig5.13/runs"]
    memory, bandwidth = samples(ratio(runs, MEMORY, FL)), samples(ratio(runs, BANDWIDTH, FL))
    exact = (
        within("memory of the queue over the counter's", memory, 0.136, 0.15),
        within("bandwidth of the queue over the counter's", bandwidth, 1.0, 0.15),
    )
    low, high = ABOUT_EQUAL
    equal = Check("bandwidth of the queue over the counter's, equal within a factor of 2", tuple(bandwidth), low, high)
    return Evidence(exact, (below("memory of the queue over the counter's", memory, 1.0), equal))


CLAIMS = (
    Claim(
        "T18", "5.3, Fig. 5.13, chapter 7",
        "Data set C: the queue takes 13.6 % of the counter's memory, and about the same bandwidth (0.0025 % more).",
        ("crdt-fig5.13",), measure_t18, substitute=True,
        why="Memory is far below the counter's, but less so the longer it takes (0.2 in a quarter of an hour, 0.42 in "
        "the hour): a user's last elements stay until its queue is touched again, and our users come once. A queue "
        "sends 16 bytes a request, a counter its whole bucket, however little of it is new: the ratio is that of a "
        "user's requests to the rounds in which it is active (for data set B the thesis prints 8.83 down to 0.23). How "
        "many requests the 5,000 users sent is secret, ours send 100 each; nor is Erlang's encoding of either known.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment(
    "crdt-fig5.13", "Memory and bandwidth with thousands of users", "CRDT thesis, Fig. 5.13", points
)
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes="Data set C is a stand-in (heavy-tailed users, sessions of five minutes), at the quick scale a smaller one "
    f"with the same traffic for each user; panel (a) says its size. {USAGE_NOTE} {PRECISION_NOTE}",
)  # fmt: skip
