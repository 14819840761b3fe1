"""What needs no network: settings of paths, rules, tc lines, the kernel's messages, verdicts on measures."""

import os
import random
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import LinkError, MachineError, SpecError
from core.units import MILLISECOND_NS, SECOND_NS
from studies.links.asked import Measuring
from studies.links.live import run
from testbed import load_testbed
from testbed.hosts.mininet import delayer, netlink
from testbed.hosts.mininet.network import is_tree
from testbed.hosts.mininet.rules import rules_text
from testbed.hosts.mininet.shaping import host_lines, link_lines, netem_words
from testbed.hosts.site import PathMeasure
from testbed.links import PathState
from testbed.topologies.topology import SWITCH, Host, Link, Topology, load_topology
from testbed.trust.link_check import is_likely, problem_of, raise_problems
from tests.live import needs

MS = MILLISECOND_NS


def packet(queue: int, packet_id: int, attributes: list[tuple[int, bytes]]) -> bytes:
    """A message as the kernel sends it."""
    body = struct.pack(">BBH", 2, 0, queue)
    for kind, value in [(1, struct.pack(">IHB", packet_id, 0x0800, 0)), *attributes]:
        body += struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
    return struct.pack("=IHHII", 16 + len(body), netlink.PACKET, 0, 0, 0) + body


@given(st.lists(st.tuples(st.sampled_from([3, 5, 8, 13, 14]), st.binary(max_size=12)), max_size=4), st.booleans())
def test_stamps_are_found_wherever_they_are(others: list[tuple[int, bytes]], stamped: bool) -> None:
    stamps = netlink.Stamps()
    stamp = (netlink.ATTRIBUTE_TIMESTAMP, struct.pack(">QQ", 1_700_000_000, 123_456))
    for _ in range(3):
        random.Random(len(others)).shuffle(others)
        shown = [*others, stamp] if stamped else others
        message = packet(7, 99, [*shown, (netlink.ATTRIBUTE_PAYLOAD, bytes(range(20)))])
        assert stamps.arrived_at_ns(message) == (1_700_000_000_123_456_000 if stamped else 0)
        assert netlink.is_packet(message)
        assert message[netlink.QUEUE_AT : netlink.QUEUE_AT + 2] == b"\0\7"
        assert message[netlink.ID_AT : netlink.ID_AT + 4] == b"\0\0\0\x63"
        at = netlink.attribute_at(message, netlink.ATTRIBUTE_PAYLOAD)
        assert message[at : at + 20] == bytes(range(20)) == message[-20:]


def test_verdicts_are_32_bytes_with_the_id_at_the_end() -> None:
    verdict = netlink.verdict_prefix(513, netlink.ACCEPT) + b"\0\0\1\2"
    assert len(verdict) == 32 == struct.unpack_from("=I", verdict)[0]
    assert verdict[18:20] == b"\2\1" and verdict[24:32] == b"\0\0\0\1\0\0\1\2"


def test_trees_have_bridges_of_their_own() -> None:
    assert [name for name in ("srtm-lan", "star", "full-mesh", "wan", "dumbbell", "tree") if _is_tree(name)] == [
        *("srtm-lan", "dumbbell", "tree"),
    ]
    hosts = (Host("a"), Host("b"), Host("s", role=SWITCH), Host("t", role=SWITCH))
    links = (Link("a", "s"), Link("b", "t"), Link("s", "t"))
    assert is_tree(Topology("t", hosts, links))
    assert not is_tree(Topology("t", hosts, (*links, Link("a", "t"))))


def _is_tree(name: str) -> bool:
    return is_tree(load_topology(name))


def test_rules_lead_to_queues_or_nowhere() -> None:
    text = rules_text("h1-eth0", [("10.0.0.2", 2), ("10.0.0.3", 3)], ["10.0.0.4"])
    assert text.splitlines() == [
        "*mangle",
        ":PREROUTING ACCEPT [0:0]",
        "-A PREROUTING -i h1-eth0 -s 10.0.0.4 -j DROP",
        "-A PREROUTING -i h1-eth0 -s 10.0.0.2 -j NFQUEUE --queue-num 2",
        "-A PREROUTING -i h1-eth0 -s 10.0.0.3 -j NFQUEUE --queue-num 3",
        "COMMIT",
    ]


def test_netem_is_told_all_of_a_path() -> None:
    path = PathState(5 * MS, (MS, 500_000), 0.875, (0.5, 0.5))
    words = netem_words(path)
    assert words == "limit 100000 delay 5000.000us 1500.000us loss 12.500000% duplicate 75.000000%"
    assert netem_words(PathState(MS)) == "limit 100000 delay 1000.000us"
    assert "loss 100.000000%" in netem_words(replace(path, is_cut=True))
    with pytest.raises(MachineError, match="hold packets back"):
        netem_words(replace(path, reorderings=((0.1, MS),)))


def test_rates_beyond_namespaces_are_none() -> None:
    assert link_lines("x", None) == link_lines("x", 40 * 10**9) == []
    (line,) = link_lines("x", 10**9)
    assert line == "qdisc replace dev x root tbf rate 1000000000bit burst 500000 limit 6750000"
    targets = {"10.0.0.2": PathState(MS)}
    assert host_lines("x", targets, 40 * 10**9, netem=False) == []
    assert host_lines("x", targets, 10**9, netem=False) == [line]


def test_targets_share_the_rate_of_a_link_with_netem() -> None:
    targets = {f"10.0.0.{i}": PathState(10 * MS, rates_bps=(10**6,) if i == 4 else ()) for i in range(2, 5)}
    lines = host_lines("x", targets, 9 * 10**6, netem=True)
    assert [line.partition(" htb ")[2] for line in lines if line.startswith("class")] == [
        "rate 9000000bit quantum 60000",
        *["rate 3000000bit ceil 9000000bit quantum 60000"] * 2,
        "rate 1000000bit ceil 1000000bit quantum 60000",
    ]
    limits = [int(line.split(" limit ")[1].split()[0]) for line in lines if " netem " in line]
    assert limits == [175 + 100, 175 + 100, 19 + 100], "10 ms in packets of 64 bytes, and 150 kB of full ones"
    assert "limit 100000 " in "".join(host_lines("x", targets, netem=True)), "nothing waits where nothing limits"


@needs("root", "namespaces")
@pytest.mark.parametrize("netem", [False, True])
def test_the_kernel_takes_classes_and_filters(netem: bool) -> None:
    """Netem's own lines only where there is netem; the classes and filters around them everywhere."""
    targets = {f"10.0.0.{i}": PathState(i * MS, rates_bps=(i * 10**6,) if i % 2 else ()) for i in range(2, 30)}
    root, *lines = host_lines("lo", targets, netem=netem)
    lines = [root, *lines, *lines]  # they may change
    if netem:
        assert sum(" netem " in line for line in lines) == 2 * len(targets)
        lines = [line for line in lines if " netem " not in line]
    text = "\n".join([*lines, "class show dev lo", "filter show dev lo"]) + "\n"
    done = subprocess.run(["unshare", "-n", "tc", "-batch", "-"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("class htb 1:") == 29 and done.stdout.count("flowid 1:") == 28
    assert "rate 3Mbit" in done.stdout and "match 0a000003/ffffffff" in done.stdout


def test_measures_are_judged_by_median_and_loss() -> None:
    def problem(median_ns: int | None, jitter_ns: int = 0, lost: int = 0, loss: float = 0.0) -> str:
        return problem_of(20 * MS, jitter_ns, loss, median_ns, 200, lost)

    assert problem(20 * MS + 499_000) == problem(20 * MS - 499_000) == ""
    assert "median delay 20.60 ms, wanted 20.00 ms" in problem(20_600_000)
    assert "median" in problem(19_400_000) and "median" in problem(0)
    assert problem(21 * MS, jitter_ns=10 * MS) == "" and "median" in problem(26 * MS, jitter_ns=10 * MS)
    assert "all 200 messages are lost" in problem(None, lost=200)
    assert problem(None, lost=200, loss=1.0) == ""
    assert "1 of 200" in problem(20 * MS, lost=1) and "0 of 200" in problem(20 * MS, lost=0, loss=0.3)
    assert problem(20 * MS, lost=10, loss=0.05) == problem(20 * MS, lost=20, loss=0.05) == ""
    assert "lost" in problem(20 * MS, lost=40, loss=0.05)
    assert problem_of(MS, 0, 0.0, None, 0, 0)  # its other direction let nothing through


@given(st.integers(1, 200), st.floats(0, 1), st.integers(0, 2**32))
def test_a_sound_path_is_not_blamed_for_its_loss(sent: int, loss: float, seed: int) -> None:
    draw = random.Random(seed).random
    assert is_likely(sum(draw() < loss for _ in range(sent)), sent, loss)


def test_a_link_error_names_the_paths() -> None:
    measures = [PathMeasure("a", f"b{i}", MS, 0, 0.0, 9, 9, problem="all lost") for i in range(10)]
    raise_problems([replace(measures[0], problem="")])
    with pytest.raises(LinkError, match=r"a to b0: all lost; a to b1.* and 2 more") as found:
        raise_problems(measures)
    assert not found.value.paths, "of paths that let nothing through, nothing was measured"
    slow = [PathMeasure("a", "b", MS, 9 * MS, 0.0, 1, 9, problem="median delay 9.00 ms, wanted 1.00 ms")]
    with pytest.raises(LinkError) as found:
        raise_problems(slow)
    assert list(found.value.paths) == slow


def test_links_that_are_only_measured_may_be_off(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = [PathMeasure("a", "b", MS, 9 * MS, 0.0, 1, 9, problem="median delay 9.00 ms, wanted 1.00 ms")]

    class Site:
        folder = Path("/nowhere")
        notes = ()
        counters = staticmethod(lambda: [])
        verify = staticmethod(lambda: raise_problems(slow))
        close = staticmethod(lambda: None)
        explained = staticmethod(lambda error: error)

    evidence = run(Site(), Measuring(load_topology("star"), 1))
    assert list(evidence.paths) == slow and evidence.fidelity.validity == "degraded"
    assert "median delay 9.00 ms" in evidence.fidelity.reasons[0]


def test_who_delays_is_an_option_of_mininet() -> None:
    topology, mininet = load_topology("star"), load_testbed("mininet")
    assert mininet.with_options({"delays": "user-space"}, topology).options == {"delays": "user-space"}
    with pytest.raises(SpecError, match="netem"):
        mininet.with_options({"delays": "magic"}, topology)
    with pytest.raises(SpecError, match=r"no option 'delay'.*delays"):
        mininet.with_options({"delay": "netem"}, topology)


@given(st.lists(st.integers(0, SECOND_NS // 4), min_size=1))
def test_the_delayer_tells_how_late_each_packet_was_to_a_bucket(late_ns: list[int]) -> None:
    with open(os.devnull) as nothing, mock.patch.object(delayer.sys, "stdin", nothing):
        told = delayer.Delayer()
    for one in late_ns:
        told.lateness[one >> delayer.LATENESS_STEP_BITS] += 1
    rows = told.stats(reset=True)["lateness"]
    for late, exact in zip(np.repeat(*zip(*rows, strict=True)), sorted(late_ns), strict=True):
        assert abs(late - exact) <= 1 << delayer.LATENESS_STEP_BITS
    assert told.stats()["lateness"] == []
