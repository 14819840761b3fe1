"""What the observations of a live run take from the machine's own counters."""

import socket

import pytest

from collectors.probes import MACHINE, STOPPED, Probes
from core.records import Sample
from core.units import MILLISECOND_NS, SECOND_NS
from testbed.faults import Crash, Heal, LinkDelay, LinkLoss, Partition, Restart
from testbed.topologies.topology import star
from testbed.trust.accounts import DeliveryAccount
from testbed.trust.answers import AnswerAccount
from testbed.trust.fidelity import Spread, Standstill, judge
from testbed.trust.observed import NO_ANSWERS, Findings
from tests.live import needs


@needs("linux")
def test_datagrams_that_a_socket_had_no_room_for_are_drops() -> None:
    findings = Findings(MILLISECOND_NS, ())
    findings.late([1_000] * 100)
    with Probes() as probes, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
        assert findings.observation(probes).queue_drop_count in (None, 0)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(500):
                sender.sendto(bytes(1000), deaf.getsockname())
    seen = findings.observation(probes)
    assert seen.queue_drop_count is not None and seen.packet_count is not None
    assert 490 <= seen.queue_drop_count <= seen.packet_count
    fidelity = judge(seen)
    assert fidelity.validity == "invalid" and any("queues dropped" in reason for reason in fidelity.reasons)


@needs("linux")
def test_what_links_dropped_before_they_were_verified_is_not_the_runs() -> None:
    findings = Findings(MILLISECOND_NS, ())
    with Probes() as probes:
        pass
    for counters, packets, drops in (("counters_before", 90.0, 4.0), ("site_counters", 100.0, 5.0)):
        rows = [(host, "received_packet_count", packets) for host in ("n1", "n2")]
        setattr(findings, counters, [*rows, ("n1", "queue_drop_count", drops), ("n2", "queue_waiting_count", 3.0)])
    assert (findings.observation(probes).queue_drop_count, findings.observation(probes).packet_count) == (1, 20)


@needs("linux")
def test_links_whose_keeper_has_gone_make_a_run_invalid() -> None:
    findings = Findings(MILLISECOND_NS, ())
    findings.late([1_000] * 100)
    with Probes() as probes:
        pass
    for alive, lost in ((1.0, ()), (0.0, ("delayer",))):
        findings.site_counters = [("delayer", "alive_count", alive), ("n1", "received_packet_count", 9.0)]
        assert findings.observation(probes).lost_agents == lost


@needs("linux")
def test_how_late_packets_were_is_judged_and_no_row() -> None:
    findings = Findings(MILLISECOND_NS, ())
    findings.late([1_000] * 100)
    with Probes() as probes:
        pass
    assert findings.observation(probes).delay_lateness is None
    findings.site_counters = [("delayer", "lateness_max_ns", 41.0)]
    findings.delays_late = [(4, 600), (12, 390), (36, 10)]
    assert findings.observation(probes).delay_lateness == Spread(4, 12, 41, 1000)
    findings.played(0, 9)
    assert {row[2] for row in findings.evidence(probes, {}).samples if row[1] == "delayer"} == {"lateness_max_ns"}


class Told(Probes):
    """What was seen is given."""

    def __init__(self, rows: list[Sample]):
        super().__init__()
        self._rows = rows


def test_datagrams_before_the_load_are_of_who_verified_the_links() -> None:
    findings = Findings(MILLISECOND_NS, ())
    findings.played(30, 90)
    grown = {0: (0.0, 0.0), 20: (11_980.0, 20.0), 40: (12_000.0, 20.0), 100: (12_080.0, 21.0)}
    names = "udp_received_count", "udp_dropped_count"
    rows = [(at, "n1", name, value) for at, pair in grown.items() for name, value in zip(names, pair, strict=True)]
    seen = findings.observation(Told(rows))
    assert (seen.queue_drop_count, seen.packet_count) == (1, 101)


@pytest.mark.parametrize(
    ("dropped", "refused", "links", "expected"),
    [
        ((0, 0, 0, 0), 0, None, (0, 100)),  # of datagrams
        ((0, 0, 2, 2), 0, None, (2, 1_002)),  # of all that passed over the loopback
        ((0, 0, 2, 2), 1, None, (1, 101)),  # the worse of them
        ((0, 5, 5, 7), 0, None, (0, 100)),  # before and after the load
        ((0, 0, 2, 2), 0, 9, (2, 1_002)),  # links that carried next to nothing
        ((0, 0, 2, 2), 1, 9, (1, 9)),
        ((0, 0, 0, 0), 0, 9, (0, 9)),
    ],
)
def test_what_a_storm_crowds_out_of_a_loopback_is_a_drop(
    dropped: tuple[int, ...], refused: int, links: int | None, expected: tuple[int, int]
) -> None:
    """The load goes on from 30 to 90; hosts are looked at before it, at its begin and end, and after it."""
    findings = Findings(MILLISECOND_NS, ())
    findings.played(30, 90)
    if links is not None:
        findings.site_counters = [("n1", "received_packet_count", float(links))]
    grown = {
        "loopback_received_count": (0, 5_000, 6_000, 9_000),
        "loopback_dropped_count": dropped,
        "udp_received_count": (0, 0, 100, 100),
        "udp_dropped_count": (0, 0, refused, refused),
    }
    instants = 10, 25, 95, 200
    rows = [
        (at_ns, node, name, float(value) + (node == MACHINE) * at_ns)  # the machine's own are of others, too
        for node in ("n1", MACHINE)
        for name, values in grown.items()
        for at_ns, value in zip(instants, values, strict=True)
    ]
    seen = findings.observation(Told(rows))
    assert (seen.queue_drop_count, seen.packet_count) == expected


@pytest.mark.parametrize(
    ("end_s", "expected"),
    [
        (15, [Standstill("redis-n1", 3 * SECOND_NS, True)]),
        (12, [Standstill("redis-n1", 3 * SECOND_NS, False)]),  # it began before the crash
        (21, [Standstill("redis-n1", 3 * SECOND_NS, False)]),  # it ended after the restart
        (35, [Standstill("redis-n1", 3 * SECOND_NS, True)]),
    ],
)
def test_a_stop_inside_of_a_declared_fault_is_told_apart(end_s: int, expected: list[Standstill]) -> None:
    epoch_ns = 1_700_000_000 * SECOND_NS
    findings = Findings(MILLISECOND_NS, ())
    assert not findings.faulty
    faults = [Crash(10 * SECOND_NS, "n2"), Restart(20 * SECOND_NS, "n2"), Partition(30 * SECOND_NS, ("n1",))]
    findings.disturbed(epoch_ns, [(fault.at_ns, fault) for fault in [*faults, Heal(40 * SECOND_NS)]])
    assert findings.faulty
    told = Told([(epoch_ns + end_s * SECOND_NS, "redis-n1", STOPPED, 3.0 * SECOND_NS)])
    assert list(findings.observation(told).standstills or ()) == expected


@pytest.mark.parametrize(("hold_ns", "inside"), [(MILLISECOND_NS // 20, False), (MILLISECOND_NS, True)])
def test_a_link_that_takes_hardly_longer_explains_no_stop(hold_ns: int, inside: bool) -> None:
    findings = Findings(MILLISECOND_NS, ())
    findings.disturbed(0, [(0, LinkDelay(0, "*", "*", hold_ns))])
    assert findings.faulty, "its links are not those of other runs"
    told = Told([(5 * SECOND_NS, "redis-n1", STOPPED, 3.0 * SECOND_NS)])
    assert list(findings.observation(told).standstills or ()) == [Standstill("redis-n1", 3 * SECOND_NS, inside)]


def test_a_stop_after_a_link_is_as_its_topology_says_is_not_excused() -> None:
    findings = Findings(MILLISECOND_NS, (), star(2, "0ms", loss_probability=0.01).links)
    losses = LinkLoss(SECOND_NS, "hub", "n1", 0.2), LinkLoss(2 * SECOND_NS, "hub", "n1", 0.01)
    findings.disturbed(0, [(loss.at_ns, loss) for loss in losses])
    seen = findings.observation(Told([(5 * SECOND_NS, "redis-n1", STOPPED, 3.0 * SECOND_NS)]))
    assert seen.faulty and seen.standstills == (Standstill("redis-n1", 3 * SECOND_NS, False),)
    assert judge(seen).validity == "invalid"


@pytest.mark.parametrize(
    ("answers", "notes"),
    [
        (None, ("of the site",)),
        (AnswerAccount(1, 0, 9, 9), ("of the site",)),
        (AnswerAccount(0, 0, 9, 9), ("of the site", NO_ANSWERS)),
    ],
)
def test_a_run_that_decided_nothing_outside_of_faults_says_so(
    answers: AnswerAccount | None, notes: tuple[str, ...]
) -> None:
    findings = Findings(MILLISECOND_NS, (), answers=answers, notes=["of the site"])
    assert findings.evidence(Told([]), {}).notes == notes


def test_all_stops_of_a_process_add_up() -> None:
    told = Told([(n * SECOND_NS, name, STOPPED, 1.5e9) for n, name in enumerate(("a", "b", "a"))])
    found = Findings(MILLISECOND_NS, ()).observation(told).standstills
    assert found == (Standstill("a", 3 * SECOND_NS, False), Standstill("b", 1_500_000_000, False))


@needs("linux")
def test_records_for_which_there_was_no_room_make_a_run_degraded() -> None:
    findings = Findings(MILLISECOND_NS, ())
    findings.late([1_000] * 100)
    with Probes() as probes:
        pass
    account = DeliveryAccount(0, 0, 0, 9, 0, 9, 0, 0, 0, 0, 0)
    findings.accounted(0, account, {"dropped_rows": 0})
    assert judge(findings.observation(probes)).numbers["dropped_rows_count"] == 0
    for round_number in (1, 2):
        findings.accounted(round_number * SECOND_NS, account, {"dropped_rows": 2})
    assert "there was no room for 4 records" in judge(findings.observation(probes)).reasons
