"""Ours: what each rule of the thesis' listings costs, and what pushing does for counters (digest A1 to A21).

The listings leave questions open, and some print the opposite of the text; systems have sound rules by default and the
printed ones as switches.  A row a switch, alone against everything sound, paired by repetition.  Below the line what
no listing asks for, among it the ablation that the thesis lacks: its counter with the queue's urgent messages (and
with a broadcast of every change), which tells what is owed to the queue and what to urgency.

The last panel has the one rule with which nothing ends: delta states that keep both of two equal births (A8, Listing
4.2), so that an element that is told on two ways is two elements.  Three nodes, c = 60, barely limited, 15 s: on five
nodes the state grows tenfold in a second.

Ten nodes, c = 150, substantial load: the rows on lists are slow.  That the counter's printed refill bounds each refill
and not the bucket shows on slow users only: a dozen requests 100 s apart, then two buckets in 30 s.
"""

from itertools import product
from typing import NamedTuple

from msgspec.structs import replace

from analysis.tables import collect
from core.records import Options
from core.units import SECOND_NS
from harness.experiment import FEWER, Experiment, RunSpec, Scale
from paper_figs.crdt.grids import at, limited
from paper_figs.crdt.precision import READINGS
from paper_figs.crdt.readings import SOUND
from paper_figs.crdt.runs import PRECISION_NOTE, per_run, points_of
from paper_figs.crdt.variants import COUNTER, FL, ORACLE, F
from paper_figs.drawing import GREY, categories, curve, interval_points, log_axis, marks, panels
from paper_figs.figure import Figure, FigureTables
from paper_figs.intervals import interval_table, intervals_of
from paper_figs.keys import key, key_above, legend_above
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import case_of, samples
from paper_figs.style import Style, style_of

NODES, CAPACITY = 10, 150
DATA_SET, SLOW = "B-substantial", "slow, then a burst"
SOUND_LOOK = Style("sound", "#999999", "|", "-")


class Switch(NamedTuple):
    """One deviation from the sound system ``base``."""

    label: str
    base: str
    options: Options  # of the system
    load: str = DATA_SET
    printed: bool = True  # is it what a listing says?


SWITCHES = (
    Switch("A6  refill bounded, bucket not\n(slow user)", COUNTER, {"refill_cap": "literal"}, SLOW),
    Switch("A7  admit on part of a token", COUNTER, {"whole_tokens": False}),
    Switch("Listing 3.3: sender's copy\nstays as it was", COUNTER, {"queued": "literal"}),
    Switch("A1  refill drops the living", FL, {"literal_refill": True}),
    Switch("A2  urgent if slow", FL, {"literal_threshold": True}),
    Switch("A5  urgent, not cleared", FL, {"literal_keep_sent": True}),
    Switch("A11  later deaths not echoed", FL, {"identity": "birth"}),
    Switch("A12  LINF's counters drift", FL, {"literal_priorities": True}),
    Switch("A21  urgent push", COUNTER, {"push": "urgent"}, printed=False),
    Switch("A21  broadcast", COUNTER, {"push": "broadcast"}, printed=False),
    Switch("A13  any neighbour", COUNTER, {"choice": "all"}, printed=False),
    Switch("A13  any neighbour (no LINF)", F, {"choice": "all"}, printed=False),
    Switch("A19  rounds at once", COUNTER, {"phase": "aligned"}, printed=False),
    Switch("A19  rounds at once", FL, {"phase": "aligned"}, printed=False),
    Switch("A3  w - 1 gaps", FL, {"true_gaps": True}, printed=False),
    Switch("A10  node in the key", FL, {"key": "birth-node"}, printed=False),
    Switch("A10  clock of 1 ms", FL, {"resolution": "1ms"}, printed=False),
)
ROWS: dict[int, Options] = {-1: {}}  # what a run has whose switch is that of this row; -1: sound
ROWS |= {n: {"variant": switch.base, "load": switch.load, **switch.options} for n, switch in enumerate(SWITCHES)}
TINY = {"refill_cap", "identity", "push"}  # options that the tiny scale looks at
BASES = ((COUNTER, DATA_SET), (COUNTER, SLOW), (FL, DATA_SET), (F, DATA_SET))
FACTORS = {name: f"system.{name}" for switch in SWITCHES for name in switch.options if name != "choice"}
GROWTH_NODES, GROWTH_CAPACITY, GROWTH_SET, GROWTH_SPAN = 3, 60, "B-barely", "15s"
MEASURES = {  # column -> title; shares of c first, then ratios to the sound system
    "false_admit_count": "admitted wrongly (% of c)",
    "false_reject_count": "rejected wrongly (% of c)",
    "excess_tokens": "worst excess (% of c)",
    "sent_bytes": "sent, over sound",
    "state_byte_seconds": "memory, over sound",
}
RATIOS = ("sent_bytes", "state_byte_seconds")
# Twelve requests of one user 100 s apart, then 2 c within 30 s.
SLOWLY, BURST = [f"{100 * k}s" for k in range(12)], [f"{1_200_000 + 100 * k}ms" for k in range(2 * CAPACITY)]
SLOW_LOAD = {"at": [*SLOWLY, *BURST]}


def point(variant: str, load: str, options: Options) -> RunSpec:
    """A system on ten nodes."""
    spec = limited(variant, DATA_SET, SOUND, CAPACITY, NODES, **options)
    return replace(spec, workload="instants", workload_options=SLOW_LOAD) if load == SLOW else spec


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """The centralised limiter, sound systems, and one switch each."""
    loads = scale.pick(small=(DATA_SET,), tiny=(DATA_SET, SLOW))  # the slow one takes 20 minutes of real time
    chosen = scale.pick(tiny=[switch for switch in SWITCHES if TINY & set(switch.options)], quick=SWITCHES)
    sound = [(ORACLE, load) for load in loads] + [(base, load) for base, load in BASES if load in loads]
    specs = [point(variant, load, {}) for variant, load in sound]
    specs += [point(switch.base, switch.load, switch.options) for switch in chosen if switch.load in loads]
    growing = (
        limited(FL, GROWTH_SET, SOUND, GROWTH_CAPACITY, GROWTH_NODES, **more) for more in ({}, {"literal_merge": True})
    )
    specs += [replace(spec, study_options={"duration": GROWTH_SPAN, "drain": "0s"}) for spec in growing]
    return at(scale, specs)


def tables(data: Data) -> FigureTables:
    """``runs``: one row a run, with load and row (of ``SWITCHES``; -1: sound); ``summary``: by row and measure.

    ``growth``: state_bytes of a node by second, on the three nodes.
    """
    runs = per_run(data, more=FACTORS)
    runs = runs[(runs.variant != ORACLE) & (runs.nodes == NODES)].reset_index(drop=True)
    runs["load"] = runs["data_set"].fillna(SLOW)
    runs["row"] = [case_of(run, ROWS) for run in runs.to_dict("records")]
    runs = runs[["variant", "load", "row", "repetition", *READINGS, *MEASURES, "convergence_ns"]]
    return {"runs": runs, "summary": summary(runs), "growth": _growth(data)}


def _growth(data: Data) -> Frame:
    """Printed (is A8 on?), repetition, t_s, state_bytes."""
    from analysis.usage import usage_over_time

    points = points_of(data, {"printed": "system.literal_merge"})
    points = points[points.nodes == GROWTH_NODES]
    over_time = usage_over_time(data.select(set(points.run_id)).table("usage"))
    curves = collect(over_time.select("run_id", "t_ns", "state_bytes"), ["run_id", "t_ns"]).merge(points, on="run_id")
    curves = curves.assign(t_s=curves.t_ns / SECOND_NS, printed=[value is True for value in curves.printed])
    return curves[["printed", "repetition", "t_s", "state_bytes"]]


def summary(runs: Frame) -> Frame:
    """row, measure, mean, low, high, count, and sound: the base's mean (1 for ratios); only of switches that ran."""
    rows, sounds = [], []
    for place, measure in product(sorted(set(runs.row) - {-1}), MEASURES):
        switch, ratio = SWITCHES[place], measure in RATIOS
        base = runs[(runs.variant == switch.base) & (runs.load == switch.load) & (runs.row == -1)]
        value, sound = (part.set_index("repetition")[measure].astype(float) for part in (runs[runs.row == place], base))
        values = samples(value / sound if ratio else 100 * value / CAPACITY)
        rows.append(((place, switch.label, switch.base, measure), values))
        sounds.append(1.0 if ratio else 100 * sound.mean() / CAPACITY)
    return interval_table(["row", "label", "base", "measure"], rows).assign(sound=sounds)


def draw(tables: FigureTables) -> Drawing:
    """A panel a measure, a row a switch; grey: the sound system."""
    table = tables["summary"]
    rows = sorted(set(table.row))
    titles = [*MEASURES.values(), "A8: memory of a node, three nodes"]
    drawing, axes = panels(2, 3, titles, inches=(10.0, 1.6 + 0.44 * len(rows)))
    for n, (panel, measure) in enumerate(zip(axes, MEASURES, strict=False)):
        _draw_measure(panel, table[table.measure == measure].set_index("row").loc[rows], measure in RATIOS)
        categories(panel, [SWITCHES[row].label if n % 3 == 0 else "" for row in rows], "y", between=False)
    _draw_growth(axes[-1], tables["growth"])
    changed = [style_of(base) for base in (COUNTER, FL, F)]
    keys = [key(look._replace(label=f"{look.label}, changed"), line=False) for look in changed]
    legend_above(drawing, [*keys, key(SOUND_LOOK, line=False)])
    return drawing


def _draw_growth(axes: Axes, growth: Frame) -> None:
    log_axis(axes)
    looks = {False: SOUND_LOOK, True: style_of(FL)._replace(label="duplicates kept")}
    for (printed, _), part in growth.groupby(["printed", "repetition"]):
        curve(axes, part.t_s, part.state_bytes / 1e3, looks[printed], width=0.9)
    axes.set(xlabel="time (s)", ylabel="memory of a node (kB)")
    key_above(axes, [key(look, marker=False) for look in looks.values()])


def _draw_measure(axes: Axes, summary: Frame, is_ratio: bool) -> None:
    log_axis(axes, "x", linear_below=0.0 if is_ratio else 1.0)
    marks(axes, summary.sound, range(len(summary)), SOUND_LOOK, 10)
    for place, (row, interval) in enumerate(zip(summary.index, intervals_of(summary), strict=True)):
        interval_points(axes, [place], [interval], style_of(SWITCHES[row].base), lying=True)
    others = [place for place, row in enumerate(summary.index) if not SWITCHES[row].printed]
    if others:
        axes.axhline(others[0] - 0.5, color=GREY, linewidth=0.8)
    axes.tick_params(axis="y", length=0)
    low, high = axes.get_xlim()
    axes.set_xlim((min(low, 0.5), max(high, 2.0)) if is_ratio else (-0.3, max(1.6 * high, 10)))


NOTES = (
    "Means and 95 % intervals over repetitions; above the line what a listing prints, below it other choices. "
    "Messages take no time here, so that a broadcast is exact. "
    f"Numbers A1 to A21 are explained beside the options of crdt-counter and crdt-queue. {PRECISION_NOTE}"
)
TITLE, SOURCE = "What each rule of the listings costs", "ours; CRDT thesis, Listings 3.1-4.8"
EXPERIMENT = Experiment("crdt-ablations", TITLE, SOURCE, points, repetitions=FEWER)
FIGURE = Figure(EXPERIMENT, tables, draw, (), NOTES)
