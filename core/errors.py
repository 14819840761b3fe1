"""Errors at the border: the type says whose fault it is, the text says what, where and how to fix it."""

import re
import reprlib
from collections.abc import Sequence
from typing import Any

LINE = 290  # letters of an error at most: with the program's name before it, a line of less than 300
_FIX = 120  # of them, left to the fix where both are long
_READ = 10_000  # letters that are looked at: a value may be as long as a file
_QUOTED = re.compile(r"""(["'])((?:(?!\1).){48,})\1""")
_QUOTED_LETTERS = 32  # what is left of a long value: most of it from its beginning


class HarnessError(Exception):
    """What the command line prints as one line, with the fix, and no traceback.

    ``what`` and ``fix`` are as they were given; the text is one line of at most ``LINE`` letters.
    """

    def __init__(self, what: str, fix: str = ""):
        super().__init__(_fitted(what, fix))
        self.what, self.fix = what, fix


class SpecError(HarnessError):
    """The user's input is wrong: an unknown key, an impossible grid, a broken trace line."""


class MachineError(HarnessError):
    """This machine lacks something: Java, disk space, a writable folder, a privilege."""


class SystemFault(HarnessError):
    """A system under test broke its interface: its author must mend it."""


class LinkError(HarnessError):
    """A path of the testbed is not what its topology asks for.  ``paths``: what was measured, if every path was."""

    paths: Sequence[Any] = ()  # of testbed.hosts.site.PathMeasure


def one_line(text: str, most: int = LINE) -> str:
    """``text`` as one line of at most ``most`` printable letters.

    What is too long loses the insides of its long quotes, then its own middle: "…" stands for it.  The beginning says
    where, the end what is wrong.
    """
    text = _printable(text)
    if len(text) > most:
        text = _QUOTED.sub(lambda match: f"{match[1]}{_without_middle(match[2], _QUOTED_LETTERS)}{match[1]}", text)
    return _without_middle(text, most)


def described(error: BaseException) -> str:
    """An error of anybody's in one line; its class is named unless the text speaks for itself."""
    if isinstance(error, OSError):
        file = f"{error.filename}: " if error.filename else ""
        return one_line(f"{file}{error.strerror or error or type(error).__name__}")
    speaks = isinstance(error, HarnessError | ValueError) and str(error)
    return one_line(str(error) if speaks else f"{type(error).__name__}: {error}".rstrip(": "))


def quoted(value: object) -> str:
    """A value as people wrote it, without its middle where it is long or deep."""
    return _values.repr(value)


_values = reprlib.Repr()
_values.maxstring = _values.maxother = _values.maxlong = _QUOTED_LETTERS
_values.fillvalue = "…"


def _fitted(what: str, fix: str) -> str:
    what, fix = _printable(what), _printable(fix)
    fix = one_line(fix, max(_FIX, LINE - 2 - len(what)))
    return f"{one_line(what, LINE - 2 - len(fix))}; {fix}" if fix else one_line(what)


def _printable(text: str) -> str:
    words = " ".join(_without_middle(text, _READ).split())
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in words)


def _without_middle(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    tail = most * 2 // 5
    return f"{text[: most - tail - 1]}…{text[-tail:]}"
