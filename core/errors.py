"""Errors at the border: the type says whose fault it is, the text says what, where and how to fix it."""

from collections.abc import Sequence
from typing import Any


class HarnessError(Exception):
    """What the command line prints as one line, with the fix, and no traceback."""

    def __init__(self, what: str, fix: str = ""):
        super().__init__(f"{what}; {fix}" if fix else what)
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
