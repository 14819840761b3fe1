"""What is made of nodes' own words after a live run: whether a drain is over, how long users waited."""

from types import SimpleNamespace
from typing import Any

import pytest

from core.records import Request
from core.units import MILLISECOND_NS, SECOND_NS
from studies.limiting.asked import RequestJournal
from studies.limiting.live import drain_progress
from studies.limiting.study import journal
from systems.api import Verdict
from testbed.nodes.journal import NodeJournal

STILL_NS = 250_000_000


def said(sent_to: dict[str, int], received_from: dict[str, int], **more: Any) -> dict[str, Any]:
    return {"sent_to": sent_to, "received_from": received_from, "unsent_bytes": 0, "idle": True, **more}


@pytest.mark.parametrize(
    ("one", "over", "at_rest"),
    [
        (said({}, {}), True, True),
        (said({}, {}), False, False),
        (said({}, {}, unsent_bytes=1), True, False),
        (said({}, {}, idle=False), True, False),
        (said({}, {}, idle=None), True, False),
    ],
)
def test_a_drain_goes_on_while_anything_is_left(one: dict[str, Any], over: bool, at_rest: bool) -> None:
    progress = drain_progress([said({}, {}), one], over, STILL_NS)
    assert progress.at_rest is at_rest and progress.rest_ns == STILL_NS and progress.patience_ns is None


def test_what_is_under_way_changes_what_is_seen() -> None:
    before = drain_progress([said({"b": 1}, {})], True, STILL_NS)
    assert before.seen != drain_progress([said({"b": 2}, {})], True, STILL_NS).seen
    assert before.seen == drain_progress([said({"b": 1}, {})], True, STILL_NS).seen


def test_a_verdict_before_its_request_was_due_kept_nobody_waiting() -> None:
    """As a node tells that was restarted after the clock was set back: the run is judged for that, and has tables."""
    told, decided_ns = NodeJournal(), [SECOND_NS + 5, SECOND_NS - 50 * MILLISECOND_NS]
    for number, at_ns in enumerate(decided_ns):
        told.offered[number] = "n1", Request(number, "u", SECOND_NS)
        told.verdicts[number] = at_ns, "n1", Verdict.ADMIT
    nothing: Any = SimpleNamespace(schedule=None)
    tables = journal(nothing, nothing, RequestJournal(told)).tables
    histogram = tables["latency_histogram"]
    assert (histogram["low_ns"].tolist(), histogram["count"].tolist()) == ([0, 5], [1, 1])
    assert tables["requests"]["decided_at_ns"] == decided_ns
