"""The thesis' nodes as Erlang processes beside our model: memory and bandwidth of the queue over the counter's.

Ours: the thesis measured Erlang processes; here its listings run as such, in virtual time, on the requests that the
Python nodes of Figs. 5.6 to 5.12 are offered.  One user on data set B at four loads.  A process' memory has in it what
its heap has to spare, for a heap grows in steps, and what a process is without any state; its live terms have neither.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import msgspec

from analysis.tables import collect
from core.defaults import CAPACITY
from core.records import Options
from harness.experiment import FEWER, Experiment, RunSpec, Scale
from paper_figs.crdt.grids import at, limited
from paper_figs.crdt.published import BANDWIDTH, MEASURED, MEMORY, NODES, RATIOS
from paper_figs.crdt.readings import BIRTHS, GARBAGE, IDENTITY, OWN_WORDS
from paper_figs.crdt.readings import MEMORY as MEMORY_MODEL
from paper_figs.crdt.runs import EXTENSIONS_NOTE, per_run
from paper_figs.crdt.usage import ratio, with_seconds
from paper_figs.crdt.variants import COUNTER
from paper_figs.drawing import beside, categories, interval_points, log_axis, panels, published, rule
from paper_figs.figure import Figure, FigureTables
from paper_figs.intervals import interval_table, intervals_of
from paper_figs.keys import key, key_above, legend_above, published_key
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import samples
from paper_figs.style import Style, series

WORDS = "word_bytes"  # area: messages as words of memory
FACTOR = {"births": "study.births"}  # only runs in Erlang have it


class CostMeasure(NamedTuple):
    """One way to weigh: of which published area, in whose runs, by which column of them."""

    published: str
    in_erlang: bool
    area: str
    look: Style


MEASURES = {
    "process": CostMeasure(MEMORY, True, MEASURED, series("Erlang process", 0)),
    "terms": CostMeasure(MEMORY, True, MEMORY, series("Erlang's live terms", 1)),
    "model": CostMeasure(MEMORY, False, MEMORY, series("our model", 2)),
    "external": CostMeasure(BANDWIDTH, True, BANDWIDTH, series("Erlang's external format", 3)),
    "words": CostMeasure(BANDWIDTH, True, WORDS, series("Erlang's words", 4)),
    "encoded": CostMeasure(BANDWIDTH, False, BANDWIDTH, series("our encoding", 5)),
}
LOADS = {
    "B-extreme": "extreme",
    "B-substantial": "substantial",
    "B-barely": "barely limited",
    "B-not-limited": "not limited",
}
QUEUES = {load: variant for load in LOADS for variant in RATIOS[load]}  # what "the queue" is there (A17)
TITLES = {MEMORY: "memory of a node", BANDWIDTH: "bandwidth of a node"}


def has_erlang() -> bool:
    """Whether this machine can run the nodes in Erlang."""
    from testbed.hosts.capabilities import find_capability

    return find_capability("erlang") is not None


def skip_reason(options: Options) -> str:
    """Why there is nothing to run."""
    from testbed.hosts.capabilities import fix_of

    return f"this machine has no Erlang: {fix_of('erlang')}"


def in_erlang(spec: RunSpec, options: Options) -> RunSpec:
    """The same point with its nodes in Erlang, as the listings print them."""
    listed = {"phase": "aligned", **({"literal_priorities": True} if spec.system_options.get("linf") else {})}
    study: dict[str, object] = {"births": BIRTHS.of(options), "identity": IDENTITY.of(options)}
    if GARBAGE.of(options) == "left":
        study["collected"] = False
    if OWN_WORDS.of(options):
        study["own_words"] = OWN_WORDS.of(options)
    own = {**spec.system_options, **listed}
    return msgspec.structs.replace(spec, study="erlang", system_options=own, study_options=study)


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Capacities x loads x counter and queue, in Erlang and in Python; none on a machine without Erlang."""
    if not has_erlang():
        return []
    capacities = scale.pick(quick=[CAPACITY], paper=[CAPACITY, 450])
    loads = scale.pick(tiny=["B-substantial"], quick=list(LOADS))
    specs = [
        limited(variant, load, options, capacity=capacity)
        for capacity, load in product(capacities, loads)
        for variant in (COUNTER, QUEUES[load])
    ]
    return at(scale, [*specs, *(in_erlang(spec, options) for spec in specs)])


def tables(data: Data) -> FigureTables:
    """``runs``: one row a run (births: null in Python); ``ratios``: a row a capacity, data set and measure."""
    from pyspark.sql import functions as f

    runs = with_seconds(per_run(data, decided=False, more=FACTOR))
    words = data.samples.where(f.col("metric") == "sent_word_bytes").groupBy("run_id").agg(f.sum("value").alias(WORDS))
    runs = runs.merge(collect(words, ["run_id"]), on="run_id", how="left")
    runs[WORDS] = runs[WORDS] / runs["nodes"].fillna(NODES).astype(float)
    columns = ["capacity", "data_set", "measure"]
    return {"runs": runs, "ratios": interval_table(columns, [row for row in _ratios(runs) if row[1]])}


def _ratios(runs: Frame) -> Iterator[tuple[tuple[int, str, str], list[float]]]:
    """Queue over counter, paired by repetition."""
    for capacity, load in product(sorted(set(runs.capacity)), LOADS):
        part = runs[(runs.capacity == capacity) & (runs.data_set == load)]
        for name, measure in MEASURES.items():
            of_body = part[part.births.notna() == measure.in_erlang]
            if {COUNTER, QUEUES[load]} <= set(of_body.variant):
                yield (capacity, load, name), samples(ratio(of_body, measure.area, QUEUES[load]))


def draw(tables: FigureTables) -> Drawing:
    """Two panels a capacity."""
    ratios = tables["ratios"]
    capacities = sorted(set(ratios.capacity))
    titles = [f"{title}, c = {capacity}" for capacity in capacities for title in TITLES.values()]
    drawing, axes = panels(len(capacities), 2, titles, inches=(8.6, 2.6 * len(capacities) + 0.6))
    for panel, (capacity, area) in zip(axes, product(capacities, TITLES), strict=True):
        _draw_ratios(panel, ratios[ratios.capacity == capacity], area)
    legend_above(drawing, [key(measure.look, line=False) for measure in MEASURES.values()])
    return drawing


def _draw_ratios(axes: Axes, ratios: Frame, area: str) -> None:
    """Each load's ratio by each measure, and what the thesis prints, in both readings of "N % more"."""
    log_axis(axes)
    loads = [load for load in LOADS if load in set(ratios.data_set)]
    names = [name for name, measure in MEASURES.items() if measure.published == area]
    for name, shift in zip(names, beside(len(names), 0.5), strict=True):
        part = ratios[ratios.measure == name].set_index("data_set")
        known = [(place, load) for place, load in enumerate(loads) if load in part.index]
        rows = part.loc[[load for _, load in known]]
        interval_points(axes, [place + shift for place, _ in known], intervals_of(rows), MEASURES[name].look)
    for place, load in enumerate(loads):
        readings = RATIOS[load][QUEUES[load]][area].readings
        published(axes, [place - 0.35] * len(readings), readings)
    rule(axes, 1, reference=True)
    axes.margins(y=0.15)
    axes.set_ylabel("queue over counter")
    categories(axes, [LOADS[load] for load in loads])
    key_above(axes, [published_key('published (N/100 and 1 + N/100 of "N % more")')])


NOTES = (
    f"{EXTENSIONS_NOTE} Areas under the curves of memory and bandwidth until the run's end, queue over counter. In "
    "Erlang births are in milliseconds, rounds aligned, and LINF has the counters of Listings 4.6 to 4.8. A heap "
    "grows in steps of a half and more: 40 words more of a process' own (--own-words 40) take up to 17 % off the "
    "ratio under extreme load, so that its memory there says as much of the process as of the state. "
    "Error bars: 95 % intervals over repetitions."
)
EXPERIMENT = Experiment(
    "crdt-erlang",
    "Counter and queue as Erlang processes, beside our model",
    "ours; CRDT thesis, 4.3.1 and 5.2",
    points,
    (BIRTHS, IDENTITY, MEMORY_MODEL, GARBAGE, OWN_WORDS),
    skip_reason,
    repetitions=FEWER,
)
FIGURE = Figure(EXPERIMENT, tables, draw, (), NOTES)
