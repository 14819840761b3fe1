"""What Fig. 4 and the report's Fig. 6a have in common: percentiles of latency against the number of brokers k."""

from core.units import MILLISECOND_NS
from harness.experiment import RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.light import Artist, Axes, Data, Frame
from paper_figs.series import with_point
from paper_figs.srtm.grids import SMALL_PUBLISHERS, at, most_brokers, split
from paper_figs.srtm.published import BROKERS
from paper_figs.srtm.series import in_ms
from paper_figs.style import series

QUANTILES = {0.5: "p50_ms", 0.95: "p95_ms", 0.99: "p99_ms"}
LABELS = {"p50_ms": "median", "p95_ms": "95th percentile", "p99_ms": "99th percentile"}
LOOKS = {name: series(label, n, "o^D"[n]) for n, (name, label) in enumerate(LABELS.items())}
BUCKET_NOTE = (
    "Means and 95 % intervals over repetitions, on a fresh minute of traffic. The bucket (r, b) is the paper's: "
    "smallest b on a 70 s trace recorded before."
)


def split_points(scale: Scale, publishers: int, *calibrations: str) -> list[RunSpec]:
    """One point a calibration and k, Poisson."""
    every = list(range(1, most_brokers(scale) + 1))
    ks = scale.pick(small=every, tiny=[1, 2, 3, BROKERS], quick=every)
    workload = {"publishers": publishers}
    specs = [split(k, workload, calibration=calibration) for calibration in calibrations for k in ks]
    return at(scale, specs, publishers // SMALL_PUBLISHERS)


def latency_by_k(data: Data, metric: str = "end_to_end_latency") -> Frame:
    """One row a run: calibration, k, repetition, the three percentiles and the SLO in ms."""
    percentiles = in_ms(data.latency_histogram.where(f"metric = '{metric}'"), QUANTILES, "run_id")
    slo_and_calibration = data.runs.selectExpr("run_id", "calibration", f"slo_ns / {MILLISECOND_NS} as slo_ms")
    frame = with_point(data, percentiles.join(slo_and_calibration, "run_id"), {"k": "topology.brokers"})
    return frame[frame.system == "lb"].sort_values(["calibration", "k", "repetition"], ignore_index=True)


def _long(runs: Frame) -> Frame:
    """One row a run and percentile, ``ms``."""
    return runs.melt(["calibration", "k", "repetition"], list(LABELS), var_name="percentile", value_name="ms")


def over_repetitions(runs: Frame) -> Frame:
    """Mean and standard deviation of each percentile, one row a calibration, k and percentile."""
    return _long(runs).groupby(["calibration", "percentile", "k"])["ms"].agg(["mean", "std"]).fillna(0.0).reset_index()


def draw_percentiles(axes: Axes, runs: Frame, label: str = "end-to-end latency (ms)") -> list[Artist]:
    """The three percentiles against k; returns their keys.  The y axis must be logarithmic by then."""
    drawing.mean_lines(axes, _long(runs), "k", "ms", "percentile", LOOKS)
    axes.set_xticks(range(1, int(runs.k.max()) + 1))
    axes.set(xlabel="brokers k", ylabel=label)
    return [keys.key(look) for look in LOOKS.values()]
