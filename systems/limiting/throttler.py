"""throttler: servers that hand limits to each other along the links of a graph (Siami & Skaf, "DST").

Update law (3)/(4): at the end of a cycle each server tells its neighbours how well it does, p_i, and
x_i += g sum_j w_ij (p_i - p_j).  Two ways in:

* ``Report(Demand(cycle, …))``, the paper's: one limit for all servers together, ``rate`` times ``cycle``
  requests a cycle, evenly split at first.  Each report ends a cycle: min(max(0, x), r) of it is admitted.
  What neighbours say of cycle k counts for x(k + 1) if it is there at that very instant, later if later.
* ``Arrival(request)``: every user has a limit of its own, a token bucket (c, r).  A node's share x of it
  moves by the same law, in tokens per c/r, so that all shares add up to c, and in whole parts, so that they do
  exactly; see ``throttling_users`` for the bucket that a share makes, and for what all of them may admit
  together.  Only users asked for lately, anywhere, are spoken of.

Lost messages and crashes are not made good (D8): a server that restarts begins with its even share, and
the sum of the limits is off by what it had gained or lost.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from sys import getsizeof

from core.errors import SpecError
from systems.api import Arrival, Effect, Event, Message, Node, Sample, Send, System, UnexpectedEvent
from systems.limiting.held import ALIGNED_BOUND, CONSERVED, FIRST, TOTAL_CONSERVED
from systems.limiting.throttling_ledger import CLAMPS, PAIRINGS, Law, Ledger
from systems.limiting.throttling_node import ThrottlingNode
from systems.limiting.throttling_users import (
    Demand,
    KnownUsers,
    UserBucket,
    UserBuckets,
    UserOptions,
    account,
    in_pieces,
)
from systems.parts.laplacian import largest_cycle, optimal_cycle, slowest_mode
from systems.parts.options import choice
from systems.parts.portion import MILLION
from systems.parts.throttling import MEASURES
from systems.parts.throttling_graphs import Graph, graph_named, laplacian, neighbours

ENTRY_BYTES = 16  # model: what is known of one cycle from one server


@dataclass(frozen=True)
class Config(UserOptions):
    """Options of the throttler."""

    graph: str = "full-mesh"  # DST Section 3: a name or list of links, see graph_named
    g: float | str = "safe"  # DST (3), gamma; 0.02 in its Section 6; "optimal": (27); "safe" (ours): 0.5 / l_n
    # In II and III demands and limits below 1 count as 1 (ours), of users in tokens per c/r: where c is no larger than
    # the number of nodes, III hardly tells one share from another
    measure: str = "throttled"  # DST Table 1, Case I; throttled-ratio II, log-ratio III, allowed IV
    pairing: str = "same-cycle"  # ours; "latest": own newest against the neighbours' last known
    clamp: str = "links"  # ours (D5); "none": limits may fall below 0


class Measure(Message, frozen=True):
    """Server to neighbour: p of a cycle, and the most that one link may take from the limit."""

    cycle: int
    p: float
    most: float


class Stopped(Message, frozen=True):
    """Server to neighbour, Case IV: whether the freeze rule stops the server in a cycle."""

    cycle: int
    stopped: bool


class UserMeasures(Message, frozen=True):
    """Server to neighbour, for each active user: p, the most for one link, how full its bucket is (in millionths), and
    when it was last asked for (a cycle).
    """

    cycle: int
    users: dict[str, tuple[float, float, int, int]]


class UsersStopped(Message, frozen=True):
    """Server to neighbour, Case IV: ``Stopped`` of several users."""

    cycle: int
    users: dict[str, bool]


class ThrottlerNode(ThrottlingNode):
    """One server: the limit of all its requests, and the shares of its users."""

    def __init__(self, node_id: str, law: Law, config: Config, count: int, seed: int):
        super().__init__(node_id, law.pull, UserBuckets(node_id, count, config, seed, self._open_ledger))
        self.law, self.config = law, config
        self.total = Ledger(law, config.l_total / count)
        self.ledgers: dict[str, Ledger] = {}  # of users
        self.closed_at_ns: int | None = None  # a cycle ended then and is not settled
        self._unsettled: dict[str, None] = {}  # users of whom something is known that is not applied yet

    # --- events ----------------------------------------------------------------------------------

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        if self.closed_at_ns is not None and now_ns != self.closed_at_ns:
            self._settle(self.closed_at_ns)
        return super().handle(event, now_ns)

    def _settle(self, at_ns: int) -> None:
        """x(k + 1), from ``at_ns`` on, by all that was heard up to the instant at which cycle k ended."""
        self.closed_at_ns = None
        self.total.settle()
        for user in self._unsettled:
            ledger, bucket = self.ledgers.get(user), self.buckets.users.get(user)
            if ledger is not None and bucket is not None:
                self._carry(ledger, bucket, at_ns)
        self._unsettled = {}

    def _carry(self, ledger: Ledger, bucket: UserBucket, at_ns: int) -> None:
        """A user's flows, in whole parts and grains."""
        parts = grains = 0
        for tokens, fill in ledger.flows():
            moved = self.buckets.flow(tokens, fill)
            parts, grains = parts + moved[0], grains + moved[1]
        if parts or grains:
            self.buckets.reshare(bucket, bucket.parts + parts, grains, at_ns)
            ledger.x = self.buckets.tokens_of(bucket.parts)

    def _hear(self, source: str, message: Message, now_ns: int) -> list[Effect]:
        match message:
            case Measure(cycle, p, most):
                self.total.hear(source, cycle, (p, most, 0))
                return self._say_stopped(cycle)
            case UserMeasures(cycle, users):
                for user, (p, most, fill, asked_cycle) in users.items():
                    self.buckets.touch(user, asked_cycle, now_ns)
                    if self.ledgers[user].hear(source, cycle, (p, most, fill)):
                        self._unsettled[user] = None
                return [*self._timers(now_ns), *self._say_users_stopped(cycle, users)]
            case Stopped(cycle, stopped):
                self.total.hear_stopped(source, cycle, stopped)
                return []
            case UsersStopped(cycle, stopped_users):
                for user in stopped_users.keys() & self.ledgers.keys():
                    self.ledgers[user].hear_stopped(source, cycle, stopped_users[user])
                return []
        raise UnexpectedEvent(self.node_id, message)

    # --- one limit for all -------------------------------------------------------------------------

    def _end_of_cycle(self, demand: Demand, now_ns: int) -> list[Effect]:
        effects = account(self.total.x, demand, self.config.rule)
        words = self.total.close(demand.cycle, demand.total)
        self.closed_at_ns = now_ns
        effects.append(Sample("nodal_measure", words[0]))
        effects += self._to_all(Measure(demand.cycle, *words[:2]))
        return effects + self._say_stopped(demand.cycle)

    def _say_stopped(self, cycle: int) -> list[Effect]:
        stopped = self.total.verdict(cycle)
        return [] if stopped is None else self._to_all(Stopped(cycle, stopped))

    def _to_all(self, message: Message) -> list[Effect]:
        return [Send(name, message) for name in self.law.pull]

    # --- users -------------------------------------------------------------------------------------

    def _open_ledger(self, user: str) -> None:
        self.ledgers[user] = Ledger(self.law, self.buckets.tokens_of(MILLION))

    def _speaks(self) -> bool:
        return super()._speaks() or bool(self._unsettled)

    def _sweep(self, cycle: int) -> None:
        for user in self.buckets.sweep(cycle):
            self.ledgers.pop(user, None)

    def _end_of_user_cycle(self, cycle: int, now_ns: int) -> list[Effect]:
        """Count, tell the neighbours, and go on while anybody is active."""
        buckets = self.buckets
        self._settle(now_ns)
        said: dict[str, tuple[float, float, int, int]] = {}
        negative_count = 0
        for user in buckets.active:
            bucket, ledger = buckets.users[user], self.ledgers[user]
            if cycle <= ledger.cycle:
                continue  # the clock was set back: the neighbours have settled this cycle with what was said of it
            negative_count += ledger.x < 0.0
            buckets.fill(bucket, now_ns)
            asked = buckets.count(bucket, cycle) * buckets.refill_s
            said[user] = (*ledger.close(cycle, asked, buckets.fullness(bucket)), bucket.asked_cycle)
        self._unsettled, self.closed_at_ns = dict.fromkeys(said), now_ns
        buckets.rest(cycle)
        effects = self._timers(now_ns)
        if negative_count:
            effects.append(Sample("negative_limit_count", float(negative_count)))
        for piece in in_pieces(said):
            effects += self._to_all(UserMeasures(cycle, piece))
        return effects + self._say_users_stopped(cycle, said)

    def _say_users_stopped(self, cycle: int, users: Iterable[str]) -> list[Effect]:
        if not self.law.freezes:
            return []
        verdicts = {user: self.ledgers[user].verdict(cycle) for user in users}
        known = {user: stopped for user, stopped in verdicts.items() if stopped is not None}
        return [effect for piece in in_pieces(known) for effect in self._to_all(UsersStopped(cycle, piece))]

    # --- for whoever watches -------------------------------------------------------------------------

    def state_bytes(self) -> int:
        """Model bytes: users, and words of cycles that are not settled."""
        return super().state_bytes() + ENTRY_BYTES * sum(ledger.entries_count() for ledger in self.ledgers.values())

    def allocated_bytes(self) -> int:
        """Ledgers and words beside what every throttler has, by CPython's sizes."""
        total = super().allocated_bytes() + getsizeof(self.ledgers)
        for ledger in self.ledgers.values():  # 104: two floats, a number and their tuple
            total += 24 + getsizeof(ledger) + getsizeof(ledger.rounds) + 104 * ledger.entries_count()
        return total


SAFE = 0.5  # of 1 / l_n: (3) still converges when measures are two cycles late, g l_n < 2 sin(pi / 10) = 0.618


def update_cycle(config: Config, graph: Graph) -> float:
    """The number that ``g`` stands for; SpecError where Case I would diverge (Lemma 2, which Theorem 2 rests on)."""
    matrix = laplacian(graph)
    linked = bool(graph.edges) and bool((graph.weights > 0.0).any())
    named: dict[str, Callable[[], float]] = {
        "safe": lambda: SAFE * largest_cycle(matrix) / 2.0,
        "optimal": lambda: optimal_cycle(matrix),
    }
    if isinstance(config.g, str):
        chosen = named[choice(SYSTEM.key, "g", config.g, named)]
        if linked and config.g == "optimal" and slowest_mode(matrix) == 0.0:
            raise SpecError(
                f"{SYSTEM.key}: g = optimal on graph {config.graph!r} of {graph.n} nodes, which is not connected",
                f"link every node, or give safe, or a number below {largest_cycle(matrix):.4g}",
            )  # with l_2 = 0 it is 2 / l_n, at which what is linked oscillates for ever (Lemma 2)
        return chosen() if linked else 0.0
    if not (isfinite(config.g) and config.g >= 0.0):
        raise SpecError(f"{SYSTEM.key}: g = {config.g}", "give 0 or more, safe or optimal")
    if linked and config.measure == "throttled" and config.g >= largest_cycle(matrix):
        least = f"{largest_cycle(matrix):.4g}"
        raise SpecError(
            f"{SYSTEM.key}: g = {config.g} on graph {config.graph!r} of {graph.n} nodes diverges", f"stay below {least}"
        )
    return config.g


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """One server on each host; the seed draws the phases of their cycles.  SpecError on bad options."""
    config.check(SYSTEM.key)
    for option, known in (("measure", MEASURES), ("pairing", PAIRINGS), ("clamp", CLAMPS)):
        choice(SYSTEM.key, option, getattr(config, option), known)
    graph = graph_named(config.graph, len(names))
    g = update_cycle(config, graph)
    made: dict[str, Node] = {}
    for name, links in zip(names, neighbours(graph), strict=True):
        pull = {names[other]: g * weight for other, weight in links if g * weight > 0.0}
        law = Law(config.measure, pull, config.pairing == "latest", config.clamp == "links")
        made[name] = ThrottlerNode(name, law, config, len(names), seed)
    return made


SYSTEM = System(
    "throttler",
    "limits flow along the links of a graph, from who needs them less to who needs them more (DST)",
    config=Config,
    nodes=nodes,
    messages=(Measure, Stopped, UserMeasures, UsersStopped, KnownUsers),
    inputs=(Arrival, Demand),
    invariants=(CONSERVED, ALIGNED_BOUND, TOTAL_CONSERVED, FIRST),
)
