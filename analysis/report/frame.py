"""The frame of every page: title, contents, style, dark mode; and the shared files beside them.

A page of another verb is written by ``write_page``: it looks like the report's own and is linked from the index.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from core.errors import MachineError
from core.writing import replace_file

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
ASSETS = ("style.css", "report.js")
VEGA = "vega.js"  # only pages with charts load it

# Pages that other verbs leave in the folder: file -> what the index calls it.
GUESTS = {
    "advise.html": "Advice: which limiter for this log",
    "advise-trace.html": "Advice: which distributor for this trace",
    "diff.html": "Differences between two results",
}


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(HERE / "templates")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def render(template: str, values: Mapping[str, object]) -> str:
    """A template of ``templates/``, filled; what is no Markup is escaped."""
    return _environment().get_template(template).render(values)


def write_page(folder: Path, name: str, title: str, body: Markup, project: str = "Ratebed") -> Path:
    """Write ``folder/name`` in the report's frame, with style and script beside it; returns its path.

    ``body``: HTML from after the title (h1) on, sections with h2 and so on.  Useful classes: ``scroll`` around wide
    tables (with tabindex="0" role="region" aria-label), ``number`` of cells, ``badge`` with a verdict's name, ``soft``.
    MachineError where it cannot be written.
    """
    page = render("page.html", {"title": title, "project": project, "body": body})
    write(folder / name, page)
    write_assets(folder, has_charts=False)
    return folder / name


def write(path: Path, content: str | bytes) -> None:
    """Write one file of the report, whole or not at all; MachineError where it cannot be written."""
    try:
        replace_file(path, content.encode(errors="replace") if isinstance(content, str) else content)
    except OSError as error:
        fix = "free disk space there, or write elsewhere (--out)"
        raise MachineError(f"cannot write {path}: {error.strerror}", fix) from None


def write_assets(folder: Path, has_charts: bool) -> list[Path]:
    """Style and scripts; the charts' library once a folder, since it takes seconds to put together."""
    paths = [folder / "assets" / name for name in ASSETS]
    for path in paths:
        write(path, (HERE / "assets" / path.name).read_bytes())
    if has_charts:
        paths.append(folder / "assets" / VEGA)
        if not _is_current(paths[-1]):
            write(paths[-1], _mark() + _charting())
    return paths


def _mark() -> str:
    from importlib.metadata import version

    return (
        f"/* Vega, Vega-Lite and Vega-Embed (BSD-3-Clause), from vl-convert-python {version('vl-convert-python')} */\n"
    )


def _is_current(path: Path) -> bool:
    """Whether the library is there, whole (files are), and of the version that is installed."""
    mark = _mark().encode()
    try:
        with path.open("rb") as file:
            return file.read(len(mark)) == mark
    except OSError:
        return False


@cache
def _charting() -> str:
    """Vega as one classic script whose inner names stay inside."""
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return f"(() => {{\n{bundle}\n}})();\n"
