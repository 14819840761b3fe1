"""The store's catalogue: which runs are in which files, as a log of commits that is only ever added to.

A commit says which parts go and which come.  Its file, ``log/00000012.json``, is created where there is none, else
not at all, which every file system and object store can do: nothing is renamed or replaced.  Who finds the number
taken reads what the other has done, and tries the next.

What a commit does is the same for all who read it, whenever they do: it counts if all the parts that it takes are
there and none of the runs that it brings; else it is void, as is one that is not as it was written.  So no run is
ever in two parts, whatever two writers do, and whoever is killed, in the middle of a commit too.

Every ``CHECKPOINT_EVERY`` commits one more file, ``log/00000064.checkpoint.json``, says what was there then: who
reads begins with the last of them.  What they make superfluous goes when it is an hour old.
"""

import json
import re
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from collectors.store.hadoop import Place, make_durable
from core.digests import is_sealed, sealed
from core.records import Json

LOG = "log"
NAME = "name"  # the key of a file's own name
CHECKPOINT_EVERY = 64
LOOKS = 3  # at the log, where some of it goes while it is read
KEPT_S = 3_600.0  # commits before a checkpoint stay so long: who is in the middle of one still finds its number taken
_SETTLING_S = 2.0  # a commit that is younger may still be being written
_NAME = re.compile(r"(\d{8,})(\.checkpoint)?\.json")


class KeptRun(NamedTuple):
    """What the catalogue has of a run: the digest of its manifest, and of the code that made it."""

    manifest: str
    code: str


class StoredFile(NamedTuple):
    """A file of a part: ``path`` below the store, its rows' first and last run id."""

    table: str
    path: str
    bytes: int
    digest: str
    rows: int
    first: str
    last: str


@dataclass(frozen=True)
class StoredPart:
    """Runs and the files with all of their rows."""

    name: str
    schema_version: int
    runs: Mapping[str, KeptRun]
    files: tuple[StoredFile, ...]

    @property
    def bytes(self) -> int:
        """Of its largest table."""
        sizes: dict[str, int] = {}
        for file in self.files:
            sizes[file.table] = sizes.get(file.table, 0) + file.bytes
        return max(sizes.values(), default=0)

    def to_json(self) -> Json:
        """As a commit has it."""
        return {
            "name": self.name,
            "schema_version": self.schema_version,
            "runs": {run_id: [kept.manifest, kept.code] for run_id, kept in self.runs.items()},
            "files": [{**file._asdict()} for file in self.files],
        }

    @classmethod
    def of_json(cls, content: Json) -> "StoredPart":
        """What ``to_json`` made."""
        runs = {run_id: KeptRun(*kept) for run_id, kept in content["runs"].items()}
        files = tuple(StoredFile(**file) for file in content["files"])
        return cls(content["name"], content["schema_version"], runs, files)


@dataclass(frozen=True)
class StoreState:
    """What the store holds after the commits up to ``number``, void ones counted.

    ``torn``: the numbers of commits that are not as they were written, or not yet; ``lost``: of checkpoints that are
    not, and whose commits have gone, or else of commits that are missing: what these named is not known.
    """

    number: int = -1
    parts: Mapping[str, StoredPart] = field(default_factory=dict)  # by name
    of_run: Mapping[str, str] = field(default_factory=dict)  # run -> part
    torn: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()

    def kept(self, run_id: str) -> KeptRun | None:
        """The catalogue's entry of a run."""
        part = self.of_run.get(run_id)
        return None if part is None else self.parts[part].runs[run_id]

    def accepts(self, dropped: Collection[str], parts: Collection[StoredPart]) -> bool:
        """Whether all parts that are to go are there, and no run that comes would be there twice."""
        coming = [run_id for part in parts for run_id in part.runs]
        staying = (self.of_run.get(run_id) for run_id in coming)
        return (
            self.parts.keys() >= set(dropped)
            and len(coming) == len(set(coming))
            and all(part is None or part in dropped for part in staying)
            and self.parts.keys().isdisjoint(part.name for part in parts)
        )

    def after(self, number: int, dropped: Collection[str], parts: Collection[StoredPart]) -> "StoreState":
        """What is there after a commit; the same as before where it is void."""
        if not self.accepts(dropped, parts):
            return replace(self, number=number)
        kept = {name: part for name, part in self.parts.items() if name not in dropped}
        of_run = {run_id: name for run_id, name in self.of_run.items() if name in kept}
        of_run |= {run_id: part.name for part in parts for run_id in part.runs}
        return StoreState(number, kept | {part.name: part for part in parts}, of_run, self.torn, self.lost)


EMPTY = StoreState()


def read_log(root: Place, since: StoreState = EMPTY) -> StoreState:
    """What the store in the folder ``root`` holds now; ``since``: what it held before, of which no more is read.

    OSError where that cannot be read.
    """
    for _ in range(LOOKS - 1):
        with suppress(FileNotFoundError):  # what a checkpoint had made superfluous has gone meanwhile
            state = _read_all(root, since)
            if not state.lost:  # else it may have come while the later ones were listed
                return state
    return _read_all(root, since)


def _read_all(root: Place, since: StoreState) -> StoreState:
    commits, checkpoints = _numbers(root)
    damaged: tuple[int, ...] = ()
    # A torn one may be whole by now, and change what later ones do.
    state = EMPTY if since.torn or since.lost else since
    for number in sorted(checkpoints, reverse=True):
        if number <= state.number:
            break
        content = _read(_path(root, number, checkpoint=True))
        if content is not None:
            state = EMPTY.after(number, (), [StoredPart.of_json(part) for part in content["parts"]])
            break
        damaged = (*damaged, number)
    coming = sorted(number for number in commits if number > state.number)
    # Who brings a commit has seen the one before: numbers have no gap but where a checkpoint says what was there.
    missing = {*range(state.number + 1, max(coming, default=state.number) + 1)} - {*coming}
    if missing or (damaged and not coming):
        state = replace(state, lost=damaged or tuple(sorted(missing)))
    for number in coming:
        content = _read_settled(_path(root, number))
        if content is None:
            state = replace(state, number=number, torn=(*state.torn, number))
        else:
            parts = [StoredPart.of_json(part) for part in content["parts"]]
            state = state.after(number, content["dropped"], parts)
    return state


def append(
    root: Place, state: StoreState, dropped: Collection[str], parts: Collection[StoredPart]
) -> tuple[StoreState, bool]:
    """Try to be the next commit after ``state``: what the store holds now, and whether this one is in it.

    OSError where it cannot be written.
    """
    number = state.number + 1
    path = _path(root, number)
    content: Json = {"dropped": sorted(dropped), "parts": [part.to_json() for part in parts]}
    if not _create(path, content):
        return read_log(root, state), False
    if any(done >= number for done in _numbers(root)[1]):  # somebody was so much faster that nobody reads ours
        return read_log(root), False
    now = read_log(root, state)
    counts = now.number >= number and all(now.parts.get(part.name) == part for part in parts)
    is_known = not now.lost and all(_is_old(_path(root, torn)) for torn in now.torn)
    if counts and (number + 1) % CHECKPOINT_EVERY == 0 and is_known:
        _write_checkpoint(root, now)
    return now, counts


def commit(
    root: Place, state: StoreState, dropped: Collection[str], parts: Collection[StoredPart]
) -> tuple[StoreState, bool]:
    """``append``, behind all who are faster, unless they have brought or dropped any of it."""
    done = False
    while not done and state.accepts(dropped, parts):
        state, done = append(root, state, dropped, parts)
    return state, done


def all_names(root: Place) -> list[str]:
    """The files of the log; empty where there is no store."""
    folder = root / LOG
    return sorted(path.name for path in folder.iterdir() if _NAME.fullmatch(path.name)) if folder.is_dir() else []


def _write_checkpoint(root: Place, state: StoreState) -> None:
    """Sum up what is there; older commits, which nobody needs any more, go when they are old enough."""
    parts = [part.to_json() for part in state.parts.values()]
    _create(_path(root, state.number, checkpoint=True), {"parts": parts})
    for name in all_names(root):
        match, path = _NAME.fullmatch(name), root / LOG / name
        assert match is not None
        with suppress(OSError):
            if int(match[1]) < state.number and _is_old(path):
                path.unlink()


def _is_old(path: Place) -> bool:
    return time.time() - path.stat().st_mtime > KEPT_S


def _numbers(root: Place) -> tuple[list[int], list[int]]:
    """Of commits, and of checkpoints."""
    matches = [match for name in all_names(root) if (match := _NAME.fullmatch(name))]
    return [int(m[1]) for m in matches if not m[2]], [int(m[1]) for m in matches if m[2]]


def _path(root: Place, number: int, checkpoint: bool = False) -> Place:
    return root / LOG / f"{number:08}{'.checkpoint' * checkpoint}.json"


def _create(path: Place, content: Json) -> bool:
    """Write a file that is not there, durably; False where it is.  A write that fails leaves a void one.

    It says which it is: a copy of another file of the log is not as it was written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("xb") as file:
            file.write(json.dumps(sealed({NAME: path.name, **content})).encode())
            make_durable(file)
    except FileExistsError:
        return False
    return True


def _read(path: Place) -> Json | None:
    """A file of the log; None where it is not as it was written.  OSError where it is gone, or cannot be read now."""
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    is_its_own = is_sealed(content) and content.get(NAME, path.name) == path.name  # at first they did not say it
    is_whole = is_its_own and {"parts"} | ({"dropped"} if _is_commit(path) else set()) <= content.keys()
    return content if is_whole else None


def _is_commit(path: Place) -> bool:
    match = _NAME.fullmatch(path.name)
    return match is not None and not match[2]


def _read_settled(path: Place) -> Json | None:
    """The same of a commit that somebody may be writing just now."""
    content = _read(path)
    with suppress(OSError):
        while content is None and 0 <= time.time() - path.stat().st_mtime < _SETTLING_S:
            time.sleep(0.02)
            content = _read(path)
    return content
