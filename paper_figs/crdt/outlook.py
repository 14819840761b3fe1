"""What the thesis speculates about and does not measure (5.4, 5.5): delay, nodes that re-join, more nodes. Ours.

(a) Rounds that an element misses because messages take 250 ms, gossip every 200 ms: a line of six nodes, asked by
probes when each of them knows.  (b) Rejections on data set D against the delay of messages: a counter only learns
later, a queue loses what it does not learn in time.  (c) A node of ten crashes at 30 s and is back, empty, a second
later, or with a copy of a peer's state: requests that it admits from then on.  More nodes: Fig. 5.16 (c).
"""

from itertools import pairwise, product

import msgspec

from analysis.verdicts import Claim, Evidence, Tables, above, at_most, t_interval
from core.records import Options
from core.units import MILLISECOND_NS, SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt.grids import RANDOM_PHASES, at, limited, on_d, on_mesh
from paper_figs.crdt.published import DELAY_MS, DELAYED_GOSSIP_MS, ROUND_MS
from paper_figs.crdt.readings import SOUND
from paper_figs.crdt.runs import counts_of
from paper_figs.crdt.variants import COUNTER, FL, ORACLE, QUEUE
from paper_figs.drawing import beside, categories, interval_bars, mean_bars, mean_lines, panels, rule
from paper_figs.figure import Figure, FigureTables
from paper_figs.intervals import floored
from paper_figs.keys import bar_key, key, key_above, rule_key
from paper_figs.light import Axes, Data, Drawing, Frame, SparkFrame
from paper_figs.series import by_repetition, samples, where, with_point
from paper_figs.style import looks_of, series, style_of

LINE, STEP_MS = 6, 10  # nodes in a row; how finely they are asked
SMALL_STEP_MS = 50  # at the scale small: each step takes 3 s
LONGEST_MS = DELAYED_GOSSIP_MS + (LINE - 1) * (DELAYED_GOSSIP_MS + DELAY_MS)
DELAYS_MS = (0, 100, 250, 600)
KEPT = "queue, last element kept"
ON_D = {COUNTER: ("crdt-counter", {}), QUEUE: ("crdt-queue", {}), KEPT: ("crdt-queue", {"keep_last": 1})}
DATA_SET = "B-substantial"
BACK_S = 31
CRASH = {"kind": "crash", "at": "30s", "node": "n1"}
RESTART = {"kind": "restart", "at": f"{BACK_S}s", "node": "n1"}
UNHARMED, EMPTY, COPY = "no crash", "back, empty", "back, with a copy"
FAULTS = {UNHARMED: [], EMPTY: [CRASH, RESTART], COPY: [CRASH, {**RESTART, "copy_from": "n2"}]}
FACTORS = {"data_set": "workload.set", "delay": "topology.delay"}
FACTORS |= {"keep_last": "system.keep_last", "faults": "study.faults"}


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """The line with and without delay; D by delay; crash and return."""
    delays_ms = scale.pick(tiny=(0, 600), quick=DELAYS_MS)
    step_ms = scale.pick(small=SMALL_STEP_MS, tiny=STEP_MS)
    limit = {"capacity": 1, "rate": "0.2", "gossip": f"{DELAYED_GOSSIP_MS}ms", "overlay": "line"}
    load = {"lags": [f"{step_ms}ms"], "steps": LONGEST_MS // step_ms, "trials": 1, "spacing": "3s"}
    specs = [on_mesh("crdt-queue", limit, "probes", load, LINE, f"{delay_ms}ms") for delay_ms in (0, DELAY_MS)]
    specs.append(on_d(ORACLE))
    for variant, delay_ms in product(scale.pick(small=(QUEUE,), tiny=tuple(ON_D)), delays_ms):
        system, options = ON_D[variant]
        specs.append(on_d(system, delay=f"{delay_ms}ms", gossip=f"{ROUND_MS}ms", **options))
    for variant, faults in product(scale.pick(small=(FL,), tiny=(COUNTER, FL)), FAULTS.values()):
        spec = limited(variant, DATA_SET, SOUND, 150, 10)
        specs.append(msgspec.structs.replace(spec, study_options={"faults": faults} if faults else {}))
    return at(scale, specs)


def tables(data: Data) -> FigureTables:
    """``hops``: one row a node and run, missed_count; ``delays``: rejections on D; ``rejoin``: admitted_count."""
    late = f"decision = 'admit' and node = 'n1' and intended_at_ns >= {BACK_S * SECOND_NS}"
    conditions = {"rejected_count": "decision = 'reject'", "admitted_count": late}
    runs = with_point(data, counts_of(data.requests, ["run_id"], **conditions), FACTORS)
    runs["delay_ms"] = [int(text.removesuffix("ms")) for text in runs.delay]
    d, b = (runs[runs.data_set == name].reset_index(drop=True) for name in ("D", DATA_SET))
    d["variant"] = d.system.replace({"crdt-counter": COUNTER, "crdt-queue": QUEUE}).where(d.keep_last != 1, KEPT)
    b["variant"] = b.system.replace({"crdt-counter": COUNTER, "crdt-queue": FL})
    b["fate"] = [COPY if "copy_from" in text else EMPTY if "crash" in text else UNHARMED for text in map(str, b.faults)]
    probes = data.requests.join(data.runs.where("workload = 'probes'"), "run_id")
    return {
        "hops": hops(with_point(data, learnt(probes), FACTORS)),
        "delays": d[["variant", "delay_ms", "repetition", "rejected_count"]],
        "rejoin": b[["variant", "fate", "repetition", "admitted_count"]],
    }


def learnt(requests: SparkFrame) -> SparkFrame:
    """run_id, node, knows_ms: the shortest lag at which a node rejects a probe, that is, knows of the request."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    born = f.min("intended_at_ns").over(Window.partitionBy("run_id", "user"))
    lag_ms = ((f.col("intended_at_ns") - born) / MILLISECOND_NS).alias("lag_ms")
    asked = requests.select("run_id", "node", "decision", lag_ms)
    rejected = asked.where("decision = 'reject' and lag_ms > 0")
    return rejected.groupBy("run_id", "node").agg(f.min("lag_ms").alias("knows_ms"))


def hops(known: Frame) -> Frame:
    """A row a repetition, delay and inner node: hop_ms, from its being told to its neighbour's, and missed_count.

    Missed are the node's own rounds while the message that told it was under way: without delay it would have known
    then (5.5).  It passes the element on in its first round after, hop_ms less the delay after it was told; those
    before lay whole intervals earlier.  So it missed as many as there are whole intervals in hop_ms, which is as exact
    as the probes.
    """
    inner = known[known.node != "n1"].sort_values(["repetition", "delay", "node"])
    inner["hop_ms"] = inner.groupby(["repetition", "delay"]).knows_ms.shift(-1) - inner.knows_ms
    inner = inner.dropna(subset="hop_ms").reset_index(drop=True)
    inner["delay_ms"] = inner.delay.str.removesuffix("ms").astype(int)
    inner["missed_count"] = ((inner.hop_ms - STEP_MS / 2).clip(lower=0) // DELAYED_GOSSIP_MS).astype(int)
    columns = ["repetition", "delay_ms", "node", "hop_ms", "missed_count"]
    return inner[columns].astype({"repetition": "int64"})


def draw(tables: FigureTables) -> Drawing:
    """Three panels."""
    titles = (
        f"rounds missed, gossip every {DELAYED_GOSSIP_MS} ms",
        f"data set D, gossip every {ROUND_MS} ms",
        f"a node that re-joins at {BACK_S} s",
    )
    drawing, (missed, delays, rejoin) = panels(1, 3, titles, inches=(10.5, 3.0))
    _draw_missed(missed, tables["hops"])
    _draw_delays(delays, tables["delays"])
    looks = looks_of((COUNTER, FL))
    mean_bars(rejoin, tables["rejoin"], "fate", "admitted_count", "variant", looks, list(FAULTS))
    categories(rejoin, list(FAULTS))
    rejoin.set_ylabel("admitted after its return")
    key_above(rejoin, [bar_key(look) for look in looks.values()])
    return drawing


def _draw_missed(axes: Axes, hops: Frame) -> None:
    """Shares of a run's hops at which so many rounds were missed."""
    counts = range(max(3, int(hops.missed_count.max())) + 1)
    delays = hops.groupby("delay_ms")
    looks = [series(f"messages take {delay_ms} ms", n) for n, delay_ms in enumerate(delays.groups)]
    for (_, part), look, shift in zip(delays, looks, beside(len(looks), 0.72), strict=True):
        shares = part.groupby("repetition").missed_count.value_counts(normalize=True).unstack(fill_value=0.0)
        percents = 100 * shares.reindex(columns=counts, fill_value=0.0)
        intervals = [floored(t_interval(samples(percents[n])), 100.0) for n in counts]
        interval_bars(axes, [n + shift for n in counts], intervals, look)
    categories(axes, [str(count) for count in counts])
    axes.set(xlabel="rounds missed at a node", ylabel="of a run's hops (%)")
    key_above(axes, [bar_key(look) for look in looks])


def _draw_delays(axes: Axes, delays: Frame) -> None:
    looks = {**looks_of((COUNTER, QUEUE)), KEPT: style_of(FL)._replace(label=KEPT, marker="s", dashes="--")}
    mean_lines(axes, delays, "delay_ms", "rejected_count", "variant", looks, apart_points=2)
    for level in delays[delays.variant == ORACLE].rejected_count.unique():  # one: it is exact
        rule(axes, level, reference=True)
    axes.set(xlabel="delay of messages (ms)", ylabel="rejected requests", ylim=(-0.3, 10.5))
    key_above(axes, [*(key(look) for look in looks.values()), rule_key("centralised, without delay", reference=True)])


def measure_t22(tables: Tables) -> Evidence:
    """Collisions by number of nodes; rejections lost to delay, and admissions after a return, queue minus counter."""
    spread = where(tables["crdt-fig5.16/spread"], mode=RANDOM_PHASES, gossip_ms=ROUND_MS, lag_ms=900.0)
    odds = {nodes: by_repetition(spread, "known_share", nodes=nodes) for nodes in sorted(set(spread.nodes))}
    if len(odds) < 2:
        raise KeyError("two numbers of nodes")
    label = "share of nodes that know after 900 ms, {} nodes minus {}"
    checks = [above(label.format(*pair), samples(odds[pair[0]] - odds[pair[1]])) for pair in pairwise(odds)]
    delays, back = (tables[f"crdt-outlook/{name}"] for name in ("delays", "rejoin"))
    longest = max(delays.delay_ms)
    rejected = delays.pivot(index="repetition", columns=["variant", "delay_ms"], values="rejected_count")
    lost = rejected.xs(0, axis=1, level="delay_ms") - rejected.xs(longest, axis=1, level="delay_ms")
    label = f"rejections on data set D lost to {longest} ms of delay, queue minus counter"
    checks.append(above(label, samples(lost[QUEUE] - lost[COUNTER])))
    admitted = back.pivot(index="repetition", columns=["variant", "fate"], values="admitted_count")
    more = (admitted[FL, EMPTY] - admitted[FL, UNHARMED]) - (admitted[COUNTER, EMPTY] - admitted[COUNTER, UNHARMED])
    checks.append(above("admitted more after a return, empty, queue minus counter", samples(more)))
    copied = admitted[FL, EMPTY] - admitted[FL, COPY]
    checks.append(above("admitted by the queue after a return, empty minus with a copy", samples(copied)))
    return Evidence(tuple(checks))


def measure_t26(tables: Tables) -> Evidence:
    """The most rounds that any node missed in any run, and that some were missed; none without delay."""
    table = tables["crdt-outlook/hops"]
    if (table.groupby(["repetition", "delay_ms"]).size() < LINE - 2).any():
        raise KeyError("a node that was told: one who never was has missed the most")
    runs = table.repetition.nunique()  # a bound is refuted by one run: each counts as the worst
    most = {delay_ms: [float(where(table, delay_ms=delay_ms).missed_count.max())] * runs for delay_ms in (0, DELAY_MS)}
    label = f"most rounds missed with {DELAY_MS} ms of delay"
    none = at_most("most rounds missed without delay", most[0], 0.0, "rounds")
    return Evidence((at_most(label, most[DELAY_MS], 2.0, "rounds"), above(label, most[DELAY_MS], 0.0, "rounds"), none))


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
        ("crdt-outlook",), measure_t26,
    ),
)  # fmt: skip
NOTES = (
    "Means and 95 % intervals over repetitions, in (a) as far as they are between 0 and 100 %. Traffic of panel (c) "
    "stands in for a recording that is secret. The systems' own rules: rounds at random phases, births that are "
    "unique, later deaths told back."
)
TITLE = "Delay and re-joining nodes: what the thesis supposes"
EXPERIMENT = Experiment("crdt-outlook", TITLE, "ours; CRDT thesis, 5.4-5.5", points)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
