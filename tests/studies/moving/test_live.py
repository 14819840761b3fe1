"""Publishers that move between real brokers under load: nothing is lost, each publisher's order is kept."""

from typing import Any

import numpy as np
import pytest

from core.errors import SpecError
from core.units import SECOND_NS
from harness.run import asked_of, resolve
from studies.moving.asked import MovingShown
from studies.spec import RunSpec
from testbed.trust.accounts import ABSENT
from tests.live import needs

pytestmark = [needs("go"), pytest.mark.slow]

DURATION_NS = 6 * SECOND_NS


def spec_of(system: str = "tb-adaptor", adapts: bool = True, **study: Any) -> RunSpec:
    """300 messages a second, half a second later nearly all on one of two brokers with room for 200."""
    options = {"envelope": "conformant", "margin": 2.0, "duration": "6s", "window": "1s", "interval": "250ms"}
    return RunSpec(
        system=system,
        system_options={} if adapts else {"enabled": False},
        workload="shifting",
        workload_options={"publishers": 20, "rate_rps": 15.0, "shift_at": "400ms", "share_after": 0.95},
        topology_options={"brokers": 2},
        testbed="local",
        calibration="edge",
        slo="calibrated",
        study="moving",
        study_options={**options, "mcap_rps": 200.0, "migrates": True, **study},
        seed=5,
        keep=("messages",),
    )


def shown(spec: RunSpec) -> MovingShown:
    point = resolve(spec)
    study, asked = asked_of(point)
    study.check(point.testbed, asked)
    found: Any = study.carry_out(point.testbed, asked)
    assert isinstance(found, MovingShown)
    return found


def check(found: MovingShown) -> None:
    """By sequence numbers at the subscribers: none is missing, none came before an earlier one of its publisher."""
    rows = {name: np.ma.getdata(column) for name, column in found.messages.items() if name != "topic"}
    assert rows["message"].tolist() == list(range(found.deliveries.offered_count))
    assert not any(np.ma.is_masked(found.messages[name]) for name in ("acknowledged_at_ns", "received_at_ns"))
    for publisher in np.unique(rows["publisher"]):
        mine = rows["publisher"] == publisher
        assert (np.diff(rows["received_at_ns"][mine]) >= 0).all()
    told = found.deliveries
    assert told.lost_count == told.waiting_count == told.out_of_order_count == 0
    numbers = found.evidence.fidelity.numbers
    assert numbers["undelivered_count"] == numbers["unexplained_count"] == numbers["not_sent_count"] == 0
    assert all(move.source != move.target and move.opens_ns > move.told_ns for move in found.transfers)


def test_publishers_that_move_under_load_lose_nothing_and_keep_their_order() -> None:
    found = shown(spec_of())
    check(found)
    assert len(found.transfers) >= 2
    assert any(move.source == 0 for move in found.transfers)  # on a busy machine some move back, or there before
    told = found.deliveries
    assert told.resent_count == told.surplus_count == 0
    assert told.held.sum() < told.offered_count / 2
    assert {node for _, node, metric, _ in found.samples if metric == "bucket_rate_rps"} == {"broker1", "broker2"}
    moved = np.isin(told.publisher, [move.publisher for move in found.transfers])
    assert set(told.broker[moved].tolist()) == {0, 1}
    in_time = [move for move in found.transfers if move.told_ns < DURATION_NS]
    assert sum(window["closed_time"].sum() for window in found.windows) == len(in_time)


@pytest.mark.parametrize("limiter", ["leases", "throttler"])
def test_parts_of_a_bucket_follow_the_traffic_of_publishers_that_stay(limiter: str) -> None:
    """Its grants are the brokers' sub-buckets: in the end the first one, to which the traffic has gone, has more.

    Brokers look at their limiter at instants of their own, between which a flow may be counted on one side only:
    so the medians of several looks are asked for.
    """
    found = shown(spec_of(limiter, migrates=False))
    check(found)
    assert not found.transfers and found.deliveries.resent_count == 0
    looks = {name: [value for _, node, metric, value in found.samples if (node, metric) == (name, "bucket_rate_rps")]
             for name in ("broker1", "broker2")}  # fmt: skip
    first, second = (float(np.median(looks[name][-5:])) for name in ("broker1", "broker2"))
    assert first > found.envelope.rate_rps / 2 > second
    assert first + second <= 1.05 * found.envelope.rate_rps


def test_a_broker_that_is_killed_in_the_middle_costs_time_and_copies_but_no_message() -> None:
    """What it had acknowledged and not delivered is offered again, there or where its publishers were moving to.

    Its bucket stays as it is, so that messages wait there when it dies.
    """
    faults = (
        {"kind": "crash", "at": "1300ms", "node": "broker1"},
        {"kind": "restart", "at": "1700ms", "node": "broker1"},
    )
    found = shown(spec_of(adapts=False, faults=faults))
    check(found)
    told = found.deliveries
    assert told.resent_count > 0 and told.surplus_count <= told.resent_count
    assert (told.arrived_ns == ABSENT).any() and (told.held & (told.broker == 0)).any()
    assert (told.released_ns[told.broker == 0] > 1_700_000_000).any(), "it works again, with its bucket"


def test_what_live_brokers_cannot_do_is_refused() -> None:
    for spec, word in (
        (spec_of(rtt="20ms"), "rtt"),
        (spec_of(initial_loads_rps=(10.0, 0.0)), "initial_loads_rps"),
        (spec_of(faults=({"kind": "crash", "at": "1s", "node": "publishers1"},)), "publishers1"),
        (spec_of(release_quantum=True), "release_quantum"),
    ):
        with pytest.raises(SpecError, match=word):
            shown(spec)
