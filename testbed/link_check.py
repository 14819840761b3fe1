"""Measures the paths of a site against its topology, before load: verify, then load.

An agent on every host echoes small datagrams and sends some to each other host, all at once and evenly spaced.  The
hosts share a clock, so each direction has a delay and a loss of its own.  A path that is off is measured again, for
a machine that was busy for a moment; one that stays off is a LinkError.
"""

import socket
import struct
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from math import comb
from typing import Any

from core.errors import LinkError
from core.units import MILLISECOND_NS
from testbed.live.agent import Agent, serve
from testbed.live.process import python_agent
from testbed.live.site import PathMeasure, Site

PROBES_A_PAIR = 200
PROBES_MAXIMUM = 12_000  # of all pairs: on two cores they take about three seconds
PROBES_LEAST = 20
RATE_RPS = 4_000  # echoes of all hosts together
PAIR_RATE_RPS = 250  # a pair's 200 in 0.8 s
GRACE_S = 0.5  # what may be late beyond the round trip
TOLERANCE_NS = MILLISECOND_NS // 2  # of the median
JITTER_SHARE = 0.1  # of the jitter, where that is more
LOSS_RISK = 1e-7  # of blaming a sound path, and either way
TRIES = 3

_MESSAGE = struct.Struct("!4sBHIqq")  # mark, kind, round, number, sent at, echoed at
_MARK = b"rbLC"
_ASK, _ECHO = 0, 1


def raise_problems(measures: Iterable[PathMeasure]) -> None:
    """LinkError that names each path out of tolerance."""
    bad = [measure for measure in measures if measure.problem]
    if bad:
        shown = "; ".join(f"{measure.source} to {measure.target}: {measure.problem}" for measure in bad[:8])
        more = f" and {len(bad) - 8} more" if len(bad) > 8 else ""
        raise LinkError(f"paths are not as the topology wants them: {shown}{more}", "is the machine busy?")


def check_links(site: Site) -> list[PathMeasure]:
    """Both directions of every pair of machines, with ``problem`` where one is out of tolerance."""
    hosts = [host.name for host in site.topology.machines]
    pairs = [(a, b) for i, a in enumerate(hosts) for b in hosts[i + 1 :]]
    if not pairs:
        return []
    count = max(PROBES_LEAST, min(PROBES_A_PAIR, PROBES_MAXIMUM // len(pairs)))
    agents: dict[str, Agent] = {}
    try:
        for host in hosts:
            command = python_agent("testbed.link_check", site.address(host))
            agents[host] = site.start(host, f"link-check-{host}", command)
        ports = {host: int(agent.ready()["port"]) for host, agent in agents.items()}
        found: dict[tuple[str, str], PathMeasure] = {}
        for number in range(TRIES):
            for measure in _measure(site, agents, ports, pairs, count, number):
                found[measure.source, measure.target] = measure
            pairs = [(a, b) for a, b in pairs if found[a, b].problem or found[b, a].problem]
            if not pairs or all(found[pair].lost_count == count for pair in pairs):  # nothing passes: no use
                break
        return list(found.values())
    finally:
        for agent in agents.values():
            agent.stop()


def _measure(
    site: Site,
    agents: dict[str, Agent],
    ports: dict[str, int],
    pairs: Sequence[tuple[str, str]],
    count: int,
    number: int,
) -> list[PathMeasure]:
    """One round: every pair at once, asked from its first host."""
    span_s = max(count / PAIR_RATE_RPS, count * len(pairs) / RATE_RPS)
    slowest_ns = max(site.topology.path(a, b).one_way_delay_ns + site.topology.path(a, b).jitter_ns for a, b in pairs)
    wait_s = 2 * slowest_ns / 1e9 + GRACE_S
    asked = {a: [b for source, b in pairs if source == a] for a in dict.fromkeys(a for a, _ in pairs)}
    for a, targets in asked.items():
        addresses = [[site.address(b), ports[b]] for b in targets]
        agents[a].post("probe", targets=addresses, count=count, span_s=span_s, wait_s=wait_s, number=number)
    answers = {a: agents[a].answer(span_s + wait_s + 20) for a in asked}
    measures = []
    for a, targets in asked.items():
        for b, result in zip(targets, answers[a]["results"], strict=True):
            heard = agents[b].ask("heard", address=site.address(a), port=ports[a], number=number)["heard_count"]
            there, back = result["there_ns"], result["back_ns"]
            measures += [
                judged(site, a, b, there, count, count - heard),
                judged(site, b, a, back, heard, heard - len(back)),
            ]
    return measures


def judged(site: Site, source: str, target: str, delays_ns: list[int], sent: int, lost: int) -> PathMeasure:
    """One direction of a path, measured by ``sent`` messages, against the topology."""
    path = site.topology.path(source, target)
    delays_ns = sorted(delays_ns)
    p05, p50, p95 = (delays_ns[int(share * (len(delays_ns) - 1))] if delays_ns else 0 for share in (0.05, 0.5, 0.95))
    return PathMeasure(
        source,
        target,
        path.one_way_delay_ns,
        p50,
        path.loss_probability,
        lost,
        sent,
        path.jitter_ns,
        p05,
        p95,
        _problem(path.one_way_delay_ns, path.jitter_ns, path.loss_probability, p50 if delays_ns else None, sent, lost),
    )


def _problem(delay_ns: int, jitter_ns: int, loss: float, median_ns: int | None, sent: int, lost: int) -> str:
    if lost == sent and loss < 1:
        return f"all {sent} messages are lost" if sent else "nothing came to be sent back"
    if not is_likely(lost, sent, loss):
        return f"{lost} of {sent} messages are lost, wanted {100 * loss:g} %"
    if median_ns is not None:
        tolerance_ns = max(TOLERANCE_NS, int(JITTER_SHARE * jitter_ns))
        if abs(median_ns - delay_ns) > tolerance_ns:
            return f"median delay {median_ns / 1e6:.2f} ms, wanted {delay_ns / 1e6:.2f} ms"
    return ""


def is_likely(lost: int, sent: int, loss: float) -> bool:
    """Whether both tails of the binomial distribution from ``lost`` on are likely enough for a sound path."""

    def tail(first: int, last: int) -> float:
        return sum(comb(sent, k) * loss**k * (1 - loss) ** (sent - k) for k in range(first, last + 1))

    return tail(lost, sent) > LOSS_RISK and tail(0, lost) > LOSS_RISK


# --- the agent ---------------------------------------------------------------------------------------------


class Prober:
    """Echoes what it is asked, and asks others."""

    def __init__(self, address: str):
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._socket.bind((address, 0))
        self.port: int = self._socket.getsockname()[1]
        self._heard: dict[tuple[tuple[str, int], int], set[int]] = {}
        self._answers: dict[tuple[tuple[str, int], int], dict[int, tuple[int, int]]] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def probe(
        self, targets: list[tuple[str, int]], count: int, span_s: float, wait_s: float, number: int
    ) -> dict[str, Any]:
        """Send ``count`` messages to each target within ``span_s``, in turn; the delays there and back, in ns."""
        ends = [(address, port) for address, port in targets]
        begin_s = time.monotonic()
        step_s = span_s / (count * len(ends))
        for serial in range(count * len(ends)):
            left_s = begin_s + serial * step_s - time.monotonic()
            if left_s > 0:
                time.sleep(left_s)
            message = _MESSAGE.pack(_MARK, _ASK, number, serial // len(ends), time.time_ns(), 0)
            self._socket.sendto(message, ends[serial % len(ends)])
        until_s = time.monotonic() + wait_s
        while time.monotonic() < until_s and any(len(self._answers.get((end, number), ())) < count for end in ends):
            time.sleep(0.01)
        found = [list(self._answers.get((end, number), {}).values()) for end in ends]
        results = [{"there_ns": [there for there, _ in one], "back_ns": [back for _, back in one]} for one in found]
        return {"results": results}

    def heard(self, address: str, port: int, number: int) -> dict[str, Any]:
        """How many messages of a round came from an asker."""
        return {"heard_count": len(self._heard.get(((address, port), number), ()))}

    def _listen(self) -> None:
        while True:
            message, sender = self._socket.recvfrom(2048)
            now_ns = time.time_ns()
            if len(message) != _MESSAGE.size or not message.startswith(_MARK):
                continue
            _, kind, number, serial, sent_ns, echoed_ns = _MESSAGE.unpack(message)
            if kind == _ASK:
                self._socket.sendto(_MESSAGE.pack(_MARK, _ECHO, number, serial, sent_ns, now_ns), sender)
                self._heard.setdefault((sender, number), set()).add(serial)
            else:  # what comes twice counts once
                delays = echoed_ns - sent_ns, now_ns - echoed_ns
                self._answers.setdefault((sender, number), {}).setdefault(serial, delays)


def main() -> None:
    """The agent: its argument is the host's address."""
    prober = Prober(sys.argv[1])
    serve({"probe": prober.probe, "heard": prober.heard}, port=prober.port)


if __name__ == "__main__":
    main()
