"""Fig. 5.16: how an element spreads by gossip, and the odds that the next request meets it (section 5.4).

(a) Nodes that know of an element after each round of 300 ms, measured by probes: best case 2^k (nobody tells a node
twice), all rounds at once, rounds at random phases (the default), and aligned rounds with a neighbour drawn among all.
(b) The share of nodes that know after 900 ms, when data set D's next request comes, by gossip interval.  (c) Ours, the
first of the thesis' speculations (5.4): the same by number of nodes.

The element's node counts as one that knows.  Probes ask with a capacity of one token, at 0.8 tokens a second, so that
the element outlives the four rounds.  T21's death is measured on one node: requests 900 ms apart, then two at once that
only fit if it is dead.
"""

from itertools import pairwise, product

from analysis.verdicts import RATIO_TOLERANCE, Claim, Evidence, Tables, above, within
from core.records import Options
from core.units import MILLISECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt.grids import RANDOM_PHASES, at, on_mesh
from paper_figs.crdt.published import ADDED, D_EVERY_MS, D_GOSSIP_MS, KNOWN, NODES, ROUND_MS
from paper_figs.drawing import INK, categories, curve, mean_lines, mean_points, panels, published, rule
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import key, key_above, legend_above, published_key, rule_key
from paper_figs.light import Axes, Data, Drawing, Frame, SparkFrame
from paper_figs.series import by_repetition, case_of, samples, where, with_point
from paper_figs.style import Style, series

NEXT_MS = D_EVERY_MS  # when data set D's next request comes
ROUNDS = 4
QUIET_ROUNDS = 90  # between trials: after some 30 nothing is sent any more
RANDOM, ALIGNED, ALL = RANDOM_PHASES, "all rounds at once", "all at once, among all"
MODES: dict[str, Options] = {RANDOM: {}, ALIGNED: {"phase": "aligned"}, ALL: {"phase": "aligned", "choice": "all"}}
LOOKS = {RANDOM: series(RANDOM, 1, "o", "-"), ALIGNED: series(ALIGNED, 0, "s", "-"), ALL: series(ALL, 4, "^", "--")}
BEST = Style("best case", INK, "", ":")
FACTORS = {"nodes": "topology.nodes", "gossip": "system.gossip", "phase": "system.phase", "choice": "system.choice"}
CHAIN_MS = tuple(NEXT_MS * k for k in range(4))  # requests of data set D, all to one node: three collisions in a row
LIFE_MS = {1_290: 1.0, 1_300: 0.0}  # when the last one's element is looked for, after its birth, and is it there?


def spread(mode: str, gossip_ms: int, lags_ms: tuple[int, ...], trials: int, nodes: int = NODES) -> RunSpec:
    """Probes of the plain queue."""
    limit = {"capacity": 1, "rate": "0.8", "gossip": f"{gossip_ms}ms", **MODES[mode]}
    load = {"lags": [f"{lag}ms" for lag in lags_ms], "trials": trials, "spacing": f"{QUIET_ROUNDS * gossip_ms}ms"}
    return on_mesh("crdt-queue", limit, "probes", load, nodes)


def chain(life_ms: int) -> RunSpec:
    """Is the fourth element of the chain alive so long after its birth?  If so, one of the last two is rejected."""
    end_ms = CHAIN_MS[-1] + life_ms
    pattern = {"at": [f"{at}ms" for at in (*CHAIN_MS, end_ms, end_ms)]}
    return on_mesh("crdt-queue", {"capacity": 2, "rate": "1"}, "instants", pattern, nodes=1)


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Modes x intervals at 900 ms; modes at every round; node counts; the chain."""
    trials = scale.pick(tiny=1, quick=4, paper=12)
    lags_ms = tuple(ROUND_MS * k for k in range(1, ROUNDS + 1))
    asked = {gossip_ms: lags_ms if gossip_ms == ROUND_MS else (NEXT_MS,) for gossip_ms in D_GOSSIP_MS}
    specs = [spread(mode, gossip_ms, asked[gossip_ms], trials) for mode, gossip_ms in product(MODES, D_GOSSIP_MS)]
    others = scale.pick(tiny=(), quick=(8, 15), paper=(8, 15, 60))
    specs += [spread(RANDOM, ROUND_MS, (NEXT_MS,), trials, nodes) for nodes in others]
    return at(scale, specs + [chain(life_ms) for life_ms in LIFE_MS])


def tables(data: Data) -> FigureTables:
    """``spread``: one row a run and lag: known_count (mean over trials), known_share; ``chain``: rejected_count."""
    runs = data.runs.where("workload = 'probes'").select("run_id")
    probed = with_point(data, known(data.requests.join(runs, "run_id")), FACTORS)
    probed["gossip_ms"] = [int(text.removesuffix("ms")) for text in probed.gossip]
    probed["mode"] = [case_of(run, MODES) for run in probed.to_dict("records")]
    probed["known_share"] = probed.known_count / probed.nodes
    columns = ["mode", "nodes", "gossip_ms", "lag_ms", "repetition", "known_count", "known_share"]
    return {"spread": probed[columns].sort_values(columns[:5], ignore_index=True), "chain": chains(data)}


def known(requests: SparkFrame) -> SparkFrame:
    """run_id, lag_ms, known_count: how many nodes know of a trial's request, with its own; mean over trials.

    A trial is a user: the first request comes to a node that then knows, the others are probes.
    """
    from pyspark.sql import functions as f

    lag_ms = f.expr(f"(max(intended_at_ns) - min(intended_at_ns)) / {MILLISECOND_NS} as lag_ms")
    nodes = f.expr("count_if(decision = 'reject') + 1 as known")
    trials = requests.groupBy("run_id", "user").agg(lag_ms, nodes)
    return trials.groupBy("run_id", "lag_ms").agg(f.avg("known").alias("known_count"))


def chains(data: Data) -> Frame:
    """One row a run: end_ms, the instant of the last two requests, and how many were rejected."""
    from pyspark.sql import functions as f

    runs = data.runs.where("workload = 'instants'").select("run_id")
    life_ms = (f.max("intended_at_ns") / MILLISECOND_NS - CHAIN_MS[-1]).alias("life_ms")
    rejected = f.count_if(f.col("decision") == "reject").alias("rejected_count")
    counted = data.requests.join(runs, "run_id").groupBy("run_id").agg(life_ms, rejected)
    return with_point(data, counted, {})[["life_ms", "rejected_count", "repetition"]]


def draw(tables: FigureTables) -> Drawing:
    """Three panels."""
    titles = ("spread, gossip every 300 ms", "after 900 ms, when the next request comes", "by number of nodes (ours)")
    drawing, (rounds, odds, sizes) = panels(1, 3, titles, inches=(10.5, 3.0))
    spread = tables["spread"]
    spread = spread.assign(percent=100 * spread.known_share)
    _draw_rounds(rounds, spread[(spread.gossip_ms == ROUND_MS) & (spread.nodes == NODES)])
    next_request = spread[spread.lag_ms == NEXT_MS]
    mean_points(odds, next_request[next_request.nodes == NODES], "gossip_ms", "percent", "mode", LOOKS, D_GOSSIP_MS)
    places = [place + 0.36 for place in range(len(D_GOSSIP_MS))]
    published(odds, places, [100 * KNOWN[gossip_ms].value for gossip_ms in D_GOSSIP_MS])
    categories(odds, [str(gossip_ms) for gossip_ms in D_GOSSIP_MS])
    odds.set(xlabel="gossip interval (ms)", ylabel="nodes that know (%)")
    odds.set_ylim(bottom=0)
    key_above(odds, [published_key()])
    _draw_sizes(sizes, next_request[(next_request.gossip_ms == ROUND_MS) & (next_request["mode"] == RANDOM)])
    legend_above(drawing, [key(look) for look in LOOKS.values()])
    return drawing


def _draw_rounds(axes: Axes, spread: Frame) -> None:
    mean_lines(axes, spread, "lag_ms", "known_count", "mode", LOOKS, apart_points=2)
    ends = [ROUND_MS * k for k in range(ROUNDS + 1)]
    curve(axes, ends, [2**k for k in range(ROUNDS + 1)], BEST)
    rule(axes, 1_000, "x")
    axes.set_xticks(ends)
    axes.set(xlabel="time since the request (ms)", ylabel=f"nodes that know, of {NODES}", ylim=(0, NODES))
    dies = rule_key("dies in data set D, without collisions")
    key_above(axes, [key(BEST._replace(label="best case, 2^k"), marker=False), dies])


def _draw_sizes(axes: Axes, spread: Frame) -> None:
    mean_lines(axes, spread, "nodes", "percent", "mode", LOOKS)
    counts = range(8, int(max(NODES, *spread.nodes)) + 1)
    curve(axes, counts, [min(100.0, 800 / n) for n in counts], BEST)
    axes.set(xlabel="nodes n", ylabel="nodes that know (%)", ylim=(0, 105))
    key_above(axes, [key(BEST._replace(label="best case, rounds at once: 8 / n"), marker=False)])


def measure_t20(tables: Tables) -> Evidence:
    """Odds of an immediate collision with aligned rounds, against 2^k / 30; longer intervals have lower ones."""
    runs = where(tables["crdt-fig5.16/spread"], mode=ALIGNED, lag_ms=NEXT_MS, nodes=NODES)
    odds = {gossip_ms: by_repetition(runs, "known_share", gossip_ms=gossip_ms) for gossip_ms in D_GOSSIP_MS}
    exact = [within(f"odds at {at} ms", samples(known), KNOWN[at].value, RATIO_TOLERANCE) for at, known in odds.items()]
    falling = [above(f"odds at {one} ms minus {two} ms", samples(odds[one] - odds[two])) for one, two in pairwise(odds)]
    return Evidence((*exact, *falling), tuple(falling))


def measure_t21(tables: Tables) -> Evidence:
    """The life of the fourth element in a row on one node, and what the fourth round adds."""
    chain = tables["crdt-fig5.16/chain"]
    runs = where(tables["crdt-fig5.16/spread"], mode=ALIGNED, gossip_ms=ROUND_MS, nodes=NODES)
    third, fourth = (by_repetition(runs, "known_count", lag_ms=ROUND_MS * k) for k in (3, 4))
    alive = chain.pivot(index="repetition", columns="life_ms", values="rejected_count")
    life = [within(f"alive {at} ms after its birth", samples(alive[at]), wanted, 0.0) for at, wanted in LIFE_MS.items()]
    added = within("nodes that the fourth round adds", samples(fourth - third), ADDED.value, RATIO_TOLERANCE)
    more = above("nodes that the fourth round adds", samples(fourth - third))
    return Evidence((*life, added), (*life, more))


CLAIMS = (
    Claim(
        "T20", "5.4",
        "Data set D: the next request meets an element with a probability of 27, 13 and 7 % at gossip intervals of "
        "300, 450 and 900 ms (2^k / 30, best case).", ("crdt-fig5.16",), measure_t20,
    ),
    Claim(
        "T21", "5.4, Fig. 5.16",
        "Three collisions in a row extend an element's life by 300 ms, that is by a fourth round, which tells eight "
        "more nodes.", ("crdt-fig5.16",), measure_t21,
        why="The life is as printed; eight more is the best case. In the fourth round the eight nodes that know choose "
        "among all that they have not told themselves, and three of them meet one that somebody else has told.",
    ),
)  # fmt: skip
NOTES = (
    "Means and 95 % intervals over repetitions of several trials each. Figures as published are best cases with "
    "all rounds at once; with random phases a node that has just been told may have its own round within the same "
    "interval, so that more than 2^k may know after k rounds. Births are unique, and a later death is told back."
)
EXPERIMENT = Experiment("crdt-fig5.16", "The spread of an element by gossip", "CRDT thesis, Fig. 5.16", points)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
