"""Keeps the store in step with the run folders: what is new comes in, what is damaged or made anew is replaced.

Everything is worked out from the folders and the log, and may be repeated, left in the middle and done by several at
once: who comes too late with a commit reads what the other has brought, and keeps only what is new still.
"""

import errno
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from uuid import uuid4

from collectors.integrity import FILES, is_whole, verified
from collectors.schema import SCHEMA_VERSION
from collectors.scratch import ScratchFull
from collectors.store import claims
from collectors.store.hadoop import Place
from collectors.store.log import EMPTY, StoredPart, StoreState, commit, read_log
from collectors.store.parts import FILE_BYTES, FromFolders, FromPart, Source, damage_of, entry_of, write_part
from core.errors import MachineError

PART_RUNS = 20_000  # at most: who takes one run out of a part writes the others anew
TIER_BITS, TIER_PARTS = 3, 32  # parts of a size, up to a factor of 2^TIER_BITS, are merged when there are more

# Write the parts, each with its name and folders; a caller may have it done elsewhere.
Write = Callable[[Place, Mapping[str, Sequence[Path]]], list[StoredPart]]


def write_here(root: Place, groups: Mapping[str, Sequence[Path]]) -> list[StoredPart]:
    """Write parts from run folders, one after the other, in this process."""
    return [write_part(root, name, [FromFolders(folders)]) for name, folders in groups.items()]


@dataclass
class Store:
    """The store in the folder ``root``, of the runs in ``runs``; ``is_near``: who writes for us sees these."""

    root: Place
    runs: Path
    tell: Callable[[str], None] = print
    is_near: bool = True
    _state: StoreState = field(default=EMPTY, repr=False)
    _one: Lock = field(default_factory=Lock, repr=False)  # thread of ours at a time: they would do the same work

    @classmethod
    def of(cls, out: Path) -> "Store":
        """The store of a folder of results."""
        return cls(out / "store", out / "runs")

    def state(self) -> StoreState:
        """What is there now."""
        self._state = read_log(self.root, self._state)
        return self._state

    @contextmanager
    def in_use(self) -> Iterator["Store | None"]:
        """Nothing that is read from it goes while inside; afterwards it is tidied.  None where it cannot be written."""
        with ExitStack() as claimed:
            try:
                claimed.enter_context(claims.reading(self.root))
                usable = True
            except PermissionError:
                usable = False
            except OSError as error:
                if error.errno != errno.EROFS:
                    raise self._unwritable(error) from error
                usable = False
            yield self if usable else None
        if usable:
            self.tidy()

    def keep(self, folders: Collection[Path], write: Write = write_here, tasks: int = 1) -> StoreState:
        """Bring these finished runs in, where they are not; returns what the store holds then.

        The files of their parts are as they were written then.  ``tasks``: so many parts at least, if there are runs.
        ``Damage`` where a run is not as it was written; MachineError where the store cannot be written.
        """
        wanted = {folder.name: folder for folder in folders}
        try:
            with self._one:
                while True:
                    state = self.state()
                    dropped, coming = self._lacking(state, wanted)
                    if not dropped and not coming:
                        return state
                    self._commit(state, dropped, coming, write, tasks)
        except OSError as error:
            raise self._unwritable(error) from error

    def rebuild(self, folders: Collection[Path], write: Write = write_here, tasks: int = 1) -> StoreState:
        """Make all parts anew from the folders of finished runs, whatever is there."""
        coming, done = self._whole_folders(folders), False
        try:
            while not done:
                state = self.state()
                done = self._commit(state, state.parts.keys(), coming, write, tasks)
        except OSError as error:
            raise self._unwritable(error) from error
        return self._state

    def _unwritable(self, error: OSError) -> MachineError:
        if isinstance(error, ScratchFull):
            return error.told()
        what = "free disk space there" if isinstance(self.root, Path) else "see that it can be reached"
        fix = f"{what}; run folders are as they were"
        return MachineError(f"cannot write {self.root}: {error.strerror or error}", fix)

    def _lacking(self, state: StoreState, wanted: Mapping[str, Path]) -> tuple[set[str], dict[str, Path]]:
        """The parts that must go, and the folders that must come in."""
        coming: dict[str, Path] = {}
        outdated: set[str] = set()
        used: set[str] = set()
        for run_id, folder in wanted.items():
            kept = state.kept(run_id)
            if kept is None or kept != entry_of(verified(folder)):
                coming[run_id] = folder
                outdated |= {state.of_run[run_id]} if kept else set()
            else:
                used.add(state.of_run[run_id])
        damaged: dict[str, str] = {}
        for name in sorted(used | outdated):
            if what := self.damage(state.parts[name]):
                damaged[name] = what
                runs = f"{count} runs are" if (count := len(state.parts[name].runs)) > 1 else "run is"
                self.tell(f"store: {what}; its {runs} taken from the run folders again")
        outdated |= damaged.keys()
        for name in outdated:
            own = state.parts[name].runs.keys()
            coming |= self._whole_folders(self.runs / run_id for run_id in own - wanted.keys())
            coming |= {run_id: wanted[run_id] for run_id in own & wanted.keys()}
        return outdated, coming

    def damage(self, part: StoredPart) -> str:
        """Which file of the part is not as it was written, and how; empty where all are.

        MachineError where that cannot be told just now.
        """
        for file in part.files:
            try:
                what = damage_of(self.root, file)
            except OSError as error:
                what = f"cannot read {self.root / file.path}: {error.strerror or error}"
                raise MachineError(what, "see that it can be reached") from error
            if what:
                return f"{file.path} {what}"
        return ""

    @staticmethod
    def _whole_folders(folders: Iterable[Path]) -> dict[str, Path]:
        """Those that are there as they were written, by run id."""
        return {folder.name: folder for folder in folders if is_whole(folder)}

    def _commit(
        self, state: StoreState, dropped: Collection[str], coming: Mapping[str, Path], write: Write, tasks: int
    ) -> bool:
        """Write what comes, and say so in the log, unless others have been faster; whether that was done."""
        groups = {uuid4().hex: group for group in grouped(coming, tasks)}
        with ExitStack() as claimed:
            for name in groups:
                claimed.enter_context(claims.writing(self.root, name))
            return self._append(state, dropped, write(self.root, groups))

    def _append(self, state: StoreState, dropped: Collection[str], parts: Sequence[StoredPart]) -> bool:
        """Whether the commit counts; where not, what was written for it is garbage."""
        self._state, done = commit(self.root, state, dropped, parts)
        return done

    def tidy(self, forget: bool = False) -> None:
        """Merge small parts where there are many, and remove what nobody needs any more.

        ``forget``: runs without a folder, too, which else a merge leaves out.
        """
        with suppress(OSError, MachineError):  # what there is no room for, or no right to, or cannot be read, is left
            for names in _mergeable(self.state()):
                self._merge(self._state, names)
            if forget:
                gone = {self._state.of_run[run_id] for run_id in self._state.of_run if not self._is_there(run_id)}
                for name in sorted(gone):
                    self._merge(self._state, [name])
            claims.remove_garbage(self.root)

    def _is_there(self, run_id: str) -> bool:
        return (self.runs / run_id).is_dir()

    def _merge(self, state: StoreState, names: Sequence[str]) -> bool:
        """Put parts together, without the runs whose folders are gone; whether it was done, and not by others."""
        if not state.parts.keys() >= set(names):
            return False
        parts = [state.parts[name] for name in names]
        if any(map(self.damage, parts)):  # made anew when somebody asks for its runs
            return False
        sources: list[Source] = []
        for part in parts:
            there = set(filter(self._is_there, part.runs))
            sources += [FromPart(self.root, part, there)] if there else []
        name = uuid4().hex
        with claims.writing(self.root, name):
            merged = [write_part(self.root, name, sources)] if sources else []
            return self._append(state, names, merged)


def grouped(folders: Mapping[str, Path], tasks: int = 1) -> Iterator[list[Path]]:
    """Run folders in groups of a part each, none too large, at least ``tasks``; sorted by run id, each and all."""
    most = min(PART_RUNS, -(-len(folders) // tasks))
    group: list[Path] = []
    sizes: defaultdict[str, int] = defaultdict(int)
    for run_id in sorted(folders):
        own = {name: int(file["bytes"]) for name, file in verified(folders[run_id])[FILES].items()}
        if group and (len(group) >= most or any(sizes[name] + size > FILE_BYTES for name, size in own.items())):
            yield group
            group, sizes = [], defaultdict(int)
        group.append(folders[run_id])
        for name, size in own.items():
            sizes[name] += size
    if group:
        yield group


def _mergeable(state: StoreState) -> list[list[str]]:
    """Parts that are better one: many of about a size, and small; those of other code's tables stay as they are."""
    tiers: defaultdict[int, list[StoredPart]] = defaultdict(list)
    for part in state.parts.values():
        if 2 * part.bytes <= FILE_BYTES and part.schema_version == SCHEMA_VERSION:
            tiers[part.bytes.bit_length() // TIER_BITS].append(part)
    chosen = []
    for parts in tiers.values():
        waiting = parts if len(parts) > TIER_PARTS else []
        while len(group := _together(waiting)) > 1:
            chosen.append([part.name for part in group])
            waiting = waiting[len(group) :]
    return chosen


def _together(parts: Sequence[StoredPart]) -> Sequence[StoredPart]:
    """As many of the first parts as make one that is not too large."""
    size = runs = 0
    for count, part in enumerate(parts):
        size, runs = size + part.bytes, runs + len(part.runs)
        if size > FILE_BYTES or runs > PART_RUNS:
            return parts[:count]
    return parts
