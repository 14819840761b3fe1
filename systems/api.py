"""What a system is: events in, effects out (nodes); trials out, measurements in (distributors).

A system's logic has no I/O, no clock and no global randomness: it runs unchanged in virtual time and on real sockets.
One file makes a system: a config dataclass, its messages, a node or a generator, and one ``SYSTEM`` object.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from msgspec import Struct

from core.records import Envelope, Int32, Population, Request

UNASSIGNED = -1  # in an assignment: the publisher is on no broker


# --- online protocols: nodes -------------------------------------------------------------------


class Verdict(Enum):
    """What a limiter decides about a request."""

    ADMIT = "admit"
    REJECT = "reject"


class Message(Struct, frozen=True):
    """Base of a system's messages: ``class Tell(Message, frozen=True)``, and its fields, annotated, of plain values."""

    by_datagram: ClassVar[bool] = False  # as a probe goes, even where the system's ``transport`` is a stream


class Start(Struct, frozen=True):
    """The node begins; ``snapshot`` is None after a crash (empty state); ``again``: who starts it did so before."""

    snapshot: Message | None = None
    again: bool = False


class Arrival(Struct, frozen=True):
    """A request reached this node."""

    request: Request


class Delivery(Struct, frozen=True):
    """A message of ``source`` reached this node."""

    source: str
    message: Message


class Timer(Struct, frozen=True):
    """A timer set by ``SetTimer`` is due; re-arm periodic ones from ``due_at_ns``, not from now."""

    name: str
    due_at_ns: int


class Report(Struct, frozen=True):
    """The node's own data plane reports a measurement."""

    measurement: object


class Send(Struct, frozen=True):
    """Send a message to the node named ``target``."""

    target: str
    message: Message


class SetTimer(Struct, frozen=True):
    """Wake this node at ``at_ns``; setting a name again replaces the earlier one."""

    name: str
    at_ns: int


class Decide(Struct, frozen=True):
    """The verdict on a request; it may come later than the request's arrival."""

    request_id: int
    verdict: Verdict
    unanswered: bool = False  # the node had asked somebody who did not answer in time, and decided alone


class Forward(Struct, frozen=True):
    """Hand a request on to another node."""

    request: Request
    target: str


class Actuate(Struct, frozen=True):
    """A command to the node's data plane, one of the commands below."""

    command: object


class Sample(Struct, frozen=True):
    """A value worth keeping, in the ``samples`` table."""

    metric: str
    value: float


Event = Start | Arrival | Delivery | Timer | Report
Effect = Send | SetTimer | Decide | Forward | Actuate | Sample


class UnexpectedEvent(AssertionError):
    """A node got an event that its protocol has no case for: our bug, or its author's."""

    def __init__(self, node_id: str, event: object):
        super().__init__(f"{node_id}: no case for {event!r}")


class Node(Protocol):
    """One protocol participant; ``handle`` is its only mutator.

    A node may also say, for whoever watches it:

    * ``idle() -> bool``: nothing is left to send; all nodes idle and nothing under way = converged;
    * ``state_bytes() -> int``: what its state weighs in the model of its source;
    * ``allocated_bytes() -> int``: what it really takes in memory;
    * ``message_bytes(message, encoded_bytes) -> int``: what counts in ``sent_bytes`` for a message, a snapshot or a
      request that it hands on, if not the ``encoded_bytes`` that travel;
    * ``snapshot() -> Message``: its state, for ``Start(snapshot)`` of a node that re-joins by copying it;
    * ``holds() -> Mapping[str, int]``: by name, its part of what all nodes together hold a fixed amount of.
    """

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """Take one event, change state, say what shall happen."""
        ...


# --- what must hold, whatever goes wrong ---------------------------------------------------------


class Step(NamedTuple):
    """One event that a node handled, and its answer; ``at_ns`` is the node's own time."""

    at_ns: int
    node: str
    incarnation: int  # how often the node had been restarted
    event: Event
    effects: tuple[Effect, ...]
    true_ns: int = 0


class Decision(NamedTuple):
    """A verdict on a request, and the step that gave it."""

    step: Step
    request: Request
    verdict: Verdict
    unanswered: bool


@dataclass(frozen=True)
class RunHistory:
    """A run as its invariants see it.

    ``faults``: the kinds of what went wrong, as fault tables call them.  ``outages``: of each node the spans, in true
    time, in which it was down.  ``clocks_apart_ns``: the most that any two clock readings of one instant, or of one
    clock before and after a step, were off each other; ``delay_ns``: the longest way between two nodes.
    ``at_rest``: everybody was idle at the end, with nothing under way; None where nodes do not say.  ``states``,
    ``holdings``: snapshots and ``holds()`` of the nodes that lived at the end, at ``end_ns``.
    """

    system: "System"
    config: Any
    names: tuple[str, ...]
    steps: Sequence[Step]
    faults: frozenset[str] = frozenset()
    outages: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    clocks_apart_ns: int = 0
    delay_ns: int = 0
    at_rest: bool | None = None
    end_ns: int = 0
    states: Mapping[str, object] = field(default_factory=dict)
    holdings: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def crash_count(self) -> int:
        """Crashes of all nodes."""
        return sum(map(len, self.outages.values()))

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """All verdicts on requests that had arrived, in order."""
        asked: dict[int, Request] = {}
        decisions = []
        for step in self.steps:
            if isinstance(step.event, Arrival):
                asked[step.event.request.id] = step.event.request
            for effect in step.effects:
                if isinstance(effect, Decide) and effect.request_id in asked:
                    decisions.append(Decision(step, asked[effect.request_id], effect.verdict, effect.unanswered))
        return tuple(decisions)


class Violation(NamedTuple):
    """Where an invariant does not hold: the instant in true time, the node, and what is wrong."""

    at_ns: int
    node: str
    what: str


@dataclass(frozen=True)
class Invariant:
    """What holds in every run of a system; ``broken`` finds the first place where it does not, if any."""

    name: str
    broken: Callable[[RunHistory], Violation | None]


# --- commands to and reports from a data plane ---------------------------------------------------


@dataclass(frozen=True)
class SetBucket:
    """Give the broker's sub-bucket of the topic a new rate and size (tokens kept, cut to the size)."""

    topic: str
    rate_rps: float
    burst_count: float


@dataclass(frozen=True)
class TopicReport:
    """What a broker saw of a topic since its last report."""

    topic: str
    rate_rps: float
    backlog_count: float  # maximum unfinished work of the sub-bucket, in messages
    waiting_count: float  # maximum number of messages that waited for tokens


# --- search procedures: distributors -------------------------------------------------------------


@dataclass(frozen=True)
class Broker:
    """What a distributor knows about a broker before it measures."""

    name: str
    mcap_rps: float  # maximum message rate under the SLO, found by benchmarking (SRTM IV-B)
    load_rps: float  # message rate of the topics that it already carries

    @property
    def rcap_rps(self) -> float:
        """Residual capacity (SRTM IV-B)."""
        return max(0.0, self.mcap_rps - self.load_rps)


@dataclass(frozen=True)
class Problem:
    """A new topic and the brokers that may take it."""

    publishers: Population
    envelope: Envelope
    brokers: tuple[Broker, ...]
    slo_ns: int  # on the 99th percentile of end-to-end latency
    round_ns: int  # length of one measurement round


@dataclass(frozen=True)
class Trial:
    """Ask the testbed to carry this assignment for one round and to measure it.

    ``assignment``: int32 (publishers,), the index of each publisher's broker or ``UNASSIGNED``.
    ``iteration`` counts the distributor's outer iterations from 1 (SRTM Table I: its columns).
    """

    assignment: Int32
    duration_ns: int
    iteration: int = 1


@dataclass(frozen=True)
class BrokerMeasure:
    """One broker's measurement of the topic; p99 is None where it carried no message."""

    p99_ns: int | None
    count: int
    rate_rps: float


@dataclass(frozen=True)
class Measured:
    """What a trial showed: one entry a broker, and the p99 over all messages of the topic."""

    brokers: tuple[BrokerMeasure, ...]
    p99_ns: int


class Outcome(Enum):
    """How a search ended."""

    PLACED = "placed"
    OUT_OF_BROKERS = "out-of-brokers"  # the assignment is the best configuration found


@dataclass(frozen=True)
class Distribution:
    """A distributor's answer: no publisher may be left unassigned."""

    assignment: Int32
    outcome: Outcome = Outcome.PLACED

    @property
    def broker_count(self) -> int:
        """Brokers that carry at least one publisher."""
        return len(np.unique(self.assignment[self.assignment != UNASSIGNED]))


Search = Generator[Trial, Measured, Distribution]
Distribute = Callable[[Problem, Any, np.random.Generator], Search]


class Transport(Enum):
    """How a node's messages travel on real sockets."""

    DATAGRAM = "datagram"
    STREAM = "stream"


@dataclass(frozen=True)
class Rehearsal:
    """How the conformance suite deploys a system that three nodes n1, n2 and n3 do not make.

    ``names``: of the nodes; the second gets into trouble, the third is whom it may copy.  ``reports``: (at_ns, node,
    measurement), in order.
    """

    names: tuple[str, ...]
    reports: tuple[tuple[int, str, object], ...]


@dataclass(frozen=True)
class StandIn:
    """Real servers in the place of nodes that model them, on real hosts; virtual time has the models.

    ``make``: names a function ``(node, surroundings) -> node``, which may put another in the node's place.
    ``servers``: those that the study starts, as in ``System.servers``.
    """

    make: str
    servers: tuple[str, ...]


def no_wish(config: object) -> str:
    """No node in particular."""
    return ""


@dataclass(frozen=True)
class System:
    """One competitor.  Exactly one of ``distribute`` and ``nodes`` is set.

    ``nodes(names, config, seed)`` makes the nodes of one deployment, a dict name -> Node, for the
    host names given; ``messages`` are the message classes that they send each other, ``inputs`` the
    events from outside (``Arrival``, ``Report``) that the named nodes take.
    ``shared(config, snapshot, now_ns)``: of a node's snapshot, what all replicas hold alike at rest, as a set of tuples
    whose last field grows, an integer; of a message to other nodes, too, what that tells of it.

    On real hosts, each by its key in ``testbed.servers``, ``"module:OBJECT"``, ``"path.py:OBJECT"`` or ``":OBJECT"``
    of the system's own file: ``servers``, programs of others without whose answers the nodes are none, so that
    virtual time refuses them; ``plane``, what carries out the nodes' commands there, and reports; ``stand_in``.
    ``beside(config)``: the node beside which the servers run; "": the first.  ``timeout_ns(config)``: how long a node
    waits for an answer before it decides alone.
    """

    key: str
    summary: str
    config: type
    distribute: Distribute | None = None
    nodes: Callable[[list[str], Any, int], dict[str, Node]] | None = None
    messages: tuple[type, ...] = ()
    transport: Transport = Transport.DATAGRAM
    inputs: tuple[type, ...] = (Arrival,)
    servers: tuple[str, ...] = ()
    plane: str = ""
    stand_in: StandIn | None = None
    beside: Callable[[Any], str] = no_wish
    timeout_ns: Callable[[Any], int] | None = None
    shared: Callable[[Any, Any, int], frozenset[tuple[Any, ...]]] | None = None
    rehearsal: Rehearsal | None = None
    invariants: tuple[Invariant, ...] = ()  # beyond those of ``systems.invariants.COMMON``
    round_count: int = 5  # of a distributor: measurement rounds of a typical search, and the fresh one

    def __post_init__(self) -> None:
        assert (self.distribute is None) != (self.nodes is None), f"{self.key}: give distribute or nodes"
