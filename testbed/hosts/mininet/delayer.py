"""Delays packets between network namespaces where the kernel cannot (no netem): one process for all hosts.

Every receiving host queues what comes in from the network, one NFQUEUE a source; this process reads the queues of all
hosts, knows by the kernel's stamp when each packet arrived, and lets it go when its path's delay is over.  At the
receiver, because a packet that is held at its sender stays on the account of the sending socket, which then stops.

The loop wakes for the earliest release, and at least twice in the shortest delay: since arrivals are stamped, reading
them a little later costs nothing.  All verdicts that are due go to the kernel in one call.  What was under way when a
path is cut or changed arrives as it was to.  Datagrams may overtake each other, TCP keeps its order.

An agent: ``attach`` {hosts: {name: pid}}, ``set`` {paths: [[target, queue, setting]]}, ``stats`` {reset}.
"""

import gc
import heapq
import json
import os
import select
import socket
import sys
import time
from contextlib import suppress
from dataclasses import replace
from itertools import count
from random import Random

import msgspec

from core.records import Json
from testbed.hosts.agent import carry_out, say
from testbed.hosts.loop import precise_sleep
from testbed.hosts.mininet import netlink
from testbed.hosts.mininet.namespaces import network_of
from testbed.links import PathState

COMPENSATION_NS = 50_000  # what the way through queue and process adds at rest: half a round trip's error, measured
EAGER_BELOW_NS = 300_000  # a shortest delay below this: wake for each arrival
COMMANDS_EVERY_NS = 20_000_000
IDLE_S = 0.5
HEADER_MESSAGE_BYTES, WHOLE_MESSAGE_BYTES = 1 << 10, 1 << 17
DRAIN_COUNT = 128  # packets read of one host before the others have their turn
VERDICTS_COUNT = 512  # in one call: 16 KB
LATENESS_STEP_BITS = 13  # buckets of 8.2 us
LATENESS_BUCKETS = 1 << 16  # half a second
SO_TIMESTAMPNS = 35
TCP = 6
UDP = 17
FRAGMENT_OFFSET = 0x1FFF
_PROTOCOL_BACK = netlink.IP_HEADER_BYTES - 9  # from the end of a message that ends in an IP header


class _Host:
    """A network namespace: its socket, its paths by queue (two bytes, as in messages), the verdicts to send."""

    def __init__(self, pid: int):
        with network_of(pid):
            self.queues = netlink.open_queues()
            self.repeats = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.repeats.setblocking(False)
        self.message_bytes = HEADER_MESSAGE_BYTES  # of the longest message that may come
        self.paths: dict[bytes, _Path] = {}
        self.verdicts: list[bytes] = []

    def send(self) -> None:
        """All verdicts in one call; the kernel works them off before it returns."""
        with suppress(BlockingIOError):
            self.queues.send(b"".join(self.verdicts))
        self.verdicts.clear()


class _Path:
    """One direction: where its verdicts go, and its state; rates are others' business."""

    def __init__(self, host: _Host, queue: int, seed: str):
        self.host = host
        self.accept = netlink.verdict_prefix(queue, netlink.ACCEPT)
        self.drop = netlink.verdict_prefix(queue, netlink.DROP)
        self.random = Random(seed).random
        self.stream_due_ns = 0  # TCP: nothing is let go before this
        self.set(PathState())

    def set(self, state: PathState) -> None:
        self.state, self.delay_ns, self.loss_probability = state, state.delay_ns, state.loss_probability
        self.is_plain = replace(state, delay_ns=0, rates_bps=()) == PathState()

    def loses(self) -> str:
        """Why a packet that comes now is dropped; empty if it is not."""
        if self.state.is_cut:
            return "cut"
        return "lost" if self.loss_probability and self.random() < self.loss_probability else ""

    def doubles(self) -> bool:
        """Whether some link lets a datagram that comes now arrive twice."""
        return any([self.random() < probability for probability in self.state.duplications])


class Delayer:
    """The loop and its commands."""

    def __init__(self) -> None:
        self.hosts: dict[str, _Host] = {}
        self._by_handle: dict[int, _Host] = {}
        self._poll = select.poll()
        self._commands = sys.stdin.fileno()
        self._poll.register(self._commands, select.POLLIN | select.POLLHUP)
        self._input, self._seed = b"", 0
        self._heap: list[tuple[int, int, _Path, bytes, bytes]] = []  # when, ..., a verdict or a copy
        self._serial = count()  # what is due at one instant goes as it came
        self._shortest_ns = 0
        self._stamps = netlink.Stamps()
        self.counts = dict.fromkeys(("packet", "lost", "cut", "doubled", "held", "unstamped", "error"), 0)
        self.lateness = [0] * LATENESS_BUCKETS
        self.latest_ns = 0
        self.is_done = False

    def run(self) -> None:
        """Until standard input ends."""
        say(ok="ready")
        while not self.is_done:
            self._wait()
            for handle, _ in self._poll.poll(0):
                if handle == self._commands:
                    self._read_commands()
                else:
                    self._drain(self._by_handle[handle])
            self._release()

    def _wait(self) -> None:
        """Sleep until something is due, or may have arrived that will soon be."""
        if not self._heap:
            self._poll.poll(IDLE_S * 1000)
            return
        left_ns = self._heap[0][0] - time.time_ns()
        if left_ns <= 0:
            return
        if self._shortest_ns >= EAGER_BELOW_NS:
            time.sleep(min(left_ns, self._shortest_ns // 2, COMMANDS_EVERY_NS) / 1e9)
        else:
            select.select([*self._by_handle], [], [], min(left_ns, COMMANDS_EVERY_NS) / 1e9)

    def _drain(self, host: _Host) -> None:
        receive, size, paths, stamp_of = host.queues.recv, host.message_bytes, host.paths, self._stamps.arrived_at_ns
        heap, counts = self._heap, self.counts
        with suppress(BlockingIOError):
            for _ in range(DRAIN_COUNT):
                message = receive(size)
                if not netlink.is_packet(message):
                    self._note_error(message)
                    continue
                path = paths[message[netlink.QUEUE_AT : netlink.QUEUE_AT + 2]]
                packet_id = message[netlink.ID_AT : netlink.ID_AT + 4]
                arrived_at_ns = stamp_of(message)
                if not arrived_at_ns:
                    counts["unstamped"] += 1
                    arrived_at_ns = time.time_ns()
                due_ns = plain_ns = arrived_at_ns + path.delay_ns - COMPENSATION_NS
                copy = b""
                if path.is_plain:
                    protocol = message[-_PROTOCOL_BACK]
                else:
                    header = netlink.attribute_at(message, netlink.ATTRIBUTE_PAYLOAD)
                    protocol = message[header + 9]
                    cause = path.loses()
                    if cause:
                        counts[cause] += 1
                        host.verdicts.append(path.drop + packet_id)
                        continue
                    due_ns += self._extra_ns(path, protocol)
                    if protocol == UDP and path.doubles():
                        copy = message[header:]
                if protocol == TCP:
                    due_ns = path.stream_due_ns = max(due_ns, path.stream_due_ns)
                counts["packet"] += 1
                heapq.heappush(heap, (due_ns, next(self._serial), path, path.accept + packet_id, b""))
                if copy:  # it is delayed for itself
                    due_ns = plain_ns + self._extra_ns(path, protocol)
                    heapq.heappush(heap, (due_ns, next(self._serial), path, b"", copy))

    def _extra_ns(self, path: _Path, protocol: int) -> int:
        extra = sum(int((2 * path.random() - 1) * jitter_ns) for jitter_ns in path.state.jitters_ns)
        if protocol != TCP:
            for probability, hold_ns in path.state.reorderings:
                if path.random() < probability:
                    extra += hold_ns
                    self.counts["held"] += 1
        return extra

    def _release(self) -> None:
        heap, lateness, now_ns = self._heap, self.lateness, time.time_ns()
        for _ in range(VERDICTS_COUNT):
            if not heap or heap[0][0] > now_ns:
                break
            due_ns, _, path, verdict, copy = heapq.heappop(heap)
            if copy:
                self._repeat(path.host, copy)
                continue
            late_ns = now_ns - due_ns
            self.latest_ns = max(late_ns, self.latest_ns)
            lateness[min(late_ns >> LATENESS_STEP_BITS, LATENESS_BUCKETS - 1)] += 1
            path.host.verdicts.append(verdict)
        for host in self.hosts.values():
            if host.verdicts:
                host.send()

    def _repeat(self, host: _Host, packet: bytes) -> None:
        """Let a datagram arrive once more: sent to the host itself, over its loopback, with its sender's address.

        Without a checksum, which IPv4 allows: on these interfaces it is not computed yet.
        """
        at = 4 * (packet[0] & 15)
        if not int.from_bytes(packet[6:8], "big") & FRAGMENT_OFFSET:  # later fragments have no UDP header
            packet = packet[: at + 6] + b"\0\0" + packet[at + 8 :]
        try:
            host.repeats.sendto(packet, (socket.inet_ntoa(packet[16:20]), 0))
            self.counts["doubled"] += 1
        except OSError:
            self.counts["error"] += 1

    def _note_error(self, message: bytes) -> None:
        text = netlink.error_text(message)
        if text:
            self.counts["error"] += 1
            if self.counts["error"] <= 10:
                print(f"the kernel refuses: {text}", file=sys.stderr, flush=True)

    # --- commands ---------------------------------------------------------------------------------------

    def _read_commands(self) -> None:
        part = os.read(self._commands, 1 << 16)
        self.is_done = not part
        *lines, self._input = (self._input + part).split(b"\n")
        for line in lines:
            carry_out(line, {"attach": self.attach, "set": self.set, "stats": self.stats})

    def attach(self, hosts: dict[str, int], seed: int) -> None:
        """Open the queues of hosts, by the id of a process in their namespace; ``seed``: of what is drawn."""
        self._seed = seed
        for name, pid in hosts.items():
            host = self.hosts[name] = _Host(pid)
            self._by_handle[host.queues.fileno()] = host
            self._poll.register(host.queues.fileno(), select.POLLIN)

    def set(self, paths: list[tuple[str, int, Json]]) -> Json:
        """Change what paths do, (target, queue, fields of a ``PathState``) each; new queues are taken over first."""
        refused = self.counts["error"]
        for target, queue, fields in paths:
            host, key, state = self.hosts[target], queue.to_bytes(2, "big"), msgspec.convert(fields, PathState)
            if key not in host.paths:
                host.paths[key] = _Path(host, queue, f"{self._seed} {target} {queue}")
                host.queues.send(netlink.bind_message(queue))
                self._drain(host)  # the kernel's answers
            if bool(host.paths[key].state.duplications) != bool(state.duplications):
                size_bytes = netlink.WHOLE_BYTES if state.duplications else netlink.IP_HEADER_BYTES
                host.message_bytes = WHOLE_MESSAGE_BYTES  # for good: what waits is long
                host.queues.send(netlink.copy_message(queue, size_bytes))
            host.paths[key].set(state)
        if self.counts["error"] > refused:
            raise OSError("the kernel refuses a packet queue")
        delays = [path.delay_ns for host in self.hosts.values() for path in host.paths.values()]
        self._shortest_ns = min(delays, default=0)
        return {"path_count": len(delays)}

    def stats(self, reset: bool = False) -> Json:
        """Counts since the start or the last reset, and how late packets were let go: (nanoseconds, how many) each."""
        stats: Json = {f"{name}_count": value for name, value in self.counts.items()}
        stats["waiting_count"] = len(self._heap)
        stats["lateness_max_ns"] = self.latest_ns
        stats["lateness"] = [(_middle_ns(bucket), times) for bucket, times in enumerate(self.lateness) if times]
        if reset:
            self.counts = dict.fromkeys(self.counts, 0)
            self.lateness, self.latest_ns = [0] * LATENESS_BUCKETS, 0
        return stats


def _middle_ns(bucket: int) -> int:
    return (bucket << LATENESS_STEP_BITS) + (1 << LATENESS_STEP_BITS - 1)


def main() -> None:
    """The process."""
    precise_sleep()
    gc.disable()  # nothing here is cyclic
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stamping:
        stamping.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)  # turns the kernel's stamps on, as long as it is open
        delayer = Delayer()
        delayer.run()
    print(json.dumps(delayer.stats()), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
