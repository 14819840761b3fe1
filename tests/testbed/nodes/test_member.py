"""A member on a body that only writes down what it is told: what both ways of waiting share."""

from collections.abc import Callable
from typing import Any

import pytest

from core.errors import SystemFault
from core.records import Request
from systems.api import (
    Actuate,
    Arrival,
    Decide,
    Delivery,
    Effect,
    Event,
    Forward,
    Message,
    Sample,
    Send,
    SetTimer,
    Start,
    Timer,
    Transport,
    Verdict,
)
from testbed.nodes.member import DATAGRAM_BYTES_MAXIMUM, Group, Member

REQUEST = Request(7, "u", 0)


class Note(Message, frozen=True):
    text: str


class Plain:
    """A node that answers what it is told to answer."""

    def __init__(self) -> None:
        self.answers: list[Effect] = []
        self.seen: list[tuple[int, Event]] = []

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        self.seen.append((now_ns, event))
        answers, self.answers = self.answers, []
        return answers


class Telling(Plain):
    """One that says all that a node may say of itself."""

    def idle(self) -> bool:
        return not self.answers

    def snapshot(self) -> Note:
        return Note("all I know")

    def state_bytes(self) -> int:
        return 12

    def allocated_bytes(self) -> int:
        return 34


class Measuring(Telling):
    """One that counts its messages in a unit of its own."""

    def message_bytes(self, message: object, encoded_bytes: int) -> int:
        assert isinstance(message, Note) and message.text in ("x", "all I know")
        return 1_000 + encoded_bytes


class Body:
    """Rings nothing by itself."""

    def __init__(self) -> None:
        self.now_ns = 100
        self.told: list[tuple[Any, ...]] = []
        self.alarms: list[tuple[int, Callable[..., None], tuple[Any, ...]]] = []

    def occur(self, member: Member, event: Event) -> None:
        member.handle(event)

    def call_at(self, at_ns: int, action: Callable[..., None], *arguments: Any) -> None:
        self.alarms.append((at_ns, action, arguments))

    def send(self, source: str, target: str, content: bytes, by_datagram: bool) -> None:
        self.told.append(("send", source, target, GROUP.codec.decode(content)))

    def release(self, node: str, request_id: int) -> None:
        self.told.append(("release", node, request_id))

    def decide(self, node: str, decision: Decide) -> None:
        self.told.append(("decide", node, decision.request_id, decision.verdict))

    def actuate(self, node: str, command: Any) -> None:
        self.told.append(("actuate", node, command))

    def sample(self, node: str, metric: str, value: float) -> None:
        self.told.append(("sample", node, metric, value))

    def ring(self, late_ns: int = 0) -> None:
        """The oldest alarm that was set."""
        at_ns, action, arguments = self.alarms.pop(0)
        self.now_ns = at_ns + late_ns
        action(*arguments)


GROUP = Group(frozenset({"n1", "n2"}), (Note,), Transport.DATAGRAM)


def member_of(node: Plain, clock_offset_ns: int = 0) -> tuple[Member, Body]:
    body = Body()
    return Member("n1", node, GROUP, body, clock_offset_ns), body


def test_each_effect_goes_its_way_in_order() -> None:
    node = Plain()
    member, body = member_of(node)
    member.handle(Arrival(REQUEST))
    node.answers = [Send("n2", Note("x")), Forward(REQUEST, "n2"), Actuate("faster"), Sample("level", 3)]
    member.handle(Timer("t", 100))
    member.handle(Arrival(REQUEST))
    node.answers = [Decide(7, Verdict.ADMIT)]
    member.handle(Timer("t", 100))
    assert body.told == [
        ("send", "n1", "n2", Note("x")),
        ("release", "n1", 7),
        ("send", "n1", "n2", REQUEST),
        ("actuate", "n1", "faster"),
        ("sample", "n1", "level", 3.0),
        ("decide", "n1", 7, Verdict.ADMIT),
    ]


def test_bytes_of_others_are_requests_or_messages() -> None:
    member, _ = member_of(Plain())
    assert member.event_of("n2", GROUP.codec.encode(REQUEST)) == Arrival(REQUEST)
    assert member.event_of("n2", GROUP.codec.encode(Note("x"))) == Delivery("n2", Note("x"))
    with pytest.raises(SystemFault):
        member.event_of("n2", b"\xff")


def test_a_timer_that_was_set_again_or_lost_in_a_crash_does_not_ring() -> None:
    node = Plain()
    member, body = member_of(node)
    node.answers = [SetTimer("a", 110), SetTimer("b", 120), SetTimer("a", 130)]
    member.handle(Start(None))
    body.ring()
    assert len(node.seen) == 1
    body.ring()
    assert node.seen[1:] == [(120, Timer("b", 120))]
    member.crash()
    assert not member.alive
    fresh = Plain()
    fresh.answers = [SetTimer("a", 140)]
    member.rejoin(fresh)
    assert member.alive and member.incarnation == 1
    member.handle(member.start_from(None))
    body.ring()  # the dead node's
    body.ring()
    assert fresh.seen == [(120, Start(None)), (140, Timer("a", 140))]


def test_timers_are_of_the_nodes_clock_and_a_late_one_is_no_fault() -> None:
    node = Plain()
    member, body = member_of(node, clock_offset_ns=1_000)
    node.answers = [SetTimer("a", 1_110)]
    member.handle(Start(None))
    node.answers = [SetTimer("a", 1_115)]  # past by the time it rings, and yet after what was due
    body.ring(late_ns=50)
    assert node.seen == [(1_100, Start(None)), (1_160, Timer("a", 1_110))]
    member.clock_offset_ns = 0  # what was set before stays where it was in true time
    body.ring(late_ns=20)
    assert node.seen[-1] == (135, Timer("a", 115))
    member.tell_traffic(0)
    member.tell_traffic(0)
    assert body.told == [("sample", "n1", "timer_lateness_ns", 50.0)]


def test_what_is_sent_is_counted_until_it_is_told() -> None:
    node = Telling()
    member, body = member_of(node)
    node.answers = [Send("n2", Note("x")), Send("n1", Note("yy"))]
    member.handle(Start(None))
    content = member.state_content()
    assert content is not None and member.start_from(content) == Start(Note("all I know"))
    assert member.state_content(counted=False) == content
    size_bytes = sum(len(GROUP.codec.encode(note)) for note in (Note("x"), Note("yy"))) + len(content)
    body.told.clear()
    member.tell_traffic(lost_count=2)
    assert [row[2:] for row in body.told] == [
        ("lost_count", 2.0),
        ("sent_bytes", float(size_bytes)),
        ("sent_count", 3.0),
    ]
    assert member.last_traffic_ns == 100


def test_a_message_counts_what_its_node_says_and_travels_as_it_is() -> None:
    node = Measuring()
    member, body = member_of(node)
    node.answers = [Send("n2", Note("x"))]
    member.handle(Start(None))
    content, encoded = member.state_content(), GROUP.codec.encode(Note("x"))
    assert content is not None and body.told == [("send", "n1", "n2", Note("x"))]
    member.count_sent(b"of the data plane")
    body.told.clear()
    member.tell_traffic(lost_count=0)
    own_bytes = 2 * 1_000 + len(encoded) + len(content)
    assert body.told[0][2:] == ("sent_bytes", float(own_bytes + len(b"of the data plane")))


def test_what_a_node_says_of_itself_is_asked_for_and_nothing_else() -> None:
    member, body = member_of(Telling())
    assert member.idle() is True and member.state() == Note("all I know")
    member.tell_weight()
    assert [row[2:] for row in body.told] == [("state_bytes", 12.0), ("allocated_bytes", 34.0)]
    member.crash()
    member.tell_weight()
    assert len(body.told) == 2 and member.state() is None and member.state_content() is None
    member.rejoin(Plain())
    member.tell_weight()
    assert len(body.told) == 2 and member.idle() is None and member.state_content() is None


def test_a_datagram_has_an_end() -> None:
    node = Plain()
    member, body = member_of(node)
    node.answers = [Send("n2", Note("x" * DATAGRAM_BYTES_MAXIMUM))]
    with pytest.raises(SystemFault, match="too long for a datagram"):
        member.handle(Start(None))
    assert body.told == []
