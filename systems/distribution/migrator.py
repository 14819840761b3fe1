"""Publishers that move while traffic flows, beside TB Adaptor: who relieves a broker that a shift has overloaded.

Li et al. (SRTM) move publishers when a topic is distributed, and leave moving them for load adaptation as future work
(V-D, report's outlook): all here is ours.  The controller hears what TB Adaptor hears.  A broker that was offered more
than ``high`` of its capacity gives publishers away until it has its max-min share of the topic (IV-B, step 2), to the
broker with most room below its own.  It is told how much and to whom; its agent, which sees its publishers, picks the
busiest, so that few move.  At most ``churn`` publishers are moved a second, over any span, and at most as many more as
one order may have.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from core.errors import SpecError
from core.units import SECOND_NS, duration_ns
from systems.api import (
    Actuate,
    Delivery,
    Effect,
    Event,
    Invariant,
    Message,
    Node,
    Report,
    RunHistory,
    Sample,
    Send,
    Start,
    System,
    Timer,
    Violation,
)
from systems.distribution import tb_adaptor
from systems.distribution.commands import MoveAway, PublisherReport
from systems.distribution.tb_adaptor import (
    ADAPTOR,
    Adaptor,
    BrokerAgent,
    History,
    Kept,
    NewLimit,
    Split,
    TopicStatistics,
    Unheard,
)
from systems.parts.concentration import max_min_quotas
from systems.parts.options import span_ns


@dataclass(frozen=True)
class Config(tb_adaptor.Config):
    """Options of the migrator; ``enabled``: sub-buckets are adapted as well."""

    migrates: bool = True  # False only adapts
    high: float = 0.95  # of a broker's capacity: who is offered more is overloaded
    churn: float = 10.0  # publishers moved a second, at most
    order: int = 10  # publishers of one order, at most
    history: str = "2s"  # rates are averages over it, shorter than V-D's 10 s: waiting costs a backlog
    capacities_rps: Mapping[str, float] = field(default_factory=dict)  # broker -> what it has room for; empty: no bound


class MoveOrder(Message, frozen=True):
    """Controller to broker: send about ``rate_rps`` of the topic, at most so many publishers, to ``target``."""

    topic: str
    target: str
    rate_rps: float
    most: int
    decided_at_ns: int  # orders overtake, and come twice


class MoveAnswer(Message, frozen=True):
    """Broker to controller: so much has been sent to ``target``."""

    target: str
    rate_rps: float
    decided_at_ns: int


class MovingAgent(BrokerAgent):
    """A broker's control side; knows its publishers."""

    def __init__(self, node_id: str, config: Config):
        super().__init__(node_id, config)
        self.history_ns = duration_ns(config.history)
        self.seen: deque[tuple[int, Mapping[int, float]]] = deque()
        self.newest_order_ns = -1

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Report(PublisherReport(_, rates_rps)):
                self.seen.append((now_ns, rates_rps))
                while len(self.seen) > 1 and self.seen[0][0] <= now_ns - self.history_ns:
                    self.seen.popleft()
                return []
            case Delivery(source, MoveOrder() as order):
                return self._move(source, order)
        return super().handle(event, now_ns)

    def _move(self, source: str, order: MoveOrder) -> list[Effect]:
        if order.decided_at_ns <= self.newest_order_ns:
            return []
        self.newest_order_ns = order.decided_at_ns
        chosen, rate_rps = self._chosen(order)
        gone = set(chosen)
        kept = [(at_ns, {who: rate for who, rate in told.items() if who not in gone}) for at_ns, told in self.seen]
        self.seen = deque(kept)
        answer = Send(source, MoveAnswer(order.target, rate_rps, order.decided_at_ns))
        if not chosen:
            return [answer]
        command = MoveAway(order.topic, chosen, order.target)
        return [Actuate(command), Sample("migration_count", float(len(chosen))), answer]

    def _chosen(self, order: MoveOrder) -> tuple[tuple[int, ...], float]:
        """The busiest, as long as each brings the sum nearer to what is asked for."""
        total: dict[int, float] = {}
        for _, told in self.seen:
            for who, rate in told.items():
                total[who] = total.get(who, 0.0) + rate / len(self.seen)
        chosen: list[int] = []
        sum_rps = 0.0
        for who in sorted(total, key=lambda one: (-total[one], one)):
            if len(chosen) < order.most and sum_rps + total[who] / 2 <= order.rate_rps:
                chosen.append(who)
                sum_rps += total[who]
        return tuple(chosen), sum_rps


class Controller(Adaptor):
    """TB Adaptor, and who moves publishers.

    A broker that is overloaded is relieved until it has its share, or nobody is left whose move would bring it nearer.
    One that was silent for all of the history is none for the time being: nobody is sent there.  While an order is
    unanswered its broker gets no other, until the history is over.  What has moved counts at once: the histories of
    both brokers begin anew with what is left of them, TB Adaptor's as well, so that tokens go along.
    """

    def __init__(self, node_id: str, config: Config, splits: Mapping[str, Split]):
        super().__init__(node_id, config, splits)
        self.options = config
        ((self.topic, split),) = splits.items()
        self.capacities_rps = {broker: config.capacities_rps.get(broker, inf) for broker in split}
        self.history_ns = max(duration_ns(config.history), 2 * self.period_ns)
        self.rates = {broker: History(self.history_ns) for broker in split}
        self.relieved: set[str] = set()
        self.ordered_ns: dict[str, int] = {}  # source -> when it got an order that it has not answered
        self.allowance, self.allowed_at_ns = 0.0, 0

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Start():
                self.allowed_at_ns = now_ns
            case Delivery(source, TopicStatistics(topic, rate_rps)) if topic == self.topic and source in self.rates:
                self.rates[source].add(now_ns, rate_rps, 0.0)
            case Delivery(source, MoveAnswer(target, rate_rps, decided_at_ns)):
                if self.ordered_ns.get(source) == decided_at_ns:
                    del self.ordered_ns[source]
                    self._correct(now_ns, {source: -rate_rps, target: rate_rps})
                    if rate_rps == 0:
                        self.relieved.discard(source)
                return []
            case Timer("adapt") if self.options.migrates:
                effects = super().handle(event, now_ns)
                return [*effects, *self._relieve(now_ns)]
        return super().handle(event, now_ns)

    def _correct(self, now_ns: int, more_rps: Mapping[str, float]) -> None:
        """Histories begin anew with the present rates, and so much more."""
        adapted = self.topics[self.topic].history
        for broker, more in more_rps.items():
            rate_rps = max(0.0, self.rates[broker].weights(now_ns)[0] + more)
            for histories in (self.rates, adapted):
                backlog = histories[broker].weights(now_ns)[1]
                histories[broker].reports.clear()
                histories[broker].add(now_ns, rate_rps, backlog)

    def _heard(self, now_ns: int) -> dict[str, float]:
        """Average rate of each broker that said anything."""
        told = {broker: history for broker, history in self.rates.items() if history.reports}
        rates = {broker: history.weights(now_ns)[0] for broker, history in told.items()}
        return {broker: rates[broker] for broker in told if told[broker].reports[-1][0] > now_ns - self.history_ns}

    def _relieve(self, now_ns: int) -> list[Effect]:
        """An order to each broker that is overloaded, most loaded first."""
        rates = self._heard(now_ns)
        capacities = {broker: self.capacities_rps[broker] for broker in sorted(rates)}
        quotas = dict(zip(capacities, max_min_quotas(list(capacities.values()), sum(rates.values())), strict=True))
        order, churn = self.options.order, self.options.churn
        self.allowance = min(float(order), self.allowance + churn * (now_ns - self.allowed_at_ns) / SECOND_NS)
        self.allowed_at_ns = now_ns
        effects: list[Effect] = []
        for source in sorted(rates, key=lambda one: (-rates[one] / capacities[one], one)):
            most, excess_rps = int(self.allowance), rates[source] - quotas[source]
            if rates[source] > self.options.high * capacities[source]:
                self.relieved.add(source)
            if excess_rps <= 0:
                self.relieved.discard(source)
            if source not in self.relieved or most < 1:
                continue
            if now_ns - self.ordered_ns.get(source, -self.history_ns) < self.history_ns:
                continue
            target = max(rates, key=lambda one: quotas[one] - rates[one])
            room_rps = quotas[target] - rates[target]
            if room_rps <= 0:
                continue
            self.allowance -= most
            self.ordered_ns[source] = now_ns
            effects.append(Send(source, MoveOrder(self.topic, target, min(excess_rps, room_rps), most, now_ns)))
        return effects


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """An agent for each broker named, and the controller.  SpecError on options that make no sense."""
    made = tb_adaptor.nodes(names, config, seed)  # it checks what they have in common
    adaptor = made[ADAPTOR]
    assert isinstance(adaptor, Adaptor)
    if len(adaptor.splits) != 1:
        raise SpecError(f"migrator: {len(adaptor.splits)} topics", "it moves the publishers of one")
    for name, least in (("high", 0.01), ("churn", 0.01), ("order", 1)):
        if getattr(config, name) < least:
            raise SpecError(f"migrator: {name} = {getattr(config, name)}", f"give at least {least}")
    span_ns("migrator", "history", config.history)
    agents: dict[str, Node] = {name: MovingAgent(name, config) for name in names}
    return {**agents, ADAPTOR: Controller(ADAPTOR, config, adaptor.splits)}


def _bounded(history: RunHistory) -> Violation | None:
    """Over any span t the controller lets at most ``churn`` t + ``order`` publishers move; no order is exceeded.

    Each life of the controller begins without an allowance.
    """
    config = history.config
    orders: list[tuple[int, int]] = []
    allowed: dict[tuple[str, int], int] = {}
    for step in history.steps:
        for effect in step.effects:
            match effect:
                case Send(target, MoveOrder(_, _, _, most, decided_at_ns)):
                    orders.append((step.at_ns, most))
                    allowed[target, decided_at_ns] = most
                case Actuate(MoveAway(_, publishers, _)):
                    assert isinstance(step.event, Delivery) and isinstance(step.event.message, MoveOrder)
                    if len(publishers) > allowed.get((step.node, step.event.message.decided_at_ns), 0):
                        return Violation(step.true_ns, step.node, f"moves {len(publishers)} publishers without leave")
    for first, (begin_ns, _) in enumerate(orders):
        moved = 0
        for at_ns, most in orders[first:]:
            moved += most
            bound = config.churn * (at_ns - begin_ns) / SECOND_NS + config.order
            if moved > bound + 1e-6:
                return Violation(at_ns, ADAPTOR, f"lets {moved} publishers move within {at_ns - begin_ns} ns")
    return None


SYSTEM = System(
    "migrator",
    "moves publishers away from overloaded brokers, beside TB Adaptor",
    config=Config,
    nodes=nodes,
    messages=(TopicStatistics, NewLimit, MoveOrder, MoveAnswer, Unheard, Kept),
    inputs=(Report,),
    plane="testbed.brokers.moving.plane:move_plane",
    invariants=(*tb_adaptor.SYSTEM.invariants, Invariant("churn bounded", _bounded)),
)
