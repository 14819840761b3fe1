"""The agent that runs one node of a system as a process: events from sockets and clocks, effects onto them.

    python -m testbed.nodes.host ADDRESS

Its commands, in order: ``configure``, ``listen``, ``connect``, ``go``; then ``skew``, ``snapshot``,
``status``, ``finish``.  A crash is SIGKILL; a restart is another such process, which waits configured.
Rows are appended to a file all the time, so that a crash loses those of the last 100 ms at most.
"""

import gc
import socket
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from core.codec import Codec
from core.errors import HarnessError, MachineError, SystemFault
from core.records import Request
from core.units import SECOND_NS
from systems.api import (
    Actuate,
    Arrival,
    Decide,
    Delivery,
    Effect,
    Event,
    Forward,
    Node,
    Report,
    Sample,
    Send,
    SetTimer,
    Start,
    System,
    Timer,
    Transport,
)
from systems.referee import Referee
from testbed.hosts.directory import Directory, directory_from
from testbed.hosts.loop import Clock, Loop, serve_in
from testbed.nodes.frames import FrameSocket, Hello, read_request, verdict_frame
from testbed.nodes.links import Datagrams, Doorstep, Links, Streams, big_buffer
from testbed.nodes.loading import load_node
from testbed.nodes.member import answer, encoded
from testbed.nodes.planes import Plane, Surroundings, plane_of, standing_in
from testbed.nodes.records import Recorder

BIND_S = 2.0  # how long a port may stay taken by the process that was killed there
FAULTY = 3  # exit code of a node that broke a rule


class NodeHost:
    """One node, its sockets, its clock."""

    def __init__(self, address: str):
        self.loop, self._address = Loop(), address
        self._system: System
        self._node: Node
        self._name = ""
        self._referee: Referee
        self._codec: Codec
        self._recorder: Recorder
        self._clock: Clock
        self._directory: Directory
        self._listener: socket.socket
        self._datagram_socket: socket.socket
        self._doorstep: Doorstep
        self._links: Links
        self._streams: Streams  # the same, where they are streams
        self._plane: Plane | None = None
        self._started = False
        self._early: list[Event] = []  # what came before the node's time
        self._offset_ns = 0  # how far the node's clock is ahead of true time
        self._timers: dict[str, int] = {}  # name -> number of the setting that counts
        self._timer_serial = 0
        self._users: dict[int, FrameSocket] = {}  # open request -> who asked
        self._traffic: Counter[str] = Counter()  # since the last tick
        self._lost_before = 0
        self._sent_to: Counter[str] = Counter()
        self._received_from: Counter[str] = Counter()
        self._garbage_count = 0  # messages of peers that could not be read
        self._last_traffic_ns = 0
        self._latest_timer_ns = 0  # lateness of the latest timer since the last tick
        self.exit_code = 0

    # --- commands, in the order of a run -----------------------------------------------------------

    def configure(
        self, system: str, options: dict[str, Any], names: list[str], name: str, seed: int, records: str
    ) -> None:
        """Make the node, and warm it up: seconds, where kernels must be compiled."""
        self._system, self._node = load_node(name, system, options, names, seed)
        self._name = name
        self._referee = Referee(name, names, self._system.messages)
        self._codec = Codec((Request, *self._system.messages))
        self._recorder = Recorder(self.loop, Path(records))
        gc.collect()
        gc.freeze()

    def listen(self, port: int = 0) -> dict[str, Any]:
        """Take a port (0: any), for TCP and UDP; returns it."""
        until_s = time.monotonic() + BIND_S
        while True:
            try:
                self._bind(port)
                return {"port": self._listener.getsockname()[1]}
            except OSError as error:
                if time.monotonic() > until_s:
                    raise MachineError(f"port {port} of {self._address}: {error}", "free it") from None
                time.sleep(0.01)

    def connect(self, token: str, addresses: dict[str, list[object]], around: dict[str, Any]) -> None:
        """Learn who is where, and call the peers; ``status`` says how many are there."""
        self._directory = directory_from(token, addresses)
        self._doorstep = Doorstep(self.loop, self._listener, self._greet)
        if self._system.transport is Transport.DATAGRAM:
            self._links = Datagrams(self.loop, self._datagram_socket, self._directory, self._name, self._receive)
        else:
            self._links = self._streams = Streams(self.loop, self._directory, self._name, self._receive)
        self._links.start()
        surroundings = msgspec.convert(around, Surroundings)
        self._node = standing_in(self._system, self._node, surroundings)
        self._plane = plane_of(self._system, self.loop, surroundings, self._hear, self._count_sent)

    def go(self, epoch_ns: int, offset_ns: int = 0, snapshot: str = "") -> None:
        """Begin at the epoch, or now if that has passed; ``snapshot``: the file with another node's state."""
        self._clock, self._offset_ns = Clock(epoch_ns), offset_ns
        state = self._codec.decode(Path(snapshot).read_bytes()) if snapshot else None
        self.loop.call_at(self._clock.zero_ns, self._start, state)
        seconds = max(0, self._clock.now_ns()) // SECOND_NS + 1
        self.loop.call_at(self._clock.zero_ns + seconds * SECOND_NS, self._tick, seconds)
        self._hook("go", self._clock)

    def skew(self, offset_ns: int) -> None:
        """From now on the node's clock is so far ahead of true time."""
        self._offset_ns = offset_ns

    def snapshot(self, path: str, counted: bool = True) -> dict[str, Any]:
        """Write the node's state for another that re-joins; ``known`` is false where it keeps it to itself.

        It counts as sent by the node, unless it is for the harness alone.
        """
        take = getattr(self._node, "snapshot", None)
        if take is None:
            return {"known": False}
        content = self._codec.encode(take())
        Path(path).write_bytes(content)
        if counted:
            self._count_sent(content)
        return {"known": True}

    def status(self) -> dict[str, Any]:
        """Where it stands; ``idle`` is null where the node does not say."""
        idle = getattr(self._node, "idle", None)
        return {
            "started": self._started,
            "idle": None if idle is None else bool(idle()),
            "connected_count": self._links.connected_count(),
            "ready": self._plane is None or self._plane.ready(),
            "unsent_bytes": self._links.unsent_bytes(),
            "sent_to": self._sent_to,
            "received_from": self._received_from,
            "garbage_count": self._garbage_count + self._links.garbage_count + self._doorstep.garbage_count,
            "last_traffic_ns": self._last_traffic_ns,
        }

    def finish(self) -> dict[str, Any]:
        """Write what is not written yet; the last status."""
        if self._started:
            self._flush_traffic()
        self._hook("finish")
        found = self.status()
        self._recorder.sample(self._clock.now_ns(), "garbage_count", found["garbage_count"])
        self._recorder.flush()
        return found

    def _hook(self, name: str, *arguments: Any) -> None:
        """What a plane may want to be told."""
        hook = getattr(self._plane, name, None)
        if hook is not None:
            hook(*arguments)

    # --- events ------------------------------------------------------------------------------------

    def _bind(self, port: int) -> None:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            big_buffer(datagrams)
            listener.bind((self._address, port))
            datagrams.bind((self._address, listener.getsockname()[1]))
            listener.listen(512)
        except OSError:
            listener.close()
            datagrams.close()
            raise
        self._listener, self._datagram_socket = listener, datagrams

    def _greet(self, connection: FrameSocket, hello: Hello) -> bool:
        """Whether whoever called may stay."""
        if hello.token != self._directory.token:
            return False
        if not hello.node:
            connection.on_frame = lambda frame: self._ask(connection, frame)
            return True
        if self._system.transport is Transport.DATAGRAM or hello.node == self._name:
            return False
        if not self._directory.is_home(hello.node, connection.peer_address):
            return False
        self._streams.adopt(hello.node, connection)
        return True

    def _start(self, state: Any) -> None:
        self._started = True
        self._handle(Start(state))
        early, self._early = self._early, []
        for event in early:
            self._handle(event)

    def _ask(self, connection: FrameSocket, frame: bytes) -> None:
        try:
            request = read_request(frame)
        except ValueError:
            self._garbage_count += 1
            return
        self._users[request.id] = connection
        self._occur(Arrival(request))

    def _receive(self, source: str, content: bytes) -> None:
        try:
            message = self._codec.decode(content)
        except SystemFault:
            self._garbage_count += 1
            return
        self._received_from[source] += 1
        self._occur(Arrival(message) if isinstance(message, Request) else Delivery(source, message))
        if self._started:
            self._last_traffic_ns = self._clock.now_ns()

    def _hear(self, measurement: Any) -> None:
        self._last_traffic_ns = self._clock.now_ns()
        self._occur(Report(measurement))

    def _occur(self, event: Event) -> None:
        if self._started:
            self._handle(event)
        else:
            self._early.append(event)

    def _ring(self, timer: str, serial: int, true_ns: int) -> None:
        if self._timers.get(timer) == serial:
            del self._timers[timer]
            self._latest_timer_ns = max(self._latest_timer_ns, self._clock.now_ns() - true_ns)
            self._handle(Timer(timer, true_ns + self._offset_ns))

    def _handle(self, event: Event) -> None:
        if self.exit_code:
            return
        try:
            for effect in answer(self._node, self._referee, event, self._clock.now_ns() + self._offset_ns):
                self._carry_out(effect)
        except HarnessError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            self._recorder.fault(error)
            self._recorder.flush()
            self.exit_code = FAULTY
            self.loop.stop()

    # --- effects -----------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send(target, message):
                self._send(target, message)
            case Forward(request, target):
                self._users.pop(request.id, None)
                self._send(target, request)
            case SetTimer(timer, at_ns):
                self._timer_serial += 1
                self._timers[timer] = self._timer_serial
                true_ns = at_ns - self._offset_ns
                self.loop.call_at(self._clock.zero_ns + true_ns, self._ring, timer, self._timer_serial, true_ns)
            case Decide(request_id, verdict, unanswered):
                now_ns, user = self._clock.now_ns(), self._users.pop(request_id, None)
                if user is None:  # it was handed on to this node: its user's host hears nothing of it
                    self._recorder.verdict(now_ns, request_id, verdict, unanswered)
                else:
                    user.send(verdict_frame(request_id, now_ns, verdict, unanswered))
            case Actuate(command):
                if self._plane is not None:
                    self._plane.actuate(command)
                else:
                    self._recorder.command(self._clock.now_ns(), command)
            case Sample(metric, value):
                self._recorder.sample(self._clock.now_ns(), metric, float(value))

    def _send(self, target: str, message: Any) -> None:
        content = encoded(self._codec, self._name, message, self._system.transport)
        self._count_sent(content)
        if target == self._name:  # no socket leads home
            self.loop.call_at(time.monotonic_ns(), self._receive, target, content)
        else:
            self._links.send(target, content)
        self._sent_to[target] += 1

    def _count_sent(self, content: bytes) -> None:
        self._last_traffic_ns = self._clock.now_ns()
        self._traffic["sent_count"] += 1
        self._traffic["sent_bytes"] += len(content)

    # --- counters ----------------------------------------------------------------------------------

    def _tick(self, seconds: int) -> None:
        self.loop.call_at(self._clock.zero_ns + (seconds + 1) * SECOND_NS, self._tick, seconds + 1)
        self._flush_traffic()
        for metric in ("state_bytes", "allocated_bytes"):
            weigh = getattr(self._node, metric, None)
            if weigh is not None:
                self._recorder.sample(self._clock.now_ns(), metric, float(weigh()))

    def _flush_traffic(self) -> None:
        now_ns = self._clock.now_ns()
        self._traffic["lost_count"] += self._links.lost_count - self._lost_before
        self._lost_before = self._links.lost_count
        for metric, value in sorted(self._traffic.items()):
            if value:
                self._recorder.sample(now_ns, metric, float(value))
        self._traffic.clear()
        if self._latest_timer_ns:
            self._recorder.sample(now_ns, "timer_lateness_ns", float(self._latest_timer_ns))
            self._latest_timer_ns = 0


def main() -> None:
    """Run until standard input ends."""
    host = NodeHost(sys.argv[1])
    names = ("configure", "listen", "connect", "go", "skew", "snapshot", "status", "finish")
    serve_in(host.loop, {name: getattr(host, name) for name in names})
    sys.exit(host.exit_code)


if __name__ == "__main__":
    main()
