"""``ratebed clean``: remove what is of no use any more."""

import json
import shutil
from pathlib import Path
from typing import Annotated

import typer

from ratebed import options as o

Everything = Annotated[bool, typer.Option("--all", help="runs, tables, figures and report")]


def clean(out: o.Out = Path("out"), everything: Everything = False) -> None:
    """Remove failed runs, what killed commands left, and runs of older code; --all removes all results."""
    from collectors.schema import MANIFEST
    from collectors.writer import FAILED, remove_partials
    from harness.code_version import code_hash

    runs = out / "runs"
    removed = remove_partials(runs)
    for folder in sorted(path for path in runs.glob("*") if (path / MANIFEST).is_file()):
        manifest = json.loads((folder / MANIFEST).read_text())
        if everything or folder.name.endswith(FAILED) or manifest.get("code_hash") != code_hash():
            shutil.rmtree(folder)
            removed += 1
    if everything:
        for name in ("tables", "figures", "report"):
            shutil.rmtree(out / name, ignore_errors=True)
    print(f"removed {removed} run folders")
