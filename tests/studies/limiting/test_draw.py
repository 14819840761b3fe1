"""The option ``draw`` of the study for requests: other randomness of the nodes, the same requests."""

import pytest

from core.errors import SpecError
from harness.experiment import RunSpec
from harness.run import carried_out, resolve


def journal(**options):
    spec = RunSpec(
        system="crdt-counter", workload="data-set", workload_options={"set": "B-barely"}, topology="full-mesh",
        topology_options={"nodes": 4, "delay": "0ms"}, study="limiting",
        study_options={"duration": "20s", **options}, system_options={"capacity": 20, "body": "literal"},
    )  # fmt: skip
    point = resolve(spec)
    return carried_out(point).tables


def offered(tables):
    rows = tables["requests"]
    return [rows[name] for name in ("request_id", "node", "user", "intended_at_ns")]


def test_draw_0_is_no_draw_and_another_one_changes_the_gossip_alone():
    plain, zero, one = journal(), journal(draw=0), journal(draw=1)
    assert plain == zero != one
    assert offered(plain) == offered(one)


def test_a_negative_draw_is_refused():
    with pytest.raises(SpecError, match="draw"):
        journal(draw=-1)
