"""What the observations of a live run take from the machine's own counters."""

import socket

from collectors.probes import Probes
from core.units import MILLISECOND_NS
from testbed.trust.fidelity import judge
from testbed.trust.observed import Findings
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
def test_links_whose_keeper_has_gone_make_a_run_invalid() -> None:
    findings = Findings(MILLISECOND_NS, ())
    findings.late([1_000] * 100)
    with Probes() as probes:
        pass
    for alive, lost in ((1.0, ()), (0.0, ("delayer",))):
        findings.site_counters = [("delayer", "alive_count", alive), ("n1", "received_packet_count", 9.0)]
        assert findings.observation(probes).lost_agents == lost
