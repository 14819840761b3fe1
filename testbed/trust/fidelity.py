"""Did a live run do what it was asked to do?  Pure judging: observations in, ``Fidelity`` out.

All thresholds are ours: a ``_Rule`` each, below.  Times are judged against the ``scale_ns`` of the run: the smallest
latency that it wants to tell apart (the SLO of a distribution, 1 ms for limiters).

The spread between the two thresholds of a 99th percentile is wide on purpose: on a small virtual machine single
stalls of 10 ms are the host's, and they are in the latency as well, which counts from the intended instant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from core.units import MILLISECOND_NS, SECOND_NS
from testbed.trust.accounts import DeliveryAccount
from testbed.trust.answers import AnswerAccount
from testbed.trust.evidence import DEGRADED, INVALID, VALID, Fidelity

SCALE_NS = MILLISECOND_NS  # of runs without an SLO
MANY = 500  # of fewer, the 99th percentile is a handful: one stall, which makes no run invalid


@dataclass(frozen=True)
class Spread:
    """Quantiles of a span; None where nothing was seen."""

    p50_ns: int | None
    p99_ns: int | None
    max_ns: int | None
    count: int


_UNSEEN = Spread(None, None, None, 0)


class Standstill(NamedTuple):
    """A process of the run stood still for so long in all; ``in_fault``: while a declared fault lasted."""

    name: str
    span_ns: int
    in_fault: bool

    def text(self) -> str:
        """In words."""
        span = f"{self.span_ns / 1e9:.1f} s" if self.span_ns >= SECOND_NS else f"{self.span_ns / 1e6:.0f} ms"
        return f"{self.name} stood still for {span}"


def spread_of(spans_ns: ArrayLike, counts: Sequence[int] | None = None) -> Spread | None:
    """The quantiles of ``spans_ns``, each there once or so many times; None where there are none."""
    spans = np.asarray(spans_ns, np.int64)
    if not len(spans):
        return None
    p50, p99 = np.quantile(spans, (0.5, 0.99), method="inverted_cdf", weights=counts)
    return Spread(int(p50), int(p99), int(spans.max()), len(spans) if counts is None else sum(counts))


@dataclass(frozen=True)
class Observation:
    """What was seen of a run.  None: it was not looked at; a live run must have looked at its generator."""

    scale_ns: int = SCALE_NS
    lateness: Spread | None = None  # of the generator: sent after intended
    delay_lateness: Spread | None = None  # of user-space delays: released after due
    handover_lateness_ns: float | None = None  # of the latest move of a client's host
    busy_share: float | None = None  # share of the load's time in which every core was at least 95 % busy
    steal_share: float | None = None  # of the processors' time, taken by other guests
    queue_drop_count: int | None = None  # packets dropped by delay queues, interfaces, loopbacks and sockets
    packet_count: int | None = None  # that passed there
    clock_step_ns: int | None = None  # the most that CLOCK_REALTIME moved against CLOCK_MONOTONIC
    clock_doubt_ns: int | None = None  # how far latencies between two hosts may be off, for their clocks differ
    merged_read_share: float | None = None  # broker: reads that brought more than one command
    refused_message_count: int | None = None  # by brokers, for want of room: unacknowledged, and not delivered
    dropped_rows_count: int | None = None  # by hosts and brokers, for want of room: what they tell is gone
    lost_agents: tuple[str, ...] = ()  # that ended and should not have
    killed_hosts: tuple[str, ...] = ()  # that were over their memory limit, with it
    standstills: tuple[Standstill, ...] | None = None  # of the run's processes, those of others that it uses too
    account: DeliveryAccount | None = None  # of all messages that were offered
    answers: AnswerAccount | None = None  # to what nodes asked before they decided
    broker_killed: bool = False  # by a fault of the spec: acknowledged messages may be gone
    faulty: bool = False  # any fault of the spec: not sent, unacknowledged and sent twice are then results
    more: dict[str, float] = field(default_factory=dict)  # further numbers to keep, not judged


@dataclass(frozen=True)
class _Rule:
    """What makes a run degraded, and what invalid (``inf``: nothing does)."""

    name: str  # of the number in ``Fidelity.numbers``
    value: float | None
    degraded_above: float
    invalid_above: float
    sentence: str  # with the value as {value}

    def text(self) -> str:
        value = self.value or 0.0
        shown = f"{value / 1e6:.3f} ms" if self.name.endswith("_ns") else f"{value:.1%}"
        return self.sentence.format(value=f"{value:.0f}" if self.name.endswith("_count") else shown)


def judge(seen: Observation) -> Fidelity:
    """The verdict on a live run, with a reason for everything that is not as it should be."""
    degraded: list[str] = []
    invalid: list[str] = []
    if seen.lateness is None:
        invalid.append("nothing is known of the generator's lateness")
    invalid += [f"host {host} was over its memory limit and was killed" for host in seen.killed_hosts]
    invalid += [f"agent {agent} was lost" for agent in seen.lost_agents]
    for still in seen.standstills or ():
        if still.span_ns > seen.scale_ns:  # what it is to answer waits for it, and what it is to send is not sent
            (degraded if still.in_fault else invalid).append(still.text())
    rules = [*_rules_of_time(seen), *_rules_of_machine(seen), *_rules_of_the_account(seen)]
    for rule in rules:
        if rule.value is not None and rule.value > rule.degraded_above:
            (invalid if rule.value > rule.invalid_above else degraded).append(rule.text())
    numbers = {rule.name: rule.value for rule in rules if rule.value is not None}
    validity = INVALID if invalid else DEGRADED if degraded else VALID
    return Fidelity(validity, tuple(invalid + degraded), {"scale_ns": seen.scale_ns, **numbers, **_beside(seen)})


def _rules_of_time(seen: Observation) -> Sequence[_Rule]:
    scale, late, delay = seen.scale_ns, seen.lateness or _UNSEEN, seen.delay_lateness or _UNSEEN
    invalid_late, invalid_delay = (20 * scale if spread.count >= MANY else inf for spread in (late, delay))
    step = None if seen.clock_step_ns is None else abs(seen.clock_step_ns)
    return (
        # The load is not open loop any more; its tail is the generator's own.
        _Rule("lateness_p50_ns", late.p50_ns, scale / 4, scale, "half of the load was sent {value} late"),
        _Rule("lateness_p99_ns", late.p99_ns, scale, invalid_late, "1 % of the load was sent {value} late"),
        # Paths are longer than asked for; bursts after each stall.
        _Rule("delay_lateness_p50_ns", delay.p50_ns, scale / 4, scale,
              "half of the packets were delayed {value} too long"),
        _Rule("delay_lateness_p99_ns", delay.p99_ns, scale, invalid_delay,
              "1 % of the packets were delayed {value} too long"),
        # Clients that follow their topics are looked at second by second.
        _Rule("handover_lateness_ns", seen.handover_lateness_ns, SECOND_NS / 4, 2 * SECOND_NS,
              "a client's host was moved {value} late"),
        # Instants of before and after cannot be compared, nor latencies between hosts.
        _Rule("clock_step_ns", step, scale / 10, scale, "the clock was set by {value}"),
        _Rule("clock_doubt_ns", seen.clock_doubt_ns, scale / 4, scale,
              "the clocks of two hosts can be compared to {value} only"),
    )  # fmt: skip


def _rules_of_machine(seen: Observation) -> Sequence[_Rule]:
    drops, packets = seen.queue_drop_count, seen.packet_count
    spreads = [spread.p99_ns for spread in (seen.lateness, seen.delay_lateness) if spread]
    is_late = any(p99_ns is not None and p99_ns > seen.scale_ns for p99_ns in spreads)
    dropped = None if drops is None else drops / max(packets or 0, drops, 1)  # of an unknown number: all
    unanswered = seen.answers.unanswered_share if seen.answers else None
    lost = seen.answers.lost_share if seen.answers else None
    return (
        # A busy machine alone does no certain harm: where no 99th percentile is degraded, the run is not invalid.
        _Rule("busy_share", seen.busy_share, 0.2, 0.8 if is_late else inf, "all cores were busy {value} of the time"),
        _Rule("steal_share", seen.steal_share, 0.1, 0.5, "other guests took {value} of the processors"),
        # What a queue drops is sent again after 200 ms.
        _Rule("queue_drop_share", dropped, 0.0, 0.001, f"queues dropped {drops} packets, {{value}} of all"),
        # One kernel stamp stands for several commands.
        _Rule("merged_read_share", seen.merged_read_share, 0.05, inf, "{value} of the reads brought several commands"),
        _Rule("refused_message_count", seen.refused_message_count, 0, inf,
              "brokers refused {value} messages for want of room"),
        # A delivery without its record looks like a lost message, and one in a broker has no time there.
        _Rule("dropped_rows_count", seen.dropped_rows_count, 0, inf, "there was no room for {value} records"),
        # A limiter whose server is not there; what nodes decide alone in a fault, and for one time-out after, is its.
        _Rule("unanswered_share", unanswered, 0.01, 0.05,
              "{value} of the decisions outside of faults were taken without the answer that was asked for"),
        # What is known of latencies and rejections is known of the others.
        _Rule("lost_share", lost, 0.0, 0.01, "nobody decided {value} of the requests outside of faults"),
    )  # fmt: skip


def _rules_of_the_account(seen: Observation) -> Sequence[_Rule]:
    account = seen.account
    if account is None:
        return ()
    not_sent = account.not_sent_count / max(1, account.offered_count)
    unacknowledged = account.unacknowledged_count / max(1, account.offered_count)
    lost = inf if seen.broker_killed else 0
    tolerated = inf if seen.faulty or seen.broker_killed else 0
    unexplained = abs(account.offered_count - account.accounted_count) + account.foreign_count
    return (
        _Rule("not_sent_share", not_sent, tolerated, max(tolerated, 0.01), "{value} of the load was not sent"),
        _Rule("unacknowledged_share", unacknowledged, tolerated, max(tolerated, 0.01),
              f"{account.unacknowledged_count} messages, {{value}} of all, were neither acknowledged nor delivered"),
        _Rule("undelivered_count", account.undelivered_count, lost, lost,
              "{value} messages were acknowledged and not delivered"),
        _Rule("duplicated_count", account.duplicated_count, tolerated, inf, "{value} messages came twice"),
        _Rule("unexplained_count", unexplained, 0, 0, "{value} records or messages are explained by nothing"),
    )  # fmt: skip


def _beside(seen: Observation) -> dict[str, float]:
    numbers = dict(seen.more)
    for name, spread in (("lateness", seen.lateness), ("delay_lateness", seen.delay_lateness)):
        if spread and spread.max_ns is not None:
            numbers |= {f"{name}_max_ns": spread.max_ns, f"{name}_count": spread.count}
    if seen.queue_drop_count is not None:
        numbers["queue_drop_count"] = seen.queue_drop_count
    if seen.standstills is not None:
        numbers["standstill_max_ns"] = max((still.span_ns for still in seen.standstills), default=0)
    for account in (seen.account, seen.answers):
        if account:
            numbers |= {part.name: getattr(account, part.name) for part in fields(account)}
    return numbers
