"""What the workloads of clients share: checks of what topics carry, and the order of what happens."""

import math
from collections.abc import Iterable, Mapping, Sequence

from core.clients import Happening, Joined, Left, Moved, Role, TopicLoad
from core.records import Float64
from workloads.api import require, span_of

_RANK = {Moved: 0, Left: 1, Joined: 2}  # of what happens in one nanosecond


def check_topics(rate_rps: float, size_bytes: int, bound: str) -> None:
    """SpecError naming the option of ``TopicLoad`` that cannot be."""
    require(0 < rate_rps < math.inf, "rate_rps", rate_rps, "give a finite rate above 0")
    require(0 <= size_bytes < 2**31, "size_bytes", size_bytes, "give 0 or more bytes")
    require(span_of("bound", bound) > 0, "bound", bound, "give a span above 0")


def check_counts(**counts: int) -> None:
    """SpecError naming the option that is below 1."""
    for name, count in counts.items():
        require(count >= 1, name, count, "give 1 or more")


def topic(name: str, rate_rps: float, size_bytes: int, bound: str) -> TopicLoad:
    """A topic of these options."""
    return TopicLoad(name, rate_rps, size_bytes, span_of("bound", bound))


def in_order(
    happenings: Iterable[Happening], homes: Mapping[str, int], topics: Sequence[TopicLoad], until_ns: int
) -> list[Happening]:
    """Those up to ``until_ns`` by instant; then moves, leaving, joining; then as clients and topics are numbered."""
    client_number = {name: number for number, name in enumerate(homes)}
    topic_number = {topic.name: number for number, topic in enumerate(topics)}

    def key(one: Happening) -> tuple[int, int, int, int, bool]:
        which, consumes = -1, False
        if not isinstance(one, Moved):
            which, consumes = topic_number[one.topic], one.role is Role.CONSUMER
        return one.at_ns, _RANK[type(one)], client_number[one.client], which, consumes

    return sorted((one for one in happenings if one.at_ns <= until_ns), key=key)


def interval(
    start_ns: int, end_ns: int | None, client: str, topic: str, role: Role
) -> tuple[Joined] | tuple[Joined, Left]:
    """That the client is on the topic from ``start_ns`` until before ``end_ns`` (None: for good)."""
    joined = Joined(start_ns, client, topic, role)
    return (joined,) if end_ns is None else (joined, Left(end_ns, client, topic, role))


def seconds_ns(seconds: Float64 | float) -> int:
    """Whole nanoseconds of a drawn span, 1 at the least, so that time goes on."""
    return max(1, round(float(seconds) * 1e9))
