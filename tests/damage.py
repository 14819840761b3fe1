"""Damage done to finished runs, at random: is any of it read as if nothing had happened?

``python -m tests.damage [COUNT] [REDRAWS]``: so many mutations through the verification that every reader calls, and so
many through whole redraws of a figure, which must make the run anew, with the same bytes.  What was tried is added to
``results/damage.json``.
"""

import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from collectors import integrity
from collectors.integrity import check_run
from collectors.schema import MANIFEST
from core.errors import MachineError
from harness.campaign import finished_runs
from harness.code_version import ROOT, commit
from ratebed.options import make_request
from ratebed.produce import produce_figures

FIGURE = "srtm-fig4"
LEDGER = ROOT / "results" / "damage.json"
COUNT, REDRAWS = 10_000, 200

Mutation = Callable[[random.Random, Path, list[Path]], None]  # of a file, beside the folders of all runs


def flip(draw: random.Random, file: Path, runs: list[Path]) -> None:
    """One bit."""
    data = bytearray(file.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(data)


def truncate(draw: random.Random, file: Path, runs: list[Path]) -> None:
    """Some bytes less at the end, or all."""
    data = file.read_bytes()
    file.write_bytes(data[: draw.randrange(len(data))])


def delete(draw: random.Random, file: Path, runs: list[Path]) -> None:
    """The file is gone."""
    file.unlink()


def swap(draw: random.Random, file: Path, runs: list[Path]) -> None:
    """Another run's file of that name, or another file of some run."""
    others = [path for run in runs for path in run.iterdir() if path.is_file() and path != file]
    alike = [path for path in others if path.name == file.name]
    shutil.copy(draw.choice(alike or others), file)


def edit(draw: random.Random, file: Path, runs: list[Path]) -> None:
    """A few bytes are others, more or fewer; of a manifest, a value."""
    if file.name == MANIFEST:
        manifest = json.loads(file.read_bytes())
        name = draw.choice(sorted(manifest))
        manifest[name] = draw.choice([None, "valid", 0, [], {}, "done"])
        file.write_text(json.dumps(manifest, indent=2, sort_keys=True))
        return
    data = file.read_bytes()
    at, length = draw.randrange(len(data)), draw.randrange(1, 9)
    file.write_bytes(data[:at] + draw.randbytes(draw.randrange(1, 9)) + data[at + length :])


def add(draw: random.Random, file: Path, runs: list[Path]) -> None:
    """A table that the run did not write."""
    shutil.copy(file, file.with_name("messages.parquet"))


MUTATIONS: tuple[Mutation, ...] = (flip, truncate, delete, swap, edit, add)


def state_of(folder: Path) -> dict[str, object]:
    """What a run says: its tables' bytes, and the manifest's values."""
    files: dict[str, object] = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    if MANIFEST in files:
        try:
            files[MANIFEST] = json.loads((folder / MANIFEST).read_bytes())
        except ValueError:
            files[MANIFEST] = None
    return files


def mutated(draw: random.Random, runs: list[Path]) -> tuple[Path, str]:
    """Damage one file of one run; returns the run, and what was done."""
    folder, change = draw.choice(runs), draw.choice(MUTATIONS)
    file = draw.choice(sorted(path for path in folder.iterdir() if path.is_file()))
    change(draw, file, runs)
    return folder, f"{change.__name__} {file.name}"


def outcome(folder: Path) -> str:
    """Of the verification: seen, silent, or the error that is none of ours."""
    try:
        check_run(folder)
    except MachineError as error:
        return "seen" if "\n" not in str(error) and len(str(error)) < 400 else f"a long line: {error}"
    except Exception as error:
        return f"escaped: {type(error).__name__}: {error}"
    return "silent"


def verify_mutations(runs: list[Path], count: int, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """So many mutations, one after the other, each undone; how many of each kind, and those that went wrong."""
    whole = {folder: {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} for folder in runs}
    states = {folder: state_of(folder) for folder in runs}
    kinds: Counter[str] = Counter()
    wrong = []
    for number in range(seed, seed + count):
        folder, what = mutated(random.Random(number), runs)
        said = outcome(folder)
        if state_of(folder) == states[folder]:
            said = "nothing was changed"
        elif said != "seen":
            wrong.append(f"{number}: {what}: {said}")
        kinds[f"{what.partition(' ')[0]}: {said}"] += 1
        for path in folder.iterdir():
            if path.is_file() and path not in whole[folder]:
                path.unlink()
        for path, data in whole[folder].items():
            path.write_bytes(data)
    return kinds, wrong


def draw_figure(out: Path) -> tuple[int, str]:
    """The figure from what is there; the exit code, and what was said."""
    integrity.forget()  # a command of its own
    said = StringIO()
    with redirect_stdout(said):
        code, _ = produce_figures(make_request([FIGURE], False, "tiny", 1, 1, out, []))
    return code, said.getvalue()


def tables_in(out: Path) -> dict[str, bytes]:
    """All Parquet files of runs and figures, by path."""
    folders = [*finished_runs(out), *(out / "tables").iterdir()]
    return {str(path.relative_to(out)): path.read_bytes() for folder in folders for path in folder.glob("*.parquet")}


def redraw_mutations(out: Path, count: int, seed: int = 0) -> list[str]:
    """So many mutations, each followed by the user's command; returns those after which not all was as before."""
    before, wrong = tables_in(out), []
    for number in range(seed, seed + count):
        runs = finished_runs(out)
        states = {folder: state_of(folder) for folder in runs}
        folder, what = mutated(random.Random(number), runs)
        is_changed = state_of(folder) != states[folder]  # a value may have been the very one that it got
        code, said = draw_figure(out)
        if code or tables_in(out) != before or (folder.name in said) != is_changed:
            wrong.append(f"{number}: {what}: exit code {code}, {said[-300:]!r}")
        for aside in (out / "runs").glob("*.damaged*"):
            shutil.rmtree(aside)
    return wrong


def main() -> None:
    """Try, print, and add to the ledger."""
    words = [int(word) for word in sys.argv[1:]]
    count, redraws = (*words, *(COUNT, REDRAWS)[len(words) :])
    ledger = json.loads(LEDGER.read_text()) if LEDGER.exists() else []
    first = sum(row["mutations"] for row in ledger)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        code, said = draw_figure(out)
        assert code == 0, said
        kinds, wrong = verify_mutations(finished_runs(out), count, first)
        for kind, number in sorted(kinds.items()):
            print(f"{number:>6} {kind}")
        wrong += redraw_mutations(out, redraws, first)
    print("\n".join(wrong) or "0 silent changes, 0 tracebacks")
    row = {"commit": commit(), "first_seed": first, "mutations": count, "redraws": redraws, "wrong": wrong}
    LEDGER.write_text(json.dumps([*ledger, row], indent=2) + "\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
