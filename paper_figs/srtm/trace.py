"""LB, Conc, Max-Min and SRTM on a *real* trace of sensors (ours; the papers have synthetic traffic only).

``--trace FILE`` names it: readings of the ULB library's motes as they were published (recognised by their columns), a
CSV with a column map, or Parquet.  It is replayed faster (``--speed``) and in copies (``--replicas``), each from its
own place; the motes of a copy form a correlation group.  Copies that come to the trace's end start over, and count it.
"""

import gzip
from pathlib import Path

from core.errors import SpecError
from core.records import Json
from harness.experiment import Experiment, Option, RunSpec, Scale
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.light import Data, Drawing
from paper_figs.series import with_others
from paper_figs.srtm.grids import CONFORMANT, at
from paper_figs.srtm.p99 import ENVELOPE_NOTE, MEAN_NOTE, STRIPS, STRIPS_NOTE, p99_sheet, per_run, summary
from paper_figs.style import style_of

SYSTEMS = ("lb", "conc", "max-min", "srtm")
REPLICAS, SMALLER = 53, 10
OPTIONS = (
    Option("trace", "trace of sensors: publisher, instant[, size, group]"),
    Option("format", "csv, parquet or ulb-wsn; default: by the file's looks"),
    Option("columns", "csv and parquet: publisher=NAME,instant=NAME, by header name or 0-based number", ""),
    Option("instant-unit", "csv and parquet: s, ms, us, ns or iso", "s"),
    Option("separator", "csv: one character, tab, or a blank for any white space", ","),
    Option("decimal", "csv: decimal mark of instants, . or ,", "."),
    Option("header", "csv: does the first line name the columns? yes or no", "yes"),
    Option("replicas", f"copies of the trace; a {SMALLER}th of the default at the scale small", REPLICAS, int),
    Option("speed", "time compression", 600.0, float),
)


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """The four systems on the trace; none without a trace."""
    if not options["trace"]:
        return []
    path = str(Path(options["trace"]).absolute())
    replicas = options["replicas"]
    if scale.physics == "small" and replicas == REPLICAS:
        replicas //= SMALLER
    kind = options["format"] or looks_like(path)
    if kind == "ulb-wsn" and options["columns"]:
        fix = "leave it out, or say --format csv --separator ' '"
        raise SpecError(f"--columns, and {path} is read as ulb-wsn", fix)
    workload: Json = {"path": path, "format": kind, "replicas": replicas, "speed": options["speed"]}
    if kind != "ulb-wsn":
        workload |= {"columns": options["columns"], "instant_unit": options["instant-unit"]}
    if kind == "csv":
        workload |= csv_options(options)
    shared: Json = {"workload": "trace", "workload_options": workload, "study_options": CONFORMANT}
    return at(scale, [RunSpec(system=system, **shared) for system in SYSTEMS])


def csv_options(options: Options) -> Json:
    """The workload's options of a CSV's looks; SpecError where ``--header`` is neither yes nor no."""
    header = {"yes": True, "no": False}.get(options["header"])
    if header is None:
        raise SpecError(f"--header {options['header']!r}", "give yes or no")
    separator = "\t" if options["separator"] == "tab" else options["separator"]
    return {"separator": separator, "decimal": options["decimal"], "header": header}


def skip_reason(options: Options) -> str:
    """Why there are no points."""
    return "no trace given: pass --trace FILE"


def looks_like(path: str) -> str:
    """The format by the file's beginning: Parquet's mark, 7 or 9 bare columns of the ULB logs, otherwise CSV."""
    try:
        with open(path, "rb") as raw:
            head = raw.read(4)
        with gzip.open(path) if head[:2] == b"\x1f\x8b" else open(path, "rb") as text:
            line = text.readline(10_000)
    except (OSError, EOFError) as error:
        what = getattr(error, "strerror", None) or error
        raise SpecError(f"--trace {path}: {what}", "give a readable file") from None
    if head == b"PAR1":
        return "parquet"
    fields = line.split()
    bare = len(fields) in (7, 9) and fields[0].isdigit() and b";" not in line
    return "ulb-wsn" if bare else "csv"


def tables(data: Data) -> FigureTables:
    """``runs``: one row a run; ``p99``: over the repetitions; ``wraps``: how often copies started over in a minute."""
    from pyspark.sql import functions as f

    runs = per_run(data, {})
    wraps = data.samples.where(f.col("metric") == "wrap_count").groupBy("run_id")
    judged = wraps.agg(f.max_by("value", "at_ns").alias("wraps"))  # the judged minute is the last one
    return {
        "runs": runs,
        "p99": summary(runs, ["system"]),
        "wraps": judged.agg(f.avg("wraps").alias("mean"), f.max("wraps").alias("max")).toPandas(),
    }


def draw(tables: FigureTables) -> Drawing:
    """p99 of each system; strips: brokers, capacity left, time in violation, rounds."""
    order = with_others(SYSTEMS, tables["runs"])
    runs = tables["runs"].assign(place=tables["runs"].system.map(order.index))
    wraps = tables["wraps"]["mean"].dropna()
    title = f"copies start over {wraps.iloc[0]:.0f} times a minute in all" if len(wraps) else ""
    strips = {**STRIPS, "round_count": ("rounds of the search", 1.0)}
    size = (3.8, 4.8)
    sheet, panels = p99_sheet([(title, runs)], SYSTEMS, "place", "", strips=strips, panel_inches=size, one_each=True)
    panels[0].set_xticks(range(len(order)), [style_of(system).label for system in order])
    return sheet


TITLE, SOURCE = "Load distribution on a real trace of sensors", "ours; systems of SRTM VI"
EXPERIMENT = Experiment("srtm-trace", TITLE, SOURCE, points, OPTIONS, skip_reason, open_to_systems=True)
NOTES = (
    f"{MEAN_NOTE} In each repetition the copies start from other places in the trace. The motes of a copy are a "
    f"correlation group (what SRTM knows of the trace). {STRIPS_NOTE} {ENVELOPE_NOTE}"
)
FIGURE = Figure(EXPERIMENT, tables, draw, notes=NOTES)
