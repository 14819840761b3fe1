"""What servers and the centre that divides their limit tell each other."""

from systems.api import Message

NEVER = -(2**53)  # cycle of the last command obeyed, before there is any


class Reported(Message, frozen=True):
    """Server to centre: its demand in a cycle."""

    cycle: int
    demand: float


class Command(Message, frozen=True):
    """Centre to server: its limit, from the next cycle on.  ``cycle``: of the reports that it is made of."""

    cycle: int
    limit: float


class UsersReported(Message, frozen=True):
    """Server to centre, of each active user: demand, requests a second; millionths of tokens; when it was last asked
    for (a cycle); and the cycle of the last command obeyed.
    """

    users: dict[str, tuple[float, int, int, int]]


class PartsAsked(Message, frozen=True):
    """Centre to server: back from a crash, it wants the parts of users; when each was last asked for (a cycle)."""

    users: dict[str, int]


class PartsTold(Message, frozen=True):
    """Server to centre, which asked: its parts of users."""

    parts: dict[str, int]


class UserCommands(Message, frozen=True):
    """Centre to server, of each user: its share, in parts; millionths of tokens to add; when it was last asked for.

    ``cycle``, of the centre, orders commands.
    """

    cycle: int
    shares: dict[str, tuple[int, int, int]]
