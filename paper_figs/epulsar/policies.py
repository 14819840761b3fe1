"""What the studies of placement policies share (ePulsar 5.5): points, tables, curves.

A run is one topology.  Its clients are placed at random many times, and all policies choose brokers for the same
placements.  Delays are *estimated*, from the coordinates, as in the paper (drawn filled), and beside them *true* (open,
dotted).
"""

from collections.abc import Iterable, Mapping, Sequence

from core.records import Json, Options
from core.units import MILLISECOND_NS
from harness.experiment import RunSpec, Scale
from paper_figs.drawing import GREY, mean_lines, rule, sentence
from paper_figs.epulsar import published as paper
from paper_figs.epulsar.runs import idle
from paper_figs.figure import FigureTables
from paper_figs.keys import key, legend_above, rule_key
from paper_figs.light import Axes, Data, Drawing, Frame, Series
from paper_figs.series import by_repetition, with_point
from paper_figs.style import Dashes, Style, style_of

_GAME = {"groups": paper.GAME_GROUPS, "members": paper.GAME_CLIENTS // paper.GAME_GROUPS}
_UAVS = {"groups": paper.SWARMS, "members": paper.SWARM_MEMBERS}
GAME: Json = {"scenario": "game", **_GAME, "bound": f"{paper.GAME_BOUND_MS}ms"}
UAVS: Json = {"scenario": "swarms", **_UAVS, "bound": f"{paper.SWARM_BOUND_MS}ms"}
ACCESS_MS = 8  # of UAVs, one way: ours, the paper gives none
_WORST = ("estimated_worst", "true_worst")
_RATIOS = ("estimated_violation_ratio", "printed_violation_ratio", "true_violation_ratio", "feasible_ratio")
_ERRORS = {"median_error_ratio": 0.5, "p90_error_ratio": 0.9}
BOTH_WAYS = 2  # a pair's error counts for its way there and its way back
SHOWN = ("pulsar", "optimal", "epulsar", "all-pairs")  # in the order of drawing
ESTIMATING = tuple(policy for policy in SHOWN if policy != "optimal")  # that one knows the truth
SIZES = {"pulsar": 3.5, "optimal": 4.0, "epulsar": 5.5, "all-pairs": 2.5}  # AllPairs lies upon ePulsar often
TITLES = ("worst case", "violations", "worst case, as printed", "violations, as printed")


def point(scale: Scale, topology: str, topology_options: Options, **study: object) -> RunSpec:
    """One topology, and random placements on it."""
    permutations = scale.pick(tiny=50, quick=200, paper=paper.PERMUTATIONS)
    return idle("policies", topology, topology_options, {"permutations": permutations, **study})


def tables(data: Data, factors: Mapping[str, str]) -> FigureTables:
    """``runs``, a row a run and policy, and ``estimates``, a row a run; both with ``factors`` and the repetition.

    Over the placements of a run: ``estimated_worst_ms`` and ``true_worst_ms``, the mean of each placement's worst
    delay (``..._max_ms``: the largest); ``estimated_violation_ratio``, ``printed_violation_ratio`` and
    ``true_violation_ratio``, the mean share of pairs above the bound; ``violating_ratio``: the share of placements
    with any such pair, by estimate; ``feasible_ratio``: the mean share of topics with a broker within the bound, as
    the policy sees it.  ``estimates``: median and 90th percentile of the relative errors of estimated round trips.
    """
    from pyspark.sql import functions as f

    ends = ((name, end, of) for name in _WORST for end, of in (("ms", f.avg), ("max_ms", f.max)))
    worst = [(of(f"{name}_ns") / MILLISECOND_NS).alias(f"{name}_{end}") for name, end, of in ends]
    violating = f.avg((f.col("estimated_violation_ratio") > 0).cast("double")).alias("violating_ratio")
    measures = [*worst, *(f.avg(name).alias(name) for name in _RATIOS), violating]
    runs = data.table("policies").groupBy("run_id", "policy").agg(*measures)
    error_ratio = f.abs(f.col("estimated_rtt_ns") - f.col("true_rtt_ns")) / f.col("true_rtt_ns")
    spread = [f.percentile(error_ratio, q, BOTH_WAYS).alias(name) for name, q in _ERRORS.items()]
    estimates = data.table("coordinates").groupBy("run_id").agg(*spread)
    frames = {"runs": runs, "estimates": estimates}
    axes = ("topology", "repetition")
    return {name: with_point(data, frame, factors, axes).drop(columns="run_id") for name, frame in frames.items()}


def gap(runs: Frame, value: str, policy: str, other: str) -> Series:
    """``policy`` less ``other`` at one point, paired by repetition; KeyError without data."""
    return by_repetition(runs, value, policy=policy) - by_repetition(runs, value, policy=other)


def look_of(policy: str, is_true: bool = False) -> Style:
    """A policy's look: dashes for what lies on a solid line, open and dotted for the truth."""
    dashes: Dashes = ":" if is_true or policy == "optimal" else "--" if policy == "all-pairs" else "-"
    return style_of(policy)._replace(dashes=dashes, is_open=is_true)


def draw_policies(
    axes: Axes, runs: Frame, x: str, y: str, scaled: float = 1.0, is_true: bool = False, policies: Iterable[str] = SHOWN
) -> None:
    """A curve of ``y`` times ``scaled`` a policy: means over repetitions with 95 % intervals."""
    drawn = runs.assign(drawn=scaled * runs[y])
    for policy in policies:
        size = SIZES[policy] + (2.5 if is_true else 0.0)
        mean_lines(axes, drawn, x, "drawn", "policy", {policy: look_of(policy, is_true)}, size=size)


def draw_four(axes: Sequence[Axes], runs: Frame, x: str, bound_ms: float, printed: Frame | None = None) -> None:
    """Worst delay and violations over ``x``: above one way, below as printed (of the runs ``printed``, if given)."""
    printed = runs if printed is None else printed
    for panel, value, scaled in ((axes[0], "worst_max_ms", 1.0), (axes[1], "violation_ratio", 100.0)):
        if not (runs[[f"true_{value}", f"estimated_{value}"]] > 0).any(axis=None):
            sentence(panel, f"no pair is above {bound_ms:g} ms one way,\nby estimate or in truth, under any policy")
            continue
        draw_policies(panel, runs, x, f"true_{value}", scaled, is_true=True)
        draw_policies(panel, runs, x, f"estimated_{value}", scaled, policies=ESTIMATING)
    draw_policies(axes[2], printed, x, "estimated_worst_max_ms", 2.0, policies=ESTIMATING)
    draw_policies(axes[3], printed, x, "printed_violation_ratio", 100.0, policies=ESTIMATING)
    for panel, text in zip(axes[::2], ("worst end-to-end delay (ms)", "worst sum of round trips (ms)"), strict=True):
        panel.set_ylabel(text)
        rule(panel, bound_ms)
    for panel in axes[1::2]:
        panel.set_ylabel(f"pairs above {bound_ms:g} ms (%)")
    for panel in axes:
        top = 1.12 * max(panel.get_ylim()[1], 0.9)
        panel.set_ylim(-0.03 * top, top)


def policy_key(drawing: Drawing, bound: str = "", policies: Iterable[str] = SHOWN) -> None:
    """Policies by colour and marker; estimates filled, the truth open and dotted; what the dashed line is."""
    kinds = [Style("estimated from coordinates", GREY, "o", "-"), Style("true", GREY, "o", ":", is_open=True)]
    entries = [key(look) for look in (*map(look_of, policies), *kinds)]
    legend_above(drawing, [*entries, rule_key(bound)] if bound else entries)
