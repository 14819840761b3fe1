"""Is a run what was written?  Its manifest lists every file with its size and SHA-256, and is sealed itself.

The threat is damage and mix-up: a bit that flipped, a copy that was cut off, a table of another run.  Nothing here
stops a forger, who would write a new seal.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from collectors.schema import LOGS, MANIFEST, SCHEMA_VERSION
from core.digests import DIGEST, is_sealed, run_id_of
from core.errors import MachineError
from core.records import Json

FILES = "files"  # the manifest's key: file -> bytes, digest and, of a table, rows
Key = tuple[str, int, int]  # a run's folder, and its manifest's inode and instant of writing
_verified: dict[Key, bytes] = {}  # by this command: manifests as they stand on the disk, a fifth of what they become
_CHUNK = 1 << 16


class Damage(MachineError):
    """A run folder is not as it was written, or not that of its name."""

    def __init__(self, folder: Path | str, what: str):
        super().__init__(f"{folder}: {what}", "`ratebed verify --set-aside` renames it, the next run makes it anew")
        self.folder, self.reason = Path(folder), what


class NoRun(MachineError):
    """There is no folder of that run, or not any more."""

    def __init__(self, folder: Path | str, error: OSError):
        super().__init__(f"{folder}: {error.strerror}", "run the experiment")


class OtherVersion(MachineError):
    """A run is as it was written, by code whose tables are others; of later code, its manifest is."""

    def __init__(self, folder: Path | str, version: object):
        self.reason = f"tables of schema version {str(version)[:20]}, this is {SCHEMA_VERSION}"
        super().__init__(f"{folder}: {self.reason}", "run again, or read them with the code that wrote them")


class Brief(msgspec.Struct, frozen=True, rename={"seal": DIGEST}):
    """What a campaign asks of every manifest: of a hundred thousand, more takes seconds."""

    validity: str
    validity_reasons: tuple[str, ...]
    topology_notes: tuple[str, ...]
    seal: str  # the manifest's own digest: that of everything the run is


_BRIEF = msgspec.json.Decoder(Brief)


def read_manifest(folder: Path) -> Json:
    """The manifest of a run, finished or failed, as it was written; its tables are not looked at.

    ``NoRun`` where there is none, ``OtherVersion`` where it has other tables, ``Damage`` where it is not as it was
    written.
    """
    manifest = _manifest(str(folder), _manifest_bytes(str(folder)))
    if (version := _version(manifest)) != SCHEMA_VERSION:
        raise OtherVersion(folder, version)
    return manifest


def _manifest_bytes(folder: str) -> bytes:
    try:
        return b"".join(_chunks(f"{folder}/{MANIFEST}"))
    except OSError as error:
        raise _unreadable(folder, MANIFEST, error) from None


def _unreadable(folder: str, what: str, error: OSError) -> MachineError:
    """Of a part of a run: damage, but where its folder is gone somebody else has removed it, or set it aside."""
    return Damage(folder, f"{what}: {error.strerror}") if os.path.isdir(folder) else NoRun(folder, error)


def _manifest(folder: str, content: bytes) -> Json:
    try:
        manifest = _decoded(content)
    except (ValueError, RecursionError):
        raise Damage(folder, f"{MANIFEST} is no JSON") from None
    if not isinstance(manifest, dict):
        raise Damage(folder, f"{MANIFEST} is no table of JSON")
    version = _version(manifest)
    if not is_sealed(manifest) and (version == SCHEMA_VERSION or DIGEST in manifest):  # the first ones had no seal
        raise Damage(folder, f"{MANIFEST} is not as it was written")
    return manifest


def _version(manifest: Json) -> object:
    return manifest.get("schema_version", SCHEMA_VERSION)


def _decoded(content: bytes) -> Json:
    try:
        decoded: Json = msgspec.json.decode(content)
    except msgspec.DecodeError:
        decoded = json.loads(content)  # three times as slow, and takes what Python writes: NaN, lone surrogates
    return decoded


def check_run(folder: Path) -> Json:
    """The manifest of a finished run, all of whose files are as they were written.

    ``Damage`` names what is not; ``NoRun`` where there is none; ``OtherVersion`` where it has other tables, which are
    as they were written unless they are those of later code, or of the first, which listed no files.
    """
    return _checked(str(folder))[1]


def _checked(folder: str) -> tuple[bytes, Json]:
    """The run's manifest, as it stands there and as what it says.  By hand: a command looks at many."""
    content = _manifest_bytes(folder)
    manifest = _manifest(folder, content)
    version = _version(manifest)
    is_earlier = isinstance(version, int) and version < SCHEMA_VERSION
    if version == SCHEMA_VERSION or (is_earlier and FILES in manifest):  # who knows how later code lists them
        _check_files(folder, manifest)
    if version != SCHEMA_VERSION:
        raise OtherVersion(folder, version)
    return content, manifest


def _check_files(folder: str, manifest: Json) -> None:
    if manifest.get("run_id") != os.path.basename(folder):
        raise Damage(folder, f"{MANIFEST} is that of run {manifest.get('run_id')}")
    listed = manifest.get(FILES)
    if not isinstance(listed, dict):
        raise Damage(folder, "it lists no files: it has not finished")
    try:
        there = set(os.listdir(folder))
    except OSError as error:
        raise _unreadable(folder, "its files", error) from None
    if LOGS in there:
        there |= {f"{LOGS}/{path.name}" for path in Path(folder, LOGS).glob("*")}
    for name in sorted(there - listed.keys() - {MANIFEST, LOGS}):
        raise Damage(folder, f"{name} does not belong to it")
    for name, written in sorted(listed.items()):
        _check_file(folder, name, written)


def _check_file(folder: str, name: str, written: Mapping[str, object]) -> None:
    digest, size = hashlib.sha256(), 0
    try:
        for chunk in _chunks(f"{folder}/{name}"):
            digest.update(chunk)
            size += len(chunk)
    except OSError as error:
        raise _unreadable(folder, name, error) from None
    if size != written["bytes"]:
        raise Damage(folder, f"{name} has {size} bytes, {written['bytes']} were written")
    if digest.hexdigest() != written[DIGEST]:
        raise Damage(folder, f"{name} is not as it was written")


def _chunks(path: str) -> Iterator[bytes]:
    """What is in a file."""
    handle = os.open(path, os.O_RDONLY)
    try:
        while chunk := os.read(handle, _CHUNK):
            yield chunk
    finally:
        os.close(handle)


def verified(folder: Path) -> Json:
    """``check_run``, once a command for each folder: what every reader of runs calls first."""
    return _decoded(_verified_bytes(str(folder)))


def verified_brief(folder: str) -> Brief:
    """The same, in brief."""
    content = _verified_bytes(folder)
    try:
        return _BRIEF.decode(content)
    except msgspec.DecodeError:
        return msgspec.convert(_decoded(content), Brief)


def readable(folders: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """Of runs, those that are as they were written, and those with tables of another version; the others are gone.

    ``Damage`` where one is not as it was written.
    """
    own, others = list[Path](), list[Path]()
    for folder in folders:
        try:
            _verified_bytes(str(folder))
            own.append(folder)
        except NoRun:
            continue
        except OtherVersion:
            others.append(folder)
    return own, others


def is_whole(folder: Path) -> bool:
    """Whether there is a finished run that is as it was written, as ``verified`` sees it."""
    try:
        _verified_bytes(str(folder))
    except MachineError:
        return False
    return True


def _verified_bytes(folder: str) -> bytes:
    try:
        key = _key_of(folder)
    except OSError:
        return _checked(folder)[0]  # says what is wrong
    if key not in _verified:
        _verified[key], _ = _checked(folder)
    return _verified[key]


def _key_of(folder: str) -> Key:
    state = os.stat(f"{folder}/{MANIFEST}")
    return folder, state.st_ino, state.st_mtime_ns


def verified_among(folders: Sequence[str]) -> dict[Key, bytes]:
    """Those that are as they were written, for ``take_over`` in another process of the command."""
    manifests = {}
    for folder in folders:
        try:
            key = _key_of(folder)
            manifests[key], _ = _checked(folder)
        except (OSError, MachineError):
            pass  # ``verified`` says what is wrong
    return manifests


def take_over(manifests: Mapping[Key, bytes]) -> None:
    """What another process of this command has verified is verified."""
    _verified.update(manifests)


def forget() -> None:
    """What was verified: the next question is another command's."""
    _verified.clear()


def check_identity(manifest: Json) -> None:
    """MachineError where a run's id is not the hash of what it says it was made from: for runs of other machines."""
    own = run_id_of(manifest.get("spec"), manifest.get("inputs", {}), str(manifest.get("code_hash")))
    if own != manifest.get("run_id"):
        raise MachineError(f"run {manifest.get('run_id')}: its id is not that of its spec, inputs and code", "leave it")
