"""Topics that come and go: who is admitted, what is counted, and that nothing hangs on how it is asked."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from core.errors import SpecError
from core.units import SECOND_NS
from harness.run import asked_of, carried_out, resolve
from studies.spec import RunSpec
from studies.topics.asked import Churned, Churning
from testbed.virtual.cluster import TopicCluster

DURATION_S = 200


def spec_of(system: str = "lb", rate_rps: float = 5.0, seed: int = 5, **study: Any) -> RunSpec:
    told = {"gap": "20s", "life": "60s", "duration": f"{DURATION_S}s", "margin": 1.5, "profile": "20s"}
    return RunSpec(
        system=system,
        workload="poisson",
        workload_options={"rate_rps": rate_rps},
        topology_options={"brokers": 3},
        calibration="srtm-hundredth",
        slo="calibrated",
        round="2s",
        study="topics",
        seed=seed,
        study_options={**told, **study},
    )


def asked(spec: RunSpec) -> Churning:
    found: Any = asked_of(resolve(spec))[1]
    assert isinstance(found, Churning)
    return found


def shown(spec: RunSpec) -> Churned:
    point = resolve(spec)
    study, wanted = asked_of(point)
    study.check(point.testbed, wanted)
    found: Any = study.carry_out(point.testbed, wanted)
    assert isinstance(found, Churned)
    return found


@pytest.mark.parametrize("system", ["lb", "srtm"])
def test_counts_and_spans_add_up(system: str) -> None:
    spec = spec_of(system)
    wanted, found, tables = asked(spec), shown(spec), carried_out(resolve(spec)).tables
    end_ns = DURATION_S * SECOND_NS
    sent = 0
    for stay in found.stays:
        assert stay.admitted_ns is not None and stay.admitted_ns >= stay.looked_at_ns >= stay.topic.arrives_ns
        assert stay.left_ns == stay.admitted_ns + stay.topic.life_ns
        ends_ns = max(stay.admitted_ns, min(stay.left_ns, end_ns))
        sent += stay.topic.schedule.block(stay.admitted_ns, ends_ns).message_count
    assert found.message_count.sum() == found.latency.sum() == found.broker_latency.sum() == sent > 10_000
    assert sum(tables["topic_windows"]["message_count"]) == sum(tables["topic_latency"]["count"]) == sent
    assert len(found.stays) == len(wanted.topics) == tables["clients"]["kind"].count("joined")
    owned = tables["ownership"]
    assert {start for start in owned["start_ns"]} == {stay.admitted_ns for stay in found.stays}
    assert max(owned["end_ns"]) <= end_ns
    kinds = tables["decisions"]["kind"]
    assert kinds.count("final") == 3 * len(found.stays) and (kinds.count("trial") > 0) == (system == "srtm")


def test_searches_take_turns_and_last_their_rounds() -> None:
    stays = shown(spec_of("srtm", gap="4s")).stays
    for before, after in pairwise(stays):
        done_ns = before.looked_at_ns if before.admitted_ns is None else before.admitted_ns
        assert after.looked_at_ns == max(after.topic.arrives_ns, done_ns)
        if after.search is not None and after.admitted_ns is not None:
            assert after.admitted_ns - after.looked_at_ns == 2 * SECOND_NS * len(after.search.rounds)


def test_a_topic_without_room_is_refused_and_sends_nothing() -> None:
    spec = spec_of(gap="8s", life="1000s")
    found = shown(spec)
    refused = [number for number, stay in enumerate(found.stays) if stay.admitted_ns is None]
    assert refused and found.message_count[refused].sum() == 0
    books = 0.0
    for number, stay in enumerate(found.stays):
        rate_rps = stay.topic.schedule.population.total_rps
        gone = sum(
            one.topic.schedule.population.total_rps
            for one in found.stays[:number]
            if one.admitted_ns is not None and one.left_ns <= stay.looked_at_ns
        )
        assert (number in refused) == (books - gone + rate_rps > 1_500 + 1e-6)
        books += 0.0 if number in refused else rate_rps


def test_a_bucket_that_cannot_be_split_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from core.records import Envelope
    from studies.topics.newcomer import Newcomer

    monkeypatch.setattr(Newcomer, "envelope_for", lambda *_: Envelope(500.0, 2.0))
    assert all(stay.admitted_ns is None for stay in shown(spec_of()).stays)
    assert all(stay.admitted_ns is not None for stay in shown(spec_of(sharing="store")).stays)


def test_sooner_and_longer_are_the_same_draws() -> None:
    """So that loads are paired: the same topics, at times in proportion."""
    one, two = (asked(spec_of(gap=gap, life=life)).topics for gap, life in (("20s", "60s"), ("10s", "30s")))
    for a, b in zip(one, two, strict=False):
        assert a.arrives_ns == pytest.approx(2 * b.arrives_ns, abs=200) and a.life_ns == pytest.approx(
            2 * b.life_ns, abs=2
        )
        assert (a.slo_ns, a.schedule.population.count, a.seed) == (b.slo_ns, b.schedule.population.count, b.seed)
        assert a.schedule.block(0, SECOND_NS).at_ns.tolist() == b.schedule.block(0, SECOND_NS).at_ns.tolist()


@pytest.mark.parametrize("kind", ["exponential", "log-normal"])
def test_gaps_and_lives_have_their_means(kind: str) -> None:
    topics = asked(spec_of(gap="200ms", life="60s", life_kind=kind, publishers=(1,), slos=("100ms", "200ms"))).topics
    assert len(topics) == pytest.approx(1_000, rel=0.1)
    assert np.mean([topic.life_ns for topic in topics]) == pytest.approx(60 * SECOND_NS, rel=0.1)
    assert 0.45 < np.mean([topic.slo_ns == 100_000_000 for topic in topics]) < 0.55


def test_a_store_takes_the_penalty_of_spreading_away_and_costs_a_single_broker_nothing() -> None:
    split, store = (shown(spec_of(sharing=sharing, group_sizes=(1,))) for sharing in ("split", "store"))
    assert store.late_count.sum() < split.late_count.sum() / 4
    alone = [shown(spec_of("conc", sharing=sharing, publishers=(10,))) for sharing in ("split", "store")]
    assert (alone[0].latency == alone[1].latency).all()
    assert all(len(np.unique(stay.assignment)) == 1 for stay in alone[0].stays)


def test_residents_bear_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried sends its messages to the brokers at which residents are."""
    spec = spec_of("conc", gap="10s", duration="100s")
    first = shown(spec)
    monkeypatch.setattr(TopicCluster, "measure", _beside_nobody)
    second = shown(spec)
    assert first.message_count.sum() == second.message_count.sum() and (first.latency != second.latency).any()


def _beside_nobody(cluster: TopicCluster, topic: int, until_ns: int, from_ns: int, before_ns: int) -> Any:
    from testbed.brokers.counts import Counts

    tried = cluster.placed.pop(topic)
    cluster.advance(until_ns)
    cluster.placed[topic] = tried
    return Counts(*np.zeros((2, 3, cluster.latency.shape[1]), np.int64), np.zeros(3, np.int64))


def test_what_makes_no_sense_is_refused() -> None:
    for spec, word in (
        (spec_of(sharing="central"), "sharing"),
        (spec_of(life_kind="fixed"), "life_kind"),
        (spec_of(gap="0s"), "gap"),
        (spec_of(gap="1ms"), "topics may be expected"),
        (spec_of(window="10us"), "topics = .* times windows = "),
        (spec_of(publishers=()), "at least one of each"),
        (spec_of(slos=("0s",)), "slos"),
        (spec_of(envelope="conformant"), "envelope"),
        (spec_of(initial_loads_rps=(1.0, 2.0, 3.0)), "initial_loads_rps"),
        (spec_of(stamps="read"), "stamps"),
        (spec_of("tb-adaptor"), "is not for the study topics"),
    ):
        with pytest.raises(SpecError, match=word):
            shown(spec)
