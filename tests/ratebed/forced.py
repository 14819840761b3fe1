"""A small figure whose source leaves two things open: by which splits its claim stands or falls."""

from analysis.verdicts import Claim, Evidence, Tables, at_most
from core.records import Options
from harness.experiment import Experiment, Reading, RunSpec, Scale
from paper_figs import drawing
from paper_figs.figure import Figure, FigureTables
from paper_figs.light import Data, Drawing
from tests.harness.common import small

SPLIT = Reading("split", "brokers", 1, int, values=(1, 2), source="not said")
SLO = Reading("slo-text", "the SLO", "5ms", values=("5ms", "9ms"), source="not said", after=True)


def points(scale: Scale, options: Options) -> list[RunSpec]:
    return [small(system="lb", slo=SLO.of(options), topology_options={"brokers": SPLIT.of(options)})]


def tables(data: Data) -> FigureTables:
    from analysis.metrics import brokers_used
    from analysis.tables import collect

    return {"used": collect(brokers_used(data.decisions), ["run_id"])}


def draw(tables: FigureTables) -> Drawing:
    sheet, (axes,) = drawing.panels(1, 1)
    axes.plot([len(tables["used"])])
    return sheet


def one_is_enough(tables: Tables) -> Evidence:
    return Evidence((at_most("brokers", tables["srtm-forced/used"].broker_count, 1),))


CLAIM = Claim("R999", "nowhere", "One broker is enough.", ("srtm-forced",), one_is_enough)
EXPERIMENT = Experiment("srtm-forced", "Forced", "nowhere", points, (SPLIT, SLO), repetitions={"tiny": 5})
FIGURE = Figure(EXPERIMENT, tables, draw, (CLAIM,))
