"""By how much a machine's clock is ahead of ours: of many round trips the shortest is the least wrong (NTP's way)."""

from collections.abc import Iterable
from dataclasses import dataclass

ROUND_TRIPS = 60


@dataclass(frozen=True)
class Offset:
    """The other's clock less ours, in ns; it is certain to ``doubt_ns`` either way: half of the round trip."""

    offset_ns: int
    doubt_ns: int

    def doubt_until_ns(self, later: "Offset") -> int:
        """How wrong this offset may be at any instant until ``later`` was measured, if the clocks drift evenly."""
        return max(self.doubt_ns, abs(later.offset_ns - self.offset_ns) + later.doubt_ns)


def least(round_trips: Iterable[tuple[int, int, int]]) -> Offset:
    """The offset that the shortest of (sent, the other's instant, answered) shows."""
    sent_ns, there_ns, came_ns = min(round_trips, key=lambda trip: trip[2] - trip[0])
    return Offset(there_ns - (sent_ns + came_ns) // 2, (came_ns - sent_ns + 1) // 2)
