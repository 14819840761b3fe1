"""Is a run what was written?  Its manifest lists every file with its size and SHA-256, and is sealed itself.

The threat is damage and mix-up: a bit that flipped, a copy that was cut off, a table of another run.  Nothing here
stops a forger, who would write a new seal.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from collectors.schema import LOGS, MANIFEST, SCHEMA_VERSION
from core.digests import DIGEST, digest_of, is_sealed, run_id_of
from core.errors import MachineError
from core.records import Json

FILES = "files"  # the manifest's key: file -> bytes, digest and, of a table, rows
Key = tuple[str, int, int]  # a run's folder, and its manifest's inode and instant of writing
_verified: dict[Key, Json] = {}  # by this command


class Damage(MachineError):
    """A run folder is not as it was written, or not that of its name."""

    def __init__(self, folder: Path, what: str):
        super().__init__(f"{folder}: {what}", "`ratebed verify` sets it aside, the next run makes it anew")
        self.folder, self.reason = folder, what


def read_manifest(folder: Path) -> Json:
    """The manifest of a run, finished or failed, as it was written; its tables are not looked at.

    MachineError where there is none or it has other tables, ``Damage`` where it is not as it was written.
    """
    try:
        manifest = json.loads(_content(folder, MANIFEST))
    except OSError as error:
        raise MachineError(f"{folder / MANIFEST}: {error.strerror}", "run the experiment") from None
    except (ValueError, RecursionError):
        raise Damage(folder, f"{MANIFEST} is no JSON") from None
    if not isinstance(manifest, dict):
        raise Damage(folder, f"{MANIFEST} is no table of JSON")
    version = manifest.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        what = f"{folder}: tables of schema version {str(version)[:20]}, this is {SCHEMA_VERSION}"
        raise MachineError(what, "run again, or read them with the code that wrote them")
    if not is_sealed(manifest):
        raise Damage(folder, f"{MANIFEST} is not as it was written")
    return manifest


def check_run(folder: Path) -> Json:
    """The manifest of a finished run, all of whose files are as they were written.

    ``Damage`` names what is not; MachineError where there is no run.
    """
    manifest = read_manifest(folder)
    if manifest.get("run_id") != folder.name:
        raise Damage(folder, f"{MANIFEST} is that of run {manifest.get('run_id')}")
    listed = manifest.get(FILES)
    if not isinstance(listed, dict):
        raise Damage(folder, "it lists no files: it has not finished")
    there = set(os.listdir(folder))  # by hand: a command looks at many
    if LOGS in there:
        there |= {f"{LOGS}/{path.name}" for path in (folder / LOGS).glob("*")}
    for name in sorted(there - listed.keys() - {MANIFEST, LOGS}):
        raise Damage(folder, f"{name} does not belong to it")
    for name, written in sorted(listed.items()):
        _check_file(folder, name, written)
    return manifest


def _check_file(folder: Path, name: str, written: Mapping[str, object]) -> None:
    try:
        data = _content(folder, name)
    except OSError as error:
        raise Damage(folder, f"{name}: {error.strerror}") from None
    if len(data) != written["bytes"]:
        raise Damage(folder, f"{name} has {len(data)} bytes, {written['bytes']} were written")
    if digest_of(data) != written[DIGEST]:
        raise Damage(folder, f"{name} is not as it was written")


def _content(folder: Path, name: str) -> bytes:
    with open(f"{folder}/{name}", "rb", buffering=0) as file:
        return file.readall()


def verified(folder: Path) -> Json:
    """``check_run``, once a command for each folder: what every reader of runs calls first."""
    try:
        key = _key_of(folder)
    except OSError:
        return check_run(folder)  # says what is wrong
    if key not in _verified:
        _verified[key] = check_run(folder)
    return _verified[key]


def _key_of(folder: Path) -> Key:
    state = os.stat(f"{folder}/{MANIFEST}")
    return str(folder), state.st_ino, state.st_mtime_ns


def verified_among(folders: Iterable[Path]) -> dict[Key, Json]:
    """Those that are as they were written, for ``take_over`` in another process of the command."""
    found = {}
    for folder in folders:
        try:
            key = _key_of(folder)
            found[key] = check_run(folder)
        except (OSError, MachineError):
            pass  # ``verified`` says what is wrong
    return found


def take_over(found: Mapping[Key, Json]) -> None:
    """What another process of this command has verified is verified."""
    _verified.update(found)


def forget() -> None:
    """What was verified: the next question is another command's."""
    _verified.clear()


def check_identity(manifest: Json) -> None:
    """MachineError where a run's id is not the hash of what it says it was made from: for runs of other machines."""
    own = run_id_of(manifest.get("spec"), manifest.get("inputs", {}), str(manifest.get("code_hash")))
    if own != manifest.get("run_id"):
        raise MachineError(f"run {manifest.get('run_id')}: its id is not that of its spec, inputs and code", "leave it")
