"""redis-window: fixed windows counted by a real Redis, as a tutorial's rate limiter does it with INCRBY and EXPIRE.

An example of a limiter that is an unmodified server, in one file: a node that asks and waits, what passes over the
wire, and the server itself.  Around a window's end a user may have twice the limit within a moment: the price of fixed
windows, which GCRA (redis-gcra) does not pay.  Only testbeds with hosts have the server:

    ratebed run --system docs/examples/redis_window.py:SYSTEM --workload requests --topology full-mesh --testbed local
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
from testbed.servers.program import ServerProgram, Spot
from testbed.servers.wire_plane import WirePlane

# --- the limiter: no I/O, no clock ---------------------------------------------------------------


@dataclass(frozen=True)
class Config:
    """Options of redis-window; a window is as long as ``capacity`` tokens take to come back."""

    capacity: int = 10  # tokens of each user in a window
    rate: str = "5"  # tokens a second
    timeout: str = "500ms"  # ours: a node that has no answer by then admits, and says that it had none


@dataclass(frozen=True)
class Count:
    """A command: count ``cost`` more tokens of a user in a window."""

    request_id: int
    key: str
    cost: int
    life_s: int  # after which nobody asks for the key any more


@dataclass(frozen=True)
class Counted:
    """A report: how many there are now."""

    request_id: int
    count: int


def timeout_ns(config: Config) -> int:
    """How long a node waits; SpecError where that is no span."""
    return span_ns("redis-window", "timeout", config.timeout)


class WindowNode:
    """Asks for every request, and decides by the count that comes back."""

    def __init__(self, node_id: str, config: Config):
        self.node_id, self.capacity = node_id, config.capacity
        limit = limit_of(config.capacity, config.rate)
        self.window_ns = int(config.capacity * SECOND_NS / limit.rate_rps)
        self.questions = Questions(timeout_ns(config), Verdict.ADMIT)

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """One event in, effects out."""
        match event:
            case Arrival(request):
                key = f"{request.user.encode('utf-8', 'surrogatepass').hex()}:{now_ns // self.window_ns}"
                life_s = 2 * self.window_ns // SECOND_NS + 1
                ask = Actuate(Count(request.id, key, request.cost, life_s))
                return [ask, *self.questions.asked(request.id, now_ns)]
            case Report(Counted(request_id, count)):
                verdict = Verdict.ADMIT if count <= self.capacity else Verdict.REJECT
                return self.questions.answered(request_id, verdict)
            case Timer(name, _) if name == TIMER:
                return self.questions.rung(now_ns)
            case Start(_):
                return []
        raise UnexpectedEvent(self.node_id, event)

    def idle(self) -> bool:
        """Nobody waits for an answer."""
        return not self.questions.waiting


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """A node on each host."""
    return {name: WindowNode(name, config) for name in names}


# --- on real hosts: the server, and a node's wire to it --------------------------------------------


def settings(spot: Spot) -> str:
    """Redis' own configuration: where it listens, its password, and nothing on the disk."""
    where = f"bind {' '.join(spot.addresses)}\nport {spot.port}\nrequirepass {spot.secret}\n"
    return where + f'save ""\ndir "{spot.folder}"\n'


SERVER = ServerProgram(
    name="redis-windows",
    program="redis-server",
    fix="apt-get install redis-server",
    port=6379,
    words=lambda spot: [spot.settings],
    settings=settings,
    question=lambda spot: f"AUTH {spot.secret}\r\nPING\r\n".encode(),
    expected=b"+OK\r\n+PONG\r\n",
)


class Wire:
    """Redis' inline commands, as one would type them into telnet; every answer is a line."""

    def __init__(self, at: ServerAt):
        self.at, self.rest, self.is_in = at, b"", False
        self.asked: deque[int | None] = deque()  # whose count each answer is, oldest first; None: nobody's

    def hello(self) -> bytes:
        """The password."""
        self.asked.append(None)
        return f"AUTH {self.at.secret}\r\n".encode()

    def is_ready(self) -> bool:
        """Whether it was taken."""
        return self.is_in

    def ask(self, command: Count) -> bytes:
        """Two commands, of which the first one's answer counts."""
        self.asked += (command.request_id, None)
        return f"INCRBY {command.key} {command.cost}\r\nEXPIRE {command.key} {command.life_s}\r\n".encode()

    def take(self, content: bytes) -> list[Counted]:
        """The counts in what came."""
        *lines, self.rest = (self.rest + content).split(b"\r\n")
        counts = []
        for line in lines:
            request_id = self.asked.popleft()
            self.is_in = self.is_in or line == b"+OK"
            if request_id is not None and line.startswith(b":"):
                counts.append(Counted(request_id, int(line[1:])))
        return counts


def plane(
    loop: Loop, around: Surroundings, report: Callable[[object], None], count_sent: Callable[[bytes], None]
) -> WirePlane:
    """What carries a node's commands out: a connection that is made anew when it breaks."""
    at = around.servers[SERVER.name]
    return WirePlane(loop, at, lambda: Wire(at), report, count_sent)


SYSTEM = System(
    "redis-window",
    "a real Redis counts fixed windows; live testbeds only",
    config=Config,
    nodes=nodes,
    inputs=(Arrival, Counted),
    servers=(":SERVER",),
    plane=":plane",
    timeout_ns=timeout_ns,
)
