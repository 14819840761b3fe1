from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError, SystemFault
from core.records import Envelope
from core.units import SECOND_NS
from systems.api import (
    Actuate,
    Delivery,
    Effect,
    Report,
    Sample,
    Send,
    SetBucket,
    SetTimer,
    Start,
    Timer,
    TopicReport,
    Transport,
    UnexpectedEvent,
)
from systems.conformance import check_system
from systems.distribution.tb_adaptor import (
    ADAPTOR,
    SYSTEM,
    Adaptor,
    BrokerAgent,
    Config,
    History,
    NewLimit,
    TopicStatistics,
    Unheard,
    nodes,
)
from testbed.brokers.model import load_calibration
from testbed.faults import Crash, Heal, LinkLoss, Partition, Restart
from testbed.topologies.topology import load_topology, mesh
from testbed.virtual.bench import VirtualBench
from testbed.virtual.fleet import Fleet, FleetPlane
from testbed.virtual.scheduler import event_loop
from workloads.shifting import ShiftingConfig, ShiftingSchedule

SPLITS = {"topic": {"b1": Envelope(600.0, 60.0), "b2": Envelope(300.0, 30.0), "b3": Envelope(100.0, 10.0)}}


def adaptor(again: bool = False, **options: Any) -> Adaptor:
    node = nodes(["b1", "b2", "b3"], Config(splits=SPLITS, **options), 1)[ADAPTOR]
    assert isinstance(node, Adaptor)
    node.handle(Start(None, again), 0)
    return node


def tell(node: Adaptor, second: float, *statistics: tuple[str, float, float]) -> None:
    for broker, rate_rps, backlog_count in statistics:
        message = TopicStatistics("topic", rate_rps, backlog_count)
        assert node.handle(Delivery(broker, message), int(second * SECOND_NS)) == []


def limits(effects: Iterable[Effect]) -> dict[str, tuple[float, float]]:
    sent = [effect for effect in effects if isinstance(effect, Send)]
    return {effect.target: (effect.message.rate_rps, effect.message.burst_count) for effect in sent}


def ring(node: Adaptor, second: int) -> list[Effect]:
    return node.handle(Timer("adapt", second * SECOND_NS), second * SECOND_NS)


def test_conforms_with_splits_of_its_own() -> None:
    splits = {"topic": {"n1": Envelope(10.0, 4.0), "n3": Envelope(5.0, 2.0)}}
    check_system(SYSTEM, VirtualBench(), Config(splits=splits))


def test_rates_follow_average_rates_and_bursts_follow_maximum_backlogs() -> None:
    node = adaptor()
    tell(node, 1, ("b1", 100.0, 5.0), ("b2", 100.0, 50.0), ("b3", 100.0, 10.0))
    tell(node, 2, ("b1", 300.0, 20.0), ("b2", 500.0, 10.0), ("b3", 900.0, 30.0))
    effects = ring(node, 2)
    assert effects[0] == SetTimer("adapt", 3 * SECOND_NS)
    # averages 200, 300, 500 of 1,000; maxima 20, 50, 30 of 100
    assert limits(effects) == {"b1": (200.0, 20.0), "b2": (300.0, 50.0), "b3": (500.0, 30.0)}
    assert all(effect.message.decided_at_ns == 2 * SECOND_NS for effect in effects if isinstance(effect, Send))


def test_reports_older_than_the_window_do_not_count() -> None:
    history = History(10 * SECOND_NS)
    history.add(1 * SECOND_NS, 900.0, 90.0)
    history.add(2 * SECOND_NS, 100.0, 10.0)
    history.add(3 * SECOND_NS, 300.0, 5.0)
    assert history.weights(10 * SECOND_NS) == (1_300 / 3, 90.0)
    assert history.weights(11 * SECOND_NS) == (200.0, 10.0)
    assert history.weights(12 * SECOND_NS) == (300.0, 5.0)
    assert history.weights(99 * SECOND_NS) == (300.0, 5.0)  # silent for a whole window: the last one known


def test_nothing_changes_before_every_broker_has_reported() -> None:
    node = adaptor()
    tell(node, 1, ("b1", 10.0, 1.0), ("b2", 10.0, 1.0))
    assert ring(node, 1) == [SetTimer("adapt", 2 * SECOND_NS)]
    tell(node, 2, ("b3", 20.0, 2.0))
    assert limits(ring(node, 2)) == {"b1": (250.0, 25.0), "b2": (250.0, 25.0), "b3": (500.0, 50.0)}


def test_back_from_a_crash_it_asks_who_is_silent_for_the_last_report() -> None:
    node = adaptor(again=True)
    tell(node, 1, ("b1", 10.0, 1.0), ("b2", 10.0, 1.0))
    asked = [Send(name, Unheard("topic")) for name in ("b1", "b2", "b3")]
    assert ring(node, 1) == [SetTimer("adapt", 2 * SECOND_NS), *asked]
    assert ring(node, 2) == [SetTimer("adapt", 3 * SECOND_NS), asked[2]], "b3 is silent still"
    agent = BrokerAgent("b3", Config())
    assert agent.handle(Delivery(ADAPTOR, Unheard("topic")), 0) == [], "it has none"
    agent.handle(Report(TopicReport("topic", 20.0, 2.0, 2.0)), 0)
    assert agent.handle(Delivery(ADAPTOR, Unheard("topic")), 0) == [Send(ADAPTOR, TopicStatistics("topic", 20.0, 2.0))]
    tell(node, 2, ("b3", 20.0, 2.0))
    assert limits(ring(node, 3)) == {"b1": (250.0, 25.0), "b2": (250.0, 25.0), "b3": (500.0, 50.0)}


def test_a_split_is_kept_over_the_adaptor_s_crash() -> None:
    """b1 had 90 % of the backlog; it is back when nobody has any."""
    names = ["b1", "b2"]
    config = Config(backlog="waiting", window="2s")
    loop = event_loop(SYSTEM, config, mesh("mesh", [*names, ADAPTOR], 1), names, 1)
    for second in range(1, 12):
        for name, waiting in zip(names, (90.0, 10.0) if second < 3 else (0.0, 0.0), strict=True):
            loop.inject(name, second * SECOND_NS, Report(TopicReport("topic", 100.0, 0.0, waiting)))
    loop.fail([Crash(6 * SECOND_NS, ADAPTOR), Restart(7 * SECOND_NS, ADAPTOR)])
    set_at = [(at_ns, name, command.burst_count) for at_ns, name, command in loop.run(12 * SECOND_NS).commands]
    last = [(name, burst) for at_ns, name, burst in set_at if at_ns > 8 * SECOND_NS]
    assert set(last) == {("b1", 90.0), ("b2", 10.0)}


def test_limits_add_up_again_where_one_was_lost_before_the_adaptor_crashed() -> None:
    """Limits are datagrams: what was sent into a partition is lost, and no report comes when it has healed."""
    assert SYSTEM.transport is Transport.DATAGRAM
    names, cut_off = ["b1", "b2"], ("b2",)
    loop = event_loop(SYSTEM, Config(), mesh("mesh", [*names, ADAPTOR], 1), names, 1)
    for second in range(1, 8):
        for name in names:
            report = TopicReport("topic", 100.0 * second if name == "b1" else 100.0, 0.0, 0.0)
            loop.inject(name, second * SECOND_NS, Report(report))
    loop.fail([Partition(4 * SECOND_NS, cut_off), Heal(20 * SECOND_NS, cut_off)])
    loop.fail([Crash(6 * SECOND_NS, ADAPTOR), Restart(7 * SECOND_NS, ADAPTOR)])
    rates: dict[str, float] = {}
    for until_s, is_whole in ((4, True), (19, False), (24, True)):
        for _, name, command in loop.run(until_s * SECOND_NS).commands:
            assert isinstance(command, SetBucket)
            rates[name] = command.rate_rps
        assert (sum(rates.values()) == pytest.approx(1_000.0)) is is_whole


def test_without_backlogs_the_burst_split_is_kept_or_follows_the_rates() -> None:
    reports = (("b1", 100.0, 0.0), ("b2", 100.0, 0.0), ("b3", 200.0, 0.0))
    for zero_backlog, bursts in (("keep", (60.0, 30.0, 10.0)), ("rates", (25.0, 25.0, 50.0))):
        node = adaptor(zero_backlog=zero_backlog)
        tell(node, 1, *reports)
        assert tuple(burst for _, burst in limits(ring(node, 1)).values()) == bursts


def test_without_traffic_the_rate_split_is_kept() -> None:
    node = adaptor()
    tell(node, 1, ("b1", 0.0, 0.0), ("b2", 0.0, 0.0), ("b3", 0.0, 0.0))
    assert limits(ring(node, 1)) == {"b1": (600.0, 60.0), "b2": (300.0, 30.0), "b3": (100.0, 10.0)}


def test_a_share_below_one_token_is_raised_at_the_expense_of_the_largest() -> None:
    node = adaptor()
    tell(node, 1, ("b1", 1.0, 99.0), ("b2", 1.0, 0.0), ("b3", 2.0, 1.0))
    assert [burst for _, burst in limits(ring(node, 1)).values()] == [98.0, 1.0, 1.0]


def test_too_small_a_burst_leaves_the_buckets_alone_and_says_so() -> None:
    splits = {"topic": {"b1": Envelope(10.0, 1.5), "b2": Envelope(10.0, 0.4)}}
    node = nodes(["b1", "b2"], Config(splits=splits), 1)[ADAPTOR]
    for broker in ("b1", "b2"):
        node.handle(Delivery(broker, TopicStatistics("topic", 1.0, 1.0)), SECOND_NS)
    effects = node.handle(Timer("adapt", SECOND_NS), SECOND_NS)
    assert effects == [SetTimer("adapt", 2 * SECOND_NS), Sample("infeasible_split_count", 1.0)]


@given(
    st.lists(
        st.tuples(st.floats(0.001, 50_000.0), st.floats(1.0, 5_000.0), st.floats(0.0, 1e6), st.floats(0.0, 1e5)),
        min_size=1,
        max_size=12,
    )
)
def test_the_sums_never_change(brokers: list[tuple[float, float, float, float]]) -> None:
    splits = {"topic": {f"b{i}": Envelope(round(r, 3), round(b, 6)) for i, (r, b, _, _) in enumerate(brokers)}}
    node = nodes([f"b{i}" for i in range(len(brokers))], Config(splits=splits), 1)[ADAPTOR]
    for i, (_, _, rate_rps, backlog_count) in enumerate(brokers):
        node.handle(Delivery(f"b{i}", TopicStatistics("topic", rate_rps, backlog_count)), SECOND_NS)
    found = limits(node.handle(Timer("adapt", SECOND_NS), SECOND_NS)).values()
    assert len(found) == len(brokers)
    for part, digits in ((0, 3), (1, 6)):
        name = ("rate_rps", "burst_count")[part]
        before = sum(round(getattr(bucket, name) * 10**digits) for bucket in splits["topic"].values())
        assert sum(round(limit[part] * 10**digits) for limit in found) == before
    assert min(burst for _, burst in found) >= 1.0


def test_disabled_it_only_listens() -> None:
    node = adaptor(enabled=False)
    tell(node, 1, ("b1", 1.0, 1.0), ("b2", 1.0, 1.0), ("b3", 1.0, 1.0))
    assert ring(node, 1) == [SetTimer("adapt", 2 * SECOND_NS)]


def test_strangers_and_unknown_topics_are_ignored() -> None:
    node = adaptor()
    tell(node, 1, ("b9", 1.0, 1.0), ("b1", 10.0, 1.0), ("b2", 10.0, 1.0), ("b3", 20.0, 2.0))
    node.handle(Delivery("b1", TopicStatistics("other", 1e6, 1e6)), SECOND_NS)
    assert limits(ring(node, 1))["b1"] == (250.0, 25.0)
    with pytest.raises(UnexpectedEvent):
        node.handle(Report(1), 1)


@pytest.mark.parametrize(("backlog", "count"), [("unfinished-work", 7.5), ("waiting", 3.0)])
def test_an_agent_passes_reports_on(backlog: str, count: float) -> None:
    agent = BrokerAgent("b1", Config(backlog=backlog))
    assert agent.handle(Start(None), 0) == []
    effects = agent.handle(Report(TopicReport("topic", 100.0, 7.5, 3.0)), SECOND_NS)
    assert Send(ADAPTOR, TopicStatistics("topic", 100.0, count)) in effects
    assert Sample("message_rate_rps", 100.0) in effects and Sample("backlog_count", count) in effects


def test_an_agent_takes_new_limits_and_not_those_that_were_overtaken() -> None:
    agent = BrokerAgent("b1", Config())
    effects = agent.handle(Delivery(ADAPTOR, NewLimit("topic", 5.0, 2.0, 20)), 25)
    assert effects[0] == Actuate(SetBucket("topic", 5.0, 2.0))
    assert agent.handle(Delivery(ADAPTOR, NewLimit("topic", 9.0, 9.0, 10)), 30) == []
    assert agent.handle(Delivery(ADAPTOR, NewLimit("other", 9.0, 9.0, 10)), 30)[0] == Actuate(
        SetBucket("other", 9.0, 9.0)
    )


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"window": "10"}, "window"),
        ({"period": "0s"}, "period = 0s"),
        ({"backlog": "guess"}, "backlog = 'guess'"),
        ({"zero_backlog": "zero"}, "zero_backlog = 'zero'"),
        ({"splits": {"topic": {"b9": Envelope(1.0, 1.0)}}}, "b9"),
        ({"splits": {"topic": {}}}, "splits"),
    ],
)
def test_options_that_make_no_sense_are_spec_errors(options: dict[str, Any], names: str) -> None:
    with pytest.raises(SpecError, match=names):
        nodes(["b1"], Config(**options), 1)


# --- with the broker model underneath ------------------------------------------------------------------


def run_shift(config: Config, seconds: int, faults: Iterable[Any] = ()) -> tuple[Fleet, Any]:
    """Half of 200 publishers on each of two brokers; after 5 s the first half has 80 % of the traffic."""
    schedule = ShiftingSchedule(ShiftingConfig(publishers=200, shift_at="5s"), 3)
    fleet = Fleet(load_calibration("srtm-paper"), "topic", schedule, [None, None])
    fleet.move((np.arange(200) >= 100).astype(np.int32))
    for broker in range(2):
        fleet.set_bucket(broker, Envelope(1_100.0, 20.0), full=True)
    topology = load_topology("srtm-lan", {"brokers": 2})
    names = topology.node_names("broker")
    loop = event_loop(SYSTEM, config, topology, names, 1, FleetPlane(fleet, names))
    loop.report_every(SECOND_NS)
    loop.fail(faults)
    return fleet, loop.run(seconds * SECOND_NS)


def even_splits() -> dict[str, dict[str, Envelope]]:
    return {"topic": {"broker1": Envelope(1_100.0, 20.0), "broker2": Envelope(1_100.0, 20.0)}}


def rates_rps(fleet: Fleet) -> list[float]:
    return [rate / 1_000 for rate in fleet.state.rate.tolist()]


def test_buckets_follow_a_shift_of_traffic() -> None:
    fleet, journal = run_shift(Config(splits=even_splits()), 20)
    first, second = rates_rps(fleet)
    assert round(first + second, 3) == 2_200.0
    assert 0.76 * 2_200 < first < 0.84 * 2_200  # 80 %, give or take the noise of 20,000 messages
    early = [command for at_ns, _, command in journal.commands if at_ns < 5 * SECOND_NS]
    assert early and all(900 < command.rate_rps < 1_300 for command in early)
    for at_ns in {at_ns for at_ns, _, _ in journal.commands}:
        together = [command for at, _, command in journal.commands if at == at_ns]
        assert round(sum(command.rate_rps for command in together), 3) == 2_200.0
        assert round(sum(command.burst_count for command in together), 6) == 40.0


def test_without_the_adaptor_buckets_stay_but_are_reported_alike() -> None:
    fleet, journal = run_shift(Config(splits=even_splits(), enabled=False), 12)
    assert rates_rps(fleet) == [1_100.0, 1_100.0] and not journal.commands
    seen = [value for _, node, metric, value in journal.samples if (node, metric) == ("broker1", "message_rate_rps")]
    assert len(seen) == 12
    assert 900 < np.mean(seen[:5]) < 1_100 < 1_450 < np.mean(seen[6:]) < 1_750


def test_it_survives_crashes_of_adaptor_and_agents() -> None:
    faults = [
        Crash(6 * SECOND_NS, ADAPTOR),
        Restart(8 * SECOND_NS, ADAPTOR),
        Crash(9 * SECOND_NS, "broker1"),
        Restart(10 * SECOND_NS, "broker1"),
        LinkLoss(11 * SECOND_NS, "control", "lan", 0.3),
        LinkLoss(20 * SECOND_NS, "control", "lan", 0.0),
    ]
    fleet, _ = run_shift(Config(splits=even_splits()), 25, faults)
    first, second = rates_rps(fleet)
    assert round(first + second, 3) == 2_200.0
    assert 0.76 * 2_200 < first < 0.84 * 2_200


def test_a_plane_refuses_what_is_not_its_own() -> None:
    schedule = ShiftingSchedule(ShiftingConfig(publishers=2), 1)
    plane = FleetPlane(Fleet(load_calibration("srtm-paper"), "topic", schedule, [None]), ["broker1"])
    for node, command in (
        ("broker2", SetBucket("topic", 1.0, 1.0)),
        ("broker1", SetBucket("other", 1.0, 1.0)),
        ("broker1", 3),
    ):
        with pytest.raises(SystemFault, match="commanded"):
            plane.actuate(node, command, 0)
