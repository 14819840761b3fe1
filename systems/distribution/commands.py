"""What brokers are told and what they say where publishers move, or a limiter shares a topic's bucket among them.

Beside ``SetBucket`` and ``TopicReport`` of ``systems.api``.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class MoveAway:
    """Send the topic's publishers, by id, to another broker: what they sent is delivered before they go on there."""

    topic: str
    publishers: tuple[int, ...]
    broker: str


@dataclass(frozen=True)
class PublisherReport:
    """What a broker was sent by each publisher of a topic since its last report: those that sent anything."""

    topic: str
    rates_rps: Mapping[int, float]


@dataclass(frozen=True)
class MessagesCame:
    """So many messages of a topic have come to a broker since it last said so."""

    topic: str
    message_count: int
