"""Bytes, processor time and memory of a load: a history of counters written by hand, and Spark against the twin."""

import numpy as np
import pytest

pytest.importorskip("pyspark")

from analysis import costs
from analysis.tables import collect
from collectors.rows import sorted_out
from tests.analysis import deployed_twins as twins

pytestmark = pytest.mark.slow

SECOND_NS = 1_000_000_000


@pytest.fixture
def tables(frame_of):
    """Frames of ``samples``, ``network`` and ``processes`` from (run, at, node, metric, value), in seconds."""

    def build(rows):
        found = {name: {"run_id": []} for name in ("samples", "network", "processes")}
        for run in dict.fromkeys(row[0] for row in rows):
            mine = [(round(at * SECOND_NS), *rest) for its, at, *rest in rows if its == run]
            for table, columns in sorted_out(mine).items():
                columns["run_id"] = [run] * len(columns["at_ns"])
                length = len(found[table]["run_id"])
                for name in {*found[table], *columns}:
                    added = columns.get(name, [None] * len(columns["at_ns"]))
                    found[table].setdefault(name, [None] * length).extend(added)
        return {name: frame_of(name, columns) for name, columns in found.items()}

    return build


def marks(run, from_s=-0.1, until_s=10.3):
    return [(run, at, "", f"counted_{end}_ns", at * SECOND_NS) for end, at in (("from", from_s), ("until", until_s))]


def interface(run, at, host, sent_bytes, sent_count):
    """What a probe reads of a host's network."""
    return [
        (run, at, host, "interface_received_bytes", 7e6),
        (run, at, host, "interface_sent_bytes", sent_bytes),
        (run, at, host, "interface_sent_count", sent_count),
        (run, at, host, "loopback_sent_bytes", 9e9),
        (run, at, host, "udp_sent_count", 3.0),
    ]


def process(run, at, name, cpu_s, rss):
    return [(run, at, name, "cpu_ns", cpu_s * SECOND_NS), (run, at, name, "rss_bytes", rss)]


def wire_of(frames):
    return collect(costs.wire(frames["samples"], frames["network"]), ["run_id"]).to_dict("records")


def test_the_load_s_bytes_alone_are_counted_and_each_once(tables):
    rows = marks("a")
    rows += interface("a", -5, "h1", 100_000, 900)  # set-up
    rows += interface("a", -0.1, "h1", 150_000, 1_000) + interface("a", -0.1, "h2", 20_000, 50)
    rows += interface("a", 5, "h1", 150_700, 1_007) + interface("a", 10.3, "h1", 151_000, 1_010)
    rows += interface("a", 10.3, "h2", 20_500, 55)
    rows += interface("a", 60, "h1", 999_000, 9_000)  # what is gossiped in the drain
    for at in (-0.1, 10.3):
        rows += interface("a", at, "machine", at * 1e9, at * 1e6)  # everything else that this machine does
    # The testbed's own counters are read when all is over, and stamped with the load's end.
    rows += [("a", 10, "h1", "interface_sent_bytes", 5e6), ("a", 10, "h1", "received_packet_count", 4e3)]
    frames = tables(rows)
    assert wire_of(frames) == [{"run_id": "a", "wire_bytes": 1_500, "wire_packet_count": 15}]


def test_a_host_whose_interface_carried_nothing_before_counts_from_zero(tables):
    rows = marks("a") + interface("a", 3, "h1", 400, 4) + interface("a", 10.3, "h1", 600, 6)
    rows += [("a", -0.1, "h1", "udp_sent_count", 0.0)]
    assert wire_of(tables(rows)) == [{"run_id": "a", "wire_bytes": 600, "wire_packet_count": 6}]


def test_counters_that_are_read_once_a_second_elsewhere_count_from_the_read_before(tables):
    rows = marks("a")
    for at, sent in ((-1.5, 10), (-0.5, 20), (0.5, 120), (9.5, 1_000), (10.5, 1_010)):
        rows += interface("a", at, "far", sent, sent)
    assert wire_of(tables(rows)) == [{"run_id": "a", "wire_bytes": 980, "wire_packet_count": 980}]


def of_processes(rows):
    return [(run, 0, name, f"{kind}_process_count", 1.0) for run, kind, name in rows]


def test_servers_and_nodes_are_told_apart_and_helpers_left_out(tables):
    names = {"node-n1": "node", "node-n2": "node", "redis-n1": "server"}
    rows = marks("a") + of_processes([("a", kind, name) for name, kind in names.items()])
    for name in (*names, "users-n1", "delayer", "harness"):
        rows += (
            process("a", -0.1, name, 1.0, 50e6) + process("a", 4, name, 1.2, 70e6) + process("a", 10.3, name, 1.5, 60e6)
        )
        rows += process("a", 30, name, 9.0, 900e6)
    frames = tables(rows)
    found = collect(costs.by_process(frames["samples"], frames["processes"]), ["run_id", "node"])
    assert dict(zip(found.node, found.kind, strict=True)) == names
    assert set(found.cpu_ns) == {SECOND_NS // 2} and set(found.rss_peak_bytes) == {70_000_000}


def test_a_server_that_was_started_again_has_two_lives(tables):
    rows = marks("a") + of_processes([("a", "server", "redis-n1"), ("a", "node", "node-n1.1")])
    for at, cpu in ((-0.1, 5.0), (3, 6.0), (6, 0.25), (10.3, 0.75)):  # killed and restarted after 3 s
        rows += process("a", at, "redis-n1", cpu, 1e6)
    rows += process("a", 7, "node-n1.1", 0.5, 1e6) + process("a", 10.3, "node-n1.1", 0.75, 1e6)
    frames = tables(rows)
    found = collect(costs.by_process(frames["samples"], frames["processes"]), ["run_id", "node"])
    assert list(found.node) == ["node-n1.1", "redis-n1"]
    assert list(found.cpu_ns) == [0.75 * SECOND_NS, (1.0 + 0.75) * SECOND_NS]


def test_costs_a_request(tables, frame_of):
    rows = marks("a") + marks("local") + of_processes([("a", "server", "redis-n1"), ("a", "node", "node-n1")])
    rows += of_processes([("a", "node", "node-n2"), ("local", "node", "node-n1")])
    for run in ("a", "local"):
        for at, cpu, name in ((-0.1, 1.0, "node-n1"), (10.3, 1.5, "node-n1")):
            rows += process(run, at, name, cpu, 10e6)
    for at, cpu in ((-0.1, 2.0), (10.3, 3.0)):
        rows += process("a", at, "redis-n1", cpu, 30e6) + process("a", at, "node-n2", cpu, 20e6)
    rows += interface("a", -0.1, "h1", 1_000, 10) + interface("a", 10.3, "h1", 5_000, 30)
    rows += interface("local", -0.1, "machine", 1_000, 10) + interface("local", 10.3, "machine", 5_000, 30)
    rows += [("virtual", 10, "", "load_end_ns", 1e10)]
    requests = frame_of("requests", {"run_id": ["a"] * 8 + ["local"] * 2 + ["virtual"] * 2})
    frames = tables(rows)
    found = collect(costs.costs(requests, *(frames[name] for name in ("samples", "network", "processes"))), ["run_id"])
    assert list(found.run_id) == ["a", "local"]
    one, local = found.to_dict("records")
    assert one == {
        "run_id": "a",
        "offered_count": 8,
        "wire_bytes": 4_000,
        "wire_packet_count": 20,
        "node_process_count": 2,
        "node_cpu_ns": 1.5 * SECOND_NS,
        "node_rss_peak_bytes": 20_000_000,
        "server_process_count": 1,
        "server_cpu_ns": SECOND_NS,
        "server_rss_peak_bytes": 30_000_000,
        "wire_bytes_per_request": 500.0,
        "node_cpu_ns_per_request": 1.5 * SECOND_NS / 8,
        "server_cpu_ns_per_request": SECOND_NS / 8,
    }
    unknown = ("wire_bytes", "wire_bytes_per_request", "server_cpu_ns", "server_cpu_ns_per_request")
    assert all(np.isnan(local[name]) for name in unknown) and local["node_cpu_ns_per_request"] == SECOND_NS / 4


def test_growth_is_that_of_the_twin(tables):
    rng = np.random.default_rng(4)
    rows, wanted = [], {}
    for run in ("a", "b", "c"):
        from_s, until_s = float(rng.integers(0, 5)), float(rng.integers(8, 20))
        rows += marks(run, from_s, until_s) + of_processes([(run, "server", name) for name in ("x", "y")])
        for name in ("x", "y"):
            value, readings = 0, []
            for at in sorted(rng.choice(np.arange(-40, 100), 40, replace=False) / 4):
                value = int(rng.integers(0, 50)) if rng.random() < 0.1 else value + int(rng.integers(0, 200))
                readings.append((at, value))
                rows += [(run, at, name, "cpu_ns", float(value)), (run, at, name, "rss_bytes", 1.0)]
            wanted[run, name] = twins.grown(readings, from_s, until_s)
    frames = tables([rows[i] for i in rng.permutation(len(rows))])
    found = collect(costs.by_process(frames["samples"], frames["processes"]), ["run_id", "node"])
    assert {(row.run_id, row.node): row.cpu_ns for row in found.itertuples()} == wanted
