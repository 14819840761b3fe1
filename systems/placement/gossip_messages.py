"""What brokers that place topics themselves say to each other, beside ePulsar's messages."""

from dataclasses import dataclass

from systems.api import Message
from systems.parts.vivaldi import Coordinate
from systems.placement.messages import MESSAGES as FAMILYS


@dataclass(frozen=True)
class Renew(Message):
    """I live, in this session with you; ``opens``: which you need not know yet.  Instants are the sender's."""

    session: int
    sent_at_ns: int
    opens: bool


@dataclass(frozen=True)
class Renewed(Message):
    """Its echo."""

    session: int
    sent_at_ns: int


@dataclass(frozen=True)
class Lapsed(Message):
    """I do not know this session, or know it no longer: the votes that I gave in it are gone."""

    session: int


@dataclass(frozen=True)
class RequestVote(Message):
    """Vote for me; ``ballot``: which of my attempts it is."""

    session: int
    ballot: int
    unit: str


@dataclass(frozen=True)
class Vote(Message):
    """Whom I have voted for; "": nobody, as I may have forgotten whom."""

    session: int
    ballot: int
    unit: str
    holder: str


@dataclass(frozen=True)
class Contested(Message):
    """Another asks me for the vote that you have: give it back unless you want it."""

    unit: str


@dataclass(frozen=True)
class GiveBack(Message):
    """I want your vote no longer; ``successor``: who should have it."""

    session: int
    unit: str
    successor: str


@dataclass(frozen=True)
class BrokerNews:
    """What is said of one broker: ``at_ns``, on its own clock."""

    broker: str
    at_ns: int
    coordinate: Coordinate | None
    out_rps: float
    utilisation: float


@dataclass(frozen=True)
class Reports(Message):
    """Gossip: what the other may not have heard."""

    news: tuple[BrokerNews, ...]


MESSAGES = (*FAMILYS, Renew, Renewed, Lapsed, RequestVote, Vote, Contested, GiveBack, Reports)
