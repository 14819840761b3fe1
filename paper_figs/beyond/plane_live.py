"""limiters-live: the plane of real processes, each limiter with its usual settings over five emulated cities.

Among them is one that is deployed, ``redis-gcra``: a real Redis in New York that every city asks.  Beside each stands
its run in virtual time, of the same requests at the same instants; Redis has none.
"""

from msgspec.structs import replace

from analysis.verdicts import t_interval
from core.records import Options
from harness.experiment import LIVE_REPETITIONS, Experiment, RunSpec, Scale
from paper_figs.beyond import wan
from paper_figs.beyond.limiters import ORACLE, measured, named, oracle, order_of, point
from paper_figs.beyond.load import synthetic
from paper_figs.beyond.wan import LIVE, REDIS
from paper_figs.drawing import interval_points, log_axis, panels, plain
from paper_figs.figure import Figure, FigureTables
from paper_figs.intervals import floored
from paper_figs.keys import key, legend_above
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import samples
from paper_figs.style import style_of

NAMES = ("centralised", "static-split", "leases", "counter", "queue+F+L", "throttler", REDIS)
USERS, LIMIT = 12, (32, "1.6")  # c/r is 20 s: a live run of four of them takes its time
TINY = ("static-split", "counter", REDIS), (8, "2")
ERRORS = {"over_admission_share": "over-admission", "false_rejection_share": "false rejection"}


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Each limiter emulated and in virtual time, Redis emulated, and the oracle."""
    names, limit = TINY if scale.name == "tiny" else (NAMES, LIMIT)
    nodes = len(wan.CITIES)
    load = synthetic(*limit, USERS, nodes)
    specs = [point(name, load, nodes, ", ".join(wan.CITIES)) for name in names]
    live = [replace(spec, testbed=LIVE) for spec in specs]
    return [oracle(load, nodes), *(spec for spec in specs if spec.system != REDIS), *live]


def tables(data: Data) -> FigureTables:
    """``runs``: ``limiters.measured`` of all but the oracle, with testbed."""
    runs = measured(data).merge(named(data)[["run_id", "testbed"]], on="run_id")
    return {"runs": runs[runs.name != ORACLE].reset_index(drop=True)}


def draw(tables: FigureTables) -> Drawing:
    """The plane, and either error over bytes."""
    runs = tables["runs"]
    drawing, axes = panels(1, 3, ("errors of both kinds", *ERRORS.values()), (11.0, 4.0))
    over, under = ERRORS
    _draw(axes[0], runs, under, over)
    for panel, measure in zip(axes[1:], ERRORS, strict=True):
        _draw(panel, runs, "bytes_per_request", measure)
    present = set(runs.name)
    looks = [style_of(name) for name in (*order_of(runs.name[runs.name != REDIS]), REDIS) if name in present]
    legend_above(drawing, [key(look, line=False) for look in looks])
    return drawing


def _draw(axes: Axes, runs: Frame, x: str, y: str) -> None:
    at = (0, 0.1, 0.3, 1, 3, 10, 30, 100)
    log_axis(axes, at=at, linear_below=0.1, linear_share=0.5)
    if x == "bytes_per_request":
        log_axis(axes, "x", at=[10.0**k for k in range(5)], names=["none", *(plain(10.0**k) for k in range(1, 5))])
        axes.set_xlim(0.6, 1e4)
        axes.set_xlabel("bytes sent per request, by all nodes")
    else:
        log_axis(axes, "x", at=at, linear_below=0.1, linear_share=0.5)
        axes.set_xlim(-0.02, 100)
        axes.set_xlabel(f"{ERRORS[x]} (% of requests)")
    for (name, testbed), group in runs.groupby(["name", "testbed"], sort=True):
        look = wan.look_of(str(name), str(testbed))
        place = group[x].mean() * (1.0 if x == "bytes_per_request" else 100.0)
        mean = floored(t_interval([100.0 * value for value in samples(group[y])]))
        interval_points(axes, [max(1.0, place) if x == "bytes_per_request" else place], [mean], look, size=5)
    axes.set_ylim(-0.02, 100)
    axes.set_ylabel(f"{ERRORS[y]} (% of requests)")


NOTES = (
    "New York (the servers: allocator of leases, centralised limiter, Redis), London, Singapore, Sao Paulo, Sydney. "
    "Filled: real processes over emulated links; open: the same in virtual time. Errors as in limiters-plane: how many "
    "more of a user's requests, or fewer, were admitted than by the oracle of those within the same c/r. Twelve users "
    "offer 0.8 to 2 times their rate and ask some cities more often than others; r T / c = 4. Bytes are those of the "
    "messages, of Redis' protocol as of ours. Error bars: 95 % intervals over the repetitions."
)
TITLE = "Limiters as real processes, a real Redis among them: both errors and bytes"
EXPERIMENT = Experiment("limiters-live", TITLE, "ours", points, repetitions=LIVE_REPETITIONS)
FIGURE = Figure(EXPERIMENT, tables, draw, notes=NOTES)
