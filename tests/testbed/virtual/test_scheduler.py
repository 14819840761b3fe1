from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError, SystemFault
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
    Report,
    Sample,
    Send,
    SetTimer,
    Start,
    Timer,
    Transport,
    Verdict,
)
from testbed.faults import Crash, Heal, Partition, Restart
from testbed.topologies.topology import mesh
from testbed.virtual.network import Network
from testbed.virtual.scheduler import EventLoop

MS = 1_000_000
SECOND = 1_000 * MS


class Note(Message, frozen=True):
    text: str


class Probe(Message, frozen=True):
    by_datagram = True


class Table(Message, frozen=True):
    rows: tuple[tuple[str, float], ...]


Script = Callable[[str, Event, int], list[Effect]]


class Scripted:
    """A node whose answers come from a function; it keeps what it was given."""

    def __init__(self, name: str, script: Script, log: list[tuple[int, str, Event]]):
        self.name, self.script, self.log = name, script, log

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        self.log.append((now_ns, self.name, event))
        return self.script(self.name, event, now_ns)


def loop_of(
    script: Script, names: tuple[str, ...] = ("n1", "n2"), delay_ns: int = 5 * MS, **options: Any
) -> tuple[EventLoop, list[tuple[int, str, Event]]]:
    log: list[tuple[int, str, Event]] = []
    network = Network(mesh("m", list(names), delay_ns), 1, options.pop("transport", Transport.DATAGRAM))

    def boot(restart: int) -> dict[str, Scripted]:
        return {name: Scripted(name, script, log) for name in names}

    return EventLoop(boot, network, (Note, Probe, Table), **options), log


def quiet(name: str, event: Event, now_ns: int) -> list[Effect]:
    return []


def on_start(**effects: list[Effect]) -> Script:
    return lambda name, event, now_ns: effects.get(name, []) if isinstance(event, Start) else []


def without_starts(log: list[tuple[int, str, Event]]) -> list[tuple[int, str, Event]]:
    return [entry for entry in log if not isinstance(entry[2], Start)]


def test_ties_are_first_in_first_out() -> None:
    timers: list[Effect] = [SetTimer(name, 5 * MS) for name in ("c", "a", "b")]
    loop, log = loop_of(
        on_start(n1=[*timers, Send("n2", Note("x")), SetTimer("d", 5 * MS)], n2=[SetTimer("e", 5 * MS)])
    )
    loop.run(SECOND)
    seen = [event.name if isinstance(event, Timer) else "x" for _, _, event in without_starts(log)]
    assert seen == ["c", "a", "b", "x", "d", "e"]
    assert {at_ns for at_ns, _, _ in without_starts(log)} == {5 * MS}


@given(st.lists(st.integers(0, 20), max_size=50))
def test_events_come_in_order_of_instant_then_of_setting(instants: list[int]) -> None:
    loop, log = loop_of(on_start(n1=[SetTimer(str(n), at_ns) for n, at_ns in enumerate(instants)]))
    loop.run(SECOND)
    rung = [(at_ns, int(event.name)) for at_ns, _, event in log if isinstance(event, Timer)]
    assert rung == sorted((at_ns, n) for n, at_ns in enumerate(instants))


def test_setting_a_timer_again_replaces_it() -> None:
    effects: list[Effect] = [SetTimer("t", 10), SetTimer("t", 30), SetTimer("u", 20), SetTimer("u", 5)]
    loop, log = loop_of(on_start(n1=effects))
    loop.run(SECOND)
    assert without_starts(log) == [(5, "n1", Timer("u", 5)), (30, "n1", Timer("t", 30))]


def test_a_periodic_timer_does_not_drift_and_the_end_is_included() -> None:
    def script(name: str, event: Event, now_ns: int) -> list[Effect]:
        return [SetTimer("t", (event.due_at_ns if isinstance(event, Timer) else 0) + 10)]

    loop, log = loop_of(script, ("n1",))
    loop.run(40)
    assert [at_ns for at_ns, _, _ in without_starts(log)] == [10, 20, 30, 40]
    loop.run(50)
    assert len(without_starts(log)) == 5


def test_a_message_arrives_decoded_after_the_delay_of_its_path() -> None:
    table = Table((("a", 1.5), ("b", -2.0)))
    loop, log = loop_of(on_start(n1=[Send("n2", table), Send("n1", Note("self"))]))
    journal = loop.run(SECOND)
    assert without_starts(log) == [(0, "n1", Delivery("n1", Note("self"))), (5 * MS, "n2", Delivery("n1", table))]
    sent = {metric: value for _, node, metric, value in journal.samples if node == "n1"}
    assert sent["sent_count"] == 2
    # class index, array or map of fields, texts and numbers: some bytes, not the size of an object
    assert 20 < sent["sent_bytes"] < 80


def test_timers_die_with_their_incarnation_and_state_with_its_node() -> None:
    def script(name: str, event: Event, now_ns: int) -> list[Effect]:
        first_life, second_life = SetTimer("t", 20 * MS), SetTimer("u", 30 * MS)
        return [second_life if now_ns else first_life] if name == "n1" and isinstance(event, Start) else []

    loop, log = loop_of(script, keep_steps=True)
    loop.fail([Crash(10 * MS, "n1"), Restart(15 * MS, "n1")])
    journal = loop.run(SECOND)
    assert [(at_ns, name, event.again) for at_ns, name, event in log if isinstance(event, Start)] == [
        (0, "n1", False),
        (0, "n2", False),
        (15 * MS, "n1", True),
    ]
    assert without_starts(log) == [(30 * MS, "n1", Timer("u", 30 * MS))]
    assert [step.incarnation for step in journal.steps if step.node == "n1"] == [0, 1, 1]
    assert [fault for _, fault in journal.faults] == [Crash(10 * MS, "n1"), Restart(15 * MS, "n1")]


def test_a_crash_alone_silences_a_node() -> None:
    loop, log = loop_of(on_start(n1=[SetTimer("t", 20 * MS)], n2=[Send("n1", Note("x"))]))
    loop.fail([Crash(1 * MS, "n1")])
    loop.offer("n1", [Request(1, "u", 10 * MS)])
    journal = loop.run(SECOND)
    assert without_starts(log) == []
    assert (SECOND, "n2", "lost_count", 1.0) in journal.samples
    assert journal.offered.keys() == {1} and not journal.verdicts


@pytest.mark.parametrize(
    ("transport", "message", "delivered"),
    [
        (Transport.DATAGRAM, Note("x"), True),
        (Transport.STREAM, Note("x"), False),
        (Transport.STREAM, Probe(), True),
    ],
)
def test_a_stream_does_not_outlive_the_incarnation_it_was_sent_to(
    transport: Transport, message: Message, delivered: bool
) -> None:
    loop, log = loop_of(on_start(n1=[Send("n2", message)]), transport=transport)
    loop.fail([Crash(1 * MS, "n2"), Restart(2 * MS, "n2")])
    loop.run(SECOND)
    assert bool(without_starts(log)) is delivered


def test_nothing_waits_behind_what_was_sent_to_the_dead() -> None:
    def script(name: str, event: Event, now_ns: int) -> list[Effect]:
        return [Send("n2", Note(event.name))] if name == "n1" and isinstance(event, Timer) else []

    loop, log = loop_of(script, transport=Transport.STREAM)
    loop.fail([Crash(1 * MS, "n2"), Partition(1 * MS, ("n1",)), Restart(20 * MS, "n2"), Heal(30 * MS)])
    for life, at_ms in (("dead", 10), ("next", 40)):
        loop.inject("n1", at_ms * MS, Timer(life, at_ms * MS))
    loop.run(15 * MS)
    assert loop.is_quiet() is False
    loop.run(25 * MS)
    assert loop.is_quiet() is not False
    loop.run(SECOND)
    assert [(at_ns, event) for at_ns, _, event in log if isinstance(event, Delivery)] == [
        (45 * MS, Delivery("n1", Note("next")))
    ]


@pytest.mark.parametrize(
    ("transport", "message", "instants"),
    [
        (Transport.DATAGRAM, Note("x"), [35 * MS]),
        (Transport.STREAM, Note("x"), [227 * MS, 227 * MS]),  # sent again after 210 ms
        (Transport.STREAM, Probe(), [35 * MS]),
    ],
)
def test_partition_and_heal(transport: Transport, message: Message, instants: list[int]) -> None:
    def script(name: str, event: Event, now_ns: int) -> list[Effect]:
        if name == "n1":
            return [Send("n2", message)] if isinstance(event, Timer) else [SetTimer(f"{t}", t * MS) for t in (12, 30)]
        return []

    loop, log = loop_of(script, transport=transport)
    loop.fail([Partition(10 * MS, ("n1",)), Heal(20 * MS, ("n1",))])
    loop.run(SECOND)
    assert [at_ns for at_ns, name, event in log if isinstance(event, Delivery)] == instants
    assert loop.in_flight_count == 0


def test_a_datagram_waits_for_no_stream() -> None:
    sent: list[Effect] = [Send("n2", Note("lost")), Send("n2", Probe())]

    def script(name: str, event: Event, now_ns: int) -> list[Effect]:
        return sent if isinstance(event, Timer) else []

    loop, log = loop_of(script, transport=Transport.STREAM)
    loop.fail([Partition(1 * MS, ("n1",)), Heal(20 * MS, ("n1",))])
    for at_ms in (10, 30):
        loop.inject("n1", at_ms * MS, Timer("t", at_ms * MS))
    loop.run(SECOND)
    found = [(at_ns, event.message) for at_ns, _, event in log if isinstance(event, Delivery)]
    assert found == [(35 * MS, Probe()), (225 * MS, Note("lost")), (225 * MS, Note("lost"))]


def test_what_is_under_way_when_a_partition_begins_arrives() -> None:
    loop, log = loop_of(on_start(n1=[Send("n2", Note("x"))]))
    loop.fail([Partition(1 * MS, ("n1",))])
    loop.run(SECOND)
    assert without_starts(log) == [(5 * MS, "n2", Delivery("n1", Note("x")))]


def test_a_forwarded_request_is_decided_where_it_arrives() -> None:
    def script(name: str, event: Event, now_ns: int) -> list[Effect]:
        if isinstance(event, Arrival):
            return [Forward(event.request, "n2")] if name == "n1" else [Decide(event.request.id, Verdict.ADMIT)]
        return []

    loop, log = loop_of(script)
    request = Request(7, "u", 3 * MS, 2)
    loop.offer("n1", [request])
    journal = loop.run(SECOND)
    assert journal.offered == {7: ("n1", request)}
    assert journal.verdicts == {7: (8 * MS, "n2", Verdict.ADMIT)}
    assert without_starts(log)[-1] == (8 * MS, "n2", Arrival(request))


class Plane:
    """A data plane that only remembers when it was asked for what."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def advance(self, until_ns: int) -> None:
        self.calls.append(("advance", until_ns))

    def report(self) -> list[tuple[str, Any]]:
        return [("n2", len(self.calls))]

    def actuate(self, node: str, command: Any, now_ns: int) -> None:
        self.calls.append((node, command, now_ns))

    def crash(self, node: str, now_ns: int) -> None:
        self.calls.append(("crash", node, now_ns))


def test_the_data_plane_is_advanced_before_it_is_asked_or_told() -> None:
    def script(name: str, event: Event, now_ns: int) -> list[Effect]:
        return [Actuate("faster"), Sample("seen_count", event.measurement)] if isinstance(event, Report) else []

    plane = Plane()
    loop, log = loop_of(script, plane=plane, start_ns=100)
    loop.report_every(10)
    loop.inject("n1", 105, Delivery("n2", Note("x")))  # of which it hears nothing
    loop.fail([Crash(115, "n1")])
    journal = loop.run(125)
    assert plane.calls == [
        ("advance", 110),
        ("n2", "faster", 110),
        ("advance", 115),
        ("crash", "n1", 115),
        ("advance", 120),
        ("n2", "faster", 120),
        ("advance", 125),
    ]
    assert journal.samples == [(110, "n2", "seen_count", 1.0), (120, "n2", "seen_count", 5.0)]
    assert journal.commands == [(110, "n2", "faster"), (120, "n2", "faster")]
    assert [at_ns for at_ns, _, event in log if isinstance(event, Start)] == [100, 100]


def test_runs_may_be_continued() -> None:
    def script(name: str, event: Event, now_ns: int) -> list[Effect]:
        return [Send("n2", Note("x")), SetTimer("t", now_ns + 3 * MS)] if name == "n1" else []

    whole, log = loop_of(script)
    whole.run(SECOND)
    parts, pieces = loop_of(script)
    for until_ns in (0, 7 * MS, 7 * MS, 500 * MS, SECOND):
        parts.run(until_ns)
    assert pieces == log


# --- what a node must not do ------------------------------------------------------------------------


def looping(name: str, event: Event, now_ns: int) -> list[Effect]:
    return [SetTimer("t", now_ns)]


def ping_pong(name: str, event: Event, now_ns: int) -> list[Effect]:
    return [Send("n2" if name == "n1" else "n1", Note("x"))]


@pytest.mark.parametrize("script", [looping, ping_pong])
def test_a_node_that_never_stops_at_one_instant_is_named(script: Script) -> None:
    loop, _ = loop_of(script, delay_ns=0)
    with pytest.raises(SystemFault, match=r"n[12] does not get past 0ns"):
        loop.run(SECOND)


def test_the_number_of_events_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.virtual.scheduler.EVENTS_MAXIMUM", 1_000)
    loop, log = loop_of(lambda name, event, now_ns: [SetTimer("t", now_ns + 1)], ("n1",))
    with pytest.raises(SystemFault, match="too many events, the last at n1"):
        loop.run(SECOND)
    assert len(log) == 1_000


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ([SetTimer("t", 2 * MS)], "n1 set timer 't' to 2000000 at 3000000"),
        ([SetTimer("t", 4e6)], "n1 set timer 't' to 4000000.0"),  # type: ignore[arg-type]
        ([Send("n3", Note("x"))], "n1 unknown target .*n3"),
        ([Send("n2", Request(1, "u", 0))], "n1 sent an undeclared Request"),
        ([Forward(Request(1, "u", 3 * MS), "n3")], "n1 unknown target"),
        ([Forward(Request(2, "u", 3 * MS), "n2")], "n1 forwarded request 2, which is not open"),
        ([Decide(2, Verdict.ADMIT)], "n1 decided request 2, which is not open"),
        ([Decide(1, Verdict.ADMIT), Decide(1, Verdict.REJECT)], "n1 decided request 1, which is not open"),
        ([Forward(Request(1, "u", 3 * MS), "n2"), Decide(1, Verdict.ADMIT)], "n1 decided request 1"),
        ([Decide(1, True)], "n1 decided True"),  # type: ignore[arg-type]
        ([Sample("x", float("nan"))], "n1 sampled x = nan"),
        (["admit"], "n1 returned 'admit'"),
        (None, "n1 handle returned a NoneType"),
        ([Send("n2", Note("x" * 70_000))], "too long for a datagram"),
        ([Send("n2", Note({1, 2}))], "cannot decode"),  # type: ignore[arg-type]
        ([Send("n2", Note(object()))], "cannot encode"),  # type: ignore[arg-type]
    ],
)
def test_a_broken_rule_is_a_system_fault_that_names_the_node(answer: Any, names: str) -> None:
    loop, _ = loop_of(lambda name, event, now_ns: answer if isinstance(event, Arrival) else [])
    loop.offer("n1", [Request(1, "u", 3 * MS)])
    with pytest.raises(SystemFault, match=names):
        loop.run(SECOND)


def test_a_verdict_on_a_request_from_before_a_crash_is_a_fault() -> None:
    def script(name: str, event: Event, now_ns: int) -> list[Effect]:
        return [Decide(1, Verdict.ADMIT)] if isinstance(event, Start) and now_ns else []

    loop, _ = loop_of(script)
    loop.offer("n1", [Request(1, "u", 3 * MS)])
    loop.fail([Crash(4 * MS, "n1"), Restart(5 * MS, "n1")])
    with pytest.raises(SystemFault, match="decided request 1, which is not open"):
        loop.run(SECOND)


def test_an_exception_in_a_node_is_a_system_fault() -> None:
    def script(name: str, event: Event, now_ns: int) -> list[Effect]:
        return [] if isinstance(event, Start) else [{}["missing"]]

    loop, _ = loop_of(script)
    loop.inject("n2", 3 * MS, Report(1))
    with pytest.raises(SystemFault, match=r"n2 failed on Report.* at 3ms: KeyError: 'missing'"):
        loop.run(SECOND)


def test_bad_requests_are_spec_errors() -> None:
    loop, _ = loop_of(quiet)
    with pytest.raises(SpecError, match="did you mean 'n1'"):
        loop.offer("n11", [Request(1, "u", 0)])
    loop.offer("n1", [Request(1, "u", 5)])
    loop.offer("n2", [Request(1, "u", 5)])
    with pytest.raises(SpecError, match="request 1 is offered twice"):
        loop.run(SECOND)
    loop, _ = loop_of(quiet)
    loop.offer("n1", [Request(1, "u", 5), Request(2, "u", 4)])
    with pytest.raises(SpecError, match="request 2 at n1 is out of order"):
        loop.run(SECOND)
