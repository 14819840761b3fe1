"""tally: every node asks one server how many requests a user has had in this window.

An example of a limiter whose server is in a file of its own, ``tally_server.py``.  Only testbeds with hosts have it:

    ratebed run --system docs/examples/tally.py:SYSTEM --workload requests --topology full-mesh --testbed local
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from core.units import SECOND_NS
from systems.api import (
    Actuate,
    Arrival,
    Effect,
    Event,
    Node,
    Report,
    Start,
    System,
    Timer,
    UnexpectedEvent,
    Verdict,
)
from systems.parts.limit import limit_of
from systems.parts.options import span_ns
from systems.parts.questions import TIMER, Questions
from testbed.hosts.loop import Loop
from testbed.nodes.planes import ServerAt, Surroundings
from testbed.servers.wire_plane import WirePlane


@dataclass(frozen=True)
class Config:
    """Options of tally; a window is as long as ``capacity`` tokens take to come back."""

    capacity: int = 10
    rate: str = "5"
    timeout: str = "500ms"  # ours: a node that has no answer by then admits


@dataclass(frozen=True)
class Count:
    """A command: so much more of a user's in a window."""

    request_id: int
    key: str
    cost: int


@dataclass(frozen=True)
class Counted:
    """A report: how much there is now."""

    request_id: int
    count: int


def timeout_ns(config: Config) -> int:
    """How long a node waits; SpecError where that is no span."""
    return span_ns("tally", "timeout", config.timeout)


class TallyNode:
    """Asks for every request, and decides by the count that comes back."""

    def __init__(self, node_id: str, config: Config):
        self.node_id, self.capacity = node_id, config.capacity
        self.window_ns = int(config.capacity * SECOND_NS / limit_of(config.capacity, config.rate).rate_rps)
        self.questions = Questions(timeout_ns(config), Verdict.ADMIT)

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """One event in, effects out."""
        match event:
            case Arrival(request):
                key = f"{request.user.encode('utf-8', 'surrogatepass').hex()}:{now_ns // self.window_ns}"
                return [Actuate(Count(request.id, key, request.cost)), *self.questions.asked(request.id, now_ns)]
            case Report(Counted(request_id, count)):
                return self.questions.answered(request_id, Verdict.ADMIT if count <= self.capacity else Verdict.REJECT)
            case Timer(name, _) if name == TIMER:
                return self.questions.rung(now_ns)
            case Start(_):
                return []
        raise UnexpectedEvent(self.node_id, event)

    def idle(self) -> bool:
        """Nobody waits for an answer."""
        return not self.questions.waiting


class Wire:
    """A line a question; a line an answer, in the same order."""

    def __init__(self) -> None:
        self.rest, self.asked = b"", deque[int]()

    def hello(self) -> bytes:
        """Nothing has to be said first."""
        return b""

    def is_ready(self) -> bool:
        """As soon as there is a connection."""
        return True

    def ask(self, command: Count) -> bytes:
        """One question."""
        self.asked.append(command.request_id)
        return f"{command.key} {command.cost}\n".encode()

    def take(self, content: bytes) -> list[Counted]:
        """The counts in what came."""
        *lines, self.rest = (self.rest + content).split(b"\n")
        return [Counted(self.asked.popleft(), int(line)) for line in lines]


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """A node on each host."""
    return {name: TallyNode(name, config) for name in names}


def plane(
    loop: Loop, around: Surroundings, report: Callable[[object], None], count_sent: Callable[[bytes], None]
) -> WirePlane:
    """What carries a node's commands out: a connection that is made anew when it breaks."""
    at: ServerAt = around.servers["tally"]
    return WirePlane(loop, at, Wire, report, count_sent)


SYSTEM = System(
    "tally",
    "one server counts fixed windows; live testbeds only",
    config=Config,
    nodes=nodes,
    inputs=(Arrival, Counted),
    servers=("tally_server.py:SERVER",),
    plane=":plane",
    timeout_ns=timeout_ns,
)
