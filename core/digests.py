"""Digests: of files, of JSON that carries its own, and of what makes a run, which is its id."""

import hashlib
import json
import os
import time
from collections.abc import Mapping

import msgspec

from core.records import Json

SETTLED_NS = 2 * 10**9  # a file changed later than that ago may change again within a tick of its file system's clock
_of_files: dict[tuple[int, ...], str] = {}
DIGEST = "sha256"  # the key under which JSON has a file's digest, and its own: of all that it says beside this


def digest_of(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest_of_file(path: str) -> str:
    """SHA-256 of what is in a file, read once a process for each state of it; OSError where it cannot be read."""
    with open(path, "rb") as file:
        state = os.fstat(file.fileno())
        key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        if key in _of_files:
            return _of_files[key]
        is_settled = time.time_ns() - max(state.st_mtime_ns, state.st_ctime_ns) > SETTLED_NS
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if is_settled:
        _of_files[key] = digest
    return digest


def sealed(content: Mapping[str, object]) -> Json:
    """What is to be written as JSON, with its own digest."""
    plain = json.loads(json.dumps(content))
    return {**plain, DIGEST: _seal_of(plain)}


def is_sealed(content: object) -> bool:
    """Whether what was read is what ``sealed`` made."""
    if not isinstance(content, dict) or DIGEST not in content:
        return False
    return any(seal_of(content) == content[DIGEST] for seal_of in (_quick_seal_of, _seal_of))


def _seal_of(content: Json) -> str:
    """The digest of everything but ``DIGEST``, whatever the order and the spaces."""
    return digest_of(json.dumps(_unsealed(content), sort_keys=True, separators=(",", ":")).encode())


def _quick_seal_of(content: Json) -> str:
    """The same in a fifth of the time, of what msgspec writes as Python does: not letters beyond ASCII, nor 1e-05."""
    try:
        return digest_of(msgspec.json.encode(_unsealed(content), order="sorted"))
    except (ValueError, OverflowError):  # a lone surrogate, a number beyond 64 bits
        return ""


def _unsealed(content: Json) -> Json:
    return {name: value for name, value in content.items() if name != DIGEST}


def run_id_of(spec: object, inputs: Mapping[str, str], code_hash: str) -> str:
    """The id of a run: a hash of its spec, of its input files' digests and of the code that makes it.

    ``spec``: a ``RunSpec``, or what a manifest keeps of one.
    """
    whole = {"spec": spec, "inputs": inputs, "code_hash": code_hash}
    return hashlib.sha256(msgspec.json.encode(whole, order="sorted")).hexdigest()[:16]
