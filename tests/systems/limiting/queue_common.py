"""What the tests of the queue share: nodes by hand, and a small world with loss and crashes."""

from dataclasses import dataclass, field
from typing import Any

from core.codec import Codec
from core.records import Request
from core.seeds import generator
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import Arrival, Decide, Delivery, Effect, Event, Send, SetTimer, Start, System, Timer, Verdict
from systems.limiting.queue_common import Elements, FineElements, Queues, unpack
from systems.parts.limit import limit_of


def admitted(effects: list[Effect]) -> bool:
    """The verdict among effects."""
    (verdict,) = [effect.verdict for effect in effects if isinstance(effect, Decide)]
    return verdict is Verdict.ADMIT


def ask(node: Any, at_s: float, user: str = "u", cost: int = 1, number: int = 0) -> bool:
    """Whether the node admits a request at an instant in seconds."""
    at_ns = round(at_s * SECOND_NS)
    return admitted(node.handle(Arrival(Request(number, user, at_ns, cost)), at_ns))


def sent(effects: list[Effect]) -> dict[str, Any]:
    """The messages among effects, by target."""
    return {effect.target: effect.message for effect in effects if isinstance(effect, Send)}


def gossip(node: Any, at_s: float) -> dict[str, Any]:
    """What the node's round sends."""
    at_ns = round(at_s * SECOND_NS)
    return sent(node.handle(Timer("gossip", at_ns), at_ns))


def content(message: Elements | FineElements, ticks_per_ns: int = 1) -> Queues:
    """A message by user; the order of users means nothing."""
    return dict(sorted(unpack(message, ticks_per_ns).items()))


@dataclass
class World:
    """Nodes in lockstep with a seed: random requests, delays, loss, crashes and restarts; ``log`` is what happened."""

    system: System
    config: Any
    count: int
    seed: int
    users: int = 4
    loss: float = 0.1
    crash: float = 0.002
    gap_ns: int = 30 * MILLISECOND_NS
    from_snapshot: bool = True
    log: list[Any] = field(default_factory=list)

    def run(self, steps: int) -> list[Any]:
        """Run; the log holds effects (messages by user), weights and snapshots."""
        assert self.system.nodes is not None
        names = [f"n{i}" for i in range(self.count)]
        rng = generator(self.seed, "world")
        nodes: dict[str, Any] = dict(self.system.nodes(names, self.config, self.seed))
        codec = Codec(self.system.messages)
        queue: list[tuple[int, int, str, Event]] = []  # (at_ns, number, node, event), sorted when popped
        now_ns, number, requests = 0, 0, 0
        for name in names:
            queue.append((0, number := number + 1, name, Start(None)))
        for _ in range(steps):
            queue.sort(key=lambda entry: entry[:2])
            arrive_ns = now_ns + int(rng.integers(0, 2 * self.gap_ns)) // 10**6 * 10**6
            if rng.random() < self.crash:
                name = names[int(rng.integers(self.count))]
                queue = [entry for entry in queue if entry[2] != name or not isinstance(entry[3], Timer)]
                other = nodes[names[int(rng.integers(self.count))]].snapshot() if self.from_snapshot else None
                nodes[name] = self.system.nodes(names, self.config, self.seed + number)[name]
                queue.append((now_ns, 0, name, Start(other)))  # before what arrives at this very instant
                continue
            if not queue or queue[0][0] > arrive_ns:
                now_ns, requests = arrive_ns, requests + 1
                user = f"u{int(rng.integers(self.users) * rng.random())}"
                cost = 1 if rng.random() < 0.9 else int(rng.integers(1, 4))
                name = names[int(rng.integers(self.count))]
                event: Event = Arrival(Request(requests, user, now_ns, cost))
            else:
                now_ns, _, name, event = queue.pop(0)
            effects = nodes[name].handle(event, now_ns)
            self._note(now_ns, name, nodes[name], effects)
            for effect in effects:
                if isinstance(effect, SetTimer):
                    timer = Timer(effect.name, effect.at_ns)
                    queue.append((effect.at_ns, number := number + 1, name, timer))
                elif isinstance(effect, Send) and rng.random() >= self.loss:
                    at_ns = now_ns + int(rng.integers(1, 100)) * 10**6
                    message = codec.decode(codec.encode(effect.message))
                    queue.append((at_ns, number := number + 1, effect.target, Delivery(name, message)))
        self.nodes = nodes
        return self.log

    def _note(self, now_ns: int, name: str, node: Any, effects: list[Effect]) -> None:
        shown = [
            (effect.target, self._content(effect.message), _count(node, effect.message))
            if isinstance(effect, Send)
            else effect
            for effect in effects
        ]
        self.log.append((now_ns, name, shown, node.state_bytes(), node.idle(), self._content(node.snapshot())))

    def _content(self, message: Any) -> Queues:
        return content(message, limit_of(self.config.capacity, self.config.rate).ticks_per_ns)


def _count(node: Any, message: Elements | FineElements) -> tuple[int, int]:
    """Bytes of users, and of the message in the node's unit, less those that travel."""
    columns = message.elements if isinstance(message, FineElements) else message
    return len(columns.users), node.message_bytes(message, encoded_bytes=0)
