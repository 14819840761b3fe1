"""A quota that brokers of Pulsar share: who publishes where, what is refused, what becomes of rows of clients."""

import numpy as np
import pytest

from core.errors import SpecError
from core.units import SECOND_NS
from studies.quota.asked import Config, QuotaRequest
from studies.quota.live import FIRST, _account, _loads, _messages
from systems.distribution.tb_adaptor import Config as AdaptorConfig
from testbed.servers.pulsar.admin import Topic
from testbed.servers.pulsar.transfers import SeenByClients
from testbed.topologies.topology import load_topology
from testbed.trust.accounts import ABSENT
from workloads.shifting import ShiftingConfig, ShiftingSchedule


def asked(nodes: int = 3, publishers: int = 30, **rule: object) -> QuotaRequest:
    load = ShiftingSchedule(ShiftingConfig(publishers=publishers, rate_rps=2.0, shift_at="5s"), 1)
    topology = load_topology("full-mesh", {"nodes": nodes, "delay": "0ms"})
    return QuotaRequest(topology, load, 1, Config(**{"duration": "10s", **rule}), AdaptorConfig())  # type: ignore[arg-type]


def test_the_first_half_publishes_to_the_first_broker_and_the_others_evenly_to_the_others():
    request = asked(nodes=3, publishers=10)
    assert request.broker_of(np.arange(10, dtype=np.int32)).tolist() == [0] * 5 + [1] * 3 + [2] * 2
    assert asked(nodes=2, publishers=5).broker_of(np.arange(5, dtype=np.int32)).tolist() == [0, 0, 1, 1, 1]


def test_the_adaptor_begins_with_even_parts_beside_the_first_broker():
    request = asked(quota_rps=100, interval="2s")
    config = request.adaptor("topic")
    assert config.period == "2s" and {part.rate_rps for part in config.splits["topic"].values()} == {33.0}
    assert list(config.splits["topic"]) == request.names == ["n1", "n2", "n3"]
    assert request.topology.path("adaptor", "n1").one_way_delay_ns == 0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"interval": "500ms"}, "whole seconds"),
        ({"quota_rps": 9}, "at least 10"),
        ({"sharing": "none"}, "sharing"),
        ({"nodes": 1}, "two at least"),
        ({"nodes": 12, "quota_rps": 11}, "each 1 at least"),
    ],
)
def test_what_cannot_be_shared_is_refused(wrong, says):
    with pytest.raises(SpecError, match=says):
        asked(**wrong)


def seen_of(request: QuotaRequest, epoch_ns: int) -> list[SeenByClients]:
    """Each message is sent 1 ms late, and received and acknowledged 1 ms after that."""
    found = []
    for broker, load in enumerate(_loads(request)):
        number, due = load["message"], load["intended_at_ns"] + epoch_ns
        warm = np.array([7])
        sent = {
            "topic": np.zeros(len(number) + 1, np.int64),
            "message": np.concatenate([warm, number]),
            "intended_at_ns": np.concatenate([warm, due]),
            "sent_at_ns": np.concatenate([warm, due + 1_000_000]),
            "acknowledged_at_ns": np.concatenate([warm, due + 2_000_000]),
        }
        got = {"topic": sent["topic"], "message": sent["message"], "received_at_ns": sent["acknowledged_at_ns"]}
        found.append(SeenByClients([Topic("t", f"n{broker}", "t")], sent, got))
    return found


def test_every_message_of_the_load_has_a_row_and_a_fate():
    request, epoch_ns = asked(), 10**18
    at_ns, publisher, _ = request.schedule.block(0, request.duration_ns).messages()
    seen = seen_of(request, epoch_ns)
    rows = _messages(request, seen, epoch_ns)
    assert rows["intended_at_ns"].tolist() == at_ns.tolist() and rows["publisher"].tolist() == publisher.tolist()
    assert (rows["acknowledged_at_ns"] == at_ns + 2_000_000).all() and (rows["sent_at_ns"] == at_ns + 1_000_000).all()
    told = _account(rows, seen)
    assert told.offered_count == told.delivered_count == len(at_ns) > 400 and not told.surplus_count

    last = seen[2]
    was_sent = np.arange(len(last.sent["message"])) < 10  # its publisher was stopped
    sent = {name: column[was_sent] for name, column in last.sent.items()}
    sent["acknowledged_at_ns"][-1] = ABSENT
    again = {name: np.concatenate([column[was_sent], column[1:4]]) for name, column in last.got.items()}
    again["received_at_ns"][-3:] += SECOND_NS  # delivered twice: the first counts
    cut = [*seen[:2], SeenByClients(last.topics, sent, again)]
    rows = _messages(request, cut, epoch_ns)
    told = _account(rows, cut)
    assert told.accounted_count == told.offered_count and told.surplus_count == 3
    assert told.not_sent_count == len(last.sent["message"]) - 10 and told.delivered_unacknowledged_count == 1
    first = last.sent["message"][1] - FIRST
    assert rows["received_at_ns"][first] == at_ns[first] + 2_000_000
