"""What the nodes of the placement family say to each other, tell their data plane, and are told from outside.

Numbers in brackets are the steps of ePulsar's Fig. 2.  A *unit* is what is owned and moved at once: a bundle of
topics (Pulsar), or a topic (ePulsar: one topic a bundle).
"""

from msgspec import Struct

from core.clients import Role
from systems.api import Message
from systems.parts.vivaldi import Coordinate

# --- coordinate agents ----------------------------------------------------------------------------


class Ping(Message, frozen=True):
    """Agent to agent: a datagram, as memberlist's, so that what is lost is not taken for a long way."""

    by_datagram = True
    number: int


class Ack(Message, frozen=True):
    """The answer, which carries where the answering agent is (Serf's ping delegate)."""

    by_datagram = True
    number: int
    coordinate: Coordinate


class WhereAmI(Message, frozen=True):
    """A broker to its agent, or a client to the agent of its gateway (its coordinate proxy)."""


class Here(Message, frozen=True):
    """The agent's coordinate, as of now."""

    coordinate: Coordinate


# --- the coordination store: ZooKeeper's operations, as far as they are used ------------------------


class Beat(Message, frozen=True):
    """Keeps the sender's session alive, or opens it: ephemeral entries live as long as their creator's session.

    ``opens``: what an earlier life of the sender left goes at once.
    """

    opens: bool = False


class Expired(Message, frozen=True):
    """The store knows no session of yours: entries and watches are gone, make them anew."""


class Create(Message, frozen=True):
    """Make an ephemeral entry; fails where there is one already."""

    ticket: int
    path: str
    value: str


class Write(Message, frozen=True):
    """Set an ephemeral entry of one's own, or make it."""

    path: str
    value: str


class Delete(Message, frozen=True):
    """Remove an entry of one's own; fails where there is none."""

    ticket: int
    path: str


class Done(Message, frozen=True):
    """The answer to Create and Delete."""

    ticket: int
    worked: bool


class WatchEntries(Message, frozen=True):
    """Tell me of every entry below ``prefix``: what is there now, and each change from now on."""

    prefix: str


class Changed(Message, frozen=True):
    """An entry below a watched prefix; None: it is gone."""

    path: str
    value: str | None


# --- clients, brokers, load manager -----------------------------------------------------------------


class Lookup(Message, frozen=True):
    """Client to load manager: name the owner of the topic."""

    topic: str
    coordinate: Coordinate | None = None


class Found(Message, frozen=True):
    """The answer; "": nobody yet, or the one asked is not the load manager."""

    topic: str
    broker: str


class Connect(Message, frozen=True):
    """Client to broker (7)."""

    topic: str
    role: Role


class Connected(Message, frozen=True):
    """The broker owns the topic, and the client may begin."""

    topic: str
    role: Role


class Refused(Message, frozen=True):
    """Another broker owns the topic."""

    topic: str
    role: Role


class Disconnect(Message, frozen=True):
    """The client is done with the topic."""

    topic: str
    role: Role


class Close(Message, frozen=True):
    """Broker to client (3): the topic leaves; ``next_broker``: where to, "" if you have to ask."""

    topic: str
    next_broker: str


class ClientLocation(Message, frozen=True):
    """Client to each broker that it is connected to, every few seconds: where it is."""

    coordinate: Coordinate


class Noted(Message, frozen=True):
    """The broker's answer: the client takes a broker that does not give it for dead.

    ``roles``: topics and roles in which the client is let in.  A broker that was restarted knows of none, and the
    client has to look up again what it believes to have there.
    """

    roles: tuple[tuple[str, Role], ...] = ()


class Release(Message, frozen=True):
    """Load manager to the owner (1): give the unit up, in favour of ``next_broker``."""

    unit: str
    next_broker: str


class Released(Message, frozen=True):
    """Its answer (5)."""

    unit: str


class Acquire(Message, frozen=True):
    """Old broker to new (4): own the unit now, before clients come."""

    unit: str


MESSAGES = (
    *(Ping, Ack, WhereAmI, Here),
    *(Beat, Expired, Create, Write, Delete, Done, WatchEntries, Changed),
    *(Lookup, Found, Connect, Connected, Refused, Disconnect, Close, ClientLocation, Noted, Release, Released, Acquire),
)


# --- from outside, as reports -------------------------------------------------------------------------


class AtSite(Struct, frozen=True):
    """To a client: it is at a place whose coordinate this proxy knows (a handover, unless it is the first)."""

    proxy: str


class Wanted(Struct, frozen=True):
    """To a client: publish on the topic, or subscribe to it, from now on (or no longer)."""

    topic: str
    role: Role
    wanted: bool = True


class Traffic(Struct, frozen=True):
    """To a broker, of its data plane: message rates of a topic since the last report."""

    topic: str
    in_rps: float
    out_rps: float


class Used(Struct, frozen=True):
    """To a broker, of its machine: shares of processor, memory and network in use since the last report, 0 to 1."""

    processor: float
    memory: float
    network: float


class Drained(Struct, frozen=True):
    """To a broker, of its data plane: all that a fenced topic had accepted is delivered."""

    topic: str


# --- to the data plane, as commands ---------------------------------------------------------------------


class Open(Struct, frozen=True):
    """A broker accepts the topic's messages from now on."""

    topic: str


class Fence(Struct, frozen=True):
    """A broker accepts none from now on; what it has accepted it still delivers."""

    topic: str


class Subscribed(Struct, frozen=True):
    """A broker delivers the topic to the client from now on."""

    topic: str
    client: str


class Unsubscribed(Struct, frozen=True):
    """A broker delivers the topic to the client no longer."""

    topic: str
    client: str


class Attach(Struct, frozen=True):
    """A producer sends to the broker from now on."""

    topic: str
    broker: str


class Detach(Struct, frozen=True):
    """A producer has nowhere to send to: it keeps its messages."""

    topic: str


class Follow(Struct, frozen=True):
    """A consumer receives from the broker from now on."""

    topic: str
    broker: str


class Unfollow(Struct, frozen=True):
    """A consumer has nobody to receive from, for now or for ever."""

    topic: str
