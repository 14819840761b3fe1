"""Publishers that move: nothing lost and order kept, whatever is moved, killed and brought back; known costs."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SystemFault
from core.records import Envelope
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import SetBucket, TopicReport
from systems.distribution.commands import MoveAway, PublisherReport
from testbed.brokers.model import load_calibration
from testbed.trust.moved import MovedMessages
from testbed.virtual.fleet import Fleet
from testbed.virtual.moving import MovingPlane
from workloads import load

TOPIC, BROKERS, END_NS = "topic", 3, 2 * SECOND_NS
MODEL = load_calibration("edge")
NET_NS = MODEL.network_ns


def plane(publishers: int = 6, rate_rps: float = 40.0, batch: int = 1, seed: int = 1, tokens: float = 0) -> MovingPlane:
    workload = load("poisson")
    schedule = workload.make(workload.config(publishers=publishers, rate_rps=rate_rps, batch=batch), seed)
    fleet = Fleet(MODEL, TOPIC, schedule, [None] * BROKERS)
    for broker in range(BROKERS):
        fleet.set_bucket(broker, Envelope(tokens or publishers * rate_rps, 5.0), full=True)
    where = (np.arange(publishers) % BROKERS).astype(np.int32)
    return MovingPlane(fleet, [f"broker{n}" for n in range(BROKERS)], where, END_NS)


def check(moved: MovingPlane) -> MovedMessages:
    moved.advance(END_NS + 60 * SECOND_NS)
    found = moved.deliveries()
    offered = moved.outbox.schedule.block(0, END_NS)
    assert found.lost_count == found.waiting_count == found.out_of_order_count == 0
    assert found.offered_count == offered.message_count and (np.diff(found.number) == 1).all()
    assert (found.intended_ns == np.repeat(offered.at_ns, offered.count)).all()
    assert (found.publisher == np.repeat(offered.publisher, offered.count)).all()
    assert (found.sent_ns >= found.intended_ns).all() and (found.received_ns > found.sent_ns).all()
    assert 0 <= found.surplus_count <= found.resent_count
    return found


ACTS = st.one_of(
    st.tuples(st.just("move"), st.integers(0, BROKERS - 1), st.integers(0, BROKERS - 1), st.sets(st.integers(0, 5))),
    st.tuples(st.just("bucket"), st.integers(0, BROKERS - 1), st.floats(5, 400), st.floats(1, 20)),
    st.tuples(st.just("kill"), st.integers(0, BROKERS - 1)),
)


@settings(deadline=None, max_examples=150)
@given(
    acts=st.lists(st.tuples(st.integers(0, END_NS), ACTS), max_size=25),
    tokens=st.sampled_from([20.0, 60.0, 240.0]),
    batch=st.sampled_from([1, 4]),
    seed=st.integers(0, 50),
)
def test_nothing_is_lost_and_order_is_kept(acts, tokens, batch, seed):  # type: ignore[no-untyped-def]
    moved = plane(batch=batch, seed=seed, tokens=tokens)
    down: set[str] = set()
    for at_ns, act in sorted(acts, key=lambda one: one[0]):
        moved.advance(at_ns)
        name = f"broker{act[1]}"
        if act[0] == "kill":
            moved.restart(name) if name in down else moved.crash(name, at_ns)
            down ^= {name}
        elif act[0] == "bucket" and name not in down:
            moved.actuate(name, SetBucket(TOPIC, act[2], act[3]), at_ns)
        elif act[0] == "move" and name not in down:
            moved.actuate(name, MoveAway(TOPIC, tuple(sorted(act[3])), f"broker{act[2]}"), at_ns)
    moved.advance(END_NS)
    for name in sorted(down):
        moved.restart(name)
    check(moved)
    assert all(moved.opens_ns()[one.publisher] < END_NS + 30 * SECOND_NS for one in moved.transfers)


def test_an_idle_publisher_is_closed_while_it_connects() -> None:
    moved = plane(rate_rps=1.0)
    moved.advance(SECOND_NS)
    moved.actuate("broker0", MoveAway(TOPIC, (0, 3, 1), "broker2"), SECOND_NS)  # publisher 1 is not there
    assert moved.refused_count == 1 and [one.publisher for one in moved.transfers] == [0, 3]
    assert {one.opens_ns - one.told_ns for one in moved.transfers} == {3 * NET_NS}
    found = check(moved)
    late = (found.sent_ns > SECOND_NS + 3 * NET_NS) & np.isin(found.publisher, [0, 3])
    assert late.any() and set(found.broker[late]) == {2}


def test_what_waits_at_the_old_broker_is_delivered_before_the_new_one_is_used() -> None:
    """40 messages a second at 20 tokens a second: a second's backlog is a second of closed time."""
    moved = plane(publishers=3, tokens=20.0)
    at_ns = SECOND_NS
    moved.advance(at_ns)
    moved.actuate("broker0", MoveAway(TOPIC, (0,), "broker1"), at_ns)
    (one,) = moved.transfers
    found = check(moved)
    mine = found.publisher == 0
    before, after = mine & (found.broker == 0), mine & (found.broker == 1)
    assert one.opens_ns == found.received_ns[before].max() + 2 * NET_NS > at_ns + SECOND_NS // 4
    assert found.sent_ns[after].min() >= one.opens_ns
    held = after & (found.sent_ns > found.intended_ns)
    assert held.sum() > 5 and (found.sent_ns[held] == one.opens_ns).all()


def test_a_broker_killed_in_the_middle_of_a_move() -> None:
    """The old one: what it had not delivered is offered again, at the new one, at once."""
    moved = plane(publishers=3, tokens=20.0)
    moved.advance(SECOND_NS)
    moved.actuate("broker0", MoveAway(TOPIC, (0,), "broker1"), SECOND_NS)
    at_ns = SECOND_NS + 50 * MILLISECOND_NS
    moved.advance(at_ns)
    moved.crash("broker0", at_ns)
    assert moved.resent_count > 3 and moved.transfers[0].opens_ns == at_ns
    moved.advance(END_NS)
    moved.restart("broker0")
    found = check(moved)
    assert set(found.broker[(found.publisher == 0) & (found.sent_ns >= at_ns)]) == {1}
    assert found.resent_count == moved.resent_count


def test_the_new_broker_killed_in_the_middle_is_waited_for() -> None:
    moved = plane(publishers=3, tokens=20.0)
    moved.advance(SECOND_NS)
    moved.actuate("broker0", MoveAway(TOPIC, (0,), "broker1"), SECOND_NS)
    moved.crash("broker1", SECOND_NS)
    back_ns = SECOND_NS + SECOND_NS // 2
    moved.advance(back_ns)
    moved.restart("broker1")
    found = check(moved)
    after = (found.publisher == 0) & (found.broker == 1)
    assert found.sent_ns[after].min() >= back_ns + 2 * NET_NS and moved.transfers[0].opens_ns >= back_ns + 2 * NET_NS


def test_a_delivery_whose_acknowledgement_is_lost_comes_twice() -> None:
    moved = plane(publishers=3)
    moved.advance(SECOND_NS)
    rows = moved._rows()
    last_ns = int(rows[rows[:, 1] == 0, 4].max())  # received, and not confirmed
    moved.advance(last_ns)
    moved.crash("broker0", last_ns)
    moved.restart("broker0")
    assert check(moved).surplus_count >= 1


def test_a_broker_that_is_back_has_no_tokens() -> None:
    """A crash is worth no burst: in any span no more is released than the bucket allows."""
    moved = plane(publishers=3, rate_rps=60.0, tokens=10.0)
    for n in range(1, 8):
        moved.advance(n * SECOND_NS // 4)
        moved.crash("broker0", moved.fleet.now_ns)
        moved.restart("broker0")
    found = check(moved)
    released_s = np.sort(found.released_ns[found.broker == 0]) / 1e9
    span = np.subtract.outer(released_s, released_s)
    count = np.subtract.outer(np.arange(len(released_s)), np.arange(len(released_s))) + 1
    assert (count <= 5 + 10 * span + 1e-6)[span >= 0].all()


def test_reports_tell_of_publishers_and_of_nobody_who_is_down() -> None:
    moved = plane(batch=2)
    moved.advance(SECOND_NS)
    moved.crash("broker1", SECOND_NS)
    told = list(moved.report())
    assert Counter(name for name, _ in told) == {"broker0": 2, "broker2": 2}
    rates = {name: sum(one.rates_rps.values()) for name, one in told if isinstance(one, PublisherReport)}
    assert rates == {name: pytest.approx(one.rate_rps) for name, one in told if isinstance(one, TopicReport)}
    assert all(one.rates_rps == {} for _, one in moved.report() if isinstance(one, PublisherReport))


def test_what_is_no_command_is_refused() -> None:
    moved = plane()
    for command in (MoveAway("other", (0,), "broker1"), MoveAway(TOPIC, (0,), "elsewhere"), "move"):
        with pytest.raises(SystemFault, match="commanded"):
            moved.actuate("broker0", command, 0)
