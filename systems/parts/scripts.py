"""Questions to a server that runs scripts on its keys, as Redis does; see ``testbed.servers.redis``."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Evaluate:
    """A command: run ``script`` on the user's key with these arguments.

    The last argument is added on the way: the second of the server's clock in which it was first started.
    """

    request_id: int
    script: str
    user: str
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class Evaluated:
    """A report: whether the script answered 1, not 0.  Of one that fails nothing is heard."""

    request_id: int
    admitted: bool
