"""A topic on real brokers in network namespaces: paths are checked before, and cut on purpose."""

import time

import numpy as np
import pytest

from core.units import SECOND_NS
from harness.run import resolve
from studies.distribution.asked import DeploymentConfig
from tests.harness.common import small
from tests.live import needs
from tests.studies.distribution.up import up

pytestmark = [needs("go", "root", "mininet"), pytest.mark.slow]

ROUND_NS = SECOND_NS
PUBLISHERS = 20


def deployed(**options):
    """200 msg/s on two brokers."""
    spec = small(
        testbed="mininet",
        workload_options={"publishers": PUBLISHERS},
        topology_options={"brokers": 2},
        calibration="small",
        slo="calibrated",
        round="1s",
    )
    point = resolve(spec)
    config = DeploymentConfig(profile="5s", **options)
    return up(point, config)


@pytest.mark.parametrize("side", ["publishers2", "subscribers1"])
def test_a_path_that_is_cut_delays_or_loses_and_the_accounts_sum(side):
    cut = {"kind": "partition", "at": "300ms", "side": [side]}
    live = deployed(faults=(cut,))
    both = (np.arange(PUBLISHERS) % 2).astype(np.int32)
    try:
        whole = live.next_round(both, ROUND_NS)
        began_s = time.monotonic()
        live.fresh_round(both, 3 * ROUND_NS)  # a busy machine cuts late, and this must be in its midst
        assert time.monotonic() - began_s < 240
        account = live.findings.account
        assert account.accounted_count == account.offered_count
        assert 0 < account.delivered_count <= account.offered_count
        if side == "publishers2":  # those senders never heard whether their messages arrived
            assert account.delivered_unacknowledged_count + account.unacknowledged_count + account.not_sent_count > 0
        else:  # what a broker has acknowledged comes when the path is there again
            assert account.delivered_count == account.offered_count
        assert account.undelivered_count == account.duplicated_count == 0
        assert whole.latency.sum() > 0 and live.findings.migration_count == PUBLISHERS // 2
        evidence = live.evidence()
        assert len(evidence.paths) > 0 and not any(path.problem for path in evidence.paths)
        assert any(node == "publishers1" for _, node, _, _ in evidence.samples)
    finally:
        live.close()
