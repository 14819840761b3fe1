"""Fig. 5.16: how an element spreads by gossip, and the odds that the next request meets it (section 5.4).

(a) Nodes that know of an element after each round of 300 ms, measured on real nodes by probes (workload
``probes``): best case 2^k (nobody tells a node twice), all nodes' rounds at once, rounds at random
phases (the default), and aligned rounds with a neighbour drawn among all.  (b) The share of nodes that
know after 900 ms, when data set D's next request comes, by gossip interval; printed 27, 13 and 7 %.
(c) Ours, the first of the thesis' speculations (5.4): the same by number of nodes.

The element's node counts as one that knows.  Probes ask with a capacity of one token, at 0.8 tokens
a second, so that the element lives longer than the four rounds; before its death a life changes nothing.
T21's death is measured on one node: requests 900 ms apart, then two at once that only fit if it is dead.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from analysis.verdicts import RATIO_TOLERANCE, Claim, Evidence, Tables, above, t_interval, within
from core.units import MILLISECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt.grids import NODES, at
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import by_repetition, samples, where, with_point
from paper_figs.style import PUBLISHED as PUBLISHED_LOOK
from paper_figs.style import SERIES, letter, panels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

GOSSIP_MS = (300, 450, 900)
NEXT_MS = 900  # when data set D's next request comes
ROUND_MS = 300
ROUNDS = 4
QUIET_ROUNDS = 90  # between trials: after some 30 nothing is sent any more
PUBLISHED = {300: 8 / 30, 450: 4 / 30, 900: 2 / 30}  # 5.4: best case
RANDOM, ALIGNED, ALL = "random phases", "all rounds at once", "all at once, among all"
MODES: dict[str, dict[str, Any]] = {
    RANDOM: {},
    ALIGNED: {"phase": "aligned"},
    ALL: {"phase": "aligned", "choice": "all"},
}
LOOKS = {RANDOM: (SERIES[1], "o", "-"), ALIGNED: (SERIES[0], "s", "-"), ALL: (SERIES[4], "^", "--")}
FACTORS = {"nodes": "topology.nodes", "gossip": "system.gossip", "phase": "system.phase", "choice": "system.choice"}
CHAIN_MS = (0, 900, 1_800, 2_700)  # requests of data set D, all to one node: three collisions in a row
LIFE_MS = (1_290, 1_300)  # when the last one's element is looked for, after its birth


def spread(mode: str, gossip_ms: int, lags_ms: tuple[int, ...], trials: int, nodes: int = NODES) -> RunSpec:
    """Probes of the plain queue."""
    return RunSpec(
        system="crdt-queue",
        system_options={"capacity": 1, "rate": "0.8", "gossip": f"{gossip_ms}ms", **MODES[mode]},
        workload="probes",
        workload_options={
            "lags": [f"{lag}ms" for lag in lags_ms],
            "trials": trials,
            "spacing": f"{QUIET_ROUNDS * gossip_ms}ms",
        },
        topology="full-mesh",
        topology_options={"nodes": nodes, "delay": "0ms"},
        study="limiting",
    )


def chain(life_ms: int) -> RunSpec:
    """Is the fourth element of the chain alive so long after its birth?  If so, one of the last two is rejected."""
    end_ms = CHAIN_MS[-1] + life_ms
    return RunSpec(
        system="crdt-queue",
        system_options={"capacity": 2, "rate": "1"},
        workload="instants",
        workload_options={"at": [f"{at}ms" for at in (*CHAIN_MS, end_ms, end_ms)]},
        topology="full-mesh",
        topology_options={"nodes": 1, "delay": "0ms"},
        study="limiting",
    )


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Modes x intervals at 900 ms; modes at every round; node counts; the chain."""
    trials = scale.pick(tiny=1, quick=4, paper=12)
    found = []
    for mode in MODES:
        lags_ms = tuple(ROUND_MS * k for k in range(1, ROUNDS + 1))
        found.append(spread(mode, ROUND_MS, lags_ms, trials))
        found += [spread(mode, gossip_ms, (NEXT_MS,), trials) for gossip_ms in GOSSIP_MS if gossip_ms != ROUND_MS]
    others = scale.pick(tiny=(), quick=(8, 15), paper=(8, 15, 60))
    found += [spread(RANDOM, ROUND_MS, (NEXT_MS,), trials, nodes) for nodes in others]
    return at(scale, found + [chain(life_ms) for life_ms in LIFE_MS])


def tables(data: "Data") -> FigureTables:
    """``spread``: one row a run and lag: known_count (mean over trials), known_share; ``chain``: rejected_count."""
    runs = data.runs.where("workload = 'probes'").select("run_id")
    found = with_point(data, known(data.requests.join(runs, "run_id")), FACTORS)
    found["gossip_ms"] = [int(text.removesuffix("ms")) for text in found.gossip]
    found["mode"] = [mode_of(*row) for row in zip(found.phase, found.choice, strict=True)]
    found["known_share"] = found.known_count / found.nodes
    columns = ["mode", "nodes", "gossip_ms", "lag_ms", "repetition", "known_count", "known_share"]
    return {"spread": found[columns].sort_values(columns[:5], ignore_index=True), "chain": chains(data)}


def mode_of(phase: object, choice: object) -> str:
    """The mode that a run's options mean."""
    if phase != "aligned":
        return RANDOM
    return ALL if choice == "all" else ALIGNED


def known(requests: Any) -> Any:
    """run_id, lag_ms, known_count: how many nodes know of a trial's request, with its own; mean over trials.

    A trial is a user: the first request comes to a node that then knows, the others are probes.
    """
    from pyspark.sql import functions as f

    at = f.col("intended_at_ns")
    trials = requests.groupBy("run_id", "user").agg(
        ((f.max(at) - f.min(at)) / MILLISECOND_NS).alias("lag_ms"),
        (f.count_if(f.col("decision") == "reject") + 1).alias("known"),
    )
    return trials.groupBy("run_id", "lag_ms").agg(f.avg("known").alias("known_count"))


def chains(data: "Data") -> "pd.DataFrame":
    """One row a run: end_ms, the instant of the last two requests, and how many were rejected."""
    from pyspark.sql import functions as f

    runs = data.runs.where("workload = 'instants'").select("run_id")
    counted = (
        data.requests.join(runs, "run_id")
        .groupBy("run_id")
        .agg(
            (f.max("intended_at_ns") / MILLISECOND_NS - CHAIN_MS[-1]).alias("life_ms"),
            f.count_if(f.col("decision") == "reject").alias("rejected_count"),
        )
    )
    return with_point(data, counted, {})[["life_ms", "rejected_count", "repetition"]]


def draw(found: FigureTables) -> "Drawing":
    """Three panels."""
    drawing, axes = panels(1, 3)
    table = found["spread"]
    rounds = table[(table.gossip_ms == ROUND_MS) & (table.nodes == NODES)]
    for mode, (colour, marker, dashes) in LOOKS.items():
        part = rounds[rounds["mode"] == mode]
        _means(axes[0][0], part, "lag_ms", "known_count", color=colour, marker=marker, linestyle=dashes, label=mode)
    ends = [ROUND_MS * k for k in range(ROUNDS + 1)]
    axes[0][0].plot(ends, [2**k for k in range(ROUNDS + 1)], color="#000000", linestyle=":", linewidth=1.0,
                    label="best case, 2^k")  # fmt: skip
    axes[0][0].axvline(1_000, color="#555555", linewidth=0.8, linestyle=(0, (4, 3)))
    axes[0][0].annotate("dies in data set D,\nwithout collisions", (990, 0.97), xycoords=("data", "axes fraction"),
                        fontsize=6, ha="right", va="top")  # fmt: skip
    axes[0][0].set_xticks(ends)
    axes[0][0].set_xlabel("time since the request (ms)")
    axes[0][0].set_ylabel(f"nodes that know, of {NODES}")
    axes[0][0].set_ylim(0, NODES)
    axes[0][0].legend(fontsize=6.5, loc="upper left", bbox_to_anchor=(0.0, 0.85))
    letter(axes[0][0], "(a) spread, gossip every 300 ms")
    _draw_odds(axes[0][1], table[(table.lag_ms == NEXT_MS) & (table.nodes == NODES)])
    letter(axes[0][1], "(b) after 900 ms, when the next request comes")
    sizes = table[(table.lag_ms == NEXT_MS) & (table.gossip_ms == ROUND_MS) & (table["mode"] == RANDOM)]
    colour, marker, dashes = LOOKS[RANDOM]
    _means(axes[0][2], sizes.assign(percent=100 * sizes.known_share), "nodes", "percent", color=colour, marker=marker,
           linestyle=dashes, label=RANDOM)  # fmt: skip
    counts = range(8, int(max(NODES, *sizes.nodes)) + 1)
    axes[0][2].plot(counts, [min(100.0, 800 / n) for n in counts], color="#000000", linestyle=":", linewidth=1.0,
                    label="best case, rounds at once: 8 / n")  # fmt: skip
    axes[0][2].set_xlabel("nodes n")
    axes[0][2].set_ylabel("nodes that know (%)")
    axes[0][2].set_ylim(0, 105)
    axes[0][2].legend(fontsize=6.5)
    letter(axes[0][2], "(c) the same, by number of nodes (ours)")
    return drawing


def _means(axes: "Axes", part: "pd.DataFrame", x: str, value: str, **look: Any) -> None:
    """Means over repetitions with 95 % intervals."""
    rows = [(at, t_interval(samples(group[value]))) for at, group in part.groupby(x)]
    error = [max(0.0, min(row.high, 1e6) - row.mean) if row.count > 1 else 0.0 for _, row in rows]
    axes.errorbar([at for at, _ in rows], [row.mean for _, row in rows], yerr=error, markersize=4, capsize=2,
                  linewidth=1.2, **look)  # fmt: skip


def _draw_odds(axes: "Axes", part: "pd.DataFrame") -> None:
    for n, (mode, (colour, marker, _)) in enumerate(LOOKS.items()):
        one = part[part["mode"] == mode]
        place = one.gossip_ms.map({at: k + 0.18 * (n - 1) for k, at in enumerate(GOSSIP_MS)})
        _means(axes, one.assign(place=place, percent=100 * one.known_share), "place", "percent", color=colour,
               marker=marker, linestyle="none", label=mode)  # fmt: skip
    printed = [100 * PUBLISHED[gossip_ms] for gossip_ms in GOSSIP_MS]
    axes.plot([k + 0.36 for k in range(len(GOSSIP_MS))], printed, **cast(Any, PUBLISHED_LOOK))
    axes.set_xticks(range(len(GOSSIP_MS)), [str(gossip_ms) for gossip_ms in GOSSIP_MS])
    axes.set_xlabel("gossip interval (ms)")
    axes.set_ylabel("nodes that know (%)")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=6.5)


def measure_t20(tables: Tables) -> Evidence:
    """Odds of an immediate collision with aligned rounds, against 2^k / 30; longer intervals have lower ones."""
    runs = where(tables["crdt-fig5.16/spread"], mode=ALIGNED, lag_ms=NEXT_MS, nodes=NODES)
    odds = {gossip_ms: by_repetition(runs, "known_share", gossip_ms=gossip_ms) for gossip_ms in GOSSIP_MS}
    exact = [
        within(f"odds at {gossip_ms} ms", samples(odds[gossip_ms]), PUBLISHED[gossip_ms], RATIO_TOLERANCE)
        for gossip_ms in GOSSIP_MS
    ]
    falling = [
        above(f"odds at {shorter} ms minus {longer} ms", samples(odds[shorter] - odds[longer]))
        for shorter, longer in pairwise(GOSSIP_MS)
    ]
    return Evidence((*exact, *falling), tuple(falling))


def measure_t21(tables: Tables) -> Evidence:
    """The life of the fourth element in a row on one node, and what the fourth round adds."""
    chain = tables["crdt-fig5.16/chain"]
    alive, dead = (by_repetition(chain, "rejected_count", life_ms=life_ms) for life_ms in LIFE_MS)
    runs = where(tables["crdt-fig5.16/spread"], mode=ALIGNED, gossip_ms=ROUND_MS, nodes=NODES)
    third, fourth = (by_repetition(runs, "known_count", lag_ms=ROUND_MS * k) for k in (3, 4))
    life = (
        within(f"alive {LIFE_MS[0]} ms after its birth", samples(alive), 1.0, 0.0),
        within(f"alive {LIFE_MS[1]} ms after its birth", samples(dead), 0.0, 0.0),
    )
    added = within("nodes that the fourth round adds", samples(fourth - third), 8.0, RATIO_TOLERANCE)
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
EXPERIMENT = Experiment("crdt-fig5.16", "The spread of an element by gossip", "CRDT thesis, Fig. 5.16", points)
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes="Means and 95 % intervals over repetitions of several trials each. Figures as published are best cases with "
    "all rounds at once; with random phases a node that has just been told may have its own round within the same "
    "interval, so that more than 2^k may know after k rounds.",
)  # fmt: skip
