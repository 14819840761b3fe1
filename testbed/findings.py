"""What a testbed finds of what it needs."""

from typing import NamedTuple


class Finding(NamedTuple):
    """A row of ``Testbed.probe``.  ``needed``: without it the testbed cannot be used at all."""

    what: str
    found: bool
    detail: str  # where or how it was found, or the command that adds it
    needed: bool = True
