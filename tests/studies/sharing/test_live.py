"""A topic's bucket shared by real brokers: who shares sets sub-buckets, and never more than the whole."""

from contextlib import ExitStack
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import pytest

from core.errors import SpecError
from core.units import SECOND_NS
from harness.run import asked_of, check_point, resolve
from studies.sharing.asked import SharingSearch
from studies.sharing.live import SharingDeployment
from studies.spec import RunSpec
from tests.live import needs

pytestmark = [needs("go"), pytest.mark.slow]

PUBLISHERS = 20


def spec_of(sharing: str, **study: Any) -> RunSpec:
    """300 messages a second on two brokers."""
    return RunSpec(
        system="lb",
        workload="poisson",
        workload_options={"publishers": PUBLISHERS, "rate_rps": 15.0},
        topology_options={"brokers": 2},
        testbed="local",
        calibration="small",
        slo="calibrated",
        study="sharing",
        study_options={"envelope": "conformant", "margin": 2.0, "sharing": sharing, "interval": "200ms", **study},
        round="1500ms",
    )


def buckets(deployment: SharingDeployment, metric: str) -> dict[str, float]:
    """The last that each broker was given."""
    return {node: value for _, node, name, value in deployment.samples if name == metric}


def looks(deployment: SharingDeployment, broker: str) -> list[float]:
    """All rates that a broker was given."""
    return [value for _, node, name, value in deployment.samples if (node, name) == (broker, "bucket_rate_rps")]


def test_sub_buckets_follow_what_brokers_are_sent() -> None:
    """Four fifths of the publishers are on the first broker."""
    point = resolve(spec_of("leases"))
    _, asked = asked_of(point)
    assert isinstance(asked, SharingSearch)
    uneven = (np.arange(PUBLISHERS) >= PUBLISHERS * 4 // 5).astype(np.int32)
    with ExitStack() as stack:
        site = stack.enter_context(point.testbed.site(asked.topology, asked.seed))
        deployment = SharingDeployment(site, asked)
        stack.callback(deployment.close)
        for way in ("leases", "throttler", "adaptor"):
            deployment.asked = replace(asked, rule=replace(asked.rule, sharing=way))
            found = deployment.fresh_round(uneven, 4 * SECOND_NS)
            rates, bursts = (buckets(deployment, f"bucket_{name}") for name in ("rate_rps", "burst_count"))
            assert set(rates) == set(bursts) == {"broker1", "broker2"}, way
            # While the machine stands still neither is sent anything: the median of the later half is asked for.
            given = [looks(deployment, broker) for broker in ("broker1", "broker2")]
            first, second = (median(its[len(its) // 2 :]) for its in given)
            assert first > 1.3 * second, f"{way}: four times as much is sent to the first"
            # Leases are exact at any time; of a flow, or of the last split, one end knows before the other.
            all_rps, most = (sum(rates.values()), 1.001) if way == "leases" else (first + second, 1.1)
            assert all_rps <= most * found.envelope.rate_rps, way
            assert found.access_delay.sum() == found.latency.sum() > 200
            assert sum(value for _, _, metric, value in deployment.samples if metric == "sent_bytes") > 0
        numbers = deployment.evidence().fidelity.numbers
    assert numbers["delivered_count"] == numbers["offered_count"] > 1_000


def test_what_real_brokers_do_not_do_is_refused() -> None:
    for spec, word in (
        (spec_of("ideal"), "see one bucket at once"),
        (spec_of("counter"), "ask nobody"),
        (spec_of("central"), "ask nobody"),
        (spec_of("leases", rtt="2ms"), "rtt"),
        (spec_of("leases", placed_on="sharing"), "placed_on"),
        (spec_of("throttler", interval="1ms"), "interval"),
    ):
        with pytest.raises(SpecError, match=word):
            check_point(resolve(spec))
    check_point(resolve(spec_of("split")))
