"""What persistence adds to latency, by how many bookies a message is written to, and where they are (ePulsar, 3.5).

The paper argues for bookies on the broker's own site and shows no figure of it; this is ours.  Topics whose clients are
all at one site, under ePulsar; a message goes on to its consumers when its write quorum has acknowledged it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import t_interval
from harness.experiment import FEWER, Experiment, RunSpec, Scale
from paper_figs.epulsar.runs import placed
from paper_figs.epulsar.windows import windows
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import with_point
from paper_figs.style import SERIES, panels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

QUORUMS = ((2, 1), (2, 2), (3, 2), (3, 3))  # bookies, acknowledgements
SITES = {"same": "on the broker's site, racks apart", "any": "on sites drawn at random"}
BOUND_MS = 40.0
SETTLED_S = 15  # topics have found the brokers of their sites by then
FACTORS = {"bookies": "study.bookies", "quorum": "study.write_quorum", "site": "study.bookie_site"}


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Not persistent, and each ensemble and quorum on either kind of site."""
    found = [_point({"bookies": 0})]
    for bookies, quorum in QUORUMS:
        found += [_point({"bookies": bookies, "write_quorum": quorum, "bookie_site": site}) for site in SITES]
    return found


def _point(more: Mapping[str, Any]) -> RunSpec:
    load = {"topics": 16, "producers": 1, "consumers": 2, "sites": 4, "placement": "by-topic", "rate_rps": 100.0}
    study = {"duration": "30s", **more}
    return placed("epulsar", ("static-topics", {**load, "bound": "40ms"}), ("city-mec", {}), study)


def tables(data: "Data") -> FigureTables:
    """``runs``: a row a run: bookies, quorum, site; after ``SETTLED_S`` mean_ms, and worst_ms, the mean of the worst.

    The worst is each topic's of each second, out of 100 messages.
    """
    every = windows(data)
    late = every[every.second >= SETTLED_S].groupby("run_id")[["mean_ms", "max_ms"]].mean()
    found = with_point(data, data.runs.select("run_id"), FACTORS).set_index("run_id").join(late)
    found = found.rename(columns={"max_ms": "worst_ms"}).reset_index(drop=True)
    return {"runs": found[[*FACTORS, "repetition", "mean_ms", "worst_ms"]]}


def draw(found: FigureTables) -> "Drawing":
    """The mean as bars, the worst message of a second as marks, by ensemble and quorum."""
    drawing, axes = panels(1, 1)
    drawing.set_size_inches(5.2, 2.9)
    panel, runs = axes[0][0], found["runs"]
    _draw_bar(panel, runs[runs.bookies == 0], 0.0, "#999999", "mean, not persistent")
    for side, (site, where) in enumerate(SITES.items()):
        for place, (bookies, quorum) in enumerate(QUORUMS, 1):
            part = runs[(runs.bookies == bookies) & (runs.quorum == quorum) & (runs.site == site)]
            label = f"mean, bookies {where}" if place == 1 else None
            _draw_bar(panel, part, place + 0.4 * side - 0.2, SERIES[2 - side], label)
    panel.plot([], [], color="#000000", marker="_", markersize=9, linestyle="none", label="worst of 100 messages")
    panel.axhline(BOUND_MS, color="#555555", linewidth=0.8, linestyle=(0, (4, 3)), label="bound of the drones' topics")
    panel.set_xticks(range(1 + len(QUORUMS)), ["none", *(f"{quorum} of {bookies}" for bookies, quorum in QUORUMS)])
    panel.set_xlabel("acknowledgements, of bookies written to")
    panel.set_ylabel("end-to-end latency (ms)")
    panel.set_ylim(top=1.6 * max(BOUND_MS, float(runs.worst_ms.max())))
    panel.legend(fontsize=6.5, ncols=2, loc="upper left")
    return drawing


def _draw_bar(axes: "Axes", runs: "pd.DataFrame", x: float, colour: str, label: str | None) -> None:
    of = t_interval(list(runs.mean_ms))
    axes.bar(x, of.mean, width=0.36, color=colour, label=label)
    if of.count > 1:
        axes.errorbar(x, of.mean, [[of.mean - of.low], [of.high - of.mean]], color="#000000", capsize=2, linewidth=0.8)
    axes.plot(x, runs.worst_ms.mean(), color="#000000", marker="_", markersize=9)


EXPERIMENT = Experiment(
    "placement-bookies", "Persistent topics: where their bookies are", "beyond; ePulsar, Section 3.5", points,
    repetitions=FEWER,
)  # fmt: skip
FIGURE = Figure(
    EXPERIMENT, tables, draw,
    notes="Ours: a cost model, no real bookies. A bookie's answer takes the way to its site and back, 0.2 ms between "
    "racks, and a synced write, exponential with mean 1 ms; a message waits for the quorum-th answer. Four sites of "
    "one city, 15 ms apart one way; access delay 8 ms one way; topics stand at their clients' site. Drawn over all "
    "sites, a bookie is on the broker's own one time in four. The first 15 s are left out.",
)  # fmt: skip
