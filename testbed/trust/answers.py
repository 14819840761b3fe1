"""Decisions that nodes took alone, because whoever they had asked gave no answer: how many, and by whose fault.

While a declared fault lasts, and until the questions of that time have run into their time-out, they are what the fault
does: counted, and shown.  At all other times they are a server that is not there: the run shows nothing of the system.
So it is with requests that nobody decides: latencies and rejections are of those that somebody did.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.records import Int64
from core.units import SECOND_NS
from testbed.faults import (
    EVERY,
    Crash,
    Fault,
    Handover,
    Heal,
    LinkDelay,
    LinkDuplication,
    LinkLoss,
    LinkReordering,
    Partition,
    Restart,
    ServerCrash,
)
from testbed.topologies.topology import Link

Window = tuple[int, int]  # from and until, both included
ENDLESS = 2**63 - 1
_LOSS = LinkLoss.__name__
_LINKS = (_LOSS, LinkDelay.__name__, LinkDuplication.__name__, LinkReordering.__name__)
_SLOW_SHARE = 10  # ours: of what matters, what a link's delay must be: it lies on each link, there and back
UNDER_WAY_NS = SECOND_NS  # ours: a request that was due so shortly before a fault may have been lost by it


@dataclass(frozen=True)
class AnswerAccount:
    """Numbers of decisions: outside of faults and their recovery, and in them; of each, those without an answer.

    ``lost_count``, ``lost_in_faults_count``: of requests that nobody has decided, by when they were due.
    """

    decided_count: int
    unanswered_count: int
    decided_in_faults_count: int
    unanswered_in_faults_count: int
    lost_count: int = 0
    lost_in_faults_count: int = 0

    @property
    def unanswered_share(self) -> float | None:
        """Outside of faults; None where nothing was decided there."""
        return self.unanswered_count / self.decided_count if self.decided_count else None

    @property
    def lost_share(self) -> float | None:
        """Of the requests outside of faults; None where there were none."""
        due_count = self.decided_count + self.lost_count
        return self.lost_count / due_count if due_count else None


def fault_windows(
    faults: Iterable[tuple[int, Fault]], timeout_ns: int, scale_ns: int = 0, links: Iterable[Link] = ()
) -> list[Window]:
    """When faults, each with the instant at which it had really happened, excuse a missing answer, in order.

    They begin when they were to happen, for that takes a while.  A crash, of a node or its servers, lasts until the
    node's restart, a partition until it heals, a disturbed link until its probability is 0 again, it loses no more than
    one of ``links``, those of the topology, does of itself (than the worst, if all are set), or what it holds packets
    back for is less than a tenth of ``scale_ns``, the time that matters, under the name that handovers of its host have
    given it; these and a clock that is set are over at once.  What is done to all ``links`` may end link by link.
    Everything excuses ``timeout_ns`` longer.
    """
    slow_ns = max(1, scale_ns // _SLOW_SHARE)
    losses = {frozenset((link.a, link.b)): link.loss_probability for link in links}
    windows = set[Window]()
    since_ns: dict[tuple[str, frozenset[str]], int] = {}  # what is wrong, and where -> since when
    for at_ns, fault in sorted(faults, key=lambda pair: pair[0]):
        if isinstance(fault, Handover):
            since_ns = {
                (kind, _handed_over(kind, names, fault)): begin_ns for (kind, names), begin_ns in since_ns.items()
            }
            losses = {_handed_over(_LOSS, names, fault): chance for names, chance in losses.items()}
        kind, names, lasts = _change(fault, slow_ns, losses)
        if lasts:
            for place in losses if kind in _LINKS and not names and losses else [names]:
                since_ns.setdefault((kind, place), min(at_ns, fault.at_ns))
            continue
        over = [wrong for wrong in since_ns if wrong[0] == kind and (not names or wrong[1] == names)]
        windows |= {(since_ns.pop(wrong), at_ns + timeout_ns) for wrong in over}
        if not kind:
            windows.add((min(at_ns, fault.at_ns), at_ns + timeout_ns))
    return sorted(windows | {(begin_ns, ENDLESS) for begin_ns in since_ns.values()})


def _handed_over(kind: str, names: frozenset[str], fault: Handover) -> frozenset[str]:
    """What a disturbed link is called from a handover of its host on."""
    is_it = kind in _LINKS and fault.host in names and len(names) == 2
    return frozenset((fault.host, fault.point)) if is_it else names


def _change(fault: Fault, slow_ns: int, losses: Mapping[frozenset[str], float]) -> tuple[str, frozenset[str], bool]:
    """What goes wrong, or (False) is over; where, no names being everywhere.  No kind: it is over at once."""
    match fault:
        case Crash(_, node) | ServerCrash(_, node):  # a restart brings a node's servers back as well
            return "down", frozenset((node,)), True
        case Restart(_, node):
            return "down", frozenset((node,)), False
        case Partition(_, side):
            return "cut off", frozenset(side), True
        case Heal(_, side):
            return "cut off", frozenset(side), False
        case LinkLoss(_, a, b, chance):
            names = frozenset((a, b)) - {EVERY}
            own = losses.get(names, 0.0) if names else max(losses.values(), default=0.0)
            return _LOSS, names, chance > own
        case LinkDuplication(_, a, b, chance) | LinkReordering(_, a, b, chance, _):
            return type(fault).__name__, frozenset((a, b)) - {EVERY}, chance > 0
        case LinkDelay(_, a, b, hold_ns):
            return LinkDelay.__name__, frozenset((a, b)) - {EVERY}, hold_ns >= slow_ns
    return "", frozenset(), False


def account_of_answers(
    decided_at_ns: Int64, unanswered: NDArray[np.bool_], windows: Sequence[Window], lost_due_ns: Int64
) -> AnswerAccount:
    """The account of a run: of each decision its instant, and whether an answer was missing.

    ``lost_due_ns``: when the requests were due that nobody has decided.
    """
    in_faults = _within(decided_at_ns, windows)
    lost_in_faults = _within(lost_due_ns, [(begin_ns - UNDER_WAY_NS, end_ns) for begin_ns, end_ns in windows])
    return AnswerAccount(
        decided_count=int(np.count_nonzero(~in_faults)),
        unanswered_count=int(np.count_nonzero(unanswered & ~in_faults)),
        decided_in_faults_count=int(np.count_nonzero(in_faults)),
        unanswered_in_faults_count=int(np.count_nonzero(unanswered & in_faults)),
        lost_count=int(np.count_nonzero(~lost_in_faults)),
        lost_in_faults_count=int(np.count_nonzero(lost_in_faults)),
    )


def _within(at_ns: Int64, windows: Sequence[Window]) -> NDArray[np.bool_]:
    inside = np.zeros(len(at_ns), bool)
    for begin_ns, end_ns in windows:
        inside |= (begin_ns <= at_ns) & (at_ns <= end_ns)
    return inside


def unanswered_rows(unanswered: Iterable[tuple[int, str]]) -> list[tuple[int, str, str, float]]:
    """Rows of ``samples`` for decisions (instant, node) without an answer: ``unanswered_count`` of each second.

    A row's instant is the end of its second.
    """
    counts = Counter(((at_ns // SECOND_NS + 1) * SECOND_NS, node) for at_ns, node in unanswered)
    return [(at_ns, node, "unanswered_count", float(count)) for (at_ns, node), count in sorted(counts.items())]
