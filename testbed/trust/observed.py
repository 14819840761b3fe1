"""What a live deployment finds out beside its results: accounts, migrations, lateness, counters; judged at the end."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import itemgetter

import numpy as np
from numpy.typing import ArrayLike

from collectors.probes import MACHINE, STOPPED, Seen
from core.records import Int64
from testbed.faults import Fault
from testbed.hosts.site import PathMeasure
from testbed.topologies.topology import Link
from testbed.trust.accounts import DeliveryAccount
from testbed.trust.answers import AnswerAccount, Window, fault_windows
from testbed.trust.evidence import RunEvidence
from testbed.trust.fidelity import Observation, Spread, Standstill, judge, spread_of

Row = tuple[int, str, str, float]  # at_ns, node, metric, value
HANDOVER_LATENESS = "handover_lateness_ns"  # samples of live runs whose clients move
CLOCK_DOUBT = "clock_doubt_ns"  # a counter of hosts with clocks of their own: how well their offset is known
NO_ANSWERS = "nothing was decided outside of faults: whether nodes had the answers that they asked for is not judged"
_FOREVER_NS = 2**63 - 1


@dataclass
class Findings:
    """Gathered while rounds are carried."""

    slo_ns: int
    paths: Sequence[PathMeasure]
    links: Sequence[Link] = ()  # of the topology, before any fault
    rows: list[Row] = field(default_factory=list)
    spans_ns: list[tuple[int, int]] = field(default_factory=list)  # of load, CLOCK_REALTIME
    lateness_ns: list[Int64] = field(default_factory=list)
    handover_lateness_ns: Sequence[float] = ()  # of each move of a client's host
    account: DeliveryAccount | None = None
    answers: AnswerAccount | None = None
    migration_count: int = 0
    broker_stats: dict[str, Mapping[str, int]] = field(default_factory=dict)
    site_counters: Sequence[tuple[str, str, float]] = ()
    counters_before: Sequence[tuple[str, str, float]] = ()  # the same, when links had been verified
    delays_late: Sequence[tuple[int, int]] = ()  # packets of user-space delays, by how many ns
    lost_agents: Sequence[str] = ()
    broker_killed: bool = False
    faulty: bool = False
    fault_windows: list[Window] = field(default_factory=list)  # when declared faults lasted, CLOCK_REALTIME
    notes: Sequence[str] = ()

    def moved(self, at_ns: int, publisher_count: int, told_count: int) -> None:
        """Publishers went from one broker to another; so many by the broker's word."""
        self.migration_count += publisher_count
        self.rows.append((at_ns, "", "migration_count", float(publisher_count)))
        self.rows.append((at_ns, "", "migration_told_count", float(told_count)))

    def played(self, begin_ns: int, end_ns: int) -> None:
        """A window's load went on in this span of CLOCK_REALTIME."""
        self.spans_ns.append((begin_ns, end_ns))

    def disturbed(self, epoch_ns: int, faults: Iterable[tuple[int, Fault]]) -> None:
        """Declared faults happened, each at its instant since ``epoch_ns`` of CLOCK_REALTIME."""
        faults = list(faults)
        windows = fault_windows(faults, 0, self.slo_ns, self.links)
        self.fault_windows += [(epoch_ns + begin_ns, epoch_ns + end_ns) for begin_ns, end_ns in windows]
        self.faulty = self.faulty or bool(fault_windows(faults, 0))

    def late(self, spans_ns: ArrayLike) -> None:
        """How long after its intended instant each message or request was sent."""
        self.lateness_ns.append(np.asarray(spans_ns, np.int64))

    def accounted(self, start_ns: int, account: DeliveryAccount, more: Mapping[str, int]) -> None:
        """What became of a window's messages, those of other topics included."""
        self.account = account if self.account is None else self.account + account
        values = {part.name: getattr(account, part.name) for part in fields(account)}
        values |= {f"{name}_count": count for name, count in more.items()}
        self.rows += [(start_ns, "", name, float(value)) for name, value in values.items()]

    def evidence(self, probes: Seen, logs: Mapping[str, bytes]) -> RunEvidence:
        """Everything, judged.  Instants of the machine's samples count from the first window's begin."""
        epoch_ns = self.spans_ns[0][0] if self.spans_ns else None
        seen = self.observation(probes)
        ends_ns = [end_ns - epoch_ns for _, end_ns in self.spans_ns] if epoch_ns is not None else []
        end_ns = max([0, *ends_ns, *(at_ns for at_ns, *_ in self.rows)])  # counters are of the whole run
        rows = [
            *self.rows,
            *((end_ns, name, metric, float(value)) for name, stats in self.broker_stats.items()
              for metric, value in stats.items()),
            *((end_ns, *counter) for counter in self.site_counters),
        ]  # fmt: skip
        if epoch_ns is not None:
            rows += probes.samples(epoch_ns)
        unjudged = self.answers is not None and self.answers.unanswered_share is None
        notes = (*self.notes, *[NO_ANSWERS] * unjudged)
        return RunEvidence(judge(seen), self.paths, rows, logs, epoch_ns, notes)

    def observation(self, probes: Seen) -> Observation:
        """What ``judge`` judges."""
        reads = sum(stats.get("read_count", 0) for stats in self.broker_stats.values())
        merged = sum(stats.get("merged_read_count", 0) for stats in self.broker_stats.values())
        lateness = np.concatenate(self.lateness_ns) if self.lateness_ns else np.empty(0, np.int64)
        drops, packets = self._packets(probes)
        doubts_ns = sorted(self._counted(CLOCK_DOUBT))  # none where all hosts share a clock
        dead_helpers = [node for node, metric, value in self.site_counters if metric == "alive_count" and not value]
        return Observation(
            scale_ns=self.slo_ns,
            lateness=spread_of(np.maximum(lateness, 0)),
            delay_lateness=self._delay_lateness(),
            handover_lateness_ns=max(self.handover_lateness_ns, default=None),
            busy_share=_mean_over(self.spans_ns, probes.busy_share),
            steal_share=_mean_over(self.spans_ns, probes.steal_share),
            queue_drop_count=drops,
            packet_count=packets,
            clock_step_ns=probes.clock_step_ns,
            clock_doubt_ns=int(sum(doubts_ns[-2:])) if doubts_ns else None,  # of two hosts, at worst
            merged_read_share=merged / reads if reads else None,
            refused_message_count=sum(stats.get("refused_message_count", 0) for stats in self.broker_stats.values()),
            dropped_rows_count=int(sum(value for _, _, metric, value in self.rows if metric == "dropped_rows_count")),
            lost_agents=(*self.lost_agents, *dead_helpers),
            killed_hosts=tuple(self._killed_hosts()),
            standstills=tuple(self._standstills(probes)),
            account=self.account,
            answers=self.answers,
            broker_killed=self.broker_killed,
            faulty=self.faulty,
            more={"migration_count": float(self.migration_count)},
        )

    def _counted(self, *metrics: str) -> list[float]:
        return [value for _, metric, value in self.site_counters if metric in metrics]

    def _grown(self, *metrics: str) -> int:
        """By how much counters grew since the links were verified, all hosts together."""
        now, before = (
            sum(value for _, metric, value in rows if metric in metrics)
            for rows in (self.site_counters, self.counters_before)
        )
        return int(now - before)

    def _standstills(self, probes: Seen) -> list[Standstill]:
        """Of each process one in declared faults, and one at all other times; half inside is outside."""
        spans_ns: Counter[tuple[str, bool]] = Counter()
        for end_ns, name, metric, span_ns in probes.samples(0):
            if metric == STOPPED:
                inside = any(begin <= end_ns - span_ns and end_ns <= end for begin, end in self.fault_windows)
                spans_ns[name, inside] += int(span_ns)
        return [Standstill(name, span_ns, inside) for (name, inside), span_ns in spans_ns.items()]

    def _killed_hosts(self) -> list[str]:
        limits = {host: value for host, metric, value in self.site_counters if metric.endswith("memory_limit_bytes")}
        return [
            f"{host} ({limits.get(host, 0) / 1e6:.0f} MB)"
            for host, metric, value in self.site_counters
            if metric == "out_of_memory_count" and value
        ]

    def _packets(self, probes: Seen) -> tuple[int | None, int | None]:
        """Packets dropped by queues, interfaces and sockets, and those that came: where somebody counts them.

        Of the hosts' links (datagrams, where those are not ours) or of what passed over loopbacks while a load went
        on, whichever fared worse.
        """
        loads_ns = self.spans_ns or [(0, _FOREVER_NS)]
        since_ns = [(loads_ns[0][0], _FOREVER_NS)]  # before that links are verified, with datagrams
        lost = _growth(probes, since_ns, "udp_dropped_count")
        if self._counted("received_packet_count"):
            drops = self._grown("queue_drop_count", "receive_drop_count")
            links = drops + lost, self._grown("received_packet_count")
        else:
            links = lost, _growth(probes, since_ns, "udp_received_count") + lost
        # By a storm in the same queue of the kernel's, be it another's.
        crowded_out = _growth(probes, loads_ns, "loopback_dropped_count")
        loopbacks = crowded_out, _growth(probes, loads_ns, "loopback_received_count") + crowded_out
        known = [pair for pair in (links, loopbacks) if any(pair)]
        return max(known, key=lambda pair: pair[0] / max(pair), default=(None, None))

    def _delay_lateness(self) -> Spread | None:
        """Of user-space delays, where there are any."""
        spread = spread_of(*zip(*self.delays_late, strict=True)) if self.delays_late else None
        return spread and replace(spread, max_ns=int(max(self._counted("lateness_max_ns"))))


def _growth(probes: Seen, spans_ns: Sequence[tuple[int, int]], metric: str) -> int:
    """By how much a counter grew on the hosts in spans; where they share namespaces, on the machine."""
    rows: dict[str, list[tuple[int, float]]] = {}
    for at_ns, node, name, value in probes.samples(0):
        if name == metric:
            rows.setdefault(node, []).append((at_ns, value))
    nodes = {node for node in rows if node != MACHINE} or rows.keys()
    return int(sum(_between(sorted(rows[node]), *span_ns) for node in nodes for span_ns in spans_ns))


def _between(rows: Sequence[tuple[int, float]], begin_ns: int, end_ns: int) -> float:
    """From the last row before a span, or the first of all, to the first after it, or the last."""
    first = max(0, bisect_right(rows, begin_ns, key=itemgetter(0)) - 1)
    last = min(len(rows) - 1, bisect_left(rows, end_ns, key=itemgetter(0)))
    return rows[last][1] - rows[first][1]


def _mean_over(spans_ns: Sequence[tuple[int, int]], share: Callable[[int, int], float | None]) -> float | None:
    """A share's mean over spans, weighted by their lengths; those that nobody looked at are left out."""
    known = [(end - begin, value) for begin, end in spans_ns if (value := share(begin, end)) is not None]
    total = sum(length for length, _ in known)
    return sum(length * value for length, value in known) / total if total else None
