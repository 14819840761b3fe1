"""The drawing of an audit: who got more than was promised, and when who was rejected, rightly or not."""

from pathlib import Path

import numpy as np

from analysis.audit import BUCKET, Proof
from core.units import SECOND_NS
from paper_figs.drawing import GREY, categories, curve, label, marks, sentence, sheet, title
from paper_figs.keys import key, legend_above
from paper_figs.light import Axes
from paper_figs.saving import save
from paper_figs.style import Style
from ratebed.auditing import Audit

WORST, ROWS = 4, 12  # users at most: with a panel each, and with a row in the panel of rejections
AFTER = 0.25  # of a worst interval: what is shown after it
NAME_LETTERS = 24
ADMITTED, ALLOWED = Style("admitted since", "#0072B2", "", "-"), Style("allowed, at most", GREY, "", "--")
REJECTED, WRONGLY = Style("rejected", "#AAAAAA", "|", "-"), Style("wrongly rejected", "#D55E00", "|", "-")


def draw(audited: Audit, folder: Path) -> list[Path]:
    """``audit.svg`` and ``audit.png`` in ``folder``."""
    worst = audited.exceeding[:WORST]
    users = sorted(audited.findings, key=lambda each: (-each.withheld_count, -each.rejected_count, each.user))[:ROWS]
    users = [each for each in users if each.rejected_count]
    drawing = sheet(10.0, 3.6 + 0.22 * max(3, len(users)))
    heights = 2.4, 0.9 + 0.22 * max(3, len(users))
    [[above], [below]] = drawing.subfigures(2, 1, squeeze=False, height_ratios=heights)
    panels = above.subplots(1, max(1, len(worst)), squeeze=False)[0]
    for axes, finding in zip(panels, worst, strict=False):
        _draw_worst(axes, audited, finding)
    if not worst:
        sentence(panels[0], "nobody is proven to have got more than promised")
    rejections = below.subplots()
    if users:
        _draw_rejections(rejections, audited, users)
    else:
        sentence(rejections, "the log has no rejection")
    lines = [key(look, marker=False) for look in (ADMITTED, ALLOWED)]
    legend_above(drawing, [*lines, *(key(look, line=False) for look in (REJECTED, WRONGLY))])
    return save(drawing, folder, "audit")


def _draw_worst(axes: Axes, audited: Audit, finding: Proof) -> None:
    """One user's admissions around its worst interval, counted from its begin, and the most that was allowed since."""
    promise, its = audited.promise, finding.excess
    at_ns = audited.log.at_ns[(audited.log.user == finding.user) & ~audited.is_rejected] - audited.shift_ns
    span_ns = max(its.to_ns - its.from_ns, promise.period_ns // 20, 1)
    end_ns = int(audited.log.at_ns[-1]) - audited.shift_ns
    until_ns = min(end_ns, its.to_ns + round(AFTER * span_ns)) if promise.kind == BUCKET else its.to_ns
    since = at_ns[(at_ns >= its.from_ns) & (at_ns <= until_ns)]
    unit_ns, unit = (SECOND_NS, "s") if span_ns < 600 * SECOND_NS else (60 * SECOND_NS, "min")
    ends = np.array([0, (until_ns - its.from_ns)])
    x = np.append((since - its.from_ns), ends[1])
    curve(axes, x / unit_ns, np.minimum(np.arange(1, len(x) + 1), len(since)), ADMITTED, stairs=True)
    allowed = np.full(2, float(promise.count))
    if promise.kind == BUCKET:
        allowed = promise.count + promise.ticks_per_ns * (ends + audited.blur_ns) / promise.token_ticks
    curve(axes, ends / unit_ns, allowed, ALLOWED)
    title(axes, audited.log.users[finding.user][:NAME_LETTERS])
    top = its.admitted_count
    label(axes, f"+{its.tokens:.3g}", ((its.to_ns - its.from_ns) / unit_ns, top), ADMITTED.colour, (0, 3), size=8)
    axes.set_ylim(0, 1.15 * max(top, float(allowed[-1])))
    axes.set_xlabel(f"in its worst interval ({unit})")
    axes.set_ylabel("requests")


def _draw_rejections(axes: Axes, audited: Audit, users: list[Proof]) -> None:
    """A mark a rejection, a row a user."""
    log = audited.log
    span_ns = int(log.at_ns[-1] - log.at_ns[0])
    unit_ns, unit = (SECOND_NS, "s") if span_ns < 600 * SECOND_NS else (60 * SECOND_NS, "min")
    for row, finding in enumerate(users):
        for look, chosen in ((REJECTED, ~audited.is_wrong), (WRONGLY, audited.is_wrong)):
            rows = (log.user == finding.user) & audited.is_rejected & chosen
            at = (log.at_ns[rows] - log.at_ns[0]) / unit_ns
            marks(axes, at, np.full(len(at), row), look, size=7.0)
    names = [
        f"{log.users[each.user][:NAME_LETTERS]}: {each.withheld_count:,} of {each.rejected_count:,}" for each in users
    ]
    categories(axes, names, "y")
    axes.set_xlabel(f"since the log's begin ({unit})")
    title(axes, "rejected, and how many of them wrongly")
