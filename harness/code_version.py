"""Which code made a result: a hash of what can change it, and the commit for people."""

import hashlib
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_FOLDERS = ("core", "systems", "workloads", "testbed", "studies", "collectors")  # recolouring a plot voids nothing
_PLANNING = ("campaign", "estimate", "experiment", "matrix")  # of the harness: what is run, not what comes of it

_SUFFIXES = (".py", ".toml", ".csv", ".go", ".mod", ".sum")


@cache
def code_hash(root: Path = ROOT) -> str:
    """Hash of every file below ``root`` that can change a run's result, the pinned packages among them."""
    digest = hashlib.sha256()
    code = [path for folder in _FOLDERS for path in (root / folder).rglob("*") if path.suffix in _SUFFIXES]
    code += [path for path in (root / "harness").glob("*.py") if path.stem not in _PLANNING]
    for path in sorted([*code, root / "requirements.lock"]):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


@cache
def commit() -> str:
    """The git commit, with ``+`` where files differ from it; "unknown" outside a checkout."""
    try:
        process = subprocess.run(
            ["git", "describe", "--always", "--abbrev=10", "--dirty=+"],
            cwd=ROOT, capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return process.stdout.strip()
