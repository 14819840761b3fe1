"""The same questions to the modelled store and to a real ZooKeeper: the same answers; what only a real one shows."""

import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from core.errors import MachineError
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import Delivery, Effect, Send, SetTimer, Start, Timer
from systems.placement.messages import MESSAGES, Beat, Changed, Create, Delete, Done, Expired, WatchEntries, Write
from systems.placement.store import StoreNode
from systems.referee import Referee
from testbed.hosts.local import LocalSite
from testbed.servers.zookeeper import ZooKeeperServer
from testbed.servers.zookeeper_store import ZooKeeperStore
from testbed.topologies.topology import mesh
from tests.live import needs
from tests.testbed.servers.kazoo_harness import counters, through

pytestmark = needs("zookeeper")
SESSION_NS = 20 * SECOND_NS  # a node that says nothing for most of a test keeps it
SHORT_NS = 4 * SECOND_NS
TICK_MS = 1000  # sessions may last for 2 to 20 of them
NAMES = ["store", "a", "b", "c"]

Said = dict[str, Counter[Any]]  # node -> messages to it


def _add(found: Said, more: Said) -> Said:
    for target, messages in more.items():
        found.setdefault(target, Counter()).update(messages)
    return found


class Desk:
    """Gives a store events, and rings its timers: in virtual time, or as time goes by."""

    def __init__(self, node: Any, real: bool):
        self.node, self.real, self._virtual_ns = node, real, 0
        self._referee = Referee("store", NAMES, MESSAGES)
        self._timers: dict[str, int] = {}
        self._said: list[Send] = []
        self._give(Start(None))

    def now_ns(self) -> int:
        return time.monotonic_ns() if self.real else self._virtual_ns

    def ask(self, *asked: tuple[str, Any], seconds: float = 0.4) -> Said:
        """Give messages (source, message); what the store says within a span, which is real for a real one."""
        for source, message in asked:
            self._give(Delivery(source, message))
        until_ns = self.now_ns() + int(seconds * SECOND_NS)
        while self._ring(until_ns):
            pass
        said, self._said = self._said, []
        found: Said = {}
        for send in said:
            found.setdefault(send.target, Counter())[send.message] += 1
        return found

    def ask_until(
        self, wanted: Said, *asked: tuple[str, Any], beating: Sequence[str] = (), seconds: float = 60.0
    ) -> Said:
        """The same, until the store has said what is wanted; a little longer, for what it says beyond that.

        The sessions of those ``beating`` do not end meanwhile.
        """
        beats = [(name, Beat()) for name in beating]
        found, until_s = self.ask(*asked, seconds=0.02), time.monotonic() + seconds
        while found != wanted and time.monotonic() < until_s:
            _add(found, self.ask(*beats, seconds=0.02))
        return _add(found, self.ask(seconds=0.1))

    def wait_for(self, *wanted: tuple[str, Any], seconds: float = 60.0) -> None:
        """Until the store has said all this."""
        missing, until_s = list(wanted), time.monotonic() + seconds
        while missing:
            assert time.monotonic() < until_s, f"never said: {missing}"
            for target, messages in self.ask(seconds=0.02).items():
                missing = [(node, message) for node, message in missing if node != target or not messages[message]]

    def _ring(self, until_ns: int) -> bool:
        name, due_ns = min(self._timers.items(), key=lambda timer: timer[1])
        if due_ns > until_ns:
            self._virtual_ns = until_ns
            return False
        if self.real:
            time.sleep(max(0, due_ns - time.monotonic_ns()) / SECOND_NS)
        self._virtual_ns = due_ns
        del self._timers[name]
        self._give(Timer(name, due_ns))
        return True

    def _give(self, event: Any) -> None:
        now_ns = self.now_ns()
        effects: list[Effect] = self.node.handle(event, now_ns)
        self._referee.check(effects, min(now_ns, event.due_at_ns) if isinstance(event, Timer) else now_ns)
        for effect in effects:
            match effect:
                case SetTimer(name, at_ns):
                    self._timers[name] = at_ns
                case Send():
                    self._said.append(effect)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    with (
        LocalSite(mesh("one", ["n1"], 0), tmp_path / "run", tmp_path) as site,
        ZooKeeperServer(site, "n1", tick_ms=TICK_MS) as server,
    ):
        yield server


@pytest.fixture
def real(server: ZooKeeperServer) -> Iterator[Desk]:
    node = ZooKeeperStore("store", server.at, SESSION_NS)
    yield Desk(node, real=True)
    node.close()


SCRIPT: list[list[tuple[str, Any]]] = [
    [("a", Beat()), ("b", Create(1, "/owner/t1", "b"))],  # nobody has a session yet
    [("a", Beat(opens=True)), ("b", Beat(opens=True)), ("c", Beat(opens=True))],
    [("c", WatchEntries("/owner/")), ("c", WatchEntries("/leader"))],
    [("a", Create(1, "/owner/t1", "a")), ("a", Create(2, "/leader", "a"))],
    [("b", Create(7, "/owner/t1", "b")), ("b", Create(8, "/owner/0x1/2 %", "b")), ("b", Create(9, "/other", "b"))],
    [("a", Write("/load/a", "1"))],
    [("b", WatchEntries("/load/")), ("b", WatchEntries("/leader"))],
    [("a", Write("/load/a", "zwei")), ("b", Write("/load/b", "3"))],
    [("b", Delete(10, "/owner/t1")), ("b", Delete(11, "/owner/none"))],  # another's; nobody's
    [("a", Delete(3, "/owner/t1")), ("a", Create(4, "/owner/t2", "a"))],
    [("b", Create(12, "/owner/t1", "b"))],  # free now
    [("a", Beat()), ("b", Beat()), ("c", Beat())],
    [("a", Delete(5, "/owner/t2")), ("a", Create(6, "/owner/t2", "again"))],
    [("a", Beat(opens=True))],  # a new life: what it had goes, and they who watch it hear of it
    [("c", Beat()), ("b", Beat()), ("a", Create(1, "/leader", "a"))],
]


@pytest.mark.slow
def test_the_same_questions_get_the_same_answers(real: Desk) -> None:
    model = Desk(StoreNode("store", MILLISECOND_NS, SESSION_NS), real=False)
    for step in SCRIPT:
        wanted = model.ask(*step, seconds=0.1)
        assert real.ask_until(wanted, *step) == wanted, step


@pytest.mark.slow
def test_a_silent_node_loses_its_session_and_is_told(server: ZooKeeperServer) -> None:
    node = ZooKeeperStore("store", server.at, SHORT_NS)
    for desk in (Desk(StoreNode("store", MILLISECOND_NS, SHORT_NS), real=False), Desk(node, real=True)):
        opening = [
            ("a", Beat(opens=True)),
            ("b", Beat(opens=True)),
            ("b", WatchEntries("/load/")),
            ("a", Write("/load/a", "1")),
        ]
        seen = {"b": Counter([Changed("/load/a", "1")])}
        assert desk.ask_until(seen, *opening, beating=("a", "b")) == seen
        said, lost, until_s = Said(), {"b": Counter([Changed("/load/a", None)])}, time.monotonic() + 60
        for beats in count():  # b beats, a does not
            if beats >= 16 and (said == lost or time.monotonic() > until_s):
                break
            _add(said, desk.ask(("b", Beat()), seconds=0.4))
        assert said == lost
        expired = {"a": Counter([Expired()])}
        assert desk.ask_until(expired, ("a", Write("/load/a", "2"))) == expired
        again = {"b": Counter([Changed("/load/a", "3")])}
        opening = [("a", Beat(opens=True)), ("a", Write("/load/a", "3"))]
        assert desk.ask_until(again, *opening, beating=("a", "b")) == again
    node.close()


@pytest.mark.slow
def test_what_was_asked_while_zookeeper_was_down_is_done_when_it_is_back(server: ZooKeeperServer) -> None:
    node = ZooKeeperStore("store", server.at, SESSION_NS)
    desk = Desk(node, real=True)
    opening = [
        ("a", Beat(opens=True)),
        ("b", Beat(opens=True)),
        ("b", WatchEntries("/owner/")),
        ("a", Create(1, "/owner/x", "a")),
    ]
    seen = {"a": Counter([Done(1, True)]), "b": Counter([Changed("/owner/x", "a")])}
    assert desk.ask_until(seen, *opening) == seen
    server.kill()
    assert desk.ask(("a", Create(2, "/owner/y", "a")), ("a", Delete(3, "/owner/x"))) == {}
    server.start()
    late = [("b", Changed("/owner/y", "a")), ("b", Changed("/owner/x", None))]
    desk.wait_for(("a", Done(2, True)), ("a", Done(3, True)), *late)
    made = {"b": Counter([Done(4, True), Changed("/owner/x", "b")])}
    assert desk.ask_until(made, ("b", Create(4, "/owner/x", "b"))) == made
    assert counters(server)["zk_ephemerals_count"] == "2", "the sessions are those of before"
    node.close()


@pytest.mark.slow
def test_a_session_that_ran_out_while_nobody_could_reach_zookeeper_is_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = False

    def connect() -> socket.socket:
        if away:
            raise ConnectionRefusedError
        return socket.create_connection((server.at.address, server.at.port), 2)

    through(monkeypatch, connect)
    with (
        LocalSite(mesh("one", ["n1"], 0), tmp_path / "run", tmp_path) as site,
        ZooKeeperServer(site, "n1", tick_ms=100) as server,  # sessions are cut to 20 ticks
    ):
        node = ZooKeeperStore("store", server.at, 60 * SECOND_NS)
        desk = Desk(node, real=True)
        made = {"a": Counter([Done(1, True)])}
        assert desk.ask_until(made, ("a", Beat(opens=True)), ("a", Create(1, "/owner/x", "a"))) == made
        away = True
        server.kill()
        server.start()
        until_s = time.monotonic() + 60
        while counters(server)["zk_ephemerals_count"] != "0":
            assert time.monotonic() < until_s, "its session lives on"
            assert desk.ask(("a", Beat()), seconds=0.3) == {}, "nobody knows yet"
        away = False
        until_s = time.monotonic() + 60
        while desk.ask(("a", Beat()), seconds=0.1) != {"a": Counter([Expired()])}:
            assert time.monotonic() < until_s
        assert desk.ask_until(made, ("a", Beat(opens=True)), ("a", Create(1, "/owner/x", "a"))) == made
        node.close()


def test_a_store_without_zookeeper_says_so(server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.servers.zookeeper_store.WIPE_S", 0.3)
    server.stop()
    with pytest.raises(MachineError, match=f"no ZooKeeper at 127.0.0.1:{server.at.port}"):
        ZooKeeperStore("store", server.at, SESSION_NS).handle(Start(None), 0)


@pytest.mark.slow
def test_a_store_begins_empty(server: ZooKeeperServer) -> None:
    def begin() -> Desk:
        return Desk(ZooKeeperStore("store", server.at, SESSION_NS), real=True)

    earlier, create, made = begin(), Create(1, "/owner/x", "a"), {"a": Counter([Done(1, True)])}
    assert earlier.ask_until(made, ("a", Beat(opens=True)), ("a", create)) == made
    later = begin()  # the earlier one's sessions live on for a while
    expired = {"a": Counter([Expired()])}
    assert later.ask_until(expired, ("a", Create(1, "/owner/x", "b"))) == expired
    assert later.ask_until(made, ("a", Beat(opens=True)), ("a", create)) == made
    earlier.node.close(), later.node.close()
