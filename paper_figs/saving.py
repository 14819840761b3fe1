"""A drawing becomes files: the vector and the picture, the same bytes for the same drawing."""

from io import BytesIO
from pathlib import Path
from typing import Any

from core.writing import replace_file
from paper_figs.light import Drawing

FORMATS: dict[str, dict[str, Any]] = {"svg": {"metadata": {"Date": None}}, "png": {"dpi": 200}}


def save(drawing: Drawing, folder: Path, name: str) -> list[Path]:
    """Write ``name``.svg and ``name``.png into ``folder``, each whole or not at all, and let the drawing go."""
    from matplotlib import pyplot

    paths = drawn_files(folder, name)
    for path, (suffix, options) in zip(paths, FORMATS.items(), strict=True):
        content = BytesIO()
        drawing.savefig(content, format=suffix, **options)
        drawing.set_layout_engine(None)  # everything is in its place: no drawing in vain to find it
        replace_file(path, content.getvalue())
    pyplot.close(drawing)
    return paths


def drawn_files(folder: Path, name: str) -> list[Path]:
    """The files that a drawing of that name becomes."""
    return [folder / f"{name}.{suffix}" for suffix in FORMATS]
