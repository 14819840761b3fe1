"""The drawing of an answer: errors both ways, bytes and wait of each limiter."""

from io import StringIO

from paper_figs import drawing
from paper_figs.beyond.limiter_rows import row_intervals
from paper_figs.keys import key, legend_above
from paper_figs.style import Style
from ratebed.advising.answer import MEASURES, Advice

OVER = Style("over-admitted", "#D55E00", "^", "-")
UNDER = Style("wrongly rejected", "#0072B2", "o", "-")
PLAIN = Style("", "#333333", "s", "-")


def drawn(advice: Advice) -> str:
    """SVG, without its XML head: the limiters as rows, the best at the top."""
    from matplotlib import pyplot

    from ratebed.advising.words import order_of

    names = order_of(advice.base)
    outcomes = [advice.base.outcome(name) for name in names]
    sheet = drawing.sheet(9.5, 1.3 + 0.3 * len(names))
    errors, sent, waits = sheet.subplots(1, 3, sharey=True, width_ratios=[2, 1.2, 1])
    for look, measure, shift in ((OVER, MEASURES[0], -0.13), (UNDER, MEASURES[1], 0.13)):
        values = {row + shift: [100 * share for share in each.measures[measure]] for row, each in enumerate(outcomes)}
        row_intervals(errors, values, look)
    for axes, measure in ((sent, MEASURES[2]), (waits, MEASURES[3])):
        row_intervals(axes, {row: each.measures[measure] for row, each in enumerate(outcomes)}, PLAIN)
    drawing.categories(errors, names, "y")
    for axes, text in ((errors, "% of the requests"), (sent, "bytes a request"), (waits, "wait, 99th percentile (ms)")):
        axes.set_xlim(left=0)
        axes.set_xlabel(text)
        axes.tick_params(axis="y", length=0)
    legend_above(sheet, [key(OVER, line=False), key(UNDER, line=False)])
    content = StringIO()
    sheet.savefig(content, format="svg", metadata={"Date": None})
    pyplot.close(sheet)
    text = content.getvalue()
    return text[text.index("<svg") :]
