"""Fig. 6's neighbours: p99 of the topics that brokers carried already, before and after a topic of 8,000 publishers.

The papers judge a placement by the latency of the topic that is placed.  The SLO is everybody's: where a broker takes
the new topic, the messages of those that were there wait behind its own.  Ours, on the runs of Fig. 6: six brokers that
carry 10, 40, 50, 60, 70 and 80 kmsg/s (Poisson, batch 10; one topic each, without a limit), the judged minute once
without the new topic, and once with it.  The table ``residents`` has every number of publishers.
"""

from harness.experiment import Experiment
from paper_figs import drawing, keys
from paper_figs.figure import Figure, FigureTables
from paper_figs.light import Data, Drawing, Frame
from paper_figs.series import in_ms, where, with_point
from paper_figs.srtm.concentration import FACTORS, FIG6_SYSTEMS, OF_FIG6, cases, fig6_points
from paper_figs.srtm.p99 import slo_of, with_envelope
from paper_figs.srtm.published import FIG6_PUBLISHERS
from paper_figs.style import neutral, style_of

BEFORE, AFTER = "resident_latency_before", "resident_latency"
ALONE = "before"  # stands for a system: nobody placed anything


def tables(data: Data) -> FigureTables:
    """``residents``: a row a run and broker, p99 in ms of what it carried already, without the topic and with it."""
    p99 = {
        metric: in_ms(data.latency_histogram.where(f"metric = '{metric}'"), {0.99: name}, "run_id", "broker")
        for metric, name in ((BEFORE, "before_ms"), (AFTER, "after_ms"))
    }
    both = p99[BEFORE].join(p99[AFTER], ["run_id", "broker"])
    used = data.decisions.where("kind = 'final'").selectExpr("run_id", "broker", "assigned_rps")
    slo = data.runs.selectExpr("run_id", "slo_ns / 1e6 as slo_ms")
    every = both.join(used, ["run_id", "broker"]).join(slo, "run_id")
    return {"residents": with_envelope(with_point(data, every, {"envelope": "study.envelope", **FACTORS}))}


def draw(tables: FigureTables) -> Drawing:
    """A panel a kind of arrivals and batch: brokers along x, p99 before and after."""
    rows = tables["residents"]
    size = FIG6_PUBLISHERS if (rows.publishers == FIG6_PUBLISHERS).any() else rows.publishers.max()
    rows = where(rows, publishers=size)
    panels = list(cases(rows))
    looks = {ALONE: neutral("before", "D", is_open=True), **{name: style_of(name) for name in FIG6_SYSTEMS}}
    names = tuple(name for name, _ in panels)
    height = (len(panels) + 1) // 2
    sheet, axes = drawing.panels(height, min(2, len(panels)), names, inches=(7.0, 0.5 + 2.3 * height))
    order = sorted(set(rows.broker))
    for panel, (_, part) in zip(axes, panels, strict=True):
        drawing.log_axis(panel, steps=(1, 2, 5))
        drawing.rule(panel, slo_of(part))
        drawing.mean_points(panel, long(part), "broker", "ms", "system", looks, order)
        drawing.categories(panel, [str(broker + 1) for broker in order])
        panel.set(xlabel="broker", ylabel="p99 of what it carried (ms)")
    after = [keys.key(look._replace(label=f"after {look.label}"), line=False) for look in list(looks.values())[1:]]
    keys.legend_above(sheet, [keys.key(looks[ALONE], line=False), *after, keys.rule_key("SLO (line ours)")])
    return sheet


def long(part: Frame) -> Frame:
    """A row a broker and repetition: before (the same for all systems), and after each."""
    import pandas as pd

    point = ["broker", "repetition"]
    before = part.drop_duplicates(point).assign(system=ALONE, ms=lambda rows: rows.before_ms)
    return pd.concat([before, part.assign(ms=part.after_ms)])[[*point, "system", "ms"]]


TITLE, SOURCE = "Topics that were there before", "ours; on the runs of SRTM, Fig. 6"
EXPERIMENT = Experiment("srtm-residents", TITLE, SOURCE, fig6_points, OF_FIG6)
NOTES = (
    "Means and 95 % intervals over repetitions of the p99 of the topic that each broker carried already, end to end, "
    "in the judged minute: without the new topic of 8,000 publishers, and with it as each system places it. Where a "
    "system leaves a broker alone, both are the same. Conc and Max-Min judge the placed topic only, as the paper does."
)
FIGURE = Figure(EXPERIMENT, tables, draw, notes=NOTES)
