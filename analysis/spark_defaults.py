"""The settings that Spark itself reads: of ``spark-defaults.conf``, in the folder that ``SPARK_CONF_DIR`` names.

The file is one of Java's properties: ``key value``, ``key=value`` or ``key: value``, comments behind ``#`` or ``!``, a
line that ends with a backslash goes on in the next.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from core.reading import reading

FILE = "spark-defaults.conf"
_BLANKS = " \t\f"
_PROPERTY = re.compile(rf"((?:\\.|[^\\=:{_BLANKS}])*)[{_BLANKS}]*[=:]?[{_BLANKS}]*(.*)")
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)")
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def spark_defaults() -> dict[str, str]:
    """Key -> value; empty where there is no such file.  SpecError where it cannot be read."""
    path = Path(os.environ.get("SPARK_CONF_DIR", ""), FILE)
    if not os.environ.get("SPARK_CONF_DIR") or not path.is_file():
        return {}
    with reading(str(path), "mend it, or SPARK_CONF_DIR"):
        return properties_of(path.read_text(encoding="utf-8"))


def properties_of(text: str) -> dict[str, str]:
    """What Java's ``Properties`` reads there, without the blanks around values, as Spark has it."""
    settings = {}
    for line in _logical_lines(text):
        match = _PROPERTY.fullmatch(line)
        assert match is not None, line
        key, value = (_ESCAPED.sub(_unescaped, part) for part in match.groups())
        settings[key] = value.strip(_BLANKS)
    return settings


def _logical_lines(text: str) -> Iterator[str]:
    """Without comments and blanks before them, each whole."""
    lines = iter(re.split(r"\r\n|\r|\n", text))
    for line in lines:
        whole = line.lstrip(_BLANKS)
        if whole[:1] in ("", "#", "!"):
            continue
        while (len(whole) - len(whole.rstrip("\\"))) % 2:
            whole = whole[:-1] + next(lines, "").lstrip(_BLANKS)
        yield whole


def _unescaped(match: re.Match[str]) -> str:
    letter = match[1]
    return chr(int(letter[1:], 16)) if len(letter) > 1 else _LETTERS.get(letter, letter)
