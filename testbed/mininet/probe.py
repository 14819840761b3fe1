"""What of this machine the testbed ``mininet`` needs."""

from testbed.live.capabilities import Finding, probe_capabilities


def probe() -> list[Finding]:
    """Namespaces, Mininet, and one way to delay packets: netem, or packet queues (NFQUEUE) and our delayer."""
    needed = probe_capabilities("root", "namespaces", "mininet", "mnexec", "brctl", "ip")
    iptables, nfqueue, netem = probe_capabilities("iptables", "nfqueue", "netem")
    if netem.found:
        delays = [netem, iptables._replace(needed=False), nfqueue._replace(needed=False)]
    else:
        delays = [
            netem._replace(detail="not in this kernel; NFQUEUE stands in for it", needed=False),
            iptables,
            nfqueue,
        ]
    more = probe_capabilities("go", "brokerd", "redis", "pinning", "realtime", needed=False)
    return [*needed, *delays, *more]
