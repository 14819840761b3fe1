"""Files that are there whole or not at all."""

from pathlib import Path
from secrets import token_hex


def replace_file(path: Path, content: bytes) -> None:
    """Write aside and rename, in a folder that is made where there is none; nothing is left of a write that fails.

    Of several that write it at once, on other hosts too, one's content is there.
    """
    partial = path.with_name(f".{path.name}.partial-{token_hex(4)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
