"""START READING HERE: one figure, one file.

Registry: ``FIGURES``, key -> "module:FIGURE", imported on use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from core.errors import SpecError
from core.options import suggestion

if TYPE_CHECKING:
    from paper_figs.figure import Figure

FIGURES = {
    "srtm-prop1": "paper_figs.srtm.prop1:FIGURE",
    "srtm-eq1": "paper_figs.srtm.eq1:FIGURE",
    "srtm-fig4": "paper_figs.srtm.fig4:FIGURE",
    "srtm-fig4-1000": "paper_figs.srtm.fig4_1000:FIGURE",
    "srtm-fig5": "paper_figs.srtm.fig5:FIGURE",
    "srtm-fig6": "paper_figs.srtm.fig6:FIGURE",
    "srtm-fig7": "paper_figs.srtm.fig7:FIGURE",
    "srtm-fig8": "paper_figs.srtm.fig8:FIGURE",
    "srtm-fig9": "paper_figs.srtm.fig9:FIGURE",
    "srtm-table1": "paper_figs.srtm.table1:FIGURE",
    "srtm-adaptor": "paper_figs.srtm.adaptor:FIGURE",
    "srtm-trace": "paper_figs.srtm.trace:FIGURE",
}


def load_figure(key: str) -> "Figure":
    """The figure called ``key``; SpecError for an unknown one."""
    if key not in FIGURES:
        raise SpecError(f"unknown figure {key!r}", suggestion(key, list(FIGURES)))
    module, attribute = FIGURES[key].split(":")
    return getattr(import_module(module), attribute)
