"""What a figure's file gives: a grid, tables made by Spark, a drawing, claims."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from analysis.verdicts import Claim
from core.records import Options
from harness.experiment import Experiment
from paper_figs.light import Data, Drawing, Frame

__all__ = ["Figure", "FigureTables", "Options"]

FigureTables = dict[str, Frame]


def no_texts() -> Mapping[str, str]:
    """Nothing to show."""
    return {}


@dataclass(frozen=True)
class Figure:
    """One figure or table of a paper.

    ``tables(data)`` aggregates the raw tables of this figure's runs (Spark frames) into small pandas
    frames, name -> frame; ``draw(tables)`` draws them; a claim reads them as ``"<key>/<name>"``.
    """

    experiment: Experiment
    tables: Callable[[Data], FigureTables]
    draw: Callable[[FigureTables], Drawing]
    claims: tuple[Claim, ...] = ()
    notes: str = ""  # shown under the figure in the report: calibrations, substitutes, deviations
    texts: Callable[[], Mapping[str, str]] = no_texts  # by title, shown as they are: settings of servers, say
    place: str = ""  # outside the tree: ``path.py:FIGURE``, where ``load_figure`` found it

    @property
    def key(self) -> str:
        """The figure's name, as typed."""
        return self.experiment.key
