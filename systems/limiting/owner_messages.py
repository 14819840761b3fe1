"""What an owner of users' buckets and all others tell each other."""

from systems.api import Message

HITS, STATES = "hits", "states"


class Gathered(Message, frozen=True):
    """A node to an owner, rows of user, hits, and the date of the first; or an owner to all: user, tokens, full at."""

    kind: str
    number: int
    rows: tuple[tuple[str, int, int], ...]


class TakenIn(Message, frozen=True):
    """The answer."""

    kind: str
    number: int
