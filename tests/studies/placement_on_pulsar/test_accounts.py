"""From records to samples: who owned what, whether moves landed, what clients saw."""

import numpy as np
import pytest

from core.clients import Role
from studies.placement.asked import Spell
from studies.placement_on_pulsar.accounts import (
    Consumed,
    Hired,
    Owned,
    PulsarAccounts,
    UnitMove,
    downtimes_of,
    gaps,
    logged_steps,
    owner_after,
    spells_of,
    told_of,
)
from studies.placement_on_pulsar.asked import Change, ClientCrew, ClientDowntime, Config, PulsarRequest, StepSpan
from studies.placement_on_pulsar.planes import PulsarScript, served_in
from systems.loader import load_system
from systems.placement.monitoring import Rates
from testbed.nodes.planes import ServerAt
from testbed.servers.pulsar.admin import Topic
from testbed.servers.pulsar.client_host import GOT, SENT, SUBSCRIBED
from testbed.servers.pulsar.client_log import downtimes
from testbed.servers.pulsar.transfers import KNOWN_NS, SeenByClients
from testbed.topologies.topology import load_topology
from testbed.trust.accounts import ABSENT, Got, Interest
from tests.testbed.servers.pulsar.test_client_log import closed, made
from workloads.static_topics import StaticTopics, StaticTopicsConfig

EPOCH_NS = 10**18
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


class Traffic:
    """A process that has said all: its rows, its log."""

    def __init__(self, seen: SeenByClients, log: str = ""):
        self._seen, self._log = seen, log

    def seen(self) -> SeenByClients:
        return self._seen

    def log(self) -> str:
        return self._log


def rows(names: tuple[str, ...], *rows_ms: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Instants of ``rows_ms`` are in ms after the epoch."""
    columns = dict(zip(names, np.array(rows_ms, np.int64).reshape(-1, len(names)).T, strict=True))
    return {
        name: np.where(column == ABSENT, ABSENT, EPOCH_NS + column * MS) if name.endswith("_ns") else column
        for name, column in columns.items()
    }


def told(
    persistent: bool,
    sent: list[tuple[int, ...]],
    got: list[tuple[int, ...]],
    later: list[tuple[int, ...]],
    crew: ClientCrew,
) -> PulsarAccounts:
    """Of topic-1's producer at 10 msg/s for a second, and of a consumer; times in ms."""
    load = StaticTopics(StaticTopicsConfig(1, rate_rps=10, bound="50ms", sites=2), 1)
    system, rule = load_system("epulsar"), Config(duration="1s", persistent=persistent)
    asked = PulsarRequest(system, system.config(), load_topology("city-mec", {"sites": 2}), load, 1, rule)
    producer = next(one for one in asked.crews if one.producing)
    topics = [Topic("t", "topic-1", "t", persistent)]
    crews = [
        Hired(crew, 0, Traffic(SeenByClients(topics, rows(SENT), rows(GOT, *got), rows(SUBSCRIBED, *later)))),
        Hired(producer, 1, Traffic(SeenByClients(topics, rows(SENT, *sent), rows(GOT), rows(SUBSCRIBED)))),
    ]
    move = UnitMove("topic-1", "b1", "b2", EPOCH_NS + 100 * MS, EPOCH_NS + 400 * MS, "", "b2")
    return told_of(asked, EPOCH_NS, crews, [move])  # type: ignore[arg-type]


CONSUMER = ClientCrew("clients2", "clients2-consumers", ("topic-1",), consuming=(0,))
DUE_MS = [50 + 100 * number for number in range(10)]  # of the second of two crews: half a period later
SENT_ROWS = [(0, number, due, due, due + 1) for number, due in enumerate(DUE_MS)]


def test_a_latency_is_of_the_first_delivery_from_when_it_was_due_and_all_is_accounted_for() -> None:
    got = [(0, 1, number, due + 5) for number, due in enumerate(DUE_MS) if number != 3] + [(0, 1, 0, 900), (0, 7, 1, 2)]
    shown = told(True, SENT_ROWS, got, [], CONSUMER)
    assert shown.latency_ns.tolist() == [5 * MS] * 9 and not shown.lateness_ns.any()
    assert shown.requests == [StepSpan("topic-1", "request", 100 * MS, 400 * MS)] and not shown.downtimes
    assert (100 * MS, "topic-1", "migration_count", 1.0) in shown.samples
    account = shown.account
    assert (account.offered_count, account.delivered_count, account.undelivered_count) == (10, 9, 1)
    assert (account.surplus_count, account.duplicated_count, account.foreign_count) == (1, 0, 1)
    fates = shown.fates["topic-1"]
    assert fates.latency_ns.tolist() == [5 * MS] * 3 + [-1] + [5 * MS] * 6
    assert fates.late_count.tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]


def test_a_receipt_of_a_topic_that_is_not_persistent_promises_nothing_but_who_missed_it_did() -> None:
    shown = told(False, SENT_ROWS, [(0, 1, number, due + 5) for number, due in enumerate(DUE_MS[:9])], [], CONSUMER)
    assert (shown.account.unacknowledged_count, shown.account.undelivered_count) == (1, 0)
    assert shown.fates["topic-1"].late_count.tolist() == [0] * 9 + [1]
    samples = {metric: value for _, _, metric, value in shown.samples}
    assert samples["undelivered_count"] == 1 and samples["out_of_order_count"] == 0


def test_who_comes_later_is_owed_what_is_sent_once_it_is_there() -> None:
    crew = CONSUMER._replace(consuming=(), changes=(Change(300 * MS, 0, True),))
    got = [(0, 1, number, DUE_MS[number] + 60) for number in (5, 6, 7, 9)]
    shown = told(True, SENT_ROWS, got, [(0, ABSENT), (0, 540)], crew)
    assert shown.fates["topic-1"].born_ns.tolist() == [DUE_MS[number] * MS for number in range(5, 10)]
    assert shown.fates["topic-1"].late_count.tolist() == [1] * 5 and shown.account.undelivered_count == 1


def test_a_gap_is_told_by_who_wanted_the_topic_all_the_time() -> None:
    got = Got(*(np.array([1, 2]) for _ in range(3)), np.array([100, 900]) * MS)
    move = MOVE._replace(asked_at_ns=200 * MS, answered_at_ns=300 * MS)
    until_ns, none = 5_000 * MS, np.empty(0, np.int64)
    there, left = ([(0, end_ns)] for end_ns in (until_ns, 1_000 * MS))
    later = got._replace(received_ns=np.array([100, 2_500]) * MS)
    for seen, gap_ms in ((later, 2_400.0), (got, 4_100.0)):  # after the last one it lasts to the end
        assert list(gaps(Consumed(seen, Interest(there, none, until_ns)), [move], 0)) == [
            (200 * MS, "a", "delivery_gap_ns", gap_ms * MS)
        ]
    assert not list(gaps(Consumed(got, Interest(left, none, until_ns)), [move], 0))
    soon = list(gaps(Consumed(got, Interest([(0, 1_500 * MS)], none, 1_500 * MS)), [move], 0))
    assert soon[0][3] == 800.0 * MS, "nothing is due after the end, so nothing is missing"


def test_who_stayed_away_counts_until_the_end_and_what_was_before_the_run_does_not() -> None:
    crew = ClientCrew("clients1", "clients1-producers", ("a", "b"), producing=(0, 1))
    topics = [Topic("t", name, "t") for name in crew.topics]
    names = [str(topic) for topic in topics]
    before = closed("00.500", 0) + made("00.600", names[0])
    log = before + closed("01.500", 0) + made("01.540", names[0]) + closed("02.000", 1)
    epoch_ns = downtimes(log, {"producer": names})[0].begin_ns + 500 * MS  # 01.000
    none = SeenByClients(topics, rows(SENT), rows(GOT), rows(SUBSCRIBED))
    assert list(downtimes_of(log, crew, none, epoch_ns, 3_000 * MS)) == [
        ClientDowntime("clients1", "a", Role.PRODUCER, 500 * MS, 540 * MS),
        ClientDowntime("clients1", "b", Role.PRODUCER, 1_000 * MS, 3_000 * MS),
    ]


def test_a_consumer_that_leaves_while_it_is_cut_off_was_cut_off_until_then() -> None:
    crew = ClientCrew("clients1", "x", ("a",), consuming=(0,), changes=(Change(2_000 * MS, 0, False),))
    topics = [Topic("t", "a", "t")]
    log = closed("01.500", 0, "consumer")
    epoch_ns = downtimes(log, {"consumer": ["a"]})[0].begin_ns - 500 * MS
    none = SeenByClients(topics, rows(SENT), rows(GOT), rows(SUBSCRIBED))
    for after in ("", made("09.000", str(topics[0]), "consumer")):  # another one comes, long after that
        assert list(downtimes_of(log + after, crew, none, epoch_ns, 3_000 * MS)) == [
            ClientDowntime("clients1", "a", Role.CONSUMER, 500 * MS, 2_000 * MS)
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


def test_topics_of_one_namespace_have_a_bundle_each() -> None:
    script = PulsarScript("run", ("a", "b", "c"), {}, "store", ServerAt("x", 1), 1, {}, {}, 16, in_one=True)
    assert str(script.topic("a")) == "persistent://run/all/a"
    bundles = script.bundles()
    ends = sorted(tuple(bundles[name].split("_")) for name in script.topics)
    assert ends[0][0] == "0x00000000" and ends[-1][1] == "0xffffffff"
    assert [high for _, high in ends[:-1]] == [low for low, _ in ends[1:]]
    figures = {"msgRateIn": 1.0}
    served = served_in({"run/all": {bundles["b"]: {"persistent": {"persistent://run/all/b": figures}}}}, script)
    assert list(served) == ["b"]


@pytest.mark.parametrize("in_one", [False, True])
def test_steps_are_those_of_the_runs_topics_in_its_time(in_one: bool) -> None:
    script = PulsarScript("run", ("a", "b"), {}, "store", ServerAt("x", 1), 1, {}, {}, 16, in_one=in_one)
    units = {name: f"{script.topic(name).space}/{bundle}" for name, bundle in script.bundles().items()}

    def line(at_ms: int, unit: str) -> str:
        return f"{at_ms} INFO  [main] UnloadManager - Operation ASSIGN for service unit {unit} took 7 ms\n"

    logs = [line(900, units["a"]) + line(1_500, units["b"]), line(1_700, units["a"].replace("run/", "other/"))]
    assert list(logged_steps(logs, script, 1_000 * MS, 1_000 * MS)) == [StepSpan("b", "assign", 493 * MS, 500 * MS)]
