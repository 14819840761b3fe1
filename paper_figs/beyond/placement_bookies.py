"""What persistence adds to latency, by how many bookies a message is written to, and where they are (ePulsar, 3.5).

The paper argues for bookies on the broker's own site and shows no figure of it; this is ours.  Topics whose clients are
all at one site, under ePulsar; a message goes on to its consumers when its write quorum has acknowledged it.
"""

from analysis.verdicts import t_interval
from core.records import Options
from harness.experiment import FEWER, Experiment, RunSpec, Scale
from paper_figs.drawing import beside, categories, interval_bars, interval_points, panels, rule
from paper_figs.epulsar.published import SWARM_BOUND_MS
from paper_figs.epulsar.runs import placed
from paper_figs.epulsar.windows import windows
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import bar_key, key, legend_above, rule_key
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import with_point
from paper_figs.style import Style, series

QUORUMS = ((2, 1), (2, 2), (3, 2), (3, 3))  # bookies, acknowledgements
SITES = {"same": "on the broker's site, racks apart", "any": "on sites drawn at random"}
BOUND_MS = float(SWARM_BOUND_MS)
SETTLED_S = 15  # topics have found the brokers of their sites by then
LOOKS = {
    "none": Style("mean, not persistent", "#999999", "", "-"),
    "same": series(f"mean, bookies {SITES['same']}", 2),
    "any": series(f"mean, bookies {SITES['any']}", 1),
}
WORST = Style("worst of 100 messages", "#000000", "D", "-", is_open=True)
FACTORS = {"bookies": "study.bookies", "quorum": "study.write_quorum", "site": "study.bookie_site"}


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Not persistent, and each ensemble and quorum on either kind of site."""
    specs = [_point({"bookies": 0})]
    for bookies, quorum in QUORUMS:
        specs += [_point({"bookies": bookies, "write_quorum": quorum, "bookie_site": site}) for site in SITES]
    return specs


def _point(more: Options) -> RunSpec:
    load = {"topics": 16, "producers": 1, "consumers": 2, "sites": 4, "placement": "by-topic", "rate_rps": 100.0}
    study = {"duration": "30s", **more}
    return placed("epulsar", ("static-topics", {**load, "bound": "40ms"}), ("city-mec", {}), study)


def tables(data: Data) -> FigureTables:
    """``runs``: a row a run: bookies, quorum, site; after ``SETTLED_S`` mean_ms, and worst_ms, the mean of the worst.

    The worst is each topic's of each second, out of 100 messages.
    """
    every = windows(data)
    late = every[every.second >= SETTLED_S].groupby("run_id")[["mean_ms", "max_ms"]].mean()
    runs = with_point(data, data.runs.select("run_id"), FACTORS).set_index("run_id").join(late)
    runs = runs.rename(columns={"max_ms": "worst_ms"}).reset_index(drop=True)
    return {"runs": runs[[*FACTORS, "repetition", "mean_ms", "worst_ms"]]}


def draw(tables: FigureTables) -> Drawing:
    """The mean as bars, the worst message of a second as marks, by ensemble and quorum."""
    drawing, (panel,) = panels(1, 1, inches=(5.2, 3.2))
    runs = tables["runs"]
    _draw_bar(panel, runs[runs.bookies == 0], 0.0, LOOKS["none"])
    for site, shift in zip(SITES, beside(len(SITES), 0.8), strict=True):
        for place, (bookies, quorum) in enumerate(QUORUMS, 1):
            part = runs[(runs.bookies == bookies) & (runs.quorum == quorum) & (runs.site == site)]
            _draw_bar(panel, part, place + shift, LOOKS[site])
    rule(panel, BOUND_MS)
    categories(panel, ["none", *(f"{quorum} of {bookies}" for bookies, quorum in QUORUMS)])
    panel.set(xlabel="acknowledgements, of bookies written to", ylabel="end-to-end latency (ms)")
    bars = [bar_key(look) for look in LOOKS.values()]
    legend_above(drawing, [*bars, key(WORST, line=False), rule_key("bound of the drones' topics")], columns=2)
    return drawing


def _draw_bar(axes: Axes, runs: Frame, x: float, look: Style) -> None:
    interval_bars(axes, [x], [t_interval(list(runs.mean_ms))], look, width=0.36)
    interval_points(axes, [x], [t_interval(list(runs.worst_ms))], WORST)


NOTES = (
    "Ours: a cost model, no real bookies. A bookie's answer takes the way to its site and back, 0.2 ms between racks, "
    "and a synced write, exponential with mean 1 ms; a message waits for the quorum-th answer. Four sites of one city, "
    "15 ms apart one way; access delay 8 ms one way; topics stand at their clients' site. Drawn over all sites, a "
    "bookie is on the broker's own one time in four. The first 15 s are left out. Error bars: 95 % intervals over "
    "repetitions."
)
TITLE = "Persistent topics: where their bookies are"
EXPERIMENT = Experiment("placement-bookies", TITLE, "beyond; ePulsar, Section 3.5", points, repetitions=FEWER)
FIGURE = Figure(EXPERIMENT, tables, draw, notes=NOTES)
