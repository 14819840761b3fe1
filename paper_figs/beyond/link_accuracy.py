"""Links of the emulated testbed: requested against measured delay, jitter and loss, before any load.

Four hosts, a link between every two, so twelve directions a point.  What is measured is what every live run
measures before it offers anything: small datagrams, evenly spaced, each direction by the hosts' shared clock.

``--delays netem,user-space`` has every point once for each way of delaying packets.  A kernel without netem takes the
runs of one that has it, the virtual machine's, from the folder of results: ``ratebed fetch`` brings them.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core.units import MILLISECOND_NS
from harness.experiment import Experiment, Option, RunSpec, Scale
from paper_figs.figure import Figure, FigureTables
from paper_figs.style import SERIES, letter, panels
from testbed.hosts.mininet.site import NETEM, USER_SPACE, check_mechanism

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

HOSTS = 4
DELAYS = ("1ms", "5ms", "20ms", "40ms")
JITTERS = ("1ms", "2ms", "5ms")  # plus or minus, at JITTERED
JITTERED = "20ms"
LOSSES = (0.01, 0.05, 0.2)  # at LOSSY
LOSSY = "5ms"
LABELS = {"": "as this machine can", NETEM: "netem", USER_SPACE: "in user space"}
COLOURS = dict(zip(LABELS, SERIES[:3], strict=True))
LIMITS_MS = (-0.5, 1.5)  # of the errors' axis, if the medians are inside
TARGET_MS = 0.15  # ours: one way; a round trip within 0.3 ms of the request


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Delays, then jitters at one delay, then losses at one; nothing is offered, so system and workload are idle."""
    ways = [check_mechanism(way.strip()) for way in str(options.get("delays") or "").split(",")]
    fewer = scale.name == "tiny"
    grid: list[dict[str, Any]] = [{"delay": delay} for delay in (DELAYS[1:3] if fewer else DELAYS)]
    grid += [{"delay": JITTERED, "jitter": jitter} for jitter in (JITTERS[1:2] if fewer else JITTERS)]
    grid += [{"delay": LOSSY, "loss_probability": loss} for loss in (LOSSES[1:2] if fewer else LOSSES)]
    return [
        RunSpec(
            system="static-split", workload="requests", topology="full-mesh",
            topology_options={"nodes": HOSTS, **point}, testbed="mininet", study="links",
            testbed_options={"delays": way} if way else {},
        )
        for way in dict.fromkeys(ways)
        for point in grid
    ]  # fmt: skip


def tables(data: "Data") -> FigureTables:
    """``paths``: a row a direction and run, in ms; ``points``: over the directions and repetitions of a point."""
    from analysis.spark import collect

    runs = data.runs.selectExpr("run_id", "testbed", "repetition", "coalesce(factors['testbed.delays'], '') as delays")
    columns = [f"{name}_ns / {MILLISECOND_NS} as {name}_ms" for name in
               ("requested_delay", "measured_delay", "requested_jitter", "measured_p05", "measured_p95")]  # fmt: skip
    counted = ["run_id", "source", "target", "requested_loss_probability", "lost_count", "probe_count"]
    found = data.paths.selectExpr(*counted, *columns).join(runs, "run_id").drop("run_id")
    paths = collect(found, ["delays", "requested_delay_ms", "requested_jitter_ms", "requested_loss_probability",
                            "repetition", "source", "target"])  # fmt: skip
    paths["error_ms"] = paths["measured_delay_ms"] - paths["requested_delay_ms"]
    return {"paths": paths, "points": over_paths(paths)}


def over_paths(paths: "pd.DataFrame") -> "pd.DataFrame":
    """One row a point: error of the median (its median and extremes over paths), spread, loss with its interval."""
    import pandas as pd
    from scipy.stats import binomtest

    rows = []
    keys = ["testbed", "delays", "requested_delay_ms", "requested_jitter_ms", "requested_loss_probability"]
    for key, group in paths.groupby(keys, sort=True):
        lost, probes = int(group.lost_count.sum()), int(group.probe_count.sum())
        interval = binomtest(lost, probes).proportion_ci(method="wilson")
        rows.append({
            **dict(zip(keys, key, strict=True)), "path_count": len(group),
            "error_ms": group.error_ms.median(), "least_error_ms": group.error_ms.min(),
            "largest_error_ms": group.error_ms.max(),
            "below_ms": (group.measured_p05_ms - group.requested_delay_ms).median(),
            "above_ms": (group.measured_p95_ms - group.requested_delay_ms).median(),
            "loss": lost / probes, "loss_low": interval.low, "loss_high": interval.high,
        })  # fmt: skip
    columns = [*keys, "path_count", "error_ms", "least_error_ms", "largest_error_ms", "below_ms", "above_ms", "loss",
               "loss_low", "loss_high"]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def draw(found: FigureTables) -> "Drawing":
    """Errors of the delay, the spread that jitter makes, and loss."""
    drawing, axes = panels(1, 3)
    paths, of_points = found["paths"], found["points"]
    plain = (paths.requested_jitter_ms == 0) & (paths.requested_loss_probability == 0)
    _draw_delays(axes[0][0], paths[plain])
    _draw_jitter(axes[0][1], of_points[of_points.requested_loss_probability == 0])
    _draw_loss(axes[0][2], of_points[of_points.requested_jitter_ms == 0])
    for panel, text in zip(axes[0], ("(a) delay", "(b) jitter", "(c) loss"), strict=True):
        letter(panel, text)
    drawing.set_figheight(1.2 * drawing.get_figheight())
    pairs = [pair for panel in axes[0] for pair in zip(*panel.get_legend_handles_labels(), strict=True)]
    named = {label: handle for handle, label in pairs}
    drawing.legend(named.values(), named.keys(), loc="outside lower center", ncols=4, fontsize=7)  # bars are everywhere
    return drawing


def _ways(rows: "pd.DataFrame") -> list[str]:
    """Who delayed, as far as there is something of it."""
    return [way for way in LABELS if way in set(rows.delays)]


def _draw_delays(axes: "Axes", paths: "pd.DataFrame") -> None:
    """Each direction a dot at its median's error, with a bar from the 5th to the 95th percentile of its probes."""
    from matplotlib.colors import to_rgb

    delays, ways = sorted(set(paths.requested_delay_ms)), _ways(paths)
    axes.axhspan(-TARGET_MS, TARGET_MS, color="#009E73", alpha=0.15, linewidth=0, label="target (ours)")
    for n, way in enumerate(ways):
        for place, delay in enumerate(delays):
            group = paths[(paths.requested_delay_ms == delay) & (paths.delays == way)].reset_index(drop=True)
            left, width = place + 0.7 * (n / len(ways) - 0.5), 0.6 / len(ways)
            across = [left + width * (number + 0.5) / len(group) for number in group.index]
            bars = [group.measured_delay_ms - group.measured_p05_ms, group.measured_p95_ms - group.measured_delay_ms]
            axes.errorbar(across, group.error_ms, yerr=bars, fmt="o", markersize=2.2, linewidth=0.6,
                          color=COLOURS[way], ecolor=(*to_rgb(COLOURS[way]), 0.4),
                          label=_label(way, "a direction's median, p5 to p95") if place == 0 else None)  # fmt: skip
    axes.set_xticks(range(len(delays)), [f"{delay:g}" for delay in delays])
    axes.set_xlabel("requested delay, one way (ms)")
    axes.set_ylabel("measured - requested (ms)")
    bottom, top = LIMITS_MS  # the longest bars are stalls of the machine: they end at the frame
    errors = paths.error_ms if len(paths) else [0.0]
    axes.set_ylim(min(bottom, 1.3 * min(errors)), max(top, 1.5 * max(errors)))


def _draw_jitter(axes: "Axes", points: "pd.DataFrame") -> None:
    """5th and 95th percentile of the probes around the request, against those of a uniform jitter."""
    points = points[points.requested_delay_ms.isin(points[points.requested_jitter_ms > 0].requested_delay_ms)]
    points = points.sort_values("requested_jitter_ms")
    for way in _ways(points):
        own = points[points.delays == way]
        for column, marker, label in (("above_ms", "^", "p95"), ("below_ms", "v", "p5")):
            axes.plot(own.requested_jitter_ms, own[column], marker, color=COLOURS[way], markersize=5,
                      label=_label(way, label))  # fmt: skip
    widest = float(points.requested_jitter_ms.max()) if len(points) else 1.0
    for sign in (1, -1):
        axes.plot([0, widest], [0, sign * 0.9 * widest], color="#555555", linewidth=0.8, linestyle=(0, (4, 3)),
                  label="uniform, plus or minus the request" if sign > 0 else None)  # fmt: skip
    axes.set_xlabel("requested jitter (± ms)")
    axes.set_ylabel("measured - requested (ms)")
    axes.margins(y=0.3)


def _draw_loss(axes: "Axes", points: "pd.DataFrame") -> None:
    """Lost probes, of all directions of a point, with 95 % intervals."""
    points = points[points.requested_delay_ms.isin(points[points.requested_loss_probability > 0].requested_delay_ms)]
    most = 100 * float(points.requested_loss_probability.max()) if len(points) else 1.0
    axes.plot([0, most], [0, most], color="#555555", linewidth=0.8, linestyle=(0, (4, 3)), label="as requested")
    for way in _ways(points):
        own = points[points.delays == way]
        bars = [100 * (own.loss - own.loss_low), 100 * (own.loss_high - own.loss)]
        axes.errorbar(100 * own.requested_loss_probability, 100 * own.loss, yerr=bars, fmt="D", color=COLOURS[way],
                      markersize=4, capsize=3, linewidth=1, label=_label(way, "share lost, 95 % interval"))  # fmt: skip
    axes.set_xlabel("requested loss (%)")
    axes.set_ylabel("lost probes (%)")


def _label(way: str, what: str) -> str:
    return f"{LABELS[way]}: {what}" if way else what


EXPERIMENT = Experiment(
    "link-accuracy",
    "Links of the emulated testbed, requested and measured",
    "ours; netem or its replacement",
    points,
    repetitions={"tiny": 1},
    options=(Option("delays", "who delays packets: netem, user-space, or both, separated by a comma", ""),),
)
FIGURE = Figure(
    EXPERIMENT, tables, draw,
    notes="Twelve directions between four hosts, measured before any load, as in every live run. The band in (a) is a "
    "target of ours: a round trip within 0.3 ms of what is requested. Two ways of delaying packets may have been "
    "measured on two machines: the runs' manifests say on which.",
)  # fmt: skip
