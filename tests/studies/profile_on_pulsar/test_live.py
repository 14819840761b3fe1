"""One broker of a real Pulsar under topics with fan-out: every copy of every message is found again."""

import pytest

from studies.profile.asked import ROLES
from studies.profile_on_pulsar.live import check, run_on
from testbed import load_testbed
from testbed.play import Observer
from testbed.servers.pulsar.cluster import PulsarCluster
from tests.live import needs
from tests.pulsar_cluster import CLIENTS, NETWORK
from tests.studies.profile_on_pulsar.test_study import CONSUMERS, SENT_COUNT, asked

pytestmark = [needs("pulsar", *NETWORK), pytest.mark.long, pytest.mark.slow]


@pytest.mark.parametrize("persistent", [False, pytest.param(True, marks=pytest.mark.night)])
def test_every_consumer_gets_every_message(pulsar_cluster: PulsarCluster, persistent: bool) -> None:
    request = asked(persistent=persistent)
    check(load_testbed("mininet"), request)
    hosts = {role: [CLIENTS] for role in ROLES}
    shown = run_on(pulsar_cluster, request, Observer(pulsar_cluster.site, request.scale_ns), hosts)
    told = {(node, metric): value for _, node, metric, value in shown.samples}
    assert told["broker1", "span_offered_count"] == len(shown.latency_ns) == CONSUMERS * SENT_COUNT
    assert told["broker1", "span_lost_count"] == 0
    assert told["broker1", "span_in_count"] == pytest.approx(SENT_COUNT, abs=8), "one more or less a producer"
    assert told["broker1", "span_out_bytes"] == 200 * told["broker1", "span_out_count"]
    assert told["broker1", "span_cpu_ns"] > 0 and told["clients", "span_cpu_ns"] > 0
    assert shown.latency_ns.min() > 0
    numbers = shown.evidence.fidelity.numbers
    assert numbers["undelivered_count"] == numbers["unacknowledged_count"] == numbers["foreign_count"] == 0
