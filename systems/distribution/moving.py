"""What publishers that move are told, and what a broker says of them: beside ``systems.api.SetBucket``."""

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
