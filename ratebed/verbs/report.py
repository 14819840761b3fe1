"""``ratebed report``: the report anew, from what is there."""

import json
from pathlib import Path
from typing import Annotated

import typer

from core.errors import SpecError
from core.records import Json
from ratebed import options as o

Since = Annotated[
    str,
    typer.Option("--since", metavar="FOLDER", help="say what changed since an earlier report, or a record of claims"),
]
Published = Annotated[
    list[str] | None,
    typer.Option(
        "--published",
        metavar="FIGURE=FILE",
        help="draw a curve that you digitised: CSV with x, y, series, error; kept in the out folder",
    ),
]


def report(out: o.Out = Path("out"), since: Since = "", published: Published = None, as_json: o.AsJson = False) -> int:
    """Write the report over everything in the out folder, without running or drawing anything.

    The exit code is 1 where all runs of a figure are invalid, or what is not as it was written is left out.
    """
    from analysis.report import claims_json
    from ratebed.digitised import keep
    from ratebed.judging import counts_line
    from ratebed.pipeline import figure_folders
    from ratebed.reporting import report as written
    from ratebed.validity import standing_rows, told_of_figures

    if not figure_folders(out):
        raise SpecError(f"{out} has no figure", "make one: ratebed run FIGURE")
    keep(out, published or [])
    path, results, damaged, described, _ = written(out, since)
    if as_json:
        told: Json = {"report": str(path.resolve()), "damaged": damaged, "validity": standing_rows(described)}
        print(json.dumps({**told, "claims": claims_json(results)}, indent=2))
    else:
        for what in damaged:
            print(f"damaged, left out: {what}")
        print(f"claims: {counts_line(results) or 'none'}")
        print(f"report: {path.resolve()}")
    return max(told_of_figures(described.values()), int(bool(damaged)))
