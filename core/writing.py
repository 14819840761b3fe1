"""Files that are there whole or not at all."""

import os
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Write aside and rename, in a folder that is made where there is none; nothing is left of a write that fails."""
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
