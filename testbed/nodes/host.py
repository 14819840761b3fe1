"""The agent that runs one node of a system as a process: the body of one member, which waits in real time.

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
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec

from core.errors import HarnessError, MachineError, SystemFault
from core.records import Json
from core.units import SECOND_NS
from systems.api import Arrival, Decide, Event, Report, Transport
from testbed.hosts.directory import Address, Directory
from testbed.hosts.loop import Clock, Loop, serve_in
from testbed.nodes.frames import FrameSocket, Hello, read_request, verdict_frame
from testbed.nodes.links import Datagrams, Doorstep, Peers, Streams, big_buffer
from testbed.nodes.member import Group, Member
from testbed.nodes.planes import Plane, Surroundings, plane_of, standing_in
from testbed.nodes.records import Recorder
from testbed.nodes.rehearsal import load_node
from testbed.nodes.witness import Witness

BIND_S = 2.0  # how long a port may stay taken by the process that was killed there
FAULTY = 3  # exit code of a node that broke a rule


class NodeHost:
    """One node, its sockets, its clock; the ``testbed.nodes.member.Body`` of its member."""

    def __init__(self, address: str):
        self.loop, self._address = Loop(), address
        self._plane: Plane | None = None
        self._is_connected = self._started = self._rests = False
        self._early: list[Event] = []  # what came before the node's time
        self._users: dict[int, FrameSocket] = {}  # open request -> who asked
        self._sent_to: Counter[str] = Counter()
        self._received_from: Counter[str] = Counter()
        self._garbage_count = 0  # messages of peers that could not be read
        self.exit_code = 0

    # --- commands, in the order of a run -----------------------------------------------------------

    def configure(self, system: str, options: Json, names: list[str], name: str, seed: int, records: str) -> None:
        """Make the node, and warm it up: seconds, where kernels must be compiled."""
        self._system, self._node = load_node(name, system, options, names, seed)
        self._name = name
        self._witness = Witness(self._system)
        self._group = Group(frozenset(names), self._system.messages, self._system.transport)
        self._recorder = Recorder(self.loop, Path(records))
        gc.collect()
        gc.freeze()

    def listen(self, port: int = 0) -> Json:
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

    def connect(self, token: str, addresses: dict[str, list[object]], around: dict[str, object]) -> None:
        """Learn who is where, and call the peers; ``status`` says how many are there."""
        self._directory = Directory(token, msgspec.convert(addresses, dict[str, Address]))
        self._doorstep = Doorstep(self.loop, self._listener, self._greet)
        around_here = self.loop, self._directory, self._name, self._receive
        self._ways: list[Peers] = [Datagrams(*around_here, self._datagram_socket)]  # and, of most messages, the last
        if self._system.transport is Transport.STREAM:
            self._ways.append(Streams(*around_here))
        surroundings = msgspec.convert(around, Surroundings)
        self._node = standing_in(self._system, self._node, surroundings)
        self._member = Member(self._name, self._node, self._group, self)
        self._plane = plane_of(self._system, self.loop, surroundings, self._hear, self._member.count_sent)
        self._is_connected = True

    def go(self, epoch_ns: int, offset_ns: int = 0, snapshot: str = "", again: bool = False) -> Json:
        """Begin at the epoch, or now if that has passed; ``snapshot``: the file with another node's state.

        ``again``: in the place of a process that was killed.

        Returns when in the run's time.  MachineError where ``connect`` has failed: the node would take part by halves.
        """
        if not self._is_connected:
            raise MachineError(f"node {self._name} is not connected", "see what it was told before")
        self._clock, self._member.clock_offset_ns = Clock(epoch_ns), offset_ns
        start = self._member.start_from(Path(snapshot).read_bytes() if snapshot else None, again)
        self.loop.call_at(self._clock.zero_ns, self._start, start)
        seconds = max(0, self.now_ns) // SECOND_NS + 1
        self.call_at(seconds * SECOND_NS, self._tick, seconds)
        if self._plane is not None:
            self._plane.go(self._clock)
        return {"begun_ns": max(0, self.now_ns)}

    def skew(self, offset_ns: int) -> None:
        """From now on the node's clock is so far ahead of true time."""
        self._member.clock_offset_ns = offset_ns

    def snapshot(self, path: str, counted: bool = True) -> Json:
        """Write the node's state for another that re-joins; ``known`` is false where it keeps it to itself.

        It counts as sent by the node, unless it is for the harness alone.
        """
        content = self._member.state_content(counted)
        if content is not None:
            Path(path).write_bytes(content)
        return {"known": content is not None}

    def status(self) -> Json:
        """Where it stands; ``idle`` is null where the node does not say."""
        return {
            "started": self._started,
            "idle": self._member.idle(),
            "connected_count": self._ways[-1].connected_count(),
            "ready": self._plane is None or self._plane.ready(),
            "unsent_bytes": self._ways[-1].unsent_bytes(),
            "sent_to": self._sent_to,
            "received_from": self._received_from,
            "garbage_count": self._garbage(),
            "last_traffic_ns": self._member.last_traffic_ns,
        }

    def _garbage(self) -> int:
        return self._garbage_count + self._doorstep.garbage_count + sum(way.garbage_count for way in self._ways)

    def rest(self) -> Json:
        """From now on the node hears nothing, and so sends nothing; what still comes is counted.  The status."""
        self._rests = True
        return self.status()

    def finish(self) -> Json:
        """Write what is not written yet; the last status."""
        if self._started:
            self._tell_traffic()
        if self._plane is not None:
            self._plane.finish()
        status = self.status()
        self.sample(self._name, "garbage_count", status["garbage_count"])
        self._recorder.flush()
        return status

    def _bind(self, port: int) -> None:
        with ExitStack() as on_failure:
            listener = on_failure.enter_context(socket.create_server((self._address, port), backlog=512))
            datagrams = on_failure.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            big_buffer(datagrams)
            datagrams.bind((self._address, listener.getsockname()[1]))
            on_failure.pop_all()
        self._listener, self._datagram_socket = listener, datagrams

    def _greet(self, connection: FrameSocket, hello: Hello) -> bool:
        """Whether whoever called may stay."""
        if hello.token != self._directory.token:
            return False
        if not hello.node:
            connection.on_frame = lambda frame: self._ask(connection, frame)
            return True
        streams = self._ways[-1]
        if not isinstance(streams, Streams) or hello.node == self._name:
            return False
        if not self._directory.is_home(hello.node, connection.peer_address):
            return False
        streams.adopt(hello.node, connection)
        return True

    def _start(self, start: Event) -> None:
        self._started = True
        early, self._early = self._early, []
        for event in (start, *early):
            self.occur(self._member, event)

    def _ask(self, connection: FrameSocket, frame: bytes) -> None:
        try:
            request = read_request(frame)
        except SystemFault:
            self._garbage_count += 1
            return
        self._users[request.id] = connection
        self.occur(self._member, Arrival(request))

    def _receive(self, source: str, content: bytes) -> None:
        try:
            event = self._member.event_of(source, content)
        except SystemFault:
            self._garbage_count += 1
            return
        self._received_from[source] += 1
        if self._started:
            self._member.last_traffic_ns = self.now_ns
        self.occur(self._member, event)

    def _hear(self, measurement: object) -> None:
        self._member.last_traffic_ns = self.now_ns
        self.occur(self._member, Report(measurement))

    # --- the body of the member ----------------------------------------------------------------------

    @property
    def now_ns(self) -> int:
        """The run's time."""
        return self._clock.now_ns()

    def occur(self, member: Member, event: Event) -> None:
        """Give an event to the member, or keep it until the node's time has come; a fault ends this process."""
        if not self._started:
            self._early.append(event)
            return
        if self.exit_code or self._rests:
            return
        self._witness.saw(event)
        try:
            member.handle(event)
        except HarnessError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            self._recorder.add("fault", type(error).__name__, error.what, error.fix)
            self._recorder.flush()
            self.exit_code = FAULTY
            self.loop.stop()

    def call_at(self, at_ns: int, action: Callable[..., None], *arguments: object) -> None:
        """Call ``action`` at an instant of the run's time; see ``Body.call_at``."""
        self.loop.call_at(self._clock.zero_ns + at_ns, action, *arguments)

    def send(self, source: str, target: str, content: bytes, by_datagram: bool) -> None:
        """Over a socket; see ``Body.send``."""
        self._witness.asked()
        if target == source:  # no socket leads home
            self.loop.call_at(time.monotonic_ns(), self._receive, source, content)
        elif not self._ways[0 if by_datagram else -1].send(target, content):
            return  # counted there as lost
        self._sent_to[target] += 1

    def release(self, node: str, request_id: int) -> None:
        """The user's host hears nothing of it."""
        self._witness.released(request_id)
        self._users.pop(request_id, None)

    def decide(self, node: str, decision: Decide) -> None:
        """Tell the user's host; of what was handed on to this node it hears nothing, and the verdict is recorded."""
        decision = self._witness.judged(decision)
        user = self._users.pop(decision.request_id, None)
        if user is None:
            self._recorder.add("verdict", self.now_ns, decision.request_id, decision.verdict.value, decision.unanswered)
        else:
            user.send(verdict_frame(decision, self.now_ns))

    def actuate(self, node: str, command: object) -> None:
        """To the data plane, or into the records where there is none."""
        self._witness.asked()
        if self._plane is not None:
            self._plane.actuate(command)
        else:
            self._recorder.add("command", self.now_ns, repr(command))

    def sample(self, node: str, metric: str, value: float) -> None:
        """Into the records."""
        self._recorder.add("sample", self.now_ns, metric, value)

    def _tick(self, seconds: int) -> None:
        self.call_at((seconds + 1) * SECOND_NS, self._tick, seconds + 1)
        self._tell_traffic()
        self._member.tell_weight()

    def _tell_traffic(self) -> None:
        self._member.tell_traffic(sum(way.lost_count for way in self._ways))
        for way in self._ways:
            way.lost_count = 0


def main() -> None:
    """Run until standard input ends."""
    host = NodeHost(sys.argv[1])
    names = ("configure", "listen", "connect", "go", "skew", "snapshot", "status", "rest", "finish")
    serve_in(host.loop, {name: getattr(host, name) for name in names})
    sys.exit(host.exit_code)


if __name__ == "__main__":
    main()
