"""What the nodes of the placement family say to each other, tell their data plane, and are told from outside.

Numbers in brackets are the steps of ePulsar's Fig. 2.  A *unit* is what is owned and moved at once: a bundle of
topics (Pulsar), or a topic (ePulsar: one topic a bundle).
"""

from dataclasses import dataclass

from core.clients import Role
from systems.api import Message
from systems.parts.vivaldi import Coordinate

# --- coordinate agents ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Ping(Message):
    """Agent to agent."""

    number: int


@dataclass(frozen=True)
class Ack(Message):
    """The answer, which carries where the answering agent is (Serf's ping delegate)."""

    number: int
    coordinate: Coordinate


@dataclass(frozen=True)
class WhereAmI(Message):
    """A broker to its agent, or a client to the agent of its gateway (its coordinate proxy)."""


@dataclass(frozen=True)
class Here(Message):
    """The agent's coordinate, as of now."""

    coordinate: Coordinate


# --- the coordination store: ZooKeeper's operations, as far as they are used ------------------------


@dataclass(frozen=True)
class Beat(Message):
    """Keeps the sender's session alive, or opens it: ephemeral entries live as long as their creator's session.

    ``opens``: what an earlier life of the sender left goes at once.
    """

    opens: bool = False


@dataclass(frozen=True)
class Expired(Message):
    """The store knows no session of yours: entries and watches are gone, make them anew."""


@dataclass(frozen=True)
class Create(Message):
    """Make an ephemeral entry; fails where there is one already."""

    ticket: int
    path: str
    value: str


@dataclass(frozen=True)
class Write(Message):
    """Set an ephemeral entry of one's own, or make it."""

    path: str
    value: str


@dataclass(frozen=True)
class Delete(Message):
    """Remove an entry of one's own; fails where there is none."""

    ticket: int
    path: str


@dataclass(frozen=True)
class Done(Message):
    """The answer to Create and Delete."""

    ticket: int
    worked: bool


@dataclass(frozen=True)
class WatchEntries(Message):
    """Tell me of every entry below ``prefix``: what is there now, and each change from now on."""

    prefix: str


@dataclass(frozen=True)
class Changed(Message):
    """An entry below a watched prefix; None: it is gone."""

    path: str
    value: str | None


# --- clients, brokers, load manager -----------------------------------------------------------------


@dataclass(frozen=True)
class Lookup(Message):
    """Client to load manager: name the owner of the topic."""

    topic: str
    coordinate: Coordinate | None = None


@dataclass(frozen=True)
class Found(Message):
    """The answer; "": nobody yet, or the one asked is not the load manager."""

    topic: str
    broker: str


@dataclass(frozen=True)
class Connect(Message):
    """Client to broker (7)."""

    topic: str
    role: Role


@dataclass(frozen=True)
class Connected(Message):
    """The broker owns the topic, and the client may begin."""

    topic: str
    role: Role


@dataclass(frozen=True)
class Refused(Message):
    """Another broker owns the topic."""

    topic: str
    role: Role


@dataclass(frozen=True)
class Disconnect(Message):
    """The client is done with the topic."""

    topic: str
    role: Role


@dataclass(frozen=True)
class Close(Message):
    """Broker to client (3): the topic leaves; ``next_broker``: where to, "" if you have to ask."""

    topic: str
    next_broker: str


@dataclass(frozen=True)
class ClientLocation(Message):
    """Client to each broker that it is connected to, every few seconds: where it is."""

    coordinate: Coordinate


@dataclass(frozen=True)
class Noted(Message):
    """The broker's answer: the client takes a broker that does not give it for dead.

    ``roles``: topics and roles in which the client is let in.  A broker that was restarted knows of none, and the
    client has to look up again what it believes to have there.
    """

    roles: tuple[tuple[str, Role], ...] = ()


@dataclass(frozen=True)
class Release(Message):
    """Load manager to the owner (1): give the unit up, in favour of ``next_broker``."""

    unit: str
    next_broker: str


@dataclass(frozen=True)
class Released(Message):
    """Its answer (5)."""

    unit: str


@dataclass(frozen=True)
class Acquire(Message):
    """Old broker to new (4): own the unit now, before clients come."""

    unit: str


MESSAGES = (
    *(Ping, Ack, WhereAmI, Here),
    *(Beat, Expired, Create, Write, Delete, Done, WatchEntries, Changed),
    *(Lookup, Found, Connect, Connected, Refused, Disconnect, Close, ClientLocation, Noted, Release, Released, Acquire),
)


# --- from outside, as reports -------------------------------------------------------------------------


@dataclass(frozen=True)
class AtSite:
    """To a client: it is at a place whose coordinate this proxy knows (a handover, unless it is the first)."""

    proxy: str


@dataclass(frozen=True)
class Wanted:
    """To a client: publish on the topic, or subscribe to it, from now on (or no longer)."""

    topic: str
    role: Role
    wanted: bool = True


@dataclass(frozen=True)
class Traffic:
    """To a broker, of its data plane: message rates of a topic since the last report."""

    topic: str
    in_rps: float
    out_rps: float


@dataclass(frozen=True)
class Used:
    """To a broker, of its machine: shares of processor, memory and network in use since the last report, 0 to 1."""

    processor: float
    memory: float
    network: float


@dataclass(frozen=True)
class Drained:
    """To a broker, of its data plane: all that a fenced topic had accepted is delivered."""

    topic: str


# --- to the data plane, as commands ---------------------------------------------------------------------


@dataclass(frozen=True)
class Open:
    """A broker accepts the topic's messages from now on."""

    topic: str


@dataclass(frozen=True)
class Fence:
    """A broker accepts none from now on; what it has accepted it still delivers."""

    topic: str


@dataclass(frozen=True)
class Subscribed:
    """A broker delivers the topic to the client from now on."""

    topic: str
    client: str


@dataclass(frozen=True)
class Unsubscribed:
    """A broker delivers the topic to the client no longer."""

    topic: str
    client: str


@dataclass(frozen=True)
class Attach:
    """A producer sends to the broker from now on."""

    topic: str
    broker: str


@dataclass(frozen=True)
class Detach:
    """A producer has nowhere to send to: it keeps its messages."""

    topic: str


@dataclass(frozen=True)
class Follow:
    """A consumer receives from the broker from now on."""

    topic: str
    broker: str


@dataclass(frozen=True)
class Unfollow:
    """A consumer has nobody to receive from, for now or for ever."""

    topic: str
