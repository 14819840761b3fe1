"""What brokers that place topics themselves say to each other, beside ePulsar's messages."""

from msgspec import Struct

from systems.api import Message
from systems.parts.vivaldi import Coordinate
from systems.placement.messages import MESSAGES as FAMILYS


class Renew(Message, frozen=True):
    """I live, in this session with you; ``opens``: which you need not know yet.  Instants are the sender's."""

    session: int
    sent_at_ns: int
    opens: bool


class Renewed(Message, frozen=True):
    """Its echo."""

    session: int
    sent_at_ns: int


class Lapsed(Message, frozen=True):
    """I do not know this session, or know it no longer: the votes that I gave in it are gone."""

    session: int


class RequestVote(Message, frozen=True):
    """Vote for me; ``ballot``: which of my attempts it is."""

    session: int
    ballot: int
    unit: str


class Vote(Message, frozen=True):
    """Whom I have voted for; "": nobody, as I may have forgotten whom."""

    session: int
    ballot: int
    unit: str
    holder: str


class Contested(Message, frozen=True):
    """Another asks me for the vote that you have: give it back unless you want it."""

    unit: str


class GiveBack(Message, frozen=True):
    """I want your vote no longer; ``successor``: who should have it."""

    session: int
    unit: str
    successor: str


class BrokerNews(Struct, frozen=True):
    """What is said of one broker: ``at_ns``, on its own clock."""

    broker: str
    at_ns: int
    coordinate: Coordinate | None
    out_rps: float
    utilisation: float


class Reports(Message, frozen=True):
    """Gossip: what the other may not have heard."""

    news: tuple[BrokerNews, ...]


MESSAGES = (*FAMILYS, Renew, Renewed, Lapsed, RequestVote, Vote, Contested, GiveBack, Reports)
