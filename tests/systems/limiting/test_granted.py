"""A limiter's node beside a broker: what it hears, what it commands, and that it is the limiter's own."""

from collections.abc import Iterator

import pytest

from core.records import Envelope
from core.units import SECOND_NS
from systems.api import (
    Actuate,
    Arrival,
    Decide,
    Delivery,
    Effect,
    Event,
    Node,
    Report,
    Send,
    SetBucket,
    SetTimer,
    Start,
    System,
    Timer,
)
from systems.distribution.commands import MessagesCame
from systems.limiting.granted import LEASES, THROTTLER, Config, leased, part_of, throttled
from systems.parts.portion import MILLION
from systems.parts.token_bucket import units

NAMES = ["a", "b", "c"]
OPTIONS = {
    LEASES.key: {"capacity": 30, "rate": "300", "refresh": "200ms", "lease": "2s", "window": "400ms"},
    THROTTLER.key: {"capacity": 30, "rate": "300", "cycle": "200ms"},
}
PARTS = {LEASES.key: leased, THROTTLER.key: throttled}


class Recorded:
    """A node that writes down what it is given."""

    def __init__(self, node: Node):
        self.node, self.events = node, list[Event]()

    def __getattr__(self, name: str) -> object:
        return getattr(self.node, name)

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        self.events.append(event)
        return self.node.handle(event, now_ns)


def played(system: System, messages: dict[str, int], until_ns: int) -> Iterator[tuple[int, str, Effect]]:
    """Each 20 ms every broker says how many messages have come; nothing takes any time between nodes."""
    assert system.nodes is not None
    config = Config(OPTIONS[system.key], "topic", 300.0, 30.0)
    nodes = system.nodes(NAMES, config, 1)
    timers: dict[tuple[str, str], int] = {}
    for now_ns in range(0, until_ns, SECOND_NS // 50):
        todo: list[tuple[str, Event]] = [(name, Start()) for name in NAMES if now_ns == 0]
        todo += [(node, Timer(name, at_ns)) for (node, name), at_ns in timers.items() if at_ns <= now_ns]
        todo += [(name, Report(MessagesCame("topic", messages[name]))) for name in NAMES if now_ns]
        while todo:
            name, event = todo.pop(0)
            if isinstance(event, Timer) and timers.get((name, event.name)) == event.due_at_ns:
                del timers[name, event.name]
            for effect in nodes[name].handle(event, now_ns):
                yield now_ns, name, effect
                match effect:
                    case SetTimer(timer, at_ns):
                        timers[name, timer] = at_ns
                    case Send(target, message):
                        todo.append((target, Delivery(name, message)))


@pytest.mark.parametrize("system", [LEASES, THROTTLER], ids=lambda system: system.key)
def test_parts_go_where_messages_come_and_the_whole_is_kept(system: System) -> None:
    held: dict[str, SetBucket] = {}
    for _, name, effect in played(system, {"a": 4, "b": 1, "c": 1}, 3 * SECOND_NS):
        assert not isinstance(effect, Decide), "nobody waits for a verdict"
        if isinstance(effect, Actuate):
            assert isinstance(effect.command, SetBucket) and effect.command != held.get(name)
            held[name] = effect.command
    rates = {name: command.rate_rps for name, command in held.items()}
    assert rates["a"] > 1.3 * max(rates["b"], rates["c"]) and sum(rates.values()) <= 300.001
    assert all(command.burst_count >= 1 for command in held.values())


@pytest.mark.parametrize("system", [LEASES, THROTTLER], ids=lambda system: system.key)
def test_the_node_inside_hears_of_each_message_once(system: System) -> None:
    assert system.nodes is not None
    made = system.nodes(NAMES, Config(OPTIONS[system.key], "topic", 300.0, 30.0), 1)["a"]
    inside = made._node = Recorded(made._node)  # type: ignore[attr-defined]
    part = made._part  # type: ignore[attr-defined]
    made._part = lambda node, topic: part(inside.node, topic)  # type: ignore[attr-defined]
    made.handle(Start(), 0)
    for count in (3, 0, 2):
        made.handle(Report(MessagesCame("topic", count)), SECOND_NS)
    asked = [event.request for event in inside.events if isinstance(event, Arrival)]
    assert [one.id for one in asked] == list(range(5)) and {one.user for one in asked} == {"topic"}
    assert PARTS[system.key](inside.node, "topic") is not None


def test_a_part_holds_a_token_and_never_stands_still() -> None:
    whole = Envelope(300.0, 30.0)
    assert part_of(MILLION, whole, 3) == Envelope(pytest.approx(100.0), pytest.approx(10.0))
    assert part_of(3 * MILLION, whole, 3) == whole
    assert part_of(0, whole, 3) == Envelope(0.001, 1.0)
    most = part_of(1_000 * MILLION, Envelope(3_000.0, 9_000_000.0), 3)
    assert units(most) == units(Envelope(400_000.0, 4_000_000.0)), "as much as a bucket can be, whatever a law says"
