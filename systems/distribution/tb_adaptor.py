"""The TB Adaptor: moves a topic's sub-token buckets to where its traffic has gone.

Li et al. (SRTM), V-D.  Brokers report each topic's message rate and maximum backlog every second;
the adaptor averages the rates and takes the largest backlog over 10 s, and sets token rates in
proportion to rates and bucket sizes in proportion to backlogs.  The sums r and b never change.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from core.errors import SpecError
from core.records import Envelope
from core.units import duration_ns
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
    SetBucket,
    SetTimer,
    Start,
    System,
    Timer,
    TopicReport,
    UnexpectedEvent,
    Violation,
)
from systems.parts.token_bucket import MICRO, RATE_PER_RPS, InfeasibleSplit, split_bucket

ADAPTOR = "adaptor"  # the adaptor's node
BACKLOGS = ("unfinished-work", "waiting")
ZERO_BACKLOGS = ("keep", "rates")

Split = Mapping[str, Envelope]  # broker -> its sub-bucket


@dataclass(frozen=True)
class Config:
    """Options of the TB Adaptor."""

    enabled: bool = True  # ours: False only reports, so that both cases are measured the same way
    window: str = "10s"  # V-D: history of rates and backlogs; longer = steadier and slower
    period: str = "1s"  # V-D: between updates of the buckets
    backlog: str = "unfinished-work"  # ours, tokens in use and owed; "waiting": messages without a token, literally
    zero_backlog: str = "keep"  # ours, when nobody has a backlog: "keep" the burst split, or split by "rates"
    # topic -> broker -> sub-bucket at the start.  Empty: a topic named "topic" of 1,000 msg/s and burst 100, evenly.
    splits: Mapping[str, Split] = field(default_factory=dict)


class TopicStatistics(Message, frozen=True):
    """Broker to adaptor: what the broker saw of a topic in the last second."""

    topic: str
    rate_rps: float
    backlog_count: float


class NewLimit(Message, frozen=True):
    """Adaptor to broker: the topic's sub-bucket from now on.  ``decided_at_ns`` orders limits that overtake."""

    topic: str
    rate_rps: float
    burst_count: float
    decided_at_ns: int


class Unheard(Message, frozen=True):
    """Adaptor to broker: back from a crash, it wants a topic's last report and its sub-bucket."""

    topic: str


class Kept(Message, frozen=True):
    """Broker to adaptor, which asked: the topic's sub-bucket as it was set last."""

    topic: str
    rate_rps: float
    burst_count: float


class BrokerAgent:
    """A broker's control side: passes reports on, and limits down to the data plane."""

    def __init__(self, node_id: str, config: Config):
        self.node_id, self.config = node_id, config
        self.limits: dict[str, NewLimit] = {}  # topic -> its present one, if it was ever set
        self.told: dict[str, TopicStatistics] = {}  # topic -> what the adaptor was told last

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Start():
                return []
            case Report(TopicReport(topic, rate_rps, backlog, waiting)):
                backlog_count = waiting if self.config.backlog == "waiting" else backlog
                self.told[topic] = TopicStatistics(topic, rate_rps, backlog_count)
                return [
                    Sample("message_rate_rps", rate_rps),
                    Sample("backlog_count", backlog_count),
                    Send(ADAPTOR, self.told[topic]),
                ]
            case Delivery(source, Unheard(topic)):
                answers: list[Message] = [self.told[topic]] if topic in self.told else []
                if topic in self.limits:
                    answers.append(Kept(topic, self.limits[topic].rate_rps, self.limits[topic].burst_count))
                return [Send(source, answer) for answer in answers]
            case Delivery(_, NewLimit(topic, rate_rps, burst_count, decided_at_ns) as limit):
                if topic in self.limits and decided_at_ns <= self.limits[topic].decided_at_ns:
                    return []
                self.limits[topic] = limit
                return [
                    Actuate(SetBucket(topic, rate_rps, burst_count)),
                    Sample("bucket_rate_rps", rate_rps),
                    Sample("bucket_burst_count", burst_count),
                ]
        raise UnexpectedEvent(self.node_id, event)


class History:
    """What one broker reported of one topic: a window, and the last report for when the window is empty."""

    def __init__(self, window_ns: int):
        self.window_ns = window_ns
        self.reports: deque[tuple[int, float, float]] = deque()  # (at_ns, rate_rps, backlog_count), oldest first

    def add(self, at_ns: int, rate_rps: float, backlog_count: float) -> None:
        """A report came in at ``at_ns``."""
        self.reports.append((at_ns, rate_rps, backlog_count))

    def weights(self, now_ns: int) -> tuple[float, float]:
        """(average rate, maximum backlog) of the reports in (now - window, now]; of the last one if there is none."""
        while len(self.reports) > 1 and self.reports[0][0] <= now_ns - self.window_ns:
            self.reports.popleft()
        rates = [rate_rps for _, rate_rps, _ in self.reports]
        return sum(rates) / len(rates), max(backlog_count for _, _, backlog_count in self.reports)


class _Topic:
    """A topic's fixed sums, the weights of its present split, and what its brokers reported."""

    def __init__(self, split: Split, window_ns: int):
        self.brokers = list(split)
        rates, bursts = ([getattr(part, name) for part in split.values()] for name in ("rate_rps", "burst_count"))
        self.envelope = Envelope(sum(rates), sum(bursts))
        self.rate_weights, self.burst_weights = rates, bursts
        self.was_asked = self.was_split = False  # since the adaptor's start
        self.history = {broker: History(window_ns) for broker in split}

    def begin_with(self, broker: str, rate_rps: float, burst_count: float) -> None:
        """What a broker has from before the adaptor's crash; it says nothing once buckets are set again."""
        if broker in self.history and not self.was_split:
            place = self.brokers.index(broker)
            self.rate_weights[place], self.burst_weights[place] = rate_rps, burst_count

    def new_split(self, now_ns: int, zero_backlog: str) -> list[Envelope]:
        """The sub-buckets that the window asks for, in the order of ``brokers``; may raise InfeasibleSplit."""
        self.was_split = True
        weights = [self.history[broker].weights(now_ns) for broker in self.brokers]
        rates, backlogs = ([weight[i] for weight in weights] for i in (0, 1))
        if sum(rates) > 0:
            self.rate_weights = rates
        if sum(backlogs) > 0:
            self.burst_weights = backlogs
        elif zero_backlog == "rates":
            self.burst_weights = self.rate_weights
        return split_bucket(self.envelope, self.rate_weights, self.burst_weights)


class Adaptor:
    """Gathers statistics and sets every topic's sub-buckets once a period.

    Lost reports: a broker counts with what arrived in the window, and when it was silent for all of
    it, with its last report; nothing is changed before every broker of the topic has reported once.
    Limits are sent each period, changed or not, so that lost ones are made good; an adaptor that is
    back from a crash asks all brokers for what they have and said last, and silent ones again, so as to do that
    again; who does not answer counts with its sub-bucket of the start where a split is kept.
    """

    def __init__(self, node_id: str, config: Config, splits: Mapping[str, Split]):
        self.node_id, self.config, self.splits = node_id, config, splits
        self.period_ns = duration_ns(config.period)
        self.is_back = False  # from a crash
        self.topics = {topic: _Topic(split, duration_ns(config.window)) for topic, split in splits.items()}

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Start(_, again):
                self.is_back = again
                return [SetTimer("adapt", now_ns + self.period_ns)]
            case Delivery(broker, TopicStatistics(topic, rate_rps, backlog_count)):
                if topic in self.topics and broker in self.topics[topic].history:
                    self.topics[topic].history[broker].add(now_ns, rate_rps, backlog_count)
                return []
            case Delivery(broker, Kept(topic, rate_rps, burst_count)):
                if topic in self.topics:
                    self.topics[topic].begin_with(broker, rate_rps, burst_count)
                return []
            case Timer("adapt", due_at_ns):
                effects: list[Effect] = [SetTimer("adapt", due_at_ns + self.period_ns)]
                if self.config.enabled:
                    for name in self.topics:
                        effects += self._adapt(name, now_ns)
                return effects
        raise UnexpectedEvent(self.node_id, event)

    def _adapt(self, name: str, now_ns: int) -> list[Effect]:
        topic = self.topics[name]
        silent = [broker for broker, history in topic.history.items() if not history.reports]
        if self.is_back and not topic.was_asked:
            topic.was_asked, silent = True, topic.brokers
        if silent:
            return [Send(broker, Unheard(name)) for broker in silent] if self.is_back else []
        try:
            parts = topic.new_split(now_ns, self.config.zero_backlog)
        except InfeasibleSplit:  # less than one token a broker: the buckets stay as they are
            return [Sample("infeasible_split_count", 1.0)]
        return [
            Send(broker, NewLimit(name, part.rate_rps, part.burst_count, now_ns))
            for broker, part in zip(topic.brokers, parts, strict=True)
        ]


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """An agent for each broker named, and the adaptor.  SpecError on options that make no sense."""
    _check(config)
    splits = _splits(names, config)
    made: dict[str, Node] = {name: BrokerAgent(name, config) for name in names}
    made[ADAPTOR] = Adaptor(ADAPTOR, config, splits)
    for topic, split in splits.items():
        if not split or not set(split) <= set(names) - {ADAPTOR}:
            raise SpecError(f"tb-adaptor: splits[{topic!r}] is over {', '.join(split)}", f"brokers: {', '.join(names)}")
    return made


def _splits(names: Sequence[str], config: Config) -> Mapping[str, Split]:
    even = Envelope(1_000.0 / len(names), max(1.0, 100.0 / len(names)))
    return config.splits or {"topic": dict.fromkeys(names, even)}


def _check(config: Config) -> None:
    for name, known in (("backlog", BACKLOGS), ("zero_backlog", ZERO_BACKLOGS)):
        if getattr(config, name) not in known:
            raise SpecError(f"tb-adaptor: {name} = {getattr(config, name)!r}", f"choose {' or '.join(known)}")
    for name in ("window", "period"):
        try:
            span_ns = duration_ns(getattr(config, name))
        except ValueError as error:
            raise SpecError(f"tb-adaptor: {name}: {error}") from None
        if span_ns <= 0:
            raise SpecError(f"tb-adaptor: {name} = {getattr(config, name)}", "give a positive span")


Amounts = tuple[int, int]  # thousandths of tokens a second, millionths of tokens


def _amounts(rate_rps: float, burst_count: float) -> Amounts:
    return round(rate_rps * RATE_PER_RPS), round(burst_count * MICRO)


def _conserved(history: RunHistory) -> Violation | None:
    """All limits of one decision add up to the topic's (r, b), to the last unit; at rest, those of the brokers do."""
    brokers = [name for name in history.names if name != ADAPTOR]
    splits = _splits(brokers, history.config)
    wholes = {
        topic: _amounts(sum(part.rate_rps for part in split.values()), sum(part.burst_count for part in split.values()))
        for topic, split in splits.items()
    }
    held: dict[str, dict[str, Amounts]] = {topic: {} for topic in splits}
    for step in history.steps:
        decided: dict[str, list[Amounts]] = {}
        for effect in step.effects:
            match effect:
                case Send(_, NewLimit(topic, rate_rps, burst_count)):
                    decided.setdefault(topic, []).append(_amounts(rate_rps, burst_count))
                case Actuate(SetBucket(topic, rate_rps, burst_count)):
                    held[topic][step.node] = _amounts(rate_rps, burst_count)
        for topic, parts in decided.items():
            if _whole(parts) != wholes[topic] or len(parts) != len(splits[topic]):
                return Violation(
                    step.true_ns, step.node, f"gives {_whole(parts)} of {topic}, which has {wholes[topic]}"
                )
    for topic, parts_of in held.items() if history.at_rest else ():
        if parts_of and _whole(parts_of.values()) != wholes[topic]:
            what = f"brokers have {_whole(parts_of.values())} of {topic}, which has {wholes[topic]}"
            return Violation(history.end_ns, "", what)
    return None


def _whole(parts: Iterable[Amounts]) -> Amounts:
    rates, bursts = zip(*parts, strict=True)
    return sum(rates), sum(bursts)


SYSTEM = System(
    "tb-adaptor",
    "moves sub-buckets to where traffic has gone",
    config=Config,
    nodes=nodes,
    messages=(TopicStatistics, NewLimit, Unheard, Kept),
    inputs=(Report,),
    plane="testbed.brokers.plane:bucket_plane",
    invariants=(Invariant("tokens conserved", _conserved),),
)
