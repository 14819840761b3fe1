"""One bucket over many brokers: ``ideal`` is that one, ``split`` is SRTM's, and a near store is ideal."""

from typing import Any

import msgspec
import numpy as np
import pytest

from collectors.histogram import bucket_bounds, quantile
from collectors.schema import DESCRIBED
from core.errors import SpecError
from harness.run import asked_of, carried_out, resolve
from studies.distribution.asked import Round
from studies.sharing.rules import SHARINGS
from studies.spec import RunSpec

ROUND = "3s"


def spec_of(system: str = "lb", brokers: int = 4, workload: dict[str, Any] | None = None, **study: Any) -> RunSpec:
    return RunSpec(
        system=system,
        workload="poisson",
        workload_options={"publishers": 100, **(workload or {})},
        topology_options={"brokers": brokers},
        calibration="edge",
        slo="calibrated",
        round=ROUND,
        study="sharing",
        study_options={"envelope": "conformant", **study},
    )


def fresh(spec: RunSpec) -> Round:
    point = resolve(spec)
    study, asked = asked_of(point)
    study.check(point.testbed, asked)
    answer: Any = study.carry_out(point.testbed, asked)
    shown: Round = answer.searched.fresh
    return shown


def mean_ms(counts: np.ndarray) -> float:
    low_ns, high_ns = bucket_bounds()
    return float((counts.sum(0) * (low_ns + high_ns) / 2).sum() / counts.sum() / 1e6)


@pytest.mark.parametrize("workload", [{}, {"group_size": 10}, {"batch": 10}])
def test_ideal_is_one_bucket(workload: dict[str, Any]) -> None:
    """To the last message: with one broker it is the very bucket of SRTM, with more nobody waits longer."""
    ideal, alone = (fresh(spec_of(brokers=1, workload=workload, sharing=name)) for name in ("ideal", "split"))
    assert (ideal.access_delay == alone.access_delay).all() and (ideal.latency == alone.latency).all()
    many = fresh(spec_of(workload=workload, sharing="ideal"))
    assert (many.access_delay.sum(0) == alone.access_delay.sum(0)).all()
    assert mean_ms(fresh(spec_of(workload=workload, sharing="split")).access_delay) > mean_ms(many.access_delay)


def test_brokers_have_as_many_cores_as_they_are_given_whoever_shares() -> None:
    """400 messages a second, of which a core takes 285."""

    def of(sharing: str, *cores: int) -> Round:
        spec = spec_of(brokers=1, workload={"publishers": 40}, sharing=sharing, broker_cores=list(cores))
        return fresh(msgspec.structs.replace(spec, calibration="srtm-hundredth"))

    assert (of("ideal", 1).latency == of("split", 1).latency).all()
    assert mean_ms(of("ideal", 1).latency) > 2 * mean_ms(of("ideal", 2).latency)


@pytest.mark.parametrize("system", ["lb", "srtm"])
def test_split_is_the_study_of_distribution(system: str) -> None:
    """Its tables are equal, on the brokers of the paper."""
    workload = {"publishers": 1_000, "batch": 10, "group_size": 15}
    spec = RunSpec(
        system=system, workload="poisson", workload_options=workload, round=ROUND,
        study_options={"envelope": "conformant", "margin": 1.02},
    )  # fmt: skip
    split = msgspec.structs.replace(spec, study="sharing", study_options={**spec.study_options, "sharing": "split"})
    then, now = (carried_out(resolve(one)) for one in (spec, split))
    for name in ("decisions", "latency_histogram"):
        assert then.tables[name].keys() == now.tables[name].keys()
        for column, values in then.tables[name].items():
            assert list(values) == list(now.tables[name][column])


def test_a_store_without_delay_is_ideal() -> None:
    """In the mean: brokers that ask again are not served in the order in which they began to."""
    workload = {"group_size": 5}
    waited = [
        mean_ms(fresh(spec_of(workload=workload, envelope="poisson-model", sharing=name)).access_delay)
        for name in ("ideal", "central")
    ]
    assert waited[0] > 1 and waited[1] == pytest.approx(waited[0], rel=0.05)


@pytest.mark.parametrize("workload", [{}, {"group_size": 5}, {"batch": 10}])
def test_a_store_without_delay_that_keeps_them_in_line_is_ideal_all_over(workload: dict[str, Any]) -> None:
    """Each quantile within 5 %, where the bucket is overloaded, too."""
    delays = [
        fresh(spec_of(workload=workload, envelope="poisson-model", sharing=name)).access_delay.sum(0)
        for name in ("ideal", "central-fifo")
    ]
    for share in (0.5, 0.9, 0.99, 0.999):
        ideal, store = (quantile(counts, share) for counts in delays)
        assert store == pytest.approx(ideal, rel=0.05, abs=10_000), share
    assert quantile(delays[0], 0.99) > 1_000_000 or not workload


def test_a_far_store_costs_its_round_trip() -> None:
    delay = fresh(spec_of(sharing="central", rtt="20ms")).access_delay.sum(0)
    low_ns, high_ns = bucket_bounds()
    assert delay[high_ns <= 20_000_000].sum() == 0 and delay[low_ns < 21_000_000].sum() > 0.9 * delay.sum()


@pytest.mark.parametrize("workload", [{}, {"batch": 10}])
def test_an_adaptor_that_has_not_spoken_yet_is_split(workload: dict[str, Any]) -> None:
    """To the last message: its brokers' buckets are released as everybody's are, whom nothing changes."""
    split = fresh(spec_of(workload=workload, sharing="split"))
    adaptor = fresh(spec_of(workload=workload, sharing="adaptor", interval="1h"))
    assert (adaptor.access_delay == split.access_delay).all() and (adaptor.latency == split.latency).all()


@pytest.mark.parametrize("name", [name for name in SHARINGS if name != "split"])
def test_of_everybody_who_changes_buckets_it_is_known_what_was_released_too_early(name: str) -> None:
    shown = fresh(spec_of("srtm", sharing=name, rtt="2ms", interval="100ms"))
    assert shown.more["token_debt"].sum() == shown.access_delay.sum() > 0


@pytest.mark.parametrize("name", SHARINGS)
def test_every_sharing_carries_every_message(name: str) -> None:
    """The same messages, on brokers found by the same search; what is told of them is told of all."""
    spec = spec_of("srtm", sharing=name, rtt="2ms", interval="100ms")
    point = resolve(msgspec.structs.replace(spec, keep=("messages",)))
    journal = carried_out(point)
    delays = journal.tables["latency_histogram"]
    (meaning,) = (column.meaning for column in DESCRIBED["latency_histogram"].columns if column.name == "metric")
    assert all(metric in meaning for metric in set(delays["metric"]))
    mine = np.array([metric == "access_delay" for metric in delays["metric"]])
    sent = point.schedule.block(*(100 * 3_000_000_000 + part * 500_000_000 for part in (1, 5)))
    assert np.asarray(delays["count"])[mine].sum() == sent.message_count
    message = np.asarray(journal.tables["messages"]["message"])
    assert len(message) == len(set(message.tolist())) > sent.message_count
    has_talked = name not in ("split", "ideal")
    assert has_talked == ("sent_bytes" in list(journal.tables["samples"]["metric"]))


def test_what_makes_no_sense_is_refused() -> None:
    for study, word in (
        ({"sharing": "lend"}, "lend"),
        ({"sharing": "ideal", "sharing_options": {"lease": "1s"}}, "no options"),
        ({"sharing": "leases", "sharing_options": {"rate": "5"}}, "rate"),
        ({"sharing": "leases", "sharing_options": {"leese": "1s"}}, "leese"),
        ({"sharing": "central", "stamps": "read"}, "stamps"),
        ({"rtt": "3ns"}, "rtt"),
        ({"interval": "0s"}, "interval"),
    ):
        with pytest.raises(SpecError, match=word):
            fresh(spec_of(**study))
