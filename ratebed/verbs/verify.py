"""``ratebed verify``: whether every result in a folder is what was written."""

import json
from pathlib import Path
from typing import Annotated

import typer

from core.errors import MachineError
from ratebed import options as o

SetAside = Annotated[
    bool, typer.Option("--set-aside", help="rename damaged runs, so that the next run makes them anew")
]


def verify(out: o.Out = Path("out"), aside: SetAside = False, as_json: o.AsJson = False) -> int:
    """Read every run, figure's tables and drawing, and the table store in --out, and compare them with their digests.

    The threat is damage and mix-up, not forgery.  Runs whose tables are of another schema version are named, and stay.
    """
    from collectors.integrity import OtherVersion, check_identity, check_run
    from collectors.partials import left_partials
    from collectors.store.keeping import Store
    from collectors.writer import set_aside
    from harness.campaign import finished_runs
    from ratebed.kept import drawing_damage
    from ratebed.pipeline import figure_folders, section_of

    runs, problems, unread = finished_runs(out), dict[str, str](), dict[str, str]()
    for folder in runs:
        try:
            check_identity(check_run(folder))
        except OtherVersion as error:
            unread[str(folder)] = error.what
        except MachineError as error:
            problems[str(folder)] = error.what
            if aside:
                problems[str(folder)] += f"; set aside as {set_aside(folder).name}"
    figures = figure_folders(out)
    for folder in figures:
        try:
            drawn = drawing_damage(out, section_of(folder))
            problems |= {f"{out}/figures/{name}": f"{out}/{what}" for name, what in drawn.items()}
        except MachineError as error:
            problems[str(folder)] = str(error)
    store = Store.of(out)
    parts = store.state().parts.values()
    for part in parts:
        try:
            if what := store.damage(part):
                problems[f"{store.root}/{part.name}"] = f"{store.root}: {what}; what asks for its runs makes it anew"
        except MachineError as error:
            problems[f"{store.root}/{part.name}"] = str(error)
    others = [str(path) for path in left_partials(out / "runs")]
    if as_json:
        stored = sum(len(part.files) for part in parts)
        counts = {"run_count": len(runs) - len(unread), "figure_count": len(figures), "store_file_count": stored}
        print(json.dumps({**counts, "damaged": problems, "unread": unread, "half_written": others}, indent=2))
        return int(bool(problems))
    for problem in problems.values():
        print(f"damaged: {problem}")
    for what in unread.values():
        print(f"not read: {what}")
    for path in others:
        print(f"half-written by another host or container: {path}")
    print(f"{len(runs) - len(unread)} runs and {len(figures)} figures read, {len(problems)} damaged")
    return int(bool(problems))
