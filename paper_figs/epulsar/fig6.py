"""Fig. 6: what a broker reports to the coordination store, over topics and clients per topic.

One broker, whose clients do not change.  ePulsar reports two centroids and two delays of each topic; AllPairs the
coordinate of every client.

``--broker pulsar``: the same beside a broker of a real Apache Pulsar, whose clients are processes of Pulsar's own
client (study ``placement-on-pulsar``); in virtual time beside a model of one.
"""

from itertools import product

from analysis.verdicts import RATIO_TOLERANCE, Check, Claim, Evidence, Tables, above, below, within
from core.units import SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.drawing import label, log_axis, marks, mean_lines, panels
from paper_figs.epulsar.published import CODE_CENTROID_BYTES, CODE_PAIRS_8_KB, CODE_PAIRS_16_KB, REPORT_S
from paper_figs.epulsar.runs import BROKER, is_on_pulsar, on_pulsar, placed
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.keys import key, legend_above
from paper_figs.light import Axes, Data, Drawing, Frame, Series
from paper_figs.series import by_repetition, samples, steps, where, with_point
from paper_figs.style import Style, style_of

SYSTEMS = ("epulsar", "all-pairs")
TOPICS, CLIENTS = (4, 8, 16), (2, 4, 8, 16)  # ours: the text has no values
FROM_S = 3  # everybody is connected and located
FROM_ON_PULSAR_S = 25  # ... whose clients are known from figures that it makes every few seconds
# A topic's record in the public code: number of clients -> bytes, by shape (sizes measured by us).
CODE_BYTES: dict[str, dict[int, float]] = {
    "epulsar": dict.fromkeys(CLIENTS, CODE_CENTROID_BYTES),
    "all-pairs": {8: 1_000 * CODE_PAIRS_8_KB, 16: 1_000 * CODE_PAIRS_16_KB},
}


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Systems x topics x clients per topic, of which one publishes; nothing moves, as there is nowhere to go."""
    if is_on_pulsar(options):  # whose clients are at most 64 processes
        topics, clients, from_s = (2, 4, 8), (2, 4, 8), FROM_ON_PULSAR_S
        clients = scale.pick(tiny=clients[::2], small=clients[::2], quick=clients)
    else:
        topics, from_s = scale.pick(tiny=(2, 4, 8), quick=TOPICS, paper=(*TOPICS, 32)), FROM_S
        clients = scale.pick(tiny=(2, 8), quick=CLIENTS)
    study, period = {"duration": f"{from_s + REPORT_S}s"}, f"{REPORT_S}s"
    specs = []
    for system, count, each in product(SYSTEMS, topics, clients):
        load = {"topics": count, "consumers": each - 1, "sites": 1, "rate_rps": 1.0}
        specs.append(placed(system, ("static-topics", load), ("city-mec", {"sites": 1}), study, report=period))
    return [on_pulsar(point) for point in specs] if is_on_pulsar(options) else specs


def tables(data: Data) -> FigureTables:
    """``rates``, a row a run: system, topics, clients (of a topic), repetition, kBps by the last report."""
    from pyspark.sql import functions as f

    reports = data.samples.where((f.col("metric") == "monitoring_bytes") & (f.col("at_ns") > FROM_S * SECOND_NS))
    rate = (f.max_by("value", "at_ns") / (1_000 * REPORT_S)).alias("kBps")
    named = {"topics": "workload.topics", "consumers": "workload.consumers"}
    rates = with_point(data, reports.groupBy("run_id").agg(rate), named)
    rates["clients"] = rates.consumers + 1
    columns = ["system", "topics", "clients", "repetition", "kBps"]
    return {"rates": rates[columns].sort_values(columns[:4], ignore_index=True)}


def draw(tables: FigureTables) -> Drawing:
    """(a) over topics, a line each number of clients; (b) over clients, a line each number of topics."""
    rates = tables["rates"]
    drawing, axes = panels(1, 2, ("over topics", "over clients, logarithmic"), inches=(8.4, 3.7))
    log_axis(axes[1])
    log_axis(axes[1], "x", at=sorted(set(rates.clients)))
    axes[0].set_xticks(sorted(set(rates.topics)))
    _draw_lines(axes[0], rates, "topics", "clients", "clients each")
    _draw_lines(axes[1], rates, "clients", "topics", "topics")
    axes[0].set_ylim(bottom=0)
    for panel, text in zip(axes, ("topics of the broker", "clients of a topic"), strict=True):
        panel.margins(x=0.2)
        panel.set(xlabel=text, ylabel="to the store (kB/s)")
    entries = [key(look._replace(label=f"{look.label}, measured")) for look in map(style_of, SYSTEMS)]
    legend_above(drawing, [*entries, *(key(_of_code(system), line=False) for system in SYSTEMS)])
    return drawing


def _draw_lines(axes: Axes, rates: Frame, x: str, line: str, unit: str) -> None:
    """The lines of both systems, named at their ends; open, beside the longest, what the public code writes."""
    for system in SYSTEMS:
        look, part = style_of(system), rates[rates.system == system]
        values = sorted(set(part[line]))
        mean_lines(axes, part, x, "kBps", line, dict.fromkeys(values, look))
        for at in part[part[line] == part[line].max()].drop_duplicates(x).itertuples():
            if at.clients in CODE_BYTES[system]:
                kBps = at.topics * CODE_BYTES[system][at.clients] / (1_000 * REPORT_S)
                marks(axes, [getattr(at, x)], [kBps], _of_code(system), size=5.5)
        last = part[part[x] == part[x].max()].groupby(line).kBps.mean()
        if values and system == "epulsar" and line == "clients":  # they coincide
            words = f"{look.label}: {values[0]} to {values[-1]} {unit}"
            label(axes, words, (part[x].max(), 0.0), look.colour, (0, 5), "right")
            continue
        for value, height in last.items():
            label(axes, f"{value} {unit}", (part[x].max(), height), look.colour, (6, 0))


def _of_code(system: str) -> Style:
    look = style_of(system)
    return look._replace(label=f"{look.label}, the public code's records", is_open=True)


def measure_e7(tables: Tables) -> Evidence:
    """Of ePulsar, the rate over that of the fewest clients, and the slope over topics; of AllPairs, growth in both."""
    rates = tables["epulsar-fig6/rates"]
    ours, pairs = where(rates, system="epulsar"), where(rates, system="all-pairs")
    topics, clients = sorted(set(rates.topics)), sorted(set(rates.clients))
    if len(topics) < 3 or len(clients) < 2:
        raise KeyError("three numbers of topics, and two of clients")
    direction = [*_growth(pairs, ours, topics, clients), *_clients(pairs, ours, topics, clients)]
    exact = [*direction]
    for count in topics:
        fewest = by_repetition(ours, "kBps", topics=count, clients=clients[0])
        for each in clients[1:]:
            ratio = by_repetition(ours, "kBps", topics=count, clients=each) / fewest
            label = f"ePulsar, {count} topics: {each} clients over {clients[0]}"
            exact.append(within(label, samples(ratio), 1.0, RATIO_TOLERANCE))
    for each in clients:
        first, last = (_slope(where(ours, clients=each), *span) for span in (topics[:2], topics[-2:]))
        label = f"ePulsar, {each} clients: a topic's share at {topics[-1]} topics over that at {topics[1]}"
        exact.append(within(label, samples(last / first), 1.0, RATIO_TOLERANCE))
    return Evidence(tuple(exact), tuple(direction))


def _growth(pairs: Frame, ours: Frame, topics: list[int], clients: list[int]) -> list[Check]:
    """AllPairs rises with both; with topics faster than ePulsar, where there is anything to aggregate."""
    checks = []
    for each in clients:
        both = [where(rates, clients=each) for rates in (pairs, ours)]
        checks += [check for rates in both for check in steps(rates, "kBps", "topics", unit="kB/s")]
        if each > 2:
            theirs, own = (_slope(rates, topics[0], topics[-1]) for rates in both)
            label = f"{each} clients: AllPairs' rise with topics minus ePulsar's"
            checks.append(above(label, samples(theirs - own), 0.0, "kB/s"))
    for count in topics:
        checks += steps(where(pairs, topics=count), "kBps", "clients", unit="kB/s")
    return checks


def _clients(pairs: Frame, ours: Frame, topics: list[int], clients: list[int]) -> list[Check]:
    """What the most clients make of the fewest's rate, under ePulsar less than under AllPairs."""
    few, many = clients[0], clients[-1]
    checks = []
    for count in topics:
        own, theirs = (
            by_repetition(rates, "kBps", topics=count, clients=many)
            / by_repetition(rates, "kBps", topics=count, clients=few)
            for rates in (ours, pairs)
        )
        label = f"{count} topics: {many} clients over {few}, ePulsar minus AllPairs"
        checks.append(below(label, samples(own - theirs)))
    return checks


def _slope(part: Frame, few: int, many: int) -> Series:
    """kB/s for each topic more, by repetition."""
    less, more = (by_repetition(part, "kBps", topics=count) for count in (few, many))
    return (more - less) / (many - few)


E7 = (
    "What a broker reports grows with its topics, and under ePulsar does not depend on the number of their clients; "
    "under AllPairs it grows with both, and faster."
)
# Nothing is random but digits of coordinates: two repetitions do.
CLAIMS = (Claim("E7", "ePulsar, Fig. 6", E7, ("epulsar-fig6",), measure_e7, minimum_repetitions=2),)
NOTES = (
    "Bytes of the JSON that a broker writes into the store every 5 s, without the store's own protocol. One broker; of "
    "a topic's clients one publishes and the others subscribe. Numbers of topics and clients are ours: the text has "
    "none. Open marks: records of the form that the public code (an earlier version) writes, every 5 s instead of its "
    "1.5 s: in (a) of the most clients, in (b) of the most topics. With two clients there is nothing to "
    "aggregate, and AllPairs reports less. With --broker pulsar the broker is Apache Pulsar's, or its model's, and at "
    "most 64 clients are a process each. Error bars: 95 % intervals over repetitions."
)
TITLE, REPETITIONS = "What brokers report to the store", {"quick": 2, "paper": 5}
EXPERIMENT = Experiment("epulsar-fig6", TITLE, "ePulsar, Fig. 6", points, (BROKER,), repetitions=REPETITIONS)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
