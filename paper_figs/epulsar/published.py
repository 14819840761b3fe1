"""Every number of the ePulsar paper that its figures or claims use, and those of its public code: where it stands.

Each has its section or figure, and words of our digest that hold it: a test looks them up there.  The paper's text is
an extraction that has lost its page breaks (14 pages), so that a section or figure stands for the page.
"""

from typing import NamedTuple, TypeVar

Number = TypeVar("Number", int, float)


class Printed(NamedTuple):
    """A number, where the paper prints it, and the digest's words around it."""

    value: float
    where: str
    words: str


PRINTED: list[Printed] = []  # all of them, in this file's order


def _printed(value: Number, where: str, words: str) -> Number:
    """``value``, which is kept in ``PRINTED`` as well."""
    PRINTED.append(Printed(value, where, words))
    return value


# Coordinates.
ERROR_MS = _printed(3.5, "5.3, Fig. 3b", "per-pair RTT estimation error < 3.5 ms")
ERROR_PERCENT = _printed(6, "5.3, Fig. 3c", "stays < 6 % of it")
FEWEST_NODES = _printed(2, "5.3", "2-128 nodes")
MOST_NODES = _printed(128, "5.3", "2-128 nodes")
SETTLED_MIN = _printed(10, "5.5.1", "NC warm-up | 10 min")
STABLE_MIN = _printed(60, "4", "60 min quoted as convergence")
AGENT_CPU_PERCENT = _printed(1, "5.3", "CPU < 1 %, memory < 15 MB")
AGENT_MEMORY_MB = _printed(15, "5.3", "CPU < 1 %, memory < 15 MB")
QUERY_S = _printed(5, "4", "broker NC query | 5 s; 5 s; 5 s")
REPORT_S = _printed(5, "4", "client NC report; broker NC query | 5 s; 5 s; 5 s")
# The game.
GAME_BOUND_MS = _printed(100, "5.1.2", "bound | 100 ms E2E")
GAME_ACCESS_MS = _printed(5, "5.1.2", "broker <-> game server in a city 5 ms")
GAME_CLIENTS = _printed(1024, "5.5.2, Fig. 4", "1024 clients over the cities")
GAME_GROUPS = _printed(128, "5.5.2, Fig. 4", "128 random groups")
GAME_CITIES = _printed(5, "5.8.2, Fig. 9", "5 cities, 1 broker each")
# Drones.
SWARM_BOUND_MS = _printed(40, "5.1.1", "bound | 40 ms E2E")
SWARMS = _printed(16, "5.5.3, Fig. 5", "16 swarms x 8 UAVs (1 leader)")
SWARM_MEMBERS = _printed(8, "5.5.3, Fig. 5", "16 swarms x 8 UAVs (1 leader)")
SWARM_ZONES = _printed(4, "5.8.1, Fig. 8", "4 zones, 8 swarms x 8 UAVs")
# How long, how often.
PERMUTATIONS = _printed(1000, "5.5.1", "1000 random permutations")
SWARM_RUN_MIN = _printed(10, "5.8.1", "200 msgs/s per UAV, 1 KB, 10 min")
GAME_RUN_MIN = _printed(10, "5.8.2", "300 msgs/s per avatar, 10 min")
# Migrations.
MOVED_TOPICS = _printed(128, "5.7, Fig. 7a", "concurrent topics (128 in 7a)")
EXECUTORS = _printed(16, "5.7, Fig. 7a", "executor threads (16 in 7a)")
WAN_MS = _printed(40, "5.7, Fig. 7b", "one-way WAN broker<->Load Manager (40 ms in 7b)")
# The data plane.
KNEE_KRPS = _printed(1500, "5.4", "R_out > 1500 K msgs/s (p95 E2E knee)")
# The public code, an earlier version: periods in ms, the guard of a topic that moved, bytes of a topic's record.
CODE_LOCATE_S = _printed(1, "public code", "1 s / 1 s defaults")
CODE_REPORT_MS = _printed(1500, "public code", "every 1500 ms")
CODE_PLACE_MS = _printed(2500, "public code", "fixed rate 2500 ms")
CODE_GUARD_S = _printed(5, "public code", '("recently unloaded") | 5 s')
CODE_CENTROID_BYTES = _printed(840, "public code", "about 840 B/topic")
CODE_PAIRS_8_KB = _printed(2.9, "public code", "2.9 kB (8)")
CODE_PAIRS_16_KB = _printed(5.8, "public code", "5.8 kB (16)")
