"""The most that a spec may ask for: counts of each kind as types of options, which ``core.registry.configure`` checks.

What is larger is refused before anything is built, with the reason.  All are ours, far above the papers' sizes.  Spans
have their limit in ``core.units``, a run's length and the number of runs theirs in ``harness.experiment``.
"""

from math import prod
from typing import Annotated

from msgspec import Meta

from core.errors import SpecError

HostCount = Annotated[int, Meta(le=1_000, description="give at most 1,000: each host has a path to each other")]
MeshHostCount = Annotated[int, Meta(le=500, description="give at most 500: each pair of hosts has a link")]
ClientCount = Annotated[int, Meta(le=10_000, description="give at most 10,000: each is a host, a topic or a group")]
UserCount = Annotated[int, Meta(le=1_000_000, description="give at most 1,000,000: each has a state of its own")]
PublisherCount = Annotated[int, Meta(le=10_000_000, description="give at most 10,000,000: each has rows in memory")]
RoundCount = Annotated[int, Meta(le=100_000, description="give at most 100,000: each is worked through")]
ByteCount = Annotated[int, Meta(le=1 << 30, description="give at most 1 GiB: a message is whole in memory")]
MachineBytes = Annotated[float, Meta(le=1e15, description="give at most a petabyte, of a machine or a second of it")]
Rps = Annotated[float, Meta(ge=1e-9, le=1e9, description="give 1e-9 to 1e9 a second: instants are whole ns")]
Factor = Annotated[float, Meta(le=1e9, description="give at most a thousand million")]

CLIENTS = 10_000  # of a run in all
SUBSCRIPTIONS = 400_000  # of clients to topics
GENERATORS = 50_000  # of parts of a load that each draw from a branch of their own
DRAWN = 500_000  # of parts that each draw one number from there
DISTANCES = 200_000  # of towers to the centres of zones
HAPPENINGS = 500_000  # of clients, within a run
HISTOGRAMS = 5_000  # of brokers in windows: each has several, of 57 KB
ROWS = 10_000_000  # of an array that a plan holds


def check_product(where: str, most: int, **counts: int) -> None:
    """SpecError where ``counts``, each within its limit, are more than ``most`` times each other."""
    if prod(counts.values()) > most:
        what = " times ".join(f"{name} = {count:,}" for name, count in counts.items())
        raise SpecError(f"{where}: {what}", f"give at most {most:,} in all")
