"""Traffic that shifts: whom it overloads, who clears it, and that counts add up."""

from typing import Any

import msgspec
import numpy as np
import pytest

from collectors.histogram import quantile
from collectors.schema import DESCRIBED
from core.errors import SpecError
from harness.run import asked_of, carried_out, resolve
from studies.moving.asked import MovingShown
from studies.spec import RunSpec

SLO_NS = 20_000_000


def spec_of(
    system: str = "tb-adaptor", share: float = 0.9, options: dict[str, Any] | None = None, **study: Any
) -> RunSpec:
    return RunSpec(
        system=system,
        system_options=options or {},
        workload="shifting",
        workload_options={"publishers": 40, "rate_rps": 20.0, "shift_at": "3s", "share_after": share},
        topology_options={"brokers": 2},
        calibration="edge",
        slo="calibrated",
        study="moving",
        seed=5,
        study_options={"envelope": "conformant", "margin": 2.0, "duration": "20s", **study},
    )


def shown(spec: RunSpec) -> MovingShown:
    study, asked = asked_of(resolve(spec))
    study.check(resolve(spec).testbed, asked)
    found: Any = study.carry_out(resolve(spec).testbed, asked)
    assert isinstance(found, MovingShown)
    return found


def p99_ns(found: MovingShown, number: int) -> int:
    return quantile(found.windows[number]["end_to_end_latency"].sum(0), 0.99)


def test_within_a_capacity_tokens_are_enough_and_nobody_moves() -> None:
    off, on = (shown(spec_of(share=0.6, options={"enabled": told}, migrates=True)) for told in (False, True))
    assert len(off.transfers) == len(on.transfers) == 0
    assert p99_ns(on, 0) < SLO_NS and p99_ns(on, 19) < p99_ns(off, 19) / 4


def test_a_broker_that_is_overloaded_is_cleared_by_moves_alone() -> None:
    """The pump takes 667 messages a second, whoever has the tokens; a third of the publishers go."""
    adaptor, both = (shown(spec_of(migrates=told)) for told in (False, True))
    assert p99_ns(adaptor, 19) > p99_ns(adaptor, 10) > 10 * SLO_NS
    assert p99_ns(both, 19) < p99_ns(both, 8) / 2 and 5 <= len(both.transfers) <= 20
    rates = [window["end_to_end_latency"].sum(1) for window in both.windows[-5:]]
    first, second = np.sum(rates, axis=0).tolist()
    assert 0.8 < first / second < 1.25


def test_counts_add_up() -> None:
    spec = msgspec.structs.replace(spec_of(migrates=True), keep=("messages",))
    journal, found = carried_out(resolve(spec)), shown(spec)
    rows, told = journal.tables["latency_histogram"], journal.tables["samples"]
    metric, count = np.array(rows["metric"]), np.asarray(rows["count"])
    (meaning,) = (column.meaning for column in DESCRIBED["latency_histogram"].columns if column.name == "metric")
    assert all(name in meaning for name in set(metric.tolist()))
    counted = dict(zip(told["metric"], told["value"], strict=True))
    assert counted["offered_count"] == counted["delivered_count"] == count[metric == "access_delay"].sum()
    assert counted["undelivered_count"] == counted["out_of_order_count"] == counted["resent_count"] == 0
    held = found.deliveries.sent_ns > found.deliveries.intended_ns
    assert count[metric == "held_time"].sum() == held.sum() > 0
    moves = journal.tables["decisions"]
    assert sum(moves["publisher_count"]) == count[metric == "closed_time"].sum() == len(found.transfers)
    messages = journal.tables["messages"]
    assert len(set(np.asarray(messages["message"]).tolist())) == counted["offered_count"]
    bytes_ = sum(value for name, value in zip(told["metric"], told["value"], strict=True) if name == "sent_bytes")
    assert bytes_ > 0


@pytest.mark.parametrize("system", ["leases", "throttler"])
def test_grants_become_sub_buckets(system: str) -> None:
    still = shown(spec_of(share=0.6, options={"enabled": False}))
    found = shown(spec_of(system, share=0.6))
    assert found.deliveries.offered_count == still.deliveries.offered_count
    assert found.envelope == still.envelope and p99_ns(found, 19) < p99_ns(still, 19) / 4


def test_who_does_nothing_is_the_study_of_control() -> None:
    """The same brokers, buckets and messages, to the last one."""
    still = spec_of(options={"enabled": False}, window="5s")
    told = {name: value for name, value in still.study_options.items() if name != "migrates"}
    control = msgspec.structs.replace(still, study="control", study_options=told)
    ours, theirs = (carried_out(resolve(spec)).tables["latency_histogram"] for spec in (still, control))
    for metric in ("end_to_end_latency", "access_delay"):
        counts = [
            sorted(zip(*(np.asarray(rows[name])[np.array(rows["metric"]) == metric].tolist()
                         for name in ("round", "broker", "low_ns", "count")), strict=True))
            for rows in (ours, theirs)
        ]  # fmt: skip
        assert counts[0] == counts[1]


def turned(share_before: float, **study: Any) -> RunSpec:
    """One half of the publishers is silent until 3 s; then both send alike."""
    spec = spec_of(share=0.5, **study)
    return msgspec.structs.replace(spec, workload_options={**spec.workload_options, "share_before": share_before})


@pytest.mark.parametrize("share_before", [0.0, 1.0])
def test_a_broker_whose_publishers_are_silent_at_first_gets_its_tokens(share_before: float) -> None:
    found = shown(turned(share_before))
    last = {node: value for _, node, metric, value in found.samples if metric == "bucket_rate_rps"}
    first, second = last.values()
    assert 0.8 < first / second < 1.25 and first + second == pytest.approx(found.envelope.rate_rps, rel=1e-6)


def controlled(spec: RunSpec) -> RunSpec:
    told = {name: value for name, value in spec.study_options.items() if name != "migrates"}
    return msgspec.structs.replace(spec, study="control", study_options=told)


@pytest.mark.parametrize("share_before", [0.0, 1.0])
def test_so_it_does_in_the_study_of_control(share_before: float) -> None:
    decisions = carried_out(resolve(controlled(turned(share_before, window="5s")))).tables["decisions"]
    last = dict(zip(decisions["broker"], decisions["bucket_rate_rps"], strict=True))
    assert set(last) == {0, 1} and 0.8 < last[0] / last[1] < 1.25


def test_what_makes_no_sense_is_refused() -> None:
    for spec, word in (
        (spec_of("leases", migrates=True), "grants do not follow"),
        (spec_of(rtt="3ns"), "rtt"),
        (spec_of(interval="0s"), "interval"),
        (spec_of(window="1ms"), "windows = 20,000 times brokers = 2; give at most 5,000"),
        (controlled(spec_of(window="1ms")), "windows = 20,000 times brokers = 2; give at most 5,000"),
        (spec_of(stamps="read"), "stamps"),
        (spec_of(churn=0.0, migrates=True), "churn"),
        (spec_of("crdt-counter"), "is not for the study moving"),
    ):
        with pytest.raises(SpecError, match=word):
            shown(spec)
