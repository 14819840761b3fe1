"""Tokens of a shared bucket under the soak's faults: a few schedules hold, and what grants too much is found."""

from dataclasses import replace
from itertools import islice

import msgspec
import pytest

from harness.soak import sharing
from harness.soak.draw import draw
from harness.soak.sharing import WAYS, play, schedules
from harness.soak.trial import RULES
from studies.sharing.rules import leased
from systems.api import Decide, Node, Verdict
from testbed.faults import Fault, Heal
from testbed.virtual.gates import GatedLoop
from testbed.virtual.network import Network


def test_no_more_is_granted_than_the_bound() -> None:
    seen = set()
    for schedule in islice(schedules(5_001), 24):
        seen.add(schedule.system)
        assert play(schedule) == (), schedule.seed
    assert seen == set(WAYS)


def of_system(system: str, count: int) -> list[sharing.SoakSchedule]:
    return list(islice((schedule for schedule in schedules(1) if schedule.system == system), count))


def test_a_node_that_is_cut_off_for_long_hears_the_others_again(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule, heals_ns = draw(526), list[int]()
    apply = Network.apply

    def told(network: Network, fault: Fault) -> None:
        if isinstance(fault, Heal):
            heals_ns.append(fault.at_ns)
        apply(network, fault)

    monkeypatch.setattr(Network, "apply", told)
    assert play(schedule) == ()
    assert heals_ns == [max(schedule.instants_ns())] and heals_ns[0] > 2 * schedule.load_end_ns


def test_leases_that_are_worth_more_than_they_say_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def more(node: Node, topic: str) -> int | None:
        part = leased(node, topic)
        return None if part is None else 3 * part

    monkeypatch.setitem(WAYS, "leases", replace(WAYS["leases"], part=more))
    assert any(play(schedule) for schedule in of_system("leases", 12))


@pytest.mark.parametrize("system", ["centralised", "crdt-counter"])
def test_a_gate_that_opens_on_a_rejection_is_found(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decide = GatedLoop.decide

    def always(loop: GatedLoop, node: str, decision: Decide) -> None:
        decide(loop, node, Decide(decision.request_id, Verdict.ADMIT))

    monkeypatch.setattr(GatedLoop, "decide", always)
    names = {breach.invariant for schedule in of_system(system, 12) for breach in play(schedule)}
    assert "a verdict a release" in names
    assert system == "crdt-counter" or "no more tokens than the bound" in names  # the counter's is n times as wide


def test_an_error_is_a_breach_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(loop: GatedLoop, node: str, decision: Decide) -> None:
        raise KeyError(node)

    monkeypatch.setattr(GatedLoop, "decide", decide)
    schedule = msgspec.structs.replace(of_system("centralised", 1)[0], troubles=())
    (breach,) = play(schedule)
    assert (breach.invariant, breach.error) == (RULES, "KeyError")
