"""Whether a driver keeps its word, with the real servers of a site: the conformance suite of deployed limiters.

What it finds first is a SystemFault.  A figure of a limiter whose processes never met, or whose errors were taken for
verdicts, would look as good as any.
"""

import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import hiredis

from core.errors import MachineError, SpecError, SystemFault, described
from core.units import SECOND_NS
from systems.limiting.deployed import Cluster, DeployedConfig, Driver, Entry, HttpAnswer, Process, Quota, quota_of
from systems.parts.options import span_ns
from systems.parts.wires import HttpReader, RespReader
from testbed.hosts.cleaning import marked_processes
from testbed.hosts.site import Site
from testbed.nodes.planes import ServerAt
from testbed.servers.driven import START_S, Driven
from testbed.servers.server import Placing, ServerGroup

NOBODY, NOBODYS_PORT = "127.99.99.99", 1  # where nobody listens: who listens at all addresses hears the first one
GARBAGE = (b"", b"{}", b"null", b"\x00\xff", b"UNDER_LIMIT", b'{"error": "deadline exceeded"}')
ERRORS = (100, 301, 400, 401, 404, 408, 500, 502, 503, 504)  # which no limiter's verdict is
SURVIVORS = 16  # users who ask after a crash
ATTEMPTS = 5  # to see within a period whether nodes know of each other: a busy machine is no fault of theirs
LOOKS = 3  # at what a user is granted a period later; for the same reason
_PATIENCE = 1.5  # of a node's time-out, at whose end an error of the server's own is only sent
NO_ANSWER = "does not answer within"  # of ``ServerProcess.wait_for``
_SECRET = "conformance"
_ANSWER_S = 5.0
_PART_BYTES = 1 << 16


def check_driver(driver: Driver, site: Site, nodes: Sequence[str], config: DeployedConfig) -> None:
    """Raise SystemFault at the first rule that ``driver`` breaks on ``site``; at least three ``nodes``.

    ``config``: a limit whose period is short, for it is waited for.  MachineError where the machine lacks a program.
    """
    check_errors(driver)
    if not driver.coordinates and driver.contract != "split":
        what = f"{driver.key}: its processes tell each other nothing, and its contract is {driver.contract}"
        raise SystemFault(what, 'give each node an n-th of the limit, and let contract be "split"')
    trial = _Trial(driver, site, nodes, config)
    before, begun_s = _running_on(site), time.monotonic()
    with trial.running(driver) as servers:
        took_s = time.monotonic() - begun_s
        trial.admits_its_limit(servers)
        trial.weighs_costs(servers)
        is_one = len({node for node, _ in servers.processes}) == 1  # it has nobody to meet
        if driver.coordinates:
            trial.tells_others(servers, between_hosts=not is_one)
        trial.survives(servers)
    if driver.coordinates and not is_one:
        trial.refuses_strangers(min(START_S, 1.0 + 2 * took_s))
    left = _running_on(site) - before
    if left:
        what = f"{driver.key}: still running: {', '.join(map(str, sorted(left)))}"
        raise SystemFault(what, "its programs must end by SIGTERM, with all that they have started")


def _running_on(site: Site) -> set[int]:
    return {process["pid"] for process in marked_processes(site.state.token)}


def check_errors(driver: Driver) -> None:
    """SystemFault where an error is taken for a verdict, however it is dressed."""
    if driver.wire == "http":
        wrong: list[Any] = [HttpAnswer(status, body) for status in ERRORS for body in (*GARBAGE, b"OK")]
        wrong += [HttpAnswer(200, body) for body in GARBAGE if body]  # dressed as an admission: the known trap
    else:
        wrong = [hiredis.ReplyError("ERR"), hiredis.ReplyError("NOSCRIPT"), b"OK", b"", 2, -1, None, [1], [0]]
    for answer in wrong:
        try:
            verdict = driver.verdict(answer)
        except Exception as error:
            raise SystemFault(f"{driver.key}: verdict({answer!r}) raises {error!r}", "return None") from error
        if verdict is not None:
            raise SystemFault(f"{driver.key}: verdict({answer!r}) is {verdict}", "return None for what is no verdict")


class _Mistold(Driver):
    """A driver whose nodes have wrong addresses of all others: where one is told right, it may introduce itself."""

    def __init__(self, driver: Driver):
        self._driver = driver
        self.key, self.programs, self.config, self.wire = driver.key, driver.programs, driver.config, driver.wire

    def servers(self, cluster: Cluster, quota: Quota, config: Any) -> list[Process]:
        nobody = dict.fromkeys(cluster.nodes, NOBODY)
        alone = {}
        for node, address in cluster.addresses.items():

            def port_of(other: str, name: str, usual: int, own: str = node) -> int:
                return cluster.port_of(other, name, usual) if other == own else NOBODYS_PORT

            astray = replace(cluster, addresses={**nobody, node: address}, port_of=port_of)
            alone[node] = self._driver.servers(astray, quota, config)
        right = self._driver.servers(cluster, quota, config)
        return [alone[process.node][place] for place, process in enumerate(right)]

    def entry(self, cluster: Cluster, node: str, quota: Quota, config: Any) -> Entry:
        return self._driver.entry(cluster, node, quota, config)

    def ready(self, cluster: Cluster, answers: Mapping[str, bytes]) -> str:
        return self._driver.ready(cluster, answers)

    def ask(self, user: str, cost: int, quota: Quota, config: Any) -> bytes:
        return self._driver.ask(user, cost, quota, config)

    def verdict(self, answer: Any) -> bool | None:
        return self._driver.verdict(answer)


class _Trial:
    def __init__(self, driver: Driver, site: Site, nodes: Sequence[str], config: DeployedConfig):
        self.driver, self.site, self.nodes, self.config = driver, site, list(nodes), config
        self.quota = quota_of(config)

    @contextmanager
    def running(self, driver: Driver, start_s: float = START_S) -> Iterator[ServerGroup]:
        """Its processes, up and ready."""
        main = self.config.server or self.nodes[0]
        servers = Driven(driver, start_s).deploy(self.site, Placing(self.nodes, main, _SECRET, self.config))
        try:
            servers.start(self.nodes)
            servers.wait()
            yield servers
        finally:
            servers.stop()

    def admits_its_limit(self, servers: ServerGroup) -> None:
        """N of 2N at once at one node, and N again when nothing of these counts any more.

        The latter of one user of several: a server's clock may go slower than ours (HAProxy 2.6 takes for a jump of its
        clock what it stood still for more than 100 ms, and leaves it out).
        """
        count = self._count
        with self._asker(servers, self.nodes[0]) as ask:
            for number in range(1, LOOKS + 1):
                user = f"conformance{number}"
                self._turn(ask, user, "at once", count)
                time.sleep(2 * float(self.quota.period))  # and then into the window after the next
                if self._turn(ask, user, "a period later", count if number == LOOKS else 0) >= count:
                    break

    def _turn(self, ask: Callable[[bytes], Any], user: str, when: str, least: int) -> int:
        """How many of 2N requests it admits; SystemFault where that are fewer than ``least``, or more than it may."""
        begun_s = self._align()
        admitted = sum(self._verdict(ask, user) for _ in range(2 * self._count))
        took_s = time.time() - begun_s
        if not least <= admitted <= self._most(took_s):
            what = f"{self.driver.key} admits {admitted} of {2 * self._count} {when} (in {took_s:.3f} s)"
            raise SystemFault(what, f"its limit is {self.quota}, of which {self._count} at this node")
        return admitted

    def weighs_costs(self, servers: ServerGroup) -> None:
        """A request of cost 2 takes two tokens, or ``ask`` refuses it: taken for one it would pass unseen."""
        try:
            self.driver.ask("costly", 2, self.quota, self.config)
        except SpecError:
            return
        with self._asker(servers, self.nodes[0]) as ask:
            begun_s = self._align()
            admitted = sum(self._verdict(ask, "costly", 2) for _ in range(self._count))
            most = self._most(time.time() - begun_s)
        if not self._count // 2 <= admitted <= most // 2:
            what = f"{self.driver.key} admits {admitted} of {self._count} requests of cost 2"
            raise SystemFault(what, f"its limit is {self.quota}: ask for two tokens, or let ask() raise SpecError")

    def tells_others(self, servers: ServerGroup, between_hosts: bool) -> None:
        """What one node admits, another knows; and bytes have flowed ``between_hosts`` that have links."""
        first, second = self.nodes[:2]
        before, period_s = self._sent_bytes(first, second), float(self.quota.period)
        with self._asker(servers, first) as ask, self._asker(servers, second) as ask_other:
            for user in (f"shared{number}" for number in range(ATTEMPTS)):
                begun_s = self._align()
                for _ in range(self.quota.count):
                    self._verdict(ask, user)
                time.sleep(min(0.5, 0.4 * period_s))
                if not all(self._verdict(ask_other, user) for _ in range(self.quota.count)):
                    break
                if time.time() - begun_s < 0.9 * period_s:  # else the limit itself may be back
                    what = f"{self.driver.key}: {second} knows nothing of {first}"
                    raise SystemFault(what, "its processes must meet")
            else:
                what = f"{self.driver.key}: no {2 * self.quota.count} answers within {period_s:g} s, {ATTEMPTS} times"
                raise MachineError(what, "give a longer period, or this machine less to do")
        after = self._sent_bytes(first, second)
        if between_hosts and any(after[counter] <= sent for counter, sent in before.items()):
            raise SystemFault(f"{self.driver.key}: no byte has left a host", "its processes must meet")

    def survives(self, servers: ServerGroup) -> None:
        """After the crash of the last node's processes the first one answers in time, be it by errors; but for once.

        A busy machine may hold one up; that cannot be told from a server that waits once for the dead.  Of several
        users: what a dead peer knew may be one's own.  Who has but one store has no other to go on with.
        """
        victim, bound_s = self.nodes[-1], span_ns(self.driver.key, "timeout", self.config.timeout) / SECOND_NS
        if not any(beside == victim for beside, _ in servers.processes):
            return
        with self._asker(servers, self.nodes[0]) as ask:
            servers.kill(victim)
            slow_s = list[float]()
            for number in range(SURVIVORS):
                begun_s = time.monotonic()
                ask(self.driver.ask(f"survivor{number}", 1, self.quota, self.config))
                took_s = time.monotonic() - begun_s
                slow_s += [took_s] * (took_s > _PATIENCE * bound_s)
                if len(slow_s) > 1:
                    what = f"{self.driver.key}: after a crash elsewhere an answer took {max(slow_s):.1f} s"
                    raise SystemFault(what, f"a node waits {bound_s:g} s: see its log")

    def refuses_strangers(self, start_s: float) -> None:
        """Nodes that were told wrong addresses are found before the load: not ready, or ended, or up in no time."""
        try:
            with self.running(_Mistold(self.driver), start_s):
                pass
        except MachineError as error:
            if NO_ANSWER in error.what and start_s < START_S:  # that may be a busy machine's
                self.refuses_strangers(START_S)
            return
        raise SystemFault(
            f"{self.driver.key}: no node knows another, and all call themselves ready",
            "ask in ready() for what only those know who have met",
        )

    @property
    def _count(self) -> int:
        """What a node alone may grant."""
        return self.quota.count if self.driver.contract != "split" else self.quota.count // len(self.nodes)

    def _most(self, took_s: float) -> int:
        """What it may grant while so much time passes: what comes back meanwhile, too."""
        rounds = self.driver.contract == "sliding-window"  # weighed counts, down, where a period just ended
        return self._count + rounds + int(self._count * took_s / float(self.quota.period))

    def _verdict(self, ask: Callable[[bytes], Any], user: str, cost: int = 1) -> bool:
        answer = ask(self.driver.ask(user, cost, self.quota, self.config))
        verdict = self.driver.verdict(answer)
        if verdict is None:
            raise SystemFault(f"{self.driver.key} answers {answer!r}", "that is no verdict")
        return verdict

    def _align(self) -> float:
        """Into a window that has just begun, by the wall clock, for those that count in such; when it began."""
        period_s, now_s = float(self.quota.period), time.time()
        begins_s = now_s - now_s % period_s + period_s
        time.sleep(begins_s - now_s + 0.01)
        return begins_s

    def _sent_bytes(self, *nodes: str) -> Mapping[str, float]:
        hosts = {self.site.topology.host_of(node) for node in nodes}
        counted = ((host, metric, value) for host, metric, value in self.site.counters() if host in hosts)
        return {f"{host}/{metric}": value for host, metric, value in counted if "sent_bytes" in metric}

    @contextmanager
    def _asker(self, servers: ServerGroup, node: str) -> Iterator[Callable[[bytes], Any]]:
        """Asks as a node does, from the node's own host."""
        at = servers.reached_from(node)
        reader = HttpReader() if self.driver.wire == "http" else RespReader()
        with self._connected(at, node) as sock:

            def ask(content: bytes) -> Any:
                answers: list[Any] = []
                try:
                    sock.sendall(content)
                    while not answers:
                        answers = reader.take(_received(sock))
                except (OSError, ValueError) as error:
                    fault = f"{self.driver.key} gives no answer to {node}: {described(error)}"
                    raise SystemFault(fault, "see its log") from error
                return answers[0]

            for greeting in at.greeting:
                ask(greeting)
            yield ask

    def _connected(self, at: ServerAt, host: str) -> socket.socket:
        owners = [node for node in self.nodes if self.site.address(node) == at.address]
        return self.site.connect(owners[0] if owners else host, at.port, _ANSWER_S)


def _received(sock: socket.socket) -> bytes:
    part = sock.recv(_PART_BYTES)
    if not part:
        raise ConnectionError("it hangs up")
    return part
