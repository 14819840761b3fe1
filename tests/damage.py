"""Damage done to results, at random: is any of it read as if nothing had happened?

``python -m tests.damage [COUNT] [REDRAWS]``: so many mutations through the verification that every reader calls, and so
many through whole redraws, which must make anew what was damaged, with the same bytes.  Files of runs are damaged, of
a live one with logs, too; figures' tables, sections and drawings; files and log of the table store; packs and their
log; listings of code.  What was tried is added to ``results/damage.json``.
"""

import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from collectors import integrity
from collectors.integrity import check_run
from collectors.packs import RunPacks
from collectors.schema import MANIFEST
from collectors.store import log, parts
from collectors.store.keeping import Store
from collectors.store.log import StoreState
from core.errors import MachineError
from harness.campaign import code_listing, finished_runs
from harness.code_version import ROOT, commit
from paper_figs.saving import drawn_files
from ratebed.kept import drawing_damage
from ratebed.options import make_request
from ratebed.pipeline import SECTION, figure_folders, section_of
from ratebed.produce import produce_figures
from tests.command import ratebed

FIGURE, OTHER = "srtm-fig4", "dst-table2"  # the other one has no runs
LIVE = ("--system", "crdt-counter", "--workload", "requests", "--topology", "full-mesh", "--testbed", "local")
LEDGER = ROOT / "results" / "damage.json"
COUNT, REDRAWS = 10_000, 200

Mutation = Callable[[random.Random, Path, list[Path]], None]  # of a file, beside others of its kind


def flip(draw: random.Random, file: Path, others: list[Path]) -> None:
    """One bit."""
    data = bytearray(file.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(data)


def truncate(draw: random.Random, file: Path, others: list[Path]) -> None:
    """Some bytes less at the end, or all."""
    data = file.read_bytes()
    file.write_bytes(data[: draw.randrange(len(data))])


def delete(draw: random.Random, file: Path, others: list[Path]) -> None:
    """The file is gone."""
    file.unlink()


def swap(draw: random.Random, file: Path, others: list[Path]) -> None:
    """Another run's file of that name, or another file of its kind."""
    alike = [path for path in others if path.name == file.name]
    shutil.copy(draw.choice(alike or others), file)


def edit(draw: random.Random, file: Path, others: list[Path]) -> None:
    """A few bytes are others, more or fewer; of JSON, a value."""
    content = content_of(file)
    if isinstance(content, dict):
        content[draw.choice(sorted(content))] = draw.choice([None, "valid", 0, [], {}, "done"])
        file.write_text(json.dumps(content, indent=2, sort_keys=True))
        return
    data = file.read_bytes()
    at, length = draw.randrange(len(data)), draw.randrange(1, 9)
    file.write_bytes(data[:at] + draw.randbytes(draw.randrange(1, 9)) + data[at + length :])


def add(draw: random.Random, file: Path, others: list[Path]) -> None:
    """A table that nobody wrote there."""
    shutil.copy(file, file.with_name("messages.parquet"))


MUTATIONS: tuple[Mutation, ...] = (flip, truncate, delete, swap, edit, add)
EVERYWHERE = MUTATIONS[:-1]  # beside files that a catalogue names, a further one is nobody's


class Target(NamedTuple):
    """Files of a kind, and what every reader of them asks first: True, or MachineError, where it sees damage."""

    kind: str
    files: list[Path]
    sees: Callable[[Path], bool]
    mutations: tuple[Mutation, ...] = EVERYWHERE


def target_of(runs: list[Path]) -> Target:
    """Runs' tables, logs and manifests."""
    return Target("run", files_in(runs), lambda file: bool(check_run(run_of(file, runs))) and False, MUTATIONS)


def targets_of(out: Path, packs: Path | None = None) -> list[Target]:
    """All that may be damaged in a folder of results, and in packs of its runs."""
    runs, figures, code = finished_runs(out), figure_folders(out), out / "runs" / ".code"
    sections = {folder.name: section_of(folder) for folder in figures}
    drawings = {path: name for name in sections for path in drawn_files(out / "figures", name)}
    codes = {
        code / f"{code_hash[:16]}.json": code_hash for code_hash in {str(check_run(run)["code_hash"]) for run in runs}
    }
    listings = {path: code_listing(out / "runs", codes[path]) for path in sorted(codes)}
    store = Store.of(out)
    state = store.state()
    of_part = {store.root / file.path: part for part in state.parts.values() for file in part.files}
    targets = [
        target_of(runs),
        Target("figure", files_in(figures), lambda file: bool(section_of(file.parent)) and False, MUTATIONS),
        Target("drawing", [*drawings], lambda file: file.name in drawing_damage(out, sections[drawings[file]])),
        Target("code", [*listings], lambda file: code_listing(out / "runs", codes[file]) != listings[file]),
        Target("store", [*of_part], lambda file: bool(store.damage(of_part[file]))),
        Target(
            "store's log", files_in([store.root / log.LOG]), lambda file: is_subset(log.read_log(store.root), state)
        ),
    ]
    if packs is not None:
        kept, whole = RunPacks(packs).state(), {folder.name: (folder / MANIFEST).read_bytes() for folder in runs}
        targets += [
            Target("pack", files_in([packs / "packs"]), lambda file: packs_are_right(packs, whole, told=True)),
            Target(
                "packs' log",
                files_in([packs / log.LOG]),
                lambda file: is_subset(RunPacks(packs).state(), kept) and packs_are_right(packs, whole),
            ),
        ]
    return [target for target in targets if target.files]


def files_in(folders: list[Path]) -> list[Path]:
    """All files below."""
    return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())


def run_of(file: Path, runs: list[Path]) -> Path:
    """The run folder that a file is in."""
    return next(folder for folder in runs if file.is_relative_to(folder))


def is_subset(state: StoreState, whole: StoreState) -> bool:
    """Whether a catalogue says nothing that was not so: what it lacks is brought in again."""
    return all(whole.parts.get(name) == part for name, part in state.parts.items())


def packs_are_right(packs: Path, whole: dict[str, bytes], told: bool = False) -> bool:
    """Whether all runs that come from there are what they were; ``told``: and that something is damaged was told."""
    said: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        reader, runs = RunPacks(packs, said.append), Path(folder) / "runs"
        runs.mkdir()
        reader.fetch(reader.state().of_run, runs)
        came = [path for path in runs.iterdir() if "." not in path.name]
        return (bool(said) or not told) and all(check_run(path) and _is(path, whole[path.name]) for path in came)


def _is(folder: Path, manifest: bytes) -> bool:
    return (folder / MANIFEST).read_bytes() == manifest


def content_of(file: Path) -> object:
    """What a file says: its bytes, of JSON its values."""
    if not file.is_file():
        return None
    data = file.read_bytes()
    try:
        return json.loads(data) if file.suffix == ".json" else data
    except ValueError:
        return data


def mutated(draw: random.Random, targets: list[Target]) -> tuple[Target, Path, str]:
    """Damage one file of one kind; returns the target, the file, and what was done."""
    target = draw.choice(targets)
    change, file = draw.choice(target.mutations), draw.choice(target.files)
    change(draw, file, [path for path in target.files if path != file and path.suffix == file.suffix] or [file])
    if log.LOG in file.parts and file.exists():
        os.utime(file, (1, 1))  # a young one may still be being written, and is waited for
    return target, file, f"{change.__name__} {target.kind} {'/'.join(file.parts[-2:])}"


def outcome(target: Target, file: Path) -> str:
    """Of the verification: seen, silent, or the error that is none of ours."""
    parts._digest_once.cache_clear()  # a command of its own
    integrity.forget()
    try:
        return "seen" if target.sees(file) else "silent"
    except MachineError as error:
        return "seen" if "\n" not in str(error) and len(str(error)) < 400 else f"a long line: {error}"
    except Exception as error:
        return f"escaped: {type(error).__name__}: {error}"


class Kept:
    """Folders as they are, to be so again."""

    def __init__(self, *folders: Path):
        self.folders = [*folders]
        self.whole = {path: path.read_bytes() for path in files_in(self.folders)}

    def restore(self) -> None:
        """Undo what was done."""
        for path in files_in(self.folders):
            if path not in self.whole:
                path.unlink()
        for path, data in self.whole.items():
            if not path.is_file() or path.read_bytes() != data:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)


def verify_mutations(kept: Kept, targets: list[Target], count: int, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """So many mutations, one after the other, each undone; how many of each kind, and those that went wrong."""
    contents = {file: content_of(file) for target in targets for file in target.files}
    kinds: Counter[str] = Counter()
    wrong = []
    for number in range(seed, seed + count):
        target, file, what = mutated(random.Random(number), targets)
        added = file.with_name("messages.parquet")
        said = outcome(target, file)
        if content_of(file) == contents[file] and (added in kept.whole or not added.exists()):
            said = "nothing was changed"
        elif said != "seen":
            wrong.append(f"{number}: {what}: {said}")
        kinds[f"{' '.join(what.split()[:-1])}: {said}"] += 1
        kept.restore()
    return kinds, wrong


def make(folder: Path) -> tuple[Path, Path]:
    """A folder of results with figures, a live run with logs, and a store of several commits; and packs of its runs."""
    out, packs = folder / "out", folder / "packs"
    code, said = draw_figures(out)
    assert code == 0, said
    done = ratebed("run", *LIVE, "--set", "study.duration=2s", "--out", str(out))
    runs = finished_runs(out)
    assert any((run / "logs").is_dir() for run in runs), done.stderr
    shutil.rmtree(out / "store")
    often, log.CHECKPOINT_EVERY = log.CHECKPOINT_EVERY, 2
    try:
        for some in _thirds(runs):
            Store.of(out).keep(some)
            RunPacks(packs).bring(some)
    finally:
        log.CHECKPOINT_EVERY = often
    for file in files_in([out / "store" / log.LOG, packs / log.LOG]):
        os.utime(file, (1, 1))
    return out, packs


def _thirds(runs: list[Path]) -> Iterator[list[Path]]:
    for start in range(3):
        yield runs[start::3]


def draw_figures(out: Path) -> tuple[int, str]:
    """The figures from what is there; the exit code, and what was said."""
    integrity.forget()  # a command of its own
    parts._digest_once.cache_clear()
    said = StringIO()
    with redirect_stdout(said):
        code, _ = produce_figures(make_request([FIGURE, OTHER], False, "tiny", 1, 1, out, []))
    return code, said.getvalue()


def shown_in(out: Path) -> dict[str, bytes]:
    """All Parquet files of runs and figures, and the drawings, by path."""
    files = files_in([*finished_runs(out), out / "tables", out / "figures"])
    return {str(path.relative_to(out)): path.read_bytes() for path in files if path.name not in (MANIFEST, SECTION)}


def redraw_mutations(out: Path, count: int, seed: int = 0) -> list[str]:
    """So many mutations, each followed by the user's command; returns those after which not all was as before.

    What is damaged must be named, but for the store's log, which says less where it is; and all must verify then.
    """
    wrong = []
    for number in range(seed, seed + count):
        before, targets = shown_in(out), [target for target in targets_of(out) if target.kind != "code"]
        contents = {path: content_of(path) for path in files_in([out])}
        target, file, what = mutated(random.Random(number), targets)
        is_changed = {path: content_of(path) for path in files_in([out])} != contents
        if "store" in target.kind:
            shutil.rmtree(out / "tables" / FIGURE)  # so that the store is asked
        try:
            code, said = draw_figures(out)
        except Exception as error:
            code, said = 1, f"{type(error).__name__}: {error}"
        is_named = _named(target, file, out) in said
        if code or shown_in(out) != before or (is_named != is_changed and target.kind != "store's log"):
            wrong.append(f"{number}: {what}: exit code {code}, {said[-400:]!r}")
        if (done := ratebed("verify", "--out", str(out))).returncode:
            wrong.append(f"{number}: {what}: {done.stdout}{done.stderr}")
        for aside in (out / "runs").glob("*.damaged*"):
            shutil.rmtree(aside)
    return wrong


def _named(target: Target, file: Path, out: Path) -> str:
    """What is said of a damaged file by the command that makes it anew."""
    if target.kind == "run":
        return f"{run_of(file, finished_runs(out)).name}"
    return {"figure": f"damaged: {file.parent}", "drawing": f"damaged: figures/{file.name}"}.get(target.kind, "store: ")


def main() -> None:
    """Try, print, and add to the ledger."""
    words = [int(word) for word in sys.argv[1:]]
    count, redraws = (*words, *(COUNT, REDRAWS)[len(words) :])
    ledger: list[dict[str, Any]] = json.loads(LEDGER.read_text()) if LEDGER.exists() else []
    first = sum(row["mutations"] for row in ledger)
    with tempfile.TemporaryDirectory() as folder:
        out, packs = make(Path(folder))
        kinds, wrong = verify_mutations(Kept(out, packs), targets_of(out, packs), count, first)
        for kind, number in sorted(kinds.items()):
            print(f"{number:>6} {kind}")
        wrong += redraw_mutations(_without_live(out), redraws, first)
    print("\n".join(wrong) or "0 silent changes, 0 tracebacks")
    of_kinds = Counter[str]()
    for kind, number in kinds.items():
        of_kinds[kind.partition(" ")[2].partition(":")[0]] += number
    row = {"commit": commit(), "first_seed": first, "mutations": count, "redraws": redraws, "wrong": wrong}
    LEDGER.write_text(json.dumps([*ledger, {**row, "of": dict(sorted(of_kinds.items()))}], indent=2) + "\n")
    sys.exit(bool(wrong))


def _without_live(out: Path) -> Path:
    """No figure asks for the live run, and so nothing would make it anew."""
    for run in finished_runs(out):
        if (run / "logs").is_dir():
            shutil.rmtree(run)
    return out


if __name__ == "__main__":
    main()
