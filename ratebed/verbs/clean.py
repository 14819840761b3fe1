"""``ratebed clean``: remove what no figure needs any more."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from ratebed import options as o

Everything = Annotated[bool, typer.Option("--all", help="runs, tables, figures and report")]


def clean(out: o.Out = Path("out"), everything: Everything = False) -> None:
    """Remove runs that no drawn figure uses (older code, failed, half-written); --all removes all results."""
    from ratebed.pipeline import sections

    kept = set() if everything else {run_id for section in sections(out).values() for run_id in section["run_ids"]}
    runs = out / "runs"
    removed = [path for path in sorted(runs.glob("*")) if path.is_dir() and path.name not in kept]
    for path in removed:
        shutil.rmtree(path)
    if everything:
        for name in ("tables", "figures", "report"):
            shutil.rmtree(out / name, ignore_errors=True)
    print(f"removed {len(removed)} run folders, kept {len(kept)}")
