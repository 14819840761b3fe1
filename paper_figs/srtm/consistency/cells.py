"""The cells of the map, the points of each, and what is judged in it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from analysis.verdicts import Judgement, Result, Status, Tables, judge
from core.records import Json, Options, Row
from harness.experiment import SCALES
from paper_figs import load_figure
from paper_figs.srtm import readings
from paper_figs.srtm.consistency.runs import canonical, tables_of
from studies.spec import RunSpec
from testbed.brokers.model import load_calibration

KEYS = (
    *("srtm-fig4", "srtm-fig4-1000", "srtm-fig5", "srtm-fig6"),
    *("srtm-fig7", "srtm-fig8", "srtm-fig9", "srtm-table1"),
)
COSTS = (  # free pumps by three calibrations, and a pump that takes time of the cores
    *((costs, readings.FREE) for costs in ("srtm-paper", "srtm-searched")),
    ("srtm-paper", readings.SHARED),
    ("srtm-slow", readings.FREE),
)
MIDDLE_SIZES = (6_000,)  # of Fig. 5
OVERLOADED = (1, 10_000)  # Fig. 6: batch and size at which Conc is overloaded, and no ratio is judged
LEFT_OUT = (
    "Figs. 5 and 6: periodic publishers; Fig. 5: 6,000 publishers; Fig. 6, batch 1: 10,000, where Conc is overloaded"
)


@dataclass(frozen=True)
class Cell:
    """One reading of all that the map varies."""

    margin: float
    mcap: str
    costs: str
    pump: str

    @property
    def options(self) -> Options:
        """As a figure takes them."""
        return vars(self)

    @property
    def fitted(self) -> set[str]:
        """Claims that something of this cell was made from."""
        by_readings = [reading.fitted_on.get(reading.of(self.options), ()) for reading in readings.READINGS]
        return {
            *load_calibration(readings.calibration(self.options)).fitted_on,
            *(id for ids in by_readings for id in ids),
        }


def cells() -> list[Cell]:
    """Those of the first calibrations first."""
    every = product(COSTS, readings.MARGIN.values, readings.MCAP.values)
    return [Cell(float(str(margin)), str(mcap), *costs) for costs, margin, mcap in every]


def points(cell: Cell, figures: Sequence[str] = KEYS) -> list[RunSpec]:
    """The quick grids of the figures, but for what is ``LEFT_OUT``; each point once."""
    specs: dict[bytes, RunSpec] = {}
    for key in figures:
        for spec in load_figure(key).experiment.points(SCALES["quick"], cell.options):
            if _is_wanted(key, spec):
                one = canonical(spec)
                specs[one.to_json()] = one
    return list(specs.values())


def _is_wanted(key: str, spec: RunSpec) -> bool:
    """See ``LEFT_OUT``."""
    if key not in ("srtm-fig5", "srtm-fig6"):
        return True
    size, batch = spec.workload_options["publishers"], spec.workload_options["batch"]
    left_out = size in MIDDLE_SIZES or (key == "srtm-fig6" and (batch, size) == OVERLOADED)
    return spec.workload == readings.POISSON and not left_out


def verdicts(cell: Cell, rows: Sequence[Row]) -> Json:
    """Claim -> its verdict in this cell, and what failed; "fitted" is part of the verdict's name."""
    tables = tables_of(rows)
    return {result.claim.id: _said(cell, result) for result in _results(tables)}


def _results(tables: Tables) -> Iterator[Result]:
    for key in KEYS:
        for claim in load_figure(key).claims:
            if all(any(name.startswith(f"{figure}/") for name in tables) for figure in claim.figures):
                yield judge(claim, tables)


def _said(cell: Cell, result: Result) -> Json:
    word = result.judgement.value
    if result.claim.id in cell.fitted and result.judgement in (Judgement.REPRODUCED, Judgement.DIRECTION_ONLY):
        word = f"{word}, fitted"
    said: Json = {"verdict": word, "seeds": 0}
    if result.evidence is not None:
        said["seeds"] = max((check.interval.count for check in result.evidence.exact), default=0)
        failed = [check for check in result.evidence.exact if result.status(check) is Status.FAILS]
        said["fails"] = [f"{check.label}: {check.interval.mean:.3g} {check.unit}".strip() for check in failed[:2]]
    return said
