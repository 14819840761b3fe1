"""Links of the emulated testbed: requested against measured delay, jitter and loss, before any load.

Four hosts, a link between every two, so twelve directions a point.  What is measured is what every live run
measures before it offers anything: small datagrams, evenly spaced, each direction by the hosts' shared clock.

``--delays netem,user-space`` has every point once for each way of delaying packets.  A kernel without netem takes the
runs of one that has it, the virtual machine's, from the folder of results: ``ratebed fetch`` brings them.
"""

from itertools import product

from analysis.tables import collect
from analysis.verdicts import Interval
from core.records import Options
from core.units import MILLISECOND_NS
from harness.experiment import Experiment, Option, RunSpec, Scale
from paper_figs.drawing import beside, categories, curve, interval_points, marks, panels
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import bar_key, key, legend_above, rule_key
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import frame_of
from paper_figs.style import SERIES, Style
from testbed.hosts.mininet.site import NETEM, USER_SPACE, check_mechanism

HOSTS = 4
POINT = ["testbed", "delays", "requested_delay_ms", "requested_jitter_ms", "requested_loss_probability"]
DELAYS = ("1ms", "5ms", "20ms", "40ms")
JITTERS = ("1ms", "2ms", "5ms")  # plus or minus, at JITTERED
JITTERED = "20ms"
LOSSES = (0.01, 0.05, 0.2)  # at LOSSY
LOSSY = "5ms"
LABELS = {"": "as this machine can", NETEM: "netem", USER_SPACE: "in user space"}
COLOURS = dict(zip(LABELS, SERIES[:3], strict=True))
TARGET, WANTED = Style("target (ours)", "#009E73", "", "-"), Style("", "#555555", "", "--")
MARKS = {"o": "a direction's median, p5 to p95", "^": "p95", "v": "p5", "D": "share lost, 95 % interval"}
LIMITS_MS = (-0.5, 1.5)  # of the errors' axis, if the medians are inside
TARGET_MS = 0.15  # ours: one way; a round trip within 0.3 ms of the request


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Delays, then jitters at one delay, then losses at one; nothing is offered, so system and workload are idle."""
    ways = [check_mechanism(way.strip()) for way in str(options.get("delays") or "").split(",")]
    fewer = scale.name == "tiny"
    grid: list[dict[str, object]] = [{"delay": delay} for delay in (DELAYS[1:3] if fewer else DELAYS)]
    grid += [{"delay": JITTERED, "jitter": jitter} for jitter in (JITTERS[1:2] if fewer else JITTERS)]
    grid += [{"delay": LOSSY, "loss_probability": loss} for loss in (LOSSES[1:2] if fewer else LOSSES)]
    return [
        RunSpec(
            system="static-split",
            workload="requests",
            topology="full-mesh",
            topology_options={"nodes": HOSTS, **point},
            testbed="mininet",
            study="links",
            testbed_options={"delays": way} if way else {},
        )
        for way in dict.fromkeys(ways)
        for point in grid
    ]


def tables(data: Data) -> FigureTables:
    """``paths``: a row a direction and run, in ms; ``points``: over the directions and repetitions of a point."""
    runs = data.runs.selectExpr("run_id", "testbed", "repetition", "coalesce(factors['testbed.delays'], '') as delays")
    spans = ("requested_delay", "measured_delay", "requested_jitter", "measured_p05", "measured_p95")
    columns = [f"{name}_ns / {MILLISECOND_NS} as {name}_ms" for name in spans]
    counted = ["run_id", "source", "target", "requested_loss_probability", "lost_count", "probe_count"]
    measured = data.paths.selectExpr(*counted, *columns).join(runs, "run_id").drop("run_id")
    paths = collect(measured, [*POINT[1:], "repetition", "source", "target"])
    paths["error_ms"] = paths["measured_delay_ms"] - paths["requested_delay_ms"]
    return {"paths": paths, "points": over_paths(paths)}


def over_paths(paths: Frame) -> Frame:
    """One row a point: error of the median (its median and extremes over paths), spread, loss with its interval."""
    from scipy.stats import binomtest

    rows = []
    for point, group in paths.groupby(POINT, sort=True):
        lost, probes = int(group.lost_count.sum()), int(group.probe_count.sum())
        interval = binomtest(lost, probes).proportion_ci(method="wilson")
        spread = [(group[f"measured_{name}_ms"] - group.requested_delay_ms).median() for name in ("p05", "p95")]
        errors = group.error_ms.median(), group.error_ms.min(), group.error_ms.max()
        rows.append([*point, len(group), *errors, *spread, lost / probes, interval.low, interval.high])
    errors_ms = ["error_ms", "least_error_ms", "largest_error_ms", "below_ms", "above_ms"]
    return frame_of(rows, [*POINT, "path_count", *errors_ms, "loss", "loss_low", "loss_high"])


def draw(tables: FigureTables) -> Drawing:
    """Errors of the delay, the spread that jitter makes, and loss."""
    drawing, axes = panels(1, 3, ("delay", "jitter", "loss"), inches=(10.5, 3.3))
    paths, of_points = tables["paths"], tables["points"]
    ways = [way for way in LABELS if way in set(paths.delays)]
    plain = (paths.requested_jitter_ms == 0) & (paths.requested_loss_probability == 0)
    _draw_delays(axes[0], paths[plain], ways)
    _draw_jitter(axes[1], of_points[of_points.requested_loss_probability == 0], ways)
    _draw_loss(axes[2], of_points[of_points.requested_jitter_ms == 0], ways)
    entries = [bar_key(TARGET, 0.15), rule_key("as requested")]
    for (marker, text), way in product(MARKS.items(), ways):
        words = f"{LABELS[way]}: {text}" if way else text
        entries.append(key(_look(way, marker)._replace(label=words), line=False))
    legend_above(drawing, entries, columns=3, below=True)
    return drawing


def _look(way: str, marker: str) -> Style:
    return Style("", COLOURS[way], marker, "-")


def _draw_delays(axes: Axes, paths: Frame, ways: list[str]) -> None:
    """Each direction a dot at its median's error, with a line from the 5th to the 95th percentile of its probes."""
    delays = sorted(set(paths.requested_delay_ms))
    axes.axhspan(-TARGET_MS, TARGET_MS, color=TARGET.colour, alpha=0.15, linewidth=0)
    for way, shift in zip(ways, beside(len(ways), 0.7), strict=True):
        for place, delay in enumerate(delays):
            group = paths[(paths.requested_delay_ms == delay) & (paths.delays == way)]
            across = [place + shift + more for more in beside(len(group), 0.6 / len(ways))]
            low, high = (group[f"measured_{name}_ms"] - delay for name in ("p05", "p95"))
            axes.vlines(across, low, high, color=COLOURS[way], alpha=0.4, linewidth=0.6)
            marks(axes, across, group.error_ms, _look(way, "o"), size=2.2)
    categories(axes, [f"{delay:g}" for delay in delays])
    axes.set(xlabel="requested delay, one way (ms)", ylabel="measured - requested (ms)")
    bottom, top = LIMITS_MS  # the longest lines are stalls of the machine: they end at the frame
    errors = paths.error_ms if len(paths) else [0.0]
    axes.set_ylim(min(bottom, 1.3 * min(errors)), max(top, 1.5 * max(errors)))


def _draw_jitter(axes: Axes, points: Frame, ways: list[str]) -> None:
    """5th and 95th percentile of the probes around the request, against those of a uniform jitter."""
    points = points[points.requested_delay_ms.isin(points[points.requested_jitter_ms > 0].requested_delay_ms)]
    points = points.sort_values("requested_jitter_ms")
    for way in ways:
        own = points[points.delays == way]
        for column, marker in (("above_ms", "^"), ("below_ms", "v")):
            marks(axes, own.requested_jitter_ms, own[column], _look(way, marker), size=5)
    widest = float(points.requested_jitter_ms.max()) if len(points) else 1.0
    for sign in (1, -1):  # a uniform jitter's: nine tenths of it
        curve(axes, [0, widest], [0, sign * 0.9 * widest], WANTED, width=0.8)
    axes.set(xlabel="requested jitter (± ms)", ylabel="measured - requested (ms)")
    axes.margins(y=0.3)


def _draw_loss(axes: Axes, points: Frame, ways: list[str]) -> None:
    points = points[points.requested_delay_ms.isin(points[points.requested_loss_probability > 0].requested_delay_ms)]
    most = 100 * float(points.requested_loss_probability.max()) if len(points) else 1.0
    curve(axes, [0, most], [0, most], WANTED, width=0.8)
    for way in ways:
        own = points[points.delays == way]
        rows = zip(own.loss, own.loss_low, own.loss_high, own.path_count, strict=True)
        shares = [Interval(100 * loss, 100 * low, 100 * high, count) for loss, low, high, count in rows]
        interval_points(axes, 100 * own.requested_loss_probability, shares, _look(way, "D"))
    axes.set(xlabel="requested loss (%)", ylabel="lost probes (%)")


NOTES = (
    "Twelve directions between four hosts, measured before any load, as in every live run. The band in (a) is a "
    "target of ours: a round trip within 0.3 ms of what is requested; lines there go from the 5th to the 95th "
    "percentile of a direction's probes. (b): dashed, the percentiles of a uniform jitter. (c): error bars are 95 %"
    " intervals (Wilson's) of the share. Two ways of delaying packets may have been measured on two machines: the "
    "runs' manifests say on which."
)
TITLE, SOURCE = "Links of the emulated testbed, requested and measured", "ours; netem or its replacement"
OPTION = Option("delays", "who delays packets: netem, user-space, or both, separated by a comma", "")
EXPERIMENT = Experiment("link-accuracy", TITLE, SOURCE, points, (OPTION,), repetitions={"tiny": 1})
FIGURE = Figure(EXPERIMENT, tables, draw, notes=NOTES)
