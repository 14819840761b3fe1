"""Profile of a broker's data plane: which traffic parameter tells that a broker is overloaded (ePulsar, 5.4).

The design crosses four rates with three fan-outs; topics, producers and sizes are dealt out so that they hardly
correlate with either (|rho| at most 0.21 on the offered rates).  The broker has a quarter of a core, so that it is full
long before its clients are.  Correlations are Spearman's: they ask for an order, not for a law.

Fixed before any result was seen: the *idle* p95 is that of the point with the least output; the *knee* is the largest
output rate at which the p95 is below ``KNEE`` times the idle one; *strongly correlated* means a rho of ``STRONG``.

``--broker pulsar``: the same of a broker of a real Apache Pulsar (study ``profile-on-pulsar``), with less of a core,
when it is warm, and clients of Pulsar's own.
"""

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from analysis.verdicts import Claim, Evidence, Tables, above, at_least, t_interval
from core.records import Json
from harness.experiment import CALIBRATED, LIVE_REPETITIONS, Experiment, RunSpec, Scale
from paper_figs.drawing import GREY, categories, interval_bars, label, log_axis, marks, panels, rule
from paper_figs.epulsar.published import KNEE_KRPS
from paper_figs.epulsar.runs import BROKER, is_on_pulsar
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.keys import key, key_above
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import QUANTILES, by_repetition, frame_of, in_ms, samples, with_point
from paper_figs.style import SERIES, Style, series

DESIGN = (  # topics, producers and consumers of each, bytes of a message, messages a second of all producers
    (1, 4, 1, 1_000, 300), (16, 1, 1, 100, 1_000), (4, 1, 1, 1_000, 2_000), (4, 4, 1, 1_000, 4_000),
    (1, 1, 2, 100, 300), (16, 4, 2, 100, 1_000), (1, 4, 2, 100, 2_000), (16, 1, 2, 100, 4_000),
    (4, 1, 4, 1_000, 300), (4, 4, 4, 100, 1_000), (16, 4, 4, 1_000, 2_000), (1, 1, 4, 1_000, 4_000),
)  # fmt: skip
ENDS_RPS = tuple(end(in_rps * consumers for _, _, consumers, _, in_rps in DESIGN) for end in (min, max))
TWO_ENDS = ((1, 1, 1, 100, 50), (4, 1, 2, 1_000, 400))
CORE_SHARE = 0.25  # ours: of one core, for the broker
DURATION, WARM_UP = "4s", "1s"
SHARE_ON_PULSAR = 0.15  # chosen after seed 2, where no point filled a quarter of a core; to be judged on fresh seeds
# A virtual machine has to get used to what it may take.
ON_PULSAR: Json = {"duration": "20s", "warm_up": "10s", "core_share": SHARE_ON_PULSAR}
MINIMUM_REPETITIONS = 3
KNEE, STRONG = 2.0, 0.7
WHOLE = 0.75  # ours: share of the design without which a repetition's correlations say nothing
PARAMETERS = {  # column -> label
    "out_rps": "messages out /s",
    "in_rps": "messages in /s",
    "out_bps": "bytes out /s",
    "topic_rps": "messages /s of a topic",
    "consumers": "consumers of a topic",
    "producers": "producers of a topic",
    "topics": "topics",
    "size_bytes": "message size",
}
SWEPT = ("topic_rps", "consumers", "producers", "topics", "size_bytes")  # by the paper, one by one
POINT = ["topics", "producers", "consumers", "size_bytes", "rate_rps"]
FACTORS = {**{name: f"workload.{name}" for name in POINT}, "core_share": "study.core_share"}
COLOURS = {1: SERIES[0], 4: SERIES[1], 16: SERIES[2]}
MARKERS = {100: "o", 1_000: "s"}


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """The design; its two ends at scale tiny."""
    design, duration = (TWO_ENDS, "2s") if scale.name == "tiny" else (DESIGN, DURATION)
    specs = [_spec(point, duration) for point in design]
    if is_on_pulsar(options):
        return [replace(one, study="profile-on-pulsar", study_options=ON_PULSAR) for one in specs]
    return specs


def _spec(point: Sequence[int], duration: str) -> RunSpec:
    topics, producers, consumers, size_bytes, in_rps = point
    values = (topics, producers, consumers, size_bytes, in_rps / (topics * producers))
    return RunSpec(  # nobody places the topics: the system is idle
        system="pulsar",
        workload="static-topics",
        workload_options={**dict(zip(POINT, values, strict=True)), "sites": 1},
        topology_options={"brokers": 1},
        testbed="mininet",
        calibration="small",
        slo=CALIBRATED,
        study="profile",
        study_options={"duration": duration, "warm_up": WARM_UP, "core_share": CORE_SHARE},
    )


def tables(data: Data) -> FigureTables:
    """``runs``: a row a run; ``correlations``: rho of the p95 with each parameter, by repetition; ``knee``: a row."""
    spread = in_ms(data.latency_histogram.where("metric = 'end_to_end_latency'"), QUANTILES, "run_id")
    rates = data.table("spans").where("node != 'clients'").selectExpr(
        "run_id", "span_in_count / span_ns * 1e9 as in_rps", "span_out_count / span_ns * 1e9 as out_rps",
        "span_out_bytes / span_ns * 1e9 as out_bps", "span_offered_count / span_ns * 1e9 as offered_rps",
        "span_lost_count / span_offered_count as lost_share", "span_cpu_ns / span_ns as broker_cores", "span_ns",
    )  # fmt: skip
    clients = data.table("spans").where("node = 'clients'").selectExpr("run_id", "span_cpu_ns as clients_cpu_ns")
    measured = rates.join(clients, "run_id").join(spread, "run_id")
    axes = ["repetition", "validity"]
    frame = with_point(data, measured, FACTORS, axes).reindex(columns=[*axes, *FACTORS, *measured.columns])
    frame["clients_cores"] = frame.pop("clients_cpu_ns") / frame.pop("span_ns")
    frame["topic_rps"] = frame.rate_rps * frame.producers
    frame = frame.drop(columns="run_id").sort_values([*POINT, "repetition"], ignore_index=True)
    return {"runs": frame, "correlations": correlations(frame), "knee": knee(frame)}


def correlations(runs: Frame) -> Frame:
    """repetition, parameter, rho: Spearman's rank correlation of the p95 with each parameter over a repetition's runs.

    NaN where a parameter has one value only, and where too many runs of a repetition are missing, or left out because
    they are invalid: of few runs any parameter orders the latencies.
    """
    from scipy.stats import spearmanr

    rows, wanted = [], WHOLE * len(runs[POINT].drop_duplicates())
    for repetition, group in runs.groupby("repetition"):
        for parameter in PARAMETERS:
            varies = group[parameter].nunique() > 1 and group.p95_ms.nunique() > 1 and len(group) >= wanted
            rho = float(spearmanr(group[parameter], group.p95_ms).statistic) if varies else np.nan
            rows.append((int(repetition), parameter, rho))
    return frame_of(rows, ["repetition", "parameter", "rho"])


def over_repetitions(runs: Frame) -> Frame:
    """A row a point of the design, by output rate: the mean of each column, of the p95 the geometric one."""
    means = runs.assign(p95_ms=np.log(runs.p95_ms)).groupby(POINT, as_index=False).mean(numeric_only=True)
    return means.assign(p95_ms=np.exp(means.p95_ms)).sort_values("out_rps", ignore_index=True)


def knee(runs: Frame) -> Frame:
    """idle_p95_ms, knee_rps, most_rps: a row; ``most_rps`` is the largest output rate, the knee where there is none."""
    means = over_repetitions(runs)
    idle_ms = float(means.p95_ms.iloc[0])
    knee_rps = float(means[means.p95_ms < KNEE * idle_ms].out_rps.max())
    return frame_of([(idle_ms, knee_rps, float(means.out_rps.max()))], ["idle_p95_ms", "knee_rps", "most_rps"])


def draw(tables: FigureTables) -> Drawing:
    """The p95 over the output rate, the correlations, and how full the broker was."""
    titles = ("the broker's output; numbers: consumers of a topic", "rank correlation with the p95", "processor time")
    drawing, axes = panels(1, 3, titles, inches=(10.8, 3.4))
    for panel in axes[::2]:
        log_axis(panel, "x", steps=(1, 3))
        panel.set_xlabel("messages out (1/s)")
    _draw_latency(axes[0], tables["runs"], tables["knee"])
    _draw_correlations(axes[1], tables["correlations"])
    _draw_processor(axes[2], tables["runs"])
    return drawing


def _draw_latency(axes: Axes, runs: Frame, knees: Frame) -> None:
    means = over_repetitions(runs)
    log_axis(axes, steps=(1,))
    for frame, size, alpha in ((runs, 2.5, 0.45), (means, 6.0, 1.0)):
        for row in frame.itertuples():
            look = Style("", COLOURS[row.topics], MARKERS[row.size_bytes], "-")
            marks(axes, [row.out_rps], [row.p95_ms], look, size, alpha)
    for row in means.itertuples():
        label(axes, f"{row.consumers:.0f}", (row.out_rps, row.p95_ms), points=(5, 0), size=5)
    knee_rps, idle_ms = float(knees.knee_rps.iloc[0]), float(knees.idle_p95_ms.iloc[0])
    if knee_rps < float(knees.most_rps.iloc[0]):
        rule(axes, knee_rps, "x", text=f"knee: {knee_rps:,.0f}/s")
    rule(axes, KNEE * idle_ms, reference=True, text=f"{KNEE:g} x idle")
    axes.set_ylabel("p95 end-to-end latency (ms)")
    by_topics = [key(Style(f"topics: {topics}", colour, "o", "-"), line=False) for topics, colour in COLOURS.items()]
    by_size = [key(Style(f"{size:,} B", GREY, marker, "-"), line=False) for size, marker in MARKERS.items()]
    key_above(axes, [*by_topics, *by_size], columns=3)


def _draw_correlations(axes: Axes, rhos: Frame) -> None:
    """Bars of the mean |rho| over repetitions with 95 % intervals, the largest at the top."""
    sizes = rhos.assign(size=rhos.rho.abs()).dropna().groupby("parameter")["size"].apply(list).to_dict()
    intervals = {parameter: t_interval(sizes[parameter]) for parameter in PARAMETERS if parameter in sizes}
    order = sorted(intervals, key=lambda parameter: -intervals[parameter].mean)
    for place, parameter in enumerate(order):
        look = Style("", SERIES[0] if parameter == "out_rps" else "#999999", "", "-")
        interval_bars(axes, [place], [intervals[parameter]], look, width=0.75, lying=True)
    categories(axes, [PARAMETERS[parameter] for parameter in order], "y")
    rule(axes, STRONG, "x")
    axes.set_xlim(0, 1)
    axes.set_xlabel("|Spearman's rho|; dashed: strong")
    axes.set_axisbelow(True)


def _draw_processor(axes: Axes, runs: Frame) -> None:
    looks = {"broker_cores": series("broker", 0, "o"), "clients_cores": Style("all clients", "#999999", "^", "-")}
    for column, look in looks.items():
        marks(axes, runs.out_rps, runs[column], look, size=3)
    rule(axes, float(runs.core_share.max()), text="broker's share")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("cores in use")
    key_above(axes, [key(look, line=False) for look in looks.values()])


def measure_e12(tables: Tables) -> Evidence:
    """|rho| of the output rate, less the largest other one; and that the p95 rises at all.

    KeyError where a repetition lacks an end of the design: who is overloaded loses messages, and its run is invalid.
    """
    rhos, runs = tables["epulsar-profile/correlations"], tables["epulsar-profile/runs"]
    due_rps = (runs.topics * runs.producers * runs.rate_rps * runs.consumers).round()
    for repetition, there_rps in due_rps.groupby(runs.repetition):
        for end_rps in {*ENDS_RPS} - {*there_rps}:
            raise KeyError(f"a valid run of {end_rps:,} messages out a second in repetition {repetition}")
    rho = {parameter: by_repetition(rhos, "rho", parameter=parameter) for parameter in PARAMETERS}
    ours = rho.pop("out_rps")
    leads = {
        name: above(f"|rho| of messages out, less that of {PARAMETERS[name]}", samples(ours.abs() - other.abs()))
        for name, other in rho.items()
    }
    by_output = runs.sort_values("offered_rps").groupby("repetition").p95_ms
    rise = samples(np.log2(by_output.last() / by_output.first()))
    rises = above("p95 at the most over the idle one, as doublings", rise, np.log2(KNEE))
    direction = (*(leads.pop(name) for name in SWEPT), rises)
    strong = at_least("rho of messages out", samples(ours), STRONG)
    return Evidence((*direction, *leads.values(), strong), direction)


E12 = (
    "Of all traffic parameters the aggregate output message rate of a broker is the one most correlated with the p95 "
    "end-to-end latency, with a knee beyond which latency deteriorates."
)
LIVE: Json = {"needs": "mininet or local", "testbed": "mininet"}
CLAIMS = (Claim("E12", "5.4", E12, ("epulsar-profile",), measure_e12, **LIVE, minimum_repetitions=MINIMUM_REPETITIONS),)
NOTES = (
    "Live broker only: NSQ's, with a quarter of a core and messages in memory; the paper's is Pulsar's on eight "
    f"cores with a bookie that stores every message (knee at {1_000 * KNEE_KRPS:,} msg/s). So the knee is this "
    "broker's; what is compared is the order of the parameters. Open loop: latency counts from the intended "
    "instant. Messages out are those that consumers got, so beyond the knee they stay at what the broker can give. "
    "The quota stops the broker for up to 3 ms at a time. (a): small marks are repetitions. (b): error bars are 95 "
    "% intervals over repetitions. With --broker pulsar: a warm broker of Apache Pulsar, topics that are not "
    f"persistent, {SHARE_ON_PULSAR:g} of a core: chosen after a quarter was not filled, to be judged on fresh seeds."
)
TITLE = "Profile of a broker's data plane"
EXPERIMENT = Experiment("epulsar-profile", TITLE, "ePulsar, 5.4", points, (BROKER,), repetitions=LIVE_REPETITIONS)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
