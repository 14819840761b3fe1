"""How placement policies are drawn: a curve each, estimated from coordinates (filled) and in truth (open, dotted)."""

from collections.abc import Iterable, Sequence

from paper_figs.drawing import GREY, mean_lines, rule, sentence
from paper_figs.keys import key, legend_above, rule_key
from paper_figs.light import Axes, Drawing, Frame
from paper_figs.style import Dashes, Style, style_of

SHOWN = ("pulsar", "optimal", "epulsar", "all-pairs")  # in the order of drawing
ESTIMATING = tuple(policy for policy in SHOWN if policy != "optimal")  # that one knows the truth
SIZES = {"pulsar": 3.5, "optimal": 4.0, "epulsar": 5.5, "all-pairs": 2.5}  # AllPairs lies upon ePulsar often
TITLES = ("worst case", "violations", "worst case, as printed", "violations, as printed")


def look_of(policy: str, is_true: bool = False) -> Style:
    """A policy's look: dashes for what lies on a solid line, open and dotted for the truth."""
    dashes: Dashes = ":" if is_true or policy == "optimal" else "--" if policy == "all-pairs" else "-"
    return style_of(policy)._replace(dashes=dashes, is_open=is_true)


def draw_policies(
    axes: Axes,
    runs: Frame,
    x: str,
    y: str,
    scaled: float = 1.0,
    is_true: bool = False,
    policies: Iterable[str] = SHOWN,
) -> None:
    """A curve of ``y`` times ``scaled`` a policy: means over repetitions with 95 % intervals."""
    drawn = runs.assign(drawn=scaled * runs[y])
    for policy in policies:
        size = SIZES[policy] + (2.5 if is_true else 0.0)
        mean_lines(axes, drawn, x, "drawn", "policy", {policy: look_of(policy, is_true)}, size=size)


def draw_four(axes: Sequence[Axes], runs: Frame, x: str, bound_ms: float, printed: Frame | None = None) -> None:
    """Worst delay and violations over ``x``: above one way, below as printed (of the runs ``printed``, if given)."""
    printed = runs if printed is None else printed
    for panel, value, scaled in ((axes[0], "worst_ms", 1.0), (axes[1], "violation_ratio", 100.0)):
        if not (runs[[f"true_{value}", f"estimated_{value}"]] > 0).any(axis=None):
            sentence(panel, f"no pair is above {bound_ms:g} ms one way,\nby estimate or in truth, under any policy")
            continue
        draw_policies(panel, runs, x, f"true_{value}", scaled, is_true=True)
        draw_policies(panel, runs, x, f"estimated_{value}", scaled, policies=ESTIMATING)
    draw_policies(axes[2], printed, x, "estimated_worst_ms", 2.0, policies=ESTIMATING)
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
