"""What throttlers hold together: shares only move, so that all nodes' are the whole, where nothing is lost."""

from collections import defaultdict
from fractions import Fraction

from core.units import SECOND_NS, duration_ns
from systems.api import Invariant, Report, RunHistory, Sample, Violation
from systems.invariants import config_limit, first_is_admitted, within
from systems.limiting.throttling_users import Demand
from systems.parts.portion import MILLION

_LATE = frozenset(
    {"link-duplication", "link-reordering", "handover", "clock-skew"}
)  # messages come through all the same
_ROUNDING = 1e-9  # of a limit: the law's floats


def _conserved(history: RunHistory) -> Violation | None:
    """The parts of all nodes are the whole limit at rest, if no message was lost and nobody crashed.

    Whom a node has forgotten already is left out: it is forgotten everywhere, hardly later.  So is who has been away
    for so long and come back, perhaps between the two instants: one node has its share still, and another begins anew.
    """
    if not history.at_rest or history.faults - _LATE or getattr(history.config, "pairing", "") == "latest":
        return None
    whole = MILLION * len(history.names)
    everywhere = set.intersection(*(set(held) for held in history.holdings.values()))
    for user in sorted(everywhere - _who_was_away(history)):
        parts = [held[user] for held in history.holdings.values()]
        if sum(parts) != whole:
            return Violation(history.end_ns, "", f"the shares of {user} add up to {sum(parts)} parts of {whole}")
    return None


def _who_was_away(history: RunHistory) -> set[str]:
    """Users without a request, anywhere, for so long that nodes forget them: a bucket fills, linger is over."""
    limit, away = config_limit(history), set[str]()
    away_ns = max(limit.capacity * SECOND_NS / limit.rate_rps, Fraction(duration_ns(history.config.linger)))
    last_ns: dict[str, int] = {}
    for step, request, _, _ in history.decisions:
        if step.true_ns - last_ns.get(request.user, step.true_ns) >= away_ns:
            away.add(request.user)
        last_ns[request.user] = step.true_ns
    return away


def _same_total(history: RunHistory) -> Violation | None:
    """With one limit for all (DST (5), Lemma 1), and no delay: the limits of a cycle add up to it."""
    if history.faults or history.delay_ns or history.clocks_apart_ns:
        return None
    limits: dict[int, dict[str, float]] = defaultdict(dict)
    for step in history.steps:
        if isinstance(step.event, Report) and isinstance(step.event.measurement, Demand):
            mine = next(
                effect.value for effect in step.effects if isinstance(effect, Sample) and effect.metric == "limit"
            )
            of_cycle = limits[step.event.measurement.cycle]
            of_cycle[step.node] = mine
            total = history.config.l_total
            if len(of_cycle) == len(history.names) and abs(sum(of_cycle.values()) - total) > _ROUNDING * total:
                what = (
                    f"the limits of cycle {step.event.measurement.cycle} add up to {sum(of_cycle.values())} of {total}"
                )
                return Violation(step.true_ns, step.node, what)
    return None


def _aligned_bound(history: RunHistory) -> Violation | None:
    """Flows that are applied at the very same instant: at most max(c, m) + (n - 1) m + r t in a span t."""
    config = history.config
    together = config.phase == "aligned" and config.clamp == "links" and not history.delay_ns
    if history.faults or history.clocks_apart_ns or not together:
        return None
    capacity, minimum = config_limit(history).capacity, config.minimum
    extra = max(capacity, minimum) - capacity + (len(history.names) - 1) * minimum
    return within(lambda _: extra).broken(history)


def _even_share(history: RunHistory) -> Fraction:
    return max(Fraction(config_limit(history).capacity, len(history.names)), Fraction(history.config.minimum))


CONSERVED = Invariant("shares conserved", _conserved)
TOTAL_CONSERVED = Invariant("limits add up", _same_total)
ALIGNED_BOUND = Invariant("no more than the bound", _aligned_bound)
FIRST = first_is_admitted(_even_share)
