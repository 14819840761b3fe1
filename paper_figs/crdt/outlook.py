"""What the thesis speculates about and does not measure (5.4, 5.5): delay, nodes that re-join, more nodes. Ours.

(a) Rounds that an element misses at a node because messages take 250 ms, gossip every 200 ms: a line of six
nodes, asked by probes when each of them knows.  (b) Rejections on data set D against the delay of
messages, gossip every 300 ms: a counter only learns later, a queue loses what it does not learn in time.
(c) A node of ten crashes at 30 s and is back, empty, a second later, or with a copy of a peer's state:
requests that it admits from then on (data set B, substantial; c = 150).
More nodes: Fig. 5.16 (c).
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import msgspec

from analysis.verdicts import Check, Claim, Evidence, Tables, above, at_most, t_interval
from core.units import MILLISECOND_NS, SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt import ablations, fig5_15
from paper_figs.crdt.fig5_16 import RANDOM, ROUND_MS
from paper_figs.crdt.grids import COUNTER, FL, ORACLE, QUEUE, at
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import by_repetition, samples, where, with_point
from paper_figs.style import SERIES, letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

GOSSIP_MS, DELAY_MS = 200, 250  # 5.5
LINE, STEP_MS = 6, 10  # nodes in a row; how finely they are asked
SMALL_STEP_MS = 50  # at the scale small: each step takes 3 s
LONGEST_MS = GOSSIP_MS + (LINE - 1) * (GOSSIP_MS + DELAY_MS)
DELAYS_MS = (0, 100, 250, 600)
KEPT = "queue, last element kept"
ON_D: dict[str, tuple[str, dict[str, Any]]] = {
    COUNTER: ("crdt-counter", {}),
    QUEUE: ("crdt-queue", {}),
    KEPT: ("crdt-queue", {"keep_last": 1}),
}
BACK_S = 31
CRASH = {"kind": "crash", "at": "30s", "node": "n1"}
RESTART = {"kind": "restart", "at": f"{BACK_S}s", "node": "n1"}
UNHARMED, EMPTY, COPY = "no crash", "back, empty", "back, with a copy"
FAULTS: dict[str, list[dict[str, str]]] = {
    UNHARMED: [],
    EMPTY: [CRASH, RESTART],
    COPY: [CRASH, {**RESTART, "copy_from": "n2"}],
}
FACTORS = {
    "data_set": "workload.set",
    "delay": "topology.delay",
    "keep_last": "system.keep_last",
    "frequency": "system.frequency",
    "faults": "study.faults",
}


def line(delay_ms: int, step_ms: int = STEP_MS) -> RunSpec:
    """Six nodes in a row, asked at steps of ``step_ms`` for what the first one was told."""
    return RunSpec(
        system="crdt-queue",
        system_options={"capacity": 1, "rate": "0.2", "gossip": f"{GOSSIP_MS}ms", "overlay": "line"},
        workload="probes",
        workload_options={
            "lags": [f"{step_ms}ms"], "steps": LONGEST_MS // step_ms, "trials": 1, "spacing": "3s"
        },
        topology="full-mesh",
        topology_options={"nodes": LINE, "delay": f"{delay_ms}ms"},
        study="limiting",
    )  # fmt: skip


def on_d(variant: str, delay_ms: int) -> RunSpec:
    """Data set D with messages that take a while; gossip every 300 ms, as Fig. 5.15 writes it."""
    system, options = ON_D[variant]
    return fig5_15.point(system, delay=f"{delay_ms}ms", gossip=f"{ROUND_MS}ms", **options)


def rejoined(variant: str, fate: str) -> RunSpec:
    """A node crashes and comes back."""
    spec = ablations.point(variant, ablations.DATA_SET, {})
    faults = FAULTS[fate]
    return msgspec.structs.replace(spec, study_options={"faults": faults} if faults else {})


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """The line with and without delay; D by delay; crash and return."""
    delays_ms = scale.pick(tiny=(0, 600), quick=DELAYS_MS)
    step_ms = scale.pick(small=SMALL_STEP_MS, tiny=STEP_MS)
    found = [line(delay_ms, step_ms) for delay_ms in (0, DELAY_MS)]
    variants = scale.pick(small=(QUEUE,), tiny=tuple(ON_D))
    found += [fig5_15.point(ORACLE), *(on_d(variant, delay_ms) for variant in variants for delay_ms in delays_ms)]
    harmed = scale.pick(small=(FL,), tiny=(COUNTER, FL))
    return at(scale, found + [rejoined(variant, fate) for variant in harmed for fate in FAULTS])


def tables(data: "Data") -> FigureTables:
    """``hops``: one row a node and run, missed_count; ``delays``: rejections on D; ``rejoin``: admitted_count."""
    from pyspark.sql import functions as f

    rows = data.requests
    rejected = f.count_if(f.col("decision") == "reject").alias("rejected_count")
    late = (f.col("decision") == "admit") & (f.col("node") == "n1") & (f.col("intended_at_ns") >= BACK_S * SECOND_NS)
    counted = rows.groupBy("run_id").agg(rejected, f.count_if(late).alias("admitted_count"))
    runs = with_point(data, counted, FACTORS)
    runs["delay_ms"] = [int(text.removesuffix("ms")) for text in runs.delay]
    d, b = (runs[runs.data_set == name].reset_index(drop=True) for name in ("D", ablations.DATA_SET))
    d["variant"] = [_on_d(*row) for row in zip(d.system, d.keep_last, strict=True)]
    b["variant"] = [COUNTER if system == "crdt-counter" else FL for system in b.system]
    b["fate"] = [_fate(text) for text in b.faults]
    return {
        "hops": hops(with_point(data, learnt(rows.join(data.runs.where("workload = 'probes'"), "run_id")), FACTORS)),
        "delays": d[["variant", "delay_ms", "repetition", "rejected_count"]],
        "rejoin": b[["variant", "fate", "repetition", "admitted_count"]],
    }


def _on_d(system: str, keep_last: Any) -> str:
    if system != "crdt-queue":
        return COUNTER if system == "crdt-counter" else ORACLE
    return KEPT if keep_last == 1 else QUEUE


def _fate(faults: Any) -> str:
    """Of the option's value, a list or its text; absent without faults."""
    text = str(faults)
    if "copy_from" in text:
        return COPY
    return EMPTY if "crash" in text else UNHARMED


def learnt(requests: Any) -> Any:
    """run_id, node, knows_ms: the shortest lag at which a node rejects a probe, that is, knows of the request."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    born = f.min("intended_at_ns").over(Window.partitionBy("run_id", "user"))
    asked = requests.select(
        "run_id", "node", "decision", ((f.col("intended_at_ns") - born) / MILLISECOND_NS).alias("lag_ms")
    )
    return (
        asked.where("decision = 'reject' and lag_ms > 0")
        .groupBy("run_id", "node")
        .agg(f.min("lag_ms").alias("knows_ms"))
    )


def hops(known: "pd.DataFrame") -> "pd.DataFrame":
    """A row a repetition, delay and inner node: hop_ms, from its being told to its neighbour's, and missed_count.

    A node's own rounds between those two, less the one that passed the element on, were missed: a node that is told
    at once misses none.  hop_ms is as exact as the probes.
    """
    import pandas as pd

    rows = []
    for (repetition, delay), part in known.groupby(["repetition", "delay"], sort=True):
        at = dict(zip(part.node, part.knows_ms, strict=True))
        for one, other in pairwise([f"n{place}" for place in range(2, LINE + 1)]):
            hop_ms = at[other] - at[one]
            rows.append({"repetition": repetition, "delay_ms": int(delay.removesuffix("ms")), "node": one,
                         "hop_ms": hop_ms, "missed_count": int(max(0, hop_ms - STEP_MS / 2) // GOSSIP_MS)})  # fmt: skip
    return pd.DataFrame(rows, columns=["repetition", "delay_ms", "node", "hop_ms", "missed_count"])


def draw(found: FigureTables) -> "Drawing":
    """Three panels."""
    drawing, axes = panels(1, 3)
    _draw_missed(axes[0][0], found["hops"])
    letter(axes[0][0], f"(a) rounds missed, gossip every {GOSSIP_MS} ms")
    _draw_delays(axes[0][1], found["delays"])
    letter(axes[0][1], f"(b) data set D, gossip every {ROUND_MS} ms")
    _draw_rejoin(axes[0][2], found["rejoin"])
    letter(axes[0][2], f"(c) a node that re-joins at {BACK_S} s")
    return drawing


def _draw_missed(axes: "Axes", table: "pd.DataFrame") -> None:
    most = max(3, int(table.missed_count.max()))
    for n, (delay_ms, part) in enumerate(table.groupby("delay_ms")):
        share = part.missed_count.value_counts(normalize=True)
        place = [count + 0.36 * (n - 0.5) for count in range(most + 1)]
        axes.bar(place, [100 * share.get(count, 0.0) for count in range(most + 1)], width=0.34, color=SERIES[n],
                 label=f"messages take {delay_ms} ms")  # fmt: skip
    axes.set_xticks(range(most + 1))
    axes.set_xlabel("rounds missed at a node")
    axes.set_ylabel("of all hops (%)")
    axes.legend(fontsize=6.5)
    axes.grid(visible=False, axis="x")


def _draw_delays(axes: "Axes", table: "pd.DataFrame") -> None:
    for variant in ON_D:
        look = style_of(variant) if variant != KEPT else style_of(FL)._replace(label=KEPT, marker="s", dashes="--")
        rows = [(at, t_interval(samples(part.rejected_count)))
                for at, part in table[table.variant == variant].groupby("delay_ms")]  # fmt: skip
        error = [min(row.high - row.mean, 9.0) if row.count > 1 else 0.0 for _, row in rows]
        axes.errorbar([at for at, _ in rows], [row.mean for _, row in rows], yerr=error, color=look.colour,
                      marker=look.marker, linestyle=look.dashes, markersize=4, capsize=2, linewidth=1.2,
                      label=look.label)  # fmt: skip
    for level in table[table.variant == ORACLE].rejected_count.unique():  # one: it is exact
        axes.axhline(level, color="#000000", linewidth=0.8, linestyle=":", label="centralised, without delay")
    axes.set_xlabel("delay of messages (ms)")
    axes.set_ylabel("rejected requests")
    axes.set_ylim(-0.3, 10.5)
    axes.legend(fontsize=6.5, loc="lower left")


def _draw_rejoin(axes: "Axes", table: "pd.DataFrame") -> None:
    for n, variant in enumerate((COUNTER, FL)):
        look = style_of(variant)
        for place, fate in enumerate(FAULTS):
            row = t_interval(samples(table[(table.variant == variant) & (table.fate == fate)].admitted_count))
            half = [row.high - row.mean] if row.count > 1 else None
            axes.bar([place + 0.36 * (n - 0.5)], [row.mean], width=0.34, color=look.colour, yerr=half,
                     error_kw={"elinewidth": 0.8, "capsize": 2}, label=look.label if place == 0 else None)  # fmt: skip
    axes.set_xticks(range(len(FAULTS)), list(FAULTS), fontsize=7)
    axes.set_ylabel("admitted after its return")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=6.5, loc="upper left")
    axes.grid(visible=False, axis="x")


def measure_t22(tables: Tables) -> Evidence:
    """Collisions by number of nodes; rejections lost to delay, and admissions after a return, queue minus counter."""
    spread = where(tables["crdt-fig5.16/spread"], mode=RANDOM, gossip_ms=ROUND_MS, lag_ms=900.0)
    odds = {nodes: by_repetition(spread, "known_share", nodes=nodes) for nodes in sorted(set(spread.nodes))}
    if len(odds) < 2:
        raise KeyError("two numbers of nodes")
    checks: list[Check] = [
        above(f"share of nodes that know after 900 ms, {fewer} nodes minus {more}", samples(odds[fewer] - odds[more]))
        for fewer, more in pairwise(odds)
    ]
    delays = tables["crdt-outlook/delays"]
    longest = max(delays.delay_ms)
    lost = {
        variant: by_repetition(delays, "rejected_count", variant=variant, delay_ms=0)
        - by_repetition(delays, "rejected_count", variant=variant, delay_ms=longest)
        for variant in (QUEUE, COUNTER)
    }
    label = f"rejections on data set D lost to {longest} ms of delay, queue minus counter"
    checks.append(above(label, samples(lost[QUEUE] - lost[COUNTER])))
    back = tables["crdt-outlook/rejoin"]
    admitted = {(variant, fate): by_repetition(back, "admitted_count", variant=variant, fate=fate)
                for variant in (COUNTER, FL) for fate in FAULTS}  # fmt: skip
    more = (admitted[FL, EMPTY] - admitted[FL, UNHARMED]) - (admitted[COUNTER, EMPTY] - admitted[COUNTER, UNHARMED])
    checks.append(above("admitted more after a return, empty, queue minus counter", samples(more)))
    copied = admitted[FL, EMPTY] - admitted[FL, COPY]
    checks.append(above("admitted by the queue after a return, empty minus with a copy", samples(copied)))
    return Evidence(tuple(checks))


def measure_t26(tables: Tables) -> Evidence:
    """The most rounds that any node missed in any run, and that some were missed; none without delay."""
    table = tables["crdt-outlook/hops"]
    runs = table.repetition.nunique()  # a bound is refuted by one run: each counts as the worst
    most = {delay_ms: [float(where(table, delay_ms=delay_ms).missed_count.max())] * runs for delay_ms in (0, DELAY_MS)}
    return Evidence((
        at_most(f"most rounds missed with {DELAY_MS} ms of delay", most[DELAY_MS], 2.0, "rounds"),
        above(f"most rounds missed with {DELAY_MS} ms of delay", most[DELAY_MS], 0.0, "rounds"),
        at_most("most rounds missed without delay", most[0], 0.0, "rounds"),
    ))  # fmt: skip


CLAIMS = (
    Claim(
        "T22", "5.4-5.5",
        "Speculated, not measured there: with more nodes elements collide less; delay hurts the queue more than the "
        "counter; an empty node that re-joins catches up later in the queue, unless it copies a peer's state.",
        ("crdt-fig5.16", "crdt-outlook"), measure_t22,
    ),
    Claim(
        "T26", "5.5",
        "With gossip every 200 ms and a delay of 250 ms an element misses at most two rounds at each node.",
        ("crdt-outlook",), cast(Any, measure_t26),
    ),
)  # fmt: skip
EXPERIMENT = Experiment(
    "crdt-outlook",
    "Delay and re-joining nodes: what the thesis supposes",
    "ours; CRDT thesis, 5.4-5.5",
    points,
)
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes="Means and 95 % intervals over repetitions. Traffic of panel (c) stands in for a recording that is secret.",
)  # fmt: skip
