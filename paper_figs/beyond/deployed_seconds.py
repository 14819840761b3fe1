"""deployed-seconds: what each limiter admits of one key in each second: the oscillation that a mean hides.

The runs are those of ``deployed``.
"""

from functools import partial

from core.records import Options
from harness.experiment import LIVE_REPETITIONS, Experiment
from paper_figs.beyond import grants
from paper_figs.beyond.contenders import CONTENDERS, FAST
from paper_figs.drawing import interval_curve, log_axis, panels, rule, title
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import key, legend_above, rule_key
from paper_figs.light import Data, Drawing
from paper_figs.style import Style

SHOWN = {
    "even": Style("spread evenly", "#0072B2", "", "-"),
    "moving": Style("80 % in one city, another each fifth", "#D55E00", "", "--"),
}
COLUMNS = 4


def tables(data: Data) -> FigureTables:
    """``seconds``: see ``grants.seconds_of``; of the highest factor alone."""
    seconds = grants.seconds_of(data, FAST)
    return {"seconds": seconds[seconds.factor == FAST.highest].reset_index(drop=True)}


def draw(tables: FigureTables) -> Drawing:
    """A panel a limiter."""
    seconds = tables["seconds"]
    names = [name for name in grants.NAMES if name in set(seconds.name)]
    rows = -(-max(1, len(names)) // COLUMNS)
    size: Options = {"inches": (2.9 * COLUMNS, 1.75 * rows + 0.6), "share_x": True, "share_y": True}
    drawing, axes = panels(rows, COLUMNS, **size)
    for panel, name in zip(axes, names, strict=False):
        log_axis(panel, at=(0, 1, 5, 20, 100), linear_below=1, linear_share=0.4)
        for shape, look in SHOWN.items():
            part = seconds[(seconds.name == name) & (seconds["shape"] == shape)].sort_values("t_s")
            interval_curve(panel, part.t_s, part.admitted_rps, part.low.clip(lower=0), part.high, look, stairs=True)
        rule(panel, FAST.count, reference=True)
        panel.set_ylim(-0.1, 150)
        title(panel, CONTENDERS[name].look.label)
    for panel in axes[len(names) :]:
        panel.set_axis_off()
    for panel in axes[::COLUMNS]:
        panel.set_ylabel("admitted in a second")
    for panel in axes[max(0, len(names) - COLUMNS) : len(names)]:
        panel.set_xlabel("time (s)")
        panel.tick_params(labelbottom=True)
    keys = [key(look, marker=False) for look in SHOWN.values()]
    legend_above(drawing, [*keys, rule_key("the limit, 20 a second", reference=True)])
    return drawing


NOTES = (
    "One key, offered 5 times its limit of 20 a second over five cities; means over the repetitions, bands: 95 % "
    "intervals. A limiter whose nodes learn of each other late lets through several times the limit before it "
    "notices, and nothing for as long afterwards: its mean can be right all the same."
)
TITLE = "Admitted in each second, at 5 times 20 a second"
EXPERIMENT = Experiment("deployed-seconds", TITLE, "ours", partial(grants.points, FAST), repetitions=LIVE_REPETITIONS)
FIGURE = Figure(EXPERIMENT, tables, draw, notes=NOTES)
