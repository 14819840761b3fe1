"""What clients of leases and their allocator tell each other, and what a client that begins copies."""

from systems.api import Message


class LeaseRequest(Message, frozen=True):
    """A client's question.  ``claims``: see ``LeaseClaim``; ``whole``: they name all that it has.

    ``epoch``: of the allocator that it knows, if any.  ``born_ns`` and ``number`` name the question;
    ``fresh``: the client knew no allocator before this one.
    """

    epoch: int | None
    born_ns: int
    number: int
    fresh: bool
    whole: bool
    claims: tuple[tuple[str, int, int, int, int], ...]


class Lend(Message, frozen=True):
    """The allocator's answer to (part of) one question.  ``grants``: see ``Grant``."""

    born_ns: int
    number: int
    grants: tuple[tuple[str, int, int], ...]


class Learn(Message, frozen=True):
    """An allocator asks a client what it has: a new one, or one that the client did not name.

    ``born_ns``: the client speaks as if it were older than one that has already been heard of, and is to
    be born after that; None: no matter.
    """

    epoch: int
    born_ns: int | None = None


class Portions(Message, frozen=True):
    """A client's state for a peer that copies it: user and what its portion lacks, in millionths.

    Leases are not copied: that would lend them twice.
    """

    lacking: tuple[tuple[str, int], ...]
