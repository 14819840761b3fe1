"""Finished runs on any file system, in packs: where a cluster keeps them whose hosts share no folder.

    packs/<sha256>-<mark>.zip   run folders, uncompressed; its name begins with its digest
    log/<number>.json           commits: which packs came and which went, with their runs (``collectors.store.log``)

A pack is written under a name that nobody has, and is there for others once a commit names it.  Commits are those of
the table store, and so is what they mean: of two that bring the same run one counts, and a run is in one pack or in
none.  Nothing is renamed, replaced or locked.  What a killed command has written and not committed is named nowhere,
nor is what was found damaged: who brings runs removes such packs when they are a day old.

Who reads runs fetches their packs into run folders of its own, which it verifies, and works with these.
"""

import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from io import BufferedRandom
from pathlib import Path
from secrets import token_hex
from zipfile import ZipFile, ZipInfo

from collectors.integrity import FILES, check_run, is_whole, verified
from collectors.partials import partial_of
from collectors.schema import MANIFEST, SCHEMA_VERSION
from collectors.scratch import FULL, ScratchFull, writing_scratch
from collectors.store.hadoop import GONE, Place, make_durable
from collectors.store.log import EMPTY, KeptRun, StoredFile, StoredPart, StoreState, commit, read_log
from collectors.store.parts import entry_of
from collectors.writer import failed_folder, set_aside
from core.errors import MachineError

PACKS = "packs"
PACK_BYTES = 64 << 20  # a pack that has come so far is ended
UNNAMED_S = 86_400.0  # so long a pack stays that no commit names: it may be about to
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first instant of a ZIP file: the same runs give the same bytes
_READABLE = 0o100644 << 16


@dataclass
class RunPacks:
    """The packs in the folder ``root``.  ``tell`` is told of what is damaged."""

    root: Place
    tell: Callable[[str], None] = print
    _state: StoreState = field(default=EMPTY, repr=False)

    def state(self) -> StoreState:
        """What is there now.  MachineError where that cannot be read."""
        try:
            self._state = read_log(self.root, self._state)
        except OSError as error:
            raise self._unreachable(error) from None
        return self._state

    def bring(self, folders: Collection[Path]) -> None:
        """Bring these finished runs in, where they are not.

        ``Damage`` where one is not as it was written; MachineError where it cannot be written there.
        """
        waiting = {folder.name: folder for folder in folders}
        while coming := [waiting[run_id] for run_id in sorted(waiting.keys() - self.state().of_run.keys())]:
            try:
                self._bring(_grouped(coming))
            except OSError as error:
                raise self._unreachable(error) from None

    def _bring(self, folders: Sequence[Path]) -> None:
        """Write a pack, and commit it, unless somebody else has brought some of its runs by then."""
        file, digest, size = _packed(folders)
        with file:
            path = f"{PACKS}/{digest}-{token_hex(4)}.zip"
            names = [folder.name for folder in folders]
            written = StoredFile(PACKS, path, size, digest, len(names), min(names), max(names))
            runs = {folder.name: entry_of(verified(folder)) for folder in folders}
            (self.root / PACKS).mkdir(parents=True, exist_ok=True)
            with (self.root / path).open("xb") as sink:
                shutil.copyfileobj(file, sink, 1 << 20)
                make_durable(sink)
        self._commit((), [StoredPart(digest, SCHEMA_VERSION, runs, (written,))])

    def _commit(self, dropped: Collection[str], parts: Collection[StoredPart]) -> None:
        self._state, _ = commit(self.root, read_log(self.root, self._state), dropped, parts)

    def tidy(self) -> None:
        """Remove packs that no commit names, and none will; what nobody lets us remove stays."""
        try:
            there: list[Place] = list((self.root / PACKS).glob("*.zip"))
            state = self.state()  # read after these
            if bad := (*state.torn, *state.lost):  # what those commits name is not known
                self.tell(f"{self.root}: of its log {len(bad)} files are gone or damaged: no pack is removed")
                return
            named = {file.path for part in state.parts.values() for file in part.files}
            for pack in there:
                with suppress(OSError):
                    if f"{PACKS}/{pack.name}" not in named and time.time() - pack.stat().st_mtime > UNNAMED_S:
                        pack.unlink()
        except OSError as error:
            raise self._unreachable(error) from None

    def fetch(self, run_ids: Iterable[str], runs: Path) -> None:
        """Have these runs, as far as they are there and not here as they were written, as folders in ``runs``.

        A pack that is damaged is set aside: no commit names it any more, and of its runs there are those that are
        whole.  MachineError where it cannot be read there, or written here.
        """
        state = self.state()
        wanted = [run_id for run_id in run_ids if run_id in state.of_run and not is_whole(runs / run_id)]
        for name in dict.fromkeys(state.of_run[run_id] for run_id in wanted):
            part = state.parts[name]
            if part.schema_version == SCHEMA_VERSION:
                self._fetch(part, wanted, runs)
            else:
                told = f"tables of schema version {part.schema_version}, this is {SCHEMA_VERSION}"
                self.tell(f"left there: {self.root / part.files[0].path} has {told}")

    def _fetch(self, part: StoredPart, wanted: Collection[str], runs: Path) -> None:
        aside = partial_of(runs / part.name[:16])
        try:
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            wrong = self._unpacked(part.files[0], aside)
            whole = {run_id for run_id, kept in part.runs.items() if _is_entered(aside / run_id, kept)}
            if not wrong and whole != part.runs.keys():
                wrong = f"has a run {min(part.runs.keys() - whole)} that is not the one of its commit"
            for run_id in whole if wrong else whole & set(wanted):
                self._place(aside / run_id, runs / run_id)
        except OSError as error:
            raise MachineError(f"cannot write {runs}: {error.strerror or error}", "free disk space there") from None
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        if wrong:
            self.tell(
                f"damaged: {self.root / part.files[0].path} {wrong}; set aside, {len(whole)} of its {len(part.runs)} "
                "runs are whole and kept, what else is asked for is made anew"
            )
            try:
                self._commit([part.name], ())
            except OSError as error:
                raise self._unreachable(error) from None
            self.bring([runs / run_id for run_id in whole])

    def _unpacked(self, written: StoredFile, aside: Path) -> str:
        """Unpack a pack, as much of it as can be read; what is wrong with it, or nothing."""
        try:
            file = (self.root / written.path).open("rb")
        except OSError as error:
            if error.errno not in GONE:
                raise self._unreachable(error) from None
            return f"cannot be read ({error.strerror})"
        with file:
            if hashlib.file_digest(file, "sha256").hexdigest() == written.digest:
                with ZipFile(file) as pack:
                    pack.extractall(aside)
                return ""
            with suppress(Exception), ZipFile(file) as pack:  # whatever a flipped bit makes of it
                for name in pack.namelist():
                    with suppress(Exception):
                        pack.extract(name, aside)
        return "is not as it was written"

    def _place(self, came: Path, folder: Path) -> None:
        """Let a run that came be the run folder, unless somebody has made one by now."""
        if folder.exists() and not is_whole(folder):
            self.tell(f"damaged: {folder}; set aside as {set_aside(folder).name}, fetched again")
        try:
            came.rename(folder)
        except OSError:
            if not is_whole(folder):
                raise
        shutil.rmtree(failed_folder(folder), ignore_errors=True)

    def _unreachable(self, error: OSError) -> MachineError:
        if isinstance(error, ScratchFull):
            return error.told()
        what = f"{error.filename or self.root}: {error.strerror or error}"
        fix = "free disk space there" if error.errno in FULL else "repeat the command once it can be reached"
        return MachineError(what, f"what is finished stays; {fix}")


def _is_entered(folder: Path, kept: KeptRun) -> bool:
    """Whether a run is as it was written, and the one that the catalogue has."""
    try:
        return entry_of(check_run(folder)) == kept
    except MachineError:
        return False


def _grouped(folders: Iterable[Path]) -> list[Path]:
    """As many of these runs as make one pack."""
    group, size = [], 0
    for folder in folders:
        group.append(folder)
        size += sum(int(file["bytes"]) for file in verified(folder)[FILES].values())
        if size >= PACK_BYTES:
            break
    return group


def _packed(folders: Iterable[Path]) -> tuple[BufferedRandom, str, int]:
    """A scratch file with these runs as a pack, at its beginning, with its SHA-256 and its bytes.

    Who asks closes it; nothing waits to be written to it any more.
    """
    with writing_scratch(), ExitStack() as undone:
        file = undone.enter_context(tempfile.TemporaryFile())
        digest, size = _pack(folders, file)
        file.seek(0)
        undone.pop_all()
        return file, digest, size


def _pack(folders: Iterable[Path], file: BufferedRandom) -> tuple[str, int]:
    """Write runs, each of which is as it was written, into a pack: its SHA-256 and its bytes."""
    with ZipFile(file, "w") as pack:
        for folder in folders:
            for name in (*sorted(check_run(folder)[FILES]), MANIFEST):
                entry = ZipInfo(f"{folder.name}/{name}", _EPOCH)
                entry.external_attr = _READABLE
                pack.writestr(entry, (folder / name).read_bytes())
    size = file.tell()
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest(), size
