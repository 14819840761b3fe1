"""What becomes of topics when a node of the control plane fails, and of messages when none does."""

from collections.abc import Sequence
from typing import Any

import pytest

from harness.experiment import RunSpec
from harness.run import carried_out, resolve
from studies.api import Journal

SYSTEMS = ("pulsar", "all-pairs", "epulsar")
SESSION_S = 6  # the store's; a session is looked at twice as often
DEAD_S = 12 + 5  # how long a broker may say nothing, and how often clients look


def placed(
    system: str,
    faults: Sequence[dict[str, Any]] = (),
    duration: str = "60s",
    workload: str = "topic-churn",
    load: dict[str, Any] | None = None,
    topology: dict[str, Any] | None = None,
    **options: Any,
) -> Journal:
    """A run over four sites with two candidates for load manager; the clients of a topic are at one site."""
    mine = {"topics": 8, "consumers": 1, "placement": "by-topic", "rate_rps": 10.0, "bound": "40ms"}
    of_workload = {"topic_life": "20s", "topic_gap": "5s", "consumer_life": "forever"}
    spec = RunSpec(
        system=system,
        system_options=options,
        workload=workload,
        workload_options=load if load is not None else {**mine, **(of_workload if workload == "topic-churn" else {})},
        topology="city-mec",
        topology_options=topology or {"managers": 2},
        study="placement",
        study_options={"duration": duration, "faults": list(faults)},
    )
    point = resolve(spec)
    found: Journal = carried_out(point)
    return found


def crash(at: str, node: str) -> dict[str, Any]:
    return {"kind": "crash", "at": at, "node": node}


def restart(at: str, node: str) -> dict[str, Any]:
    return {"kind": "restart", "at": at, "node": node}


def of_topics(journal: Journal, metric: str, since_s: float = 0.0) -> float:
    """The sum of a metric over all topics and windows from ``since_s`` on."""
    rows = journal.tables["topic_windows"]
    return float(sum(rows[metric][rows["at_ns"] >= since_s * 1e9]))


def instants_s(journal: Journal, metric: str) -> list[float]:
    """When a metric was sampled."""
    rows = journal.tables["samples"]
    return [at / 1e9 for at, name in zip(rows["at_ns"], rows["metric"], strict=True) if name == metric]


def spells(journal: Journal) -> list[tuple[str, str, float, float]]:
    """Topic, broker, from, until (s) of all ownership."""
    rows = journal.tables["ownership"]
    columns = (rows[name] for name in ("topic", "broker", "start_ns", "end_ns"))
    return [(topic, broker, start / 1e9, end / 1e9) for topic, broker, start, end in zip(*columns, strict=True)]


@pytest.mark.parametrize("system", SYSTEMS)
def test_calm_migrations_lose_nothing(system: str) -> None:
    load = {"topics": 8, "consumers": 2, "rate_rps": 10.0}
    periodic: dict[str, Any] = {"periodic": "5s", "bound": "10s", **({"bundles": 0} if system == "pulsar" else {})}
    journal = placed(system, duration="30s", workload="static-topics", load=load, **periodic)
    assert len(instants_s(journal, "migration_ns")) >= 30
    assert of_topics(journal, "lost_count") == 0
    assert of_topics(journal, "pair_count") == pytest.approx(8 * 2 * 10 * 30, abs=8 * 2 * 10)


@pytest.mark.parametrize("system", SYSTEMS)
def test_another_manager_is_elected_and_topics_still_move(system: str) -> None:
    bundles: dict[str, Any] = {"bundles": 0} if system == "pulsar" else {}
    load = {"topics": 8, "rate_rps": 10.0}
    faults = [crash("20s", "manager1")]
    journal = placed(system, faults, "50s", "static-topics", load, periodic="5s", bound="10s", **bundles)
    _, second_s = instants_s(journal, "elected_count")
    assert 20 < second_s <= 20 + 1.5 * SESSION_S + 1
    migrations_s = instants_s(journal, "migration_ns")
    assert not [at for at in migrations_s if 21 < at < second_s]
    assert [at for at in migrations_s if at > second_s]
    assert of_topics(journal, "lost_count") == 0


@pytest.mark.parametrize("system", SYSTEMS)
def test_topics_of_a_dead_broker_are_taken_over(system: str) -> None:
    load = {"topics": 8, "rate_rps": 10.0, "placement": "by-topic"}
    journal = placed(system, [crash("20s", "broker2")], "60s", "static-topics", load)
    orphans = {topic for topic, broker, start_s, end_s in spells(journal) if broker == "broker2" and end_s == 20}
    assert orphans
    heirs = {topic: start_s for topic, broker, start_s, _ in spells(journal) if topic in orphans and start_s > 20}
    assert set(heirs) == orphans
    assert max(heirs.values()) <= 20 + DEAD_S + 4  # and an answer or two that did not come
    assert not [broker for _, broker, start_s, _ in spells(journal) if broker == "broker2" and start_s > 20]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_store_that_restarts_empty_is_filled_again(system: str) -> None:
    journal = placed(system, [crash("20s", "store"), restart("30s", "store")])
    last = {topic: end_s for topic, _, _, end_s in sorted(spells(journal), key=lambda spell: spell[3])}
    assert last
    assert set(last.values()) == {60.0}
    assert len(instants_s(journal, "elected_count")) == 2
    calm = placed(system)
    assert of_topics(journal, "pair_count", 36) == of_topics(calm, "pair_count", 36)
    assert of_topics(journal, "lost_count") == 0


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("leader", ["manager1", "manager2"])
def test_clients_find_the_leader_whichever_it_is(system: str, leader: str) -> None:
    """Who asks the others first goes on to the next, and does not come back to the same each time."""
    other = {"manager1": "manager2", "manager2": "manager1"}[leader]
    cloud = ["manager1", "manager2", "store"]
    cut = [{"kind": "partition", "at": "20s", "side": cloud}, {"kind": "heal", "at": "40s", "side": cloud}]
    away = [crash("1s", other), restart("12s", other)]
    journal, calm = placed(system, [*away, *cut], "80s"), placed(system, (), "80s")
    # Topics are elsewhere by then: of what is under way at the span's ends, one or two count in one run alone.
    assert abs(of_topics(journal, "pair_count", 50) - of_topics(calm, "pair_count", 50)) <= 2


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_site_that_was_cut_off_comes_back(system: str) -> None:
    site = ["broker1", "proxy1", *(f"{role}-{topic}-1" for topic in (1, 5) for role in ("producer", "consumer"))]
    cut = [{"kind": "partition", "at": "20s", "side": site}, {"kind": "heal", "at": "45s", "side": site}]
    load = {"topics": 8, "rate_rps": 10.0, "placement": "by-topic"}
    journal = placed(system, cut, "70s", "static-topics", load)
    assert of_topics(journal, "lost_count") == 0
    assert of_topics(journal, "pair_count") == of_topics(placed(system, (), "70s", "static-topics", load), "pair_count")
    owners: dict[str, list[str]] = {}
    for topic, broker, _, end_s in spells(journal):
        if end_s == 70:
            owners.setdefault(topic, []).append(broker)
    assert len(owners) == 8
    assert all(len(of) == 1 for of in owners.values())
