"""A drawing becomes files: the vector and the picture, the same bytes for the same drawing."""

from io import BytesIO
from pathlib import Path

from core.writing import replace_file
from paper_figs.light import Drawing

FORMATS = ("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 200})


def save(drawing: Drawing, folder: Path, name: str) -> list[Path]:
    """Write ``name``.svg and ``name``.png into ``folder``, each whole or not at all, and let the drawing go."""
    from matplotlib import pyplot

    paths = []
    for suffix, options in FORMATS:
        content = BytesIO()
        drawing.savefig(content, format=suffix, **options)
        drawing.set_layout_engine("none")  # everything is in its place: laying out is most of the work
        paths.append(folder / f"{name}.{suffix}")
        replace_file(paths[-1], content.getvalue())
    pyplot.close(drawing)
    return paths
