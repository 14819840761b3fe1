"""Fig. 4.2: traffic of which the sliding log rejects a request and the token bucket none; and what they send.

(a) Capacity 4, one token a second, one node, requests at 1, 2, 3, 3.5 and 4 s: the thesis gives the last
one, we chose the others.  (b) The same again and again with pauses of a minute.  (c) The thesis says,
and does not measure, that the token-bucket queue propagates more data than the sliding log (4.1.2), since it
sends an element again whenever its death has changed: both on 30 nodes, plain, data set B.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Check, Claim, Evidence, Tables, above, at_most, t_interval, within
from core.units import SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt import grids
from paper_figs.crdt.fig4_1 import LIFE_S, SYSTEMS, admitted, alone, draw_instants
from paper_figs.crdt.grids import LOG, QUEUE
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import by_repetition, samples, where, with_point
from paper_figs.style import letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

AT_S = (1.0, 2.0, 3.0, 3.5, 4.0)  # the last is the thesis'
BURSTS = 8
PERIOD_S = 64
PATTERN = {"at": [f"{at * 1000:g}ms" for at in AT_S], "period": f"{PERIOD_S}s", "repeats": BURSTS}
DATA_SETS = ("B-barely", "B-substantial")


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Bursts with pauses on one node; log and queue on 30 nodes."""
    pattern = {**PATTERN, "repeats": scale.pick(small=2, tiny=BURSTS)}
    found = [alone(system, pattern) for system in SYSTEMS]
    for data_set in scale.pick(tiny=DATA_SETS[:1], quick=DATA_SETS):
        found += [grids.limited(QUEUE, data_set), grids.limited(LOG, data_set)]
    return grids.at(scale, found)


def tables(data: "Data") -> FigureTables:
    """``admitted`` (as in Fig. 4.1); ``bursts``: rejections by burst; ``sent``: one row a run on 30 nodes."""
    return {
        "admitted": admitted(_on(data, "= '1'")),
        "bursts": _bursts(_on(data, "= '1'")),
        "sent": _sent(_on(data, "!= '1'")),
    }


def _on(data: "Data", nodes: str) -> "Data":
    """The runs whose number of nodes is such."""
    from analysis.spark import collect

    found = collect(data.runs.where(f"factors['topology.nodes'] {nodes}").select("run_id"), ["run_id"])
    return data.select(list(found.run_id))


def _bursts(data: "Data") -> "pd.DataFrame":
    """system, repetition, burst (from 1), rejected_count up to and with it."""
    from pyspark.sql import functions as f

    burst = (f.floor(f.col("intended_at_ns") / (PERIOD_S * SECOND_NS)) + 1).alias("burst")
    counted = data.requests.groupBy("run_id", burst).agg(
        f.count_if(f.col("decision") == "reject").alias("rejected_count")
    )
    found = with_point(data, counted, {}).sort_values(["system", "repetition", "burst"], ignore_index=True)
    found["rejected_count"] = found.groupby(["system", "repetition"]).rejected_count.cumsum()
    return found[["system", "repetition", "burst", "rejected_count"]]


def _sent(data: "Data") -> "pd.DataFrame":
    """One row a run: what a node sent in all, and how much that is for each admitted request."""
    from pyspark.sql import functions as f

    from analysis.usage import usage_area, usage_over_time

    admitted_count = f.count_if(f.col("decision") == "admit").alias("admitted_count")
    used = usage_area(usage_over_time(data.table("usage")))
    counted = data.requests.groupBy("run_id").agg(admitted_count).join(used, "run_id")
    found = with_point(data, counted.select("run_id", "admitted_count", "sent_bytes"), {"data_set": "workload.set"})
    found["sent_bytes_each"] = found.sent_bytes / found.admitted_count
    return found[["system", "data_set", "repetition", "admitted_count", "sent_bytes", "sent_bytes_each"]]


def draw(found: FigureTables) -> "Drawing":
    """Three panels."""
    drawing, axes = panels(1, 3)
    table = found["admitted"]
    first = table[(table.repetition == table.repetition.min()) & (table.at_s < PERIOD_S)]
    draw_instants(axes[0][0], first)
    rejected = sorted(set(AT_S) - set(first[first.system == LOG].at_s))
    axes[0][0].plot(rejected, [list(SYSTEMS).index(LOG)] * len(rejected), color="#000000", marker="x", markersize=6,
                    linestyle="none", label="rejected")  # fmt: skip
    axes[0][0].set_xlim(0, 5)
    axes[0][0].legend(fontsize=6.5, loc="lower left")
    letter(axes[0][0], "(a) one burst: admitted requests")
    bursts = found["bursts"]
    for system, name in SYSTEMS.items():
        look, part = style_of(name), bursts[bursts.system == system].groupby("burst").rejected_count.mean()
        axes[0][1].plot(part.index, part, color=look.colour, linestyle=look.dashes, marker=look.marker, markersize=4,
                        linewidth=1.2, label=look.label)  # fmt: skip
    axes[0][1].set_xlabel("bursts, a minute apart")
    axes[0][1].set_ylabel("rejections since the start")
    axes[0][1].legend(fontsize=6.5)
    letter(axes[0][1], "(b) bursts with pauses")
    _draw_sent(axes[0][2], found["sent"])
    letter(axes[0][2], "(c) sent on 30 nodes (ours)")
    return drawing


def _draw_sent(axes: "Axes", sent: "pd.DataFrame") -> None:
    """Bars a data set, with intervals."""
    sets = [name for name in DATA_SETS if name in set(sent.data_set)]
    for n, (system, name) in enumerate(((LOG, LOG), ("crdt-queue", QUEUE))):
        look = style_of(name)
        for place, data_set in enumerate(sets):
            row = t_interval(samples(sent[(sent.system == system) & (sent.data_set == data_set)].sent_bytes / 1e3))
            half = [row.high - row.mean] if row.count > 1 else None
            axes.bar([place + 0.36 * (n - 0.5)], [row.mean], width=0.34, color=look.colour, yerr=half,
                     error_kw={"elinewidth": 0.8, "capsize": 2}, label=look.label if place == 0 else None)  # fmt: skip
    axes.set_xticks(range(len(sets)), sets)
    axes.set_ylabel("sent by a node (kB)")
    axes.set_ylim(0, 1.3 * max(1.0, sent.sent_bytes.max() / 1e3))
    axes.legend(fontsize=6.5, loc="upper left")
    axes.grid(visible=False, axis="x")


def measure_t23(tables: Tables) -> Evidence:
    """Saturated: counts at multiples of c / r, and requests admitted by one only; bursts: rejections of the log."""
    saturated, bursts = tables["crdt-fig4.1/admitted"], tables["crdt-fig4.2/bursts"]
    log, bucket = (where(saturated, system=system) for system in (LOG, "crdt-queue"))
    apart, only_one = [], []
    for repetition, ours in log.groupby("repetition"):
        theirs = where(bucket, repetition=repetition)
        ends = range(LIFE_S, int(max(ours.at_s.max(), theirs.at_s.max())) + 1, LIFE_S)
        apart.append(float(max(abs((ours.at_s <= end).sum() - (theirs.at_s <= end).sum()) for end in ends)))
        only_one.append(float(len(set(ours.request_id) ^ set(theirs.request_id))))
    last = int(bursts.burst.max())
    checks: list[Check] = [
        at_most("saturated: most that the two counts differ by at multiples of c / r", apart, 0.0, "requests"),
        above("saturated: requests that one of them admits and the other does not", only_one, 0.0, "requests"),
    ]
    for burst in (1, last):
        rejected = by_repetition(bursts, "rejected_count", system=LOG, burst=burst)
        checks.append(within(f"rejections of the log after {burst} bursts", samples(rejected), burst, 0.0))
    none = by_repetition(bursts, "rejected_count", system="crdt-queue", burst=last)
    checks.append(at_most(f"rejections of the token bucket after {last} bursts", samples(none), 0.0))
    return Evidence(tuple(checks))


def measure_t24(tables: Tables) -> Evidence:
    """What a node sends: queue over log."""
    sent = tables["crdt-fig4.2/sent"]
    checks = []
    for data_set in sorted(set(sent.data_set)):
        queue, log = (
            by_repetition(sent, "sent_bytes", system=system, data_set=data_set) for system in ("crdt-queue", LOG)
        )
        checks.append(above(f"{data_set}: bytes sent, queue over sliding log", samples(queue / log), 1.0))
    return Evidence(tuple(checks))


CLAIMS = (
    Claim(
        "T23", "4.1.1, Figs. 4.1, 4.2",
        "A saturated sliding log (lifetime c/r) and token bucket admit equally many requests, but different ones; of "
        "bursts with pauses the log rejects more and more.", ("crdt-fig4.1", "crdt-fig4.2"), measure_t23,
    ),
    Claim(
        "T24", "4.1.2", "The token-bucket queue propagates more data than the sliding-log queue.", ("crdt-fig4.2",),
        measure_t24,
    ),
)  # fmt: skip
EXPERIMENT = Experiment("crdt-fig4.2", "Sliding log and token bucket, in bursts", "CRDT thesis, Fig. 4.2", points)
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes="Panels (a), (b): one node, no randomness. Panel (c): means and 95 % intervals over repetitions; the traffic "
    "stands in for recordings that are secret.",
)  # fmt: skip
