"""What is made of a live run's own words: of nodes' records and users' rows the journal; lost datagrams."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from core.records import Json, Request, Sample
from studies.limiting.asked import RequestJournal
from studies.limiting.users import NEVER
from systems.api import Verdict
from testbed.nodes.journal import NodeJournal
from testbed.nodes.records import NodeRecords
from testbed.topologies.topology import Link
from testbed.trust.answers import account_of_answers, fault_windows, unanswered_rows
from testbed.trust.fidelity import SCALE_NS


def records_of(
    requests: Mapping[str, Sequence[Request]],
    nodes: Mapping[str, NodeRecords],
    users: Iterable[Sequence[int]],
    happened: NodeJournal,
    timeout_ns: int = 0,
    links: Iterable[Link] = (),
) -> RequestJournal:
    """The journal of a run, but for what is no record: states, epoch, evidence.

    ``requests``: what was offered, by node.  ``nodes``: what they wrote down; verdicts are of what was handed on to
    them.  ``users``: rows as ``studies.limiting.users.RequestHost.collect`` writes them.  ``happened``: samples and
    faults of the run itself.  ``timeout_ns``: how long nodes wait before they decide alone.  ``links``: the topology's,
    before any fault.

    Of several verdicts on a request its user's counts, else the last one; those on no request that was offered do not.
    """
    offered = sorted(
        ((node, request) for node, load in requests.items() for request in load), key=lambda pair: pair[1].at_ns
    )
    journal = NodeJournal({request.id: (node, request) for node, request in offered}, faults=list(happened.faults))
    verdicts: dict[int, tuple[int, str, Verdict, bool]] = {}  # request id -> instant, node, verdict, decided alone
    for name, records in nodes.items():
        journal.samples += [(at_ns, name, metric, value) for at_ns, metric, value in records.samples]
        journal.commands += [(at_ns, name, command) for at_ns, command in records.commands]
        for at_ns, number, verdict, alone in records.verdicts:
            if number in journal.offered:
                verdicts[number] = at_ns, name, verdict, alone
    instants: dict[int, tuple[int | None, int | None]] = {}
    for number, sent_ns, received_ns, decided_ns, admitted, unanswered in users:
        instants[number] = _instant(sent_ns), _instant(received_ns)
        if received_ns != NEVER:
            verdict = Verdict.ADMIT if admitted else Verdict.REJECT
            verdicts[number] = decided_ns, journal.offered[number][0], verdict, bool(unanswered)
    journal.verdicts = {number: told[:3] for number, told in verdicts.items()}
    alone_rows = unanswered_rows((at_ns, node) for at_ns, node, _, alone in verdicts.values() if alone)
    journal.samples = sorted([*happened.samples, *journal.samples, *alone_rows], key=lambda row: row[:3])
    answers = account_of_answers(
        np.array([at_ns for at_ns, *_ in verdicts.values()], np.int64),
        np.array([alone for *_, alone in verdicts.values()], bool),
        fault_windows(journal.faults, timeout_ns, timeout_ns or SCALE_NS, links),
        np.array([request.at_ns for _, request in offered if request.id not in verdicts], np.int64),
    )
    return RequestJournal(journal, instants, answers=answers)


def lost_on_the_way(statuses: Mapping[str, Json], now_ns: int) -> list[Sample]:
    """Datagrams that one node sent and another did not get, for pairs that have lived through the run."""
    rows = []
    for source, status in statuses.items():
        lost = sum(
            max(0, count - statuses[target]["received_from"].get(source, 0))  # more: some came twice
            for target, count in status["sent_to"].items()
            if target in statuses
        )
        if lost > 0:
            rows.append((now_ns, source, "lost_count", float(lost)))
    return rows


def _instant(at_ns: int) -> int | None:
    return None if at_ns == NEVER else at_ns
