"""A quota on three brokers of a real Pulsar, in namespaces: its own resource group, even parts, TB Adaptor."""

from typing import Any

import numpy as np
import pytest

from core.units import SECOND_NS
from studies.quota.asked import ADAPTED, GROUP, SPLIT, Config, QuotaRequest
from studies.quota.live import SCALE_NS, check, run_on
from systems.distribution.tb_adaptor import Config as AdaptorConfig
from testbed import load_testbed
from testbed.play import Observer
from testbed.servers.pulsar.cluster import PulsarCluster
from tests.live import needs
from tests.pulsar_cluster import NETWORK, placed_topology
from workloads.shifting import ShiftingConfig, ShiftingSchedule

QUOTA_RPS = 120
PART_RPS = QUOTA_RPS / 3
LONG_S = {
    GROUP: 15,
    SPLIT: 8,
    ADAPTED: 10,
}  # a group takes its time: at first some broker may be granted nearly nothing
LAST_S = 4

pytestmark = [needs("pulsar", *NETWORK), pytest.mark.long, pytest.mark.slow]


@pytest.mark.parametrize("sharing", [GROUP, ADAPTED, pytest.param(SPLIT, marks=pytest.mark.night)])
def test_an_uneven_load_within_the_quota_is_granted_where_parts_follow_it(
    pulsar_cluster: PulsarCluster, sharing: str
) -> None:
    """Of 0.9 of the quota four fifths go to one broker: twice its even part."""
    load = ShiftingSchedule(
        ShiftingConfig(publishers=12, rate_rps=0.9 * QUOTA_RPS / 12, share_before=0.8, share_after=0.8), 1
    )
    rule = Config(sharing, QUOTA_RPS, duration=f"{LONG_S[sharing]}s")
    asked = QuotaRequest(placed_topology(), load, 1, rule, AdaptorConfig(window="2s"))
    check(load_testbed("mininet"), asked)
    shown = run_on(pulsar_cluster, asked, Observer(pulsar_cluster.site, SCALE_NS))
    rows: Any = shown.messages
    assert not np.ma.getmaskarray(rows["acknowledged_at_ns"]).any(), "in the end nothing is limited"
    assert shown.evidence.fidelity.numbers["undelivered_count"] == 0
    at_s = rows["acknowledged_at_ns"] / SECOND_NS
    taken_late = np.count_nonzero((rows["broker"] == 0) & (at_s > LONG_S[sharing] - LAST_S) & (at_s < LONG_S[sharing]))
    assert (taken_late > 1.5 * PART_RPS * LAST_S) == (sharing != SPLIT)
    limits = [value for _, node, metric, value in shown.samples if metric == "bucket_rate_rps" and node == "broker1"]
    assert (max(limits, default=0) > 1.5 * PART_RPS) == (sharing == ADAPTED)
