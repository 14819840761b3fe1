"""From records to samples: who owned what, whether moves landed, what clients saw."""

import numpy as np

from core.clients import Role
from studies.placement.asked import Spell
from studies.placement_on_pulsar.accounts import (
    Owned,
    UnitMove,
    downtime_samples,
    first_latencies_ns,
    owner_after,
    spells_of,
    together,
)
from studies.placement_on_pulsar.asked import ClientCrew
from studies.placement_on_pulsar.planes import PulsarScript, served_in
from systems.placement.monitoring import Rates
from testbed.nodes.planes import ServerAt
from testbed.servers.pulsar.admin import Topic
from testbed.servers.pulsar.transfers import KNOWN_NS, SeenByClients
from tests.testbed.servers.pulsar.test_client_log import closed, made

MS = 1_000_000
OWNED = [Owned(0, "a", "b1"), Owned(50, "a", ""), Owned(60, "a", "b2"), Owned(70, "c", "b1"), Owned(90, "a", "b1")]
MOVE = UnitMove("a", "b1", "b2", 40, 65, "")


def test_a_unit_is_owned_until_somebody_else_has_it_and_in_the_run_alone() -> None:
    assert spells_of(OWNED, 10, 85) == [
        Spell("a", "b1", 0, 40), Spell("a", "b2", 50, 80), Spell("c", "b1", 60, 85), Spell("a", "b1", 80, 85),
    ]  # fmt: skip
    assert spells_of([], 0, 10) == []


def test_a_move_has_landed_where_the_target_had_the_unit_in_time() -> None:
    assert owner_after(MOVE, OWNED) == "b2"
    late = [Owned(66 + KNOWN_NS, "a", "b2"), Owned(50, "a", "b3"), Owned(55, "a", "")]
    assert owner_after(MOVE, sorted(late)) == "b3" and owner_after(MOVE, []) == ""
    for owner, target, landed in (("b2", "b2", True), ("b3", "b2", False), ("b3", "", True), ("", "", False)):
        assert MOVE._replace(owner=owner, target=target).landed is landed


def test_a_latency_is_of_the_first_delivery_from_when_it_was_due() -> None:
    sent = {name: np.array(values) for name, values in {"topic": [1, 0, 1], "message": [0, 0, 1]}.items()}
    times = {"intended_at_ns": [10, 0, 20], "sent_at_ns": [11, 1, 21], "acknowledged_at_ns": [12, 2, 22]}
    got = {"topic": [0, 1, 0, 0, 0], "message": [1, 0, 0, 1, 7], "received_at_ns": [50, 1, 15, 30, 60]}
    out = SeenByClients([], {**sent, **{name: np.array(values) for name, values in times.items()}}, {})
    back = SeenByClients([], {}, {name: np.array(values) for name, values in got.items()})
    both = together(Topic("t", "n", "x"), (out, 1), (back, 0))
    assert first_latencies_ns(both).tolist() == [5, 10]
    account = next(iter(both.accounts().values()))
    assert (account.offered_count, account.surplus_count, account.foreign_count) == (2, 1, 1)


def test_who_stayed_away_counts_until_the_end_and_what_was_before_the_run_does_not() -> None:
    crew = ClientCrew("clients1", "proxy1", Role.PRODUCER, ("a", "b"))
    names = ["persistent://t/a/t", "persistent://t/b/t"]
    before = closed("00.500", 0) + made("00.600", names[0])
    log = before + closed("01.500", 0) + made("01.540", names[0]) + closed("02.000", 1)
    from testbed.servers.pulsar.client_log import downtimes

    epoch_ns = downtimes(log, names)[0].begin_ns + 500 * MS  # 01.000
    assert list(downtime_samples(log, crew, names, epoch_ns, 3_000 * MS)) == [
        (500 * MS, "producer of a", "client_downtime_ns", 40.0 * MS),
        (1_000 * MS, "producer of b", "client_downtime_ns", 2_000.0 * MS),
    ]


def test_a_broker_tells_rates_and_clients_of_the_topics_of_a_run() -> None:
    script = PulsarScript("run", ("a", "b"), {}, "store", ServerAt("x", 1), 1, {}, {}, 16)
    figures = {
        "msgRateIn": 10.5,
        "publishers": [{"producerName": "clients1.0"}],
        "subscriptions": {"ratebed": {"consumers": [{"consumerName": "clients2.0", "msgRateOut": 9.5}]}},
    }
    told = {"run/a": {"0x00000000_0xffffffff": {"persistent": {"persistent://run/a/t": figures}}}, "other/b": {}}
    served = served_in(told, script)
    assert list(served) == ["a"] and served["a"] == (Rates(10.5, 9.5), ("clients1.0",), ("clients2.0",))
