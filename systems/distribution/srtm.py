"""SRTM's Load Distributor: concentration, max-min, correlation-awareness, online fitting.

Li, Liu, Lu, Guerin, Gill, "Impact of Distributed Rate Limiting on Load Distribution in a
Latency-sensitive Messaging Service", IV.  Steps that the paper leaves open follow the public
artifact (github.com/Chong-Li/SRTM, cdbe79d), marked [C].

An iteration places the unassigned publishers on as few further brokers as their capacities allow,
measures all brokers at once, and lets each broker that violates the SLO search for the number of
publishers that it can keep; the rest is unassigned again and the broker is full.

[C] A broker violates the SLO where the pooled p99, of the whole topic, and its own are above it.  The paper tests
"whether each broker's SLO is still met".  So a broker whose own p99 is above keeps its publishers, and a step of its
search counts as good, while the pool is within the SLO: publishers may be placed though those of one broker miss it.
"""

from collections.abc import Generator
from dataclasses import dataclass, field, replace

import numpy as np

from core.errors import SpecError
from core.limits import UserCount
from core.records import Int32, Int64
from core.units import NEVER_NS, SECOND_NS
from systems.api import UNASSIGNED, Distribution, Measured, Outcome, Problem, Search, System, Trial
from systems.parts.assignment import Pool, rates_of
from systems.parts.burst_model import late_share
from systems.parts.concentration import by_capacity, max_min_quotas, smallest_prefix
from systems.parts.options import choice, span_ns

LATE = 0.01  # the SLO is on the 99th percentile


@dataclass(frozen=True)
class Config:
    """Options of SRTM."""

    brokers: int = 0  # ours, for II-A: an even split over this many brokers without a search; 0 = search
    proportion: str = "rate"  # IV-C: groups contribute by message "rate"; the report: by number of "publishers"
    band: float = 0.8  # VI-E: a search stops when the p99 is within 20 % below the SLO
    top_up_below: float = 0.8  # [C] random publishers are added only below this share of a quota
    fill_vacancy: bool = True  # [C] a last broker with less than its even share takes publishers from earlier ones
    give_up: bool = True  # [C] a broker whose p99 grew although its load fell is given up
    # IV-B: the first iteration's brokers by "capacity"; or as many as a "model" of bursts wants (ours, after the
    # report's conclusion), of which the next three are: messages that a publisher sends at once; the time in which a
    # broker takes them, in a burst, over batch / mcap; and the latency beside it.  Benchmarked as mcap is, or as here
    start: str = "capacity"
    batch: UserCount = 1
    drain: float = 1.0
    base: str = "0us"

    def __post_init__(self) -> None:
        """SpecError for an unknown start, or a model that is none."""
        choice("srtm", "start", self.start, ("capacity", "model"))
        span_ns("srtm", "base", self.base, least="0")
        if self.batch < 1 or not 0 < self.drain < np.inf:
            raise SpecError(
                f"srtm: batch = {self.batch}, drain = {self.drain}", "give 1 message or more, a time above 0"
            )


@dataclass
class _Fit:
    """The binary search of one broker: it can keep ``low_rps``, and cannot keep ``high_rps``."""

    members: Int64  # the publishers that it started with
    low: Int64  # the largest set that was good, or nobody
    low_rps: float
    high_rps: float
    tried: Int64  # in the round that runs now
    last_p99_ns: int = NEVER_NS
    last_rps: float = np.inf
    done: bool = False


@dataclass
class _State:
    """Where the search stands."""

    problem: Problem
    config: Config
    rng: np.random.Generator
    order: list[int]  # broker indices, largest residual capacity first
    place: Int64  # of each publisher, in the order in which groups give their members
    assignment: Int32
    full: set[int] = field(default_factory=set)
    given_up: set[int] = field(default_factory=set)
    best: tuple[int, Int32] | None = None  # (p99, complete assignment)
    last_p99_ns: int = NEVER_NS

    def rates_rps(self) -> np.ndarray:
        """The topic's rate on each broker."""
        return rates_of(self.problem.publishers, self.assignment, len(self.problem.brokers))

    def rcap_rps(self) -> list[float]:
        """Residual capacity in search order; 0 for a broker that is full."""
        used = self.rates_rps()
        return [
            0.0 if i in self.full else max(0.0, self.problem.brokers[i].rcap_rps - float(used[i])) for i in self.order
        ]

    def unassigned(self) -> Int64:
        """The publishers without a broker."""
        return np.flatnonzero(self.assignment == UNASSIGNED)

    def pool(self, members: Int64) -> Pool:
        """Publishers by correlation group, in each group as they were shuffled."""
        shuffled = members[np.argsort(self.place[members])]
        return Pool(self.problem.publishers, shuffled, self.config.proportion)


def distribute(problem: Problem, config: Config, rng: np.random.Generator) -> Search:
    """Iterate until everybody is placed under the SLO, or brokers run out."""
    order = by_capacity([broker.rcap_rps for broker in problem.brokers])
    everybody = problem.publishers.count
    # [C] shuffles each group, once a search.  Members' numbers may say when they send (VI-D, imprecise correlation):
    # by number, neighbours in time would stay together, the opposite of what the groups are for.
    place = rng.spawn(1)[0].permutation(everybody)
    state = _State(problem, config, rng, order, place, np.full(everybody, UNASSIGNED, np.int32))
    if config.brokers:
        _place(state, min(config.brokers, len(order)))
        return Distribution(state.assignment)
    k = 0
    for iteration in range(1, 2 * len(order) + 1):
        k = _modelled(state) if k == 0 and config.start == "model" else _grow(state, k)
        if k == 0:
            break
        _place(state, k)
        yield from _fit_brokers(state, iteration)
        if len(state.unassigned()) == 0 and state.last_p99_ns <= problem.slo_ns:
            return Distribution(state.assignment)
    assert state.best is not None, "the first iteration measures a complete assignment"
    return Distribution(state.best[1], Outcome.OUT_OF_BROKERS)


def _grow(state: _State, k: int) -> int:
    """The new number of brokers: enough for the unassigned rate; 0 where there are none left (IV-B, step 1)."""
    rate = float(state.problem.publishers.rate_rps[state.unassigned()].sum())
    rcap = state.rcap_rps()
    if k == 0:
        return smallest_prefix(rcap, rate)
    if sum(rcap) <= 0 or (rate == 0 and k == len(rcap)):
        return 0
    spare = float(sum(rcap[:k]))
    while k < len(rcap) and (spare < rate or rate == 0):
        spare += rcap[k]
        k += 1
        if rate == 0:  # everybody is placed and yet the SLO is violated: [C] one more broker
            break
    return k


def _modelled(state: _State) -> int:
    """The smallest number of brokers of which the model says that none misses the SLO; all, where none will do."""
    least, most = _grow(state, 0), len(state.order)
    for k in range(least, most):
        tried = replace(state, assignment=state.assignment.copy())
        _place(tried, k)
        if all(_late_share(tried, broker) <= LATE for broker in state.order[:k]):
            return k
    return most


def _late_share(state: _State, broker: int) -> float:
    """What the model says of a broker, of which other topics leave the share rcap / mcap."""
    config, its = state.config, state.problem.brokers[broker]
    members = np.flatnonzero(state.assignment == broker)
    if its.rcap_rps <= 0 or not len(members):
        return float(len(members) > 0)
    _, group, sizes = np.unique(state.problem.publishers.group[members], return_inverse=True, return_counts=True)
    rates_rps = np.bincount(sizes[group], state.problem.publishers.rate_rps[members] / config.batch)
    emissions_rps = {int(size): float(rates_rps[size]) for size in np.flatnonzero(rates_rps)}
    drain_ns = config.drain * config.batch / its.rcap_rps * SECOND_NS
    return late_share(emissions_rps, drain_ns, state.problem.slo_ns - span_ns("srtm", "base", config.base, least="0"))


def _place(state: _State, k: int) -> None:
    """Give the unassigned publishers to brokers among the first ``k`` that are not full (IV-B, step 2; IV-C)."""
    rcap = state.rcap_rps()
    # Capacities are estimates: where nobody seems to have any, those that have not been given up are tried.
    slots = [n for n in range(k) if rcap[n] > 0] or [n for n in range(k) if state.order[n] not in state.full]
    assert slots, "no broker to place on"
    waiting = state.unassigned()
    pool = state.pool(waiting)
    rate = pool.rate_rps
    used = state.rates_rps()
    if len(waiting):
        # From the second iteration on the brokers' order is no longer that of residual capacity.
        quotas = max_min_quotas([rcap[n] for n in slots], rate)
        for position in range(len(slots) - 1, 0, -1):
            broker = state.order[slots[position]]
            left = state.pool(state.unassigned())
            # A share of the pool as it was at first, so that every broker sees every group in proportion.
            chosen = left.pick(min(quotas[position], left.rate_rps), state.config.top_up_below, state.rng)
            state.assignment[chosen] = broker
        state.assignment[state.unassigned()] = state.order[slots[0]]
    newcomer = state.order[slots[-1]]
    if state.config.fill_vacancy and k > 1 and used[newcomer] == 0:
        _fill_vacancy(state, newcomer, k)


def _fill_vacancy(state: _State, newcomer: int, k: int) -> None:
    """Bring the last broker up to an even share with publishers of earlier brokers above theirs ([C])."""
    active = [i for i in state.order[:k] if i not in state.given_up]
    even = state.problem.publishers.total_rps / len(active)
    rates = state.rates_rps()
    target = min(even, state.problem.brokers[newcomer].rcap_rps)
    for donor in active:
        vacancy = target - float(rates[newcomer])
        surplus = float(rates[donor]) - even
        if donor == newcomer or vacancy <= 0 or surplus <= 0:
            continue
        pool = state.pool(np.flatnonzero(state.assignment == donor))
        moved = pool.pick(min(vacancy, surplus), 0.0 if _grouped(pool) else 1.0, state.rng)
        state.assignment[moved] = newcomer
        rates = state.rates_rps()


def _grouped(pool: Pool) -> bool:
    """Are there groups to keep even?  Groups of one are drawn from at random."""
    return all(len(group) > 1 for group in pool.groups)


def _measure(state: _State, assignment: Int32, iteration: int) -> Generator[Trial, Measured, Measured]:
    """One round; remembers the best complete configuration."""
    measured = yield Trial(assignment.copy(), state.problem.round_ns, iteration)
    state.last_p99_ns = measured.p99_ns
    if not (assignment == UNASSIGNED).any() and (state.best is None or measured.p99_ns < state.best[0]):
        state.best = (measured.p99_ns, assignment.copy())
    return measured


def _fit_brokers(state: _State, iteration: int) -> Generator[Trial, Measured, None]:
    """Online fitting (IV-B, step 3): all violating brokers search in parallel, a round a step."""
    slo_ns = state.problem.slo_ns
    measured = yield from _measure(state, state.assignment, iteration)
    fits: dict[int, _Fit] = {}
    rates = state.rates_rps()
    for broker, seen in enumerate(measured.brokers):
        if measured.p99_ns > slo_ns and seen.p99_ns is not None and seen.p99_ns > slo_ns:
            members = np.flatnonzero(state.assignment == broker)
            rate = float(rates[broker])
            fits[broker] = _Fit(members, members[:0], 0.0, rate, members, seen.p99_ns, rate)
    if not fits:
        return
    while any(not fit.done for fit in fits.values()):
        trial = state.assignment.copy()
        for broker, fit in fits.items():
            if not fit.done:
                _next_step(state, fit)
            trial[fit.members] = UNASSIGNED
            trial[fit.low if fit.done else fit.tried] = broker
        if all(fit.done for fit in fits.values()):
            break
        measured = yield from _measure(state, trial, iteration)
        for broker, fit in fits.items():
            if not fit.done:
                _judge(state, fit, broker, measured)
    for broker, fit in fits.items():
        state.assignment[fit.members] = UNASSIGNED
        state.assignment[fit.low] = broker
        state.full.add(broker)


def _next_step(state: _State, fit: _Fit) -> None:
    """Choose the middle of the interval; done where no set of publishers lies between its ends."""
    pool = state.pool(fit.members)
    middle = fit.low_rps + (fit.high_rps - fit.low_rps) / 2
    fit.tried = pool.pick(middle, 0.0 if _grouped(pool) else 1.0, state.rng)
    rate = float(state.problem.publishers.rate_rps[fit.tried].sum())
    if not fit.low_rps < rate < fit.high_rps:
        fit.done = True


def _judge(state: _State, fit: _Fit, broker: int, measured: Measured) -> None:
    """Narrow the interval after a round; the rules of [C] for the pooled and the broker's own p99."""
    slo_ns, band_ns = state.problem.slo_ns, state.config.band * state.problem.slo_ns
    own_ns = measured.brokers[broker].p99_ns or 0  # none of its messages came: room is left
    rate = float(state.problem.publishers.rate_rps[fit.tried].sum())
    violated = measured.p99_ns > slo_ns and own_ns > slo_ns
    if violated and state.config.give_up and own_ns > fit.last_p99_ns and rate < fit.last_rps:
        fit.low, fit.done = fit.members[:0], True  # the DRL penalty dominates
        state.given_up.add(broker)
    elif violated:
        fit.high_rps = rate
    else:
        fit.low, fit.low_rps = fit.tried, rate
        fit.done = not (own_ns < band_ns and (measured.p99_ns < band_ns or measured.p99_ns > slo_ns))
    fit.last_p99_ns, fit.last_rps = own_ns, rate


SYSTEM = System(
    "srtm",
    "concentration, max-min and correlation-awareness, fitted online",
    config=Config,
    distribute=distribute,
    round_count=12,
)
