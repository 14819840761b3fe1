"""Measures the paths of a site against its topology, before load: verify, then load.

An agent on every host (``link_probe.py``) echoes small datagrams and sends some to each other host, all at once and
evenly spaced.  The hosts share a clock, or the offsets of their clocks are known: each direction has a delay and a loss
of its own.  A path that is off is measured again, and slower, for a machine that was busy for a moment or is slow
itself; one that stays off is a LinkError.
"""

from collections.abc import Callable, Iterable, Sequence
from math import comb, sqrt

from core.errors import LinkError
from core.units import MILLISECOND_NS
from testbed.hosts.agent import Agent
from testbed.hosts.site import PathMeasure, Program, Site, python_agent
from testbed.nodes.retransmission import note_of

PROBES_A_PAIR = 200
PROBES_MAXIMUM = 12_000  # of all pairs: on two cores they take about three seconds
PROBES_LEAST = 20
RATE_RPS = 4_500  # echoes of all hosts together
PAIR_RATE_RPS = 250  # a pair's 200 in 0.8 s
GRACE_S = 0.5  # what may be late beyond the round trip
TOLERANCE_NS = MILLISECOND_NS // 2  # of the median
JITTER_SHARE = 0.1  # of the jitter, where that is more
SAMPLING = 4.5  # standard errors of a median of so many messages: two of a million sound paths are beyond
LOSS_RISK = 1e-7  # of blaming a sound path, and either way
TRIES = 3
SLOWER = 4  # times, at each try: a machine that cannot keep up with the probes measures its own queues


def raise_problems(measures: Iterable[PathMeasure]) -> None:
    """LinkError that names each path out of tolerance."""
    measures = list(measures)
    bad = [measure for measure in measures if measure.problem]
    if bad:
        shown = "; ".join(f"{measure.source} to {measure.target}: {measure.problem}" for measure in bad[:8])
        more = f" and {len(bad) - 8} more" if len(bad) > 8 else ""
        error = LinkError(f"paths are not as the topology wants them: {shown}{more}", "is the machine busy?")
        if all(measure.lost_count < measure.probe_count for measure in measures):
            error.paths = measures
        raise error


def check_links(site: Site, pardoned: Callable[[PathMeasure], PathMeasure] = lambda each: each) -> list[PathMeasure]:
    """Both directions of every pair of machines, with ``problem`` where one is out of tolerance.

    ``pardoned``: a measure without the problem that is none there; such a path is not measured again.
    Whose kernel lets streams wait for longer than virtual time does is said in the site's notes.
    """
    hosts = [host.name for host in site.topology.machines]
    pairs = [(a, b) for i, a in enumerate(hosts) for b in hosts[i + 1 :]]
    if not pairs:
        return []
    count = max(PROBES_LEAST, min(PROBES_A_PAIR, PROBES_MAXIMUM // len(pairs)))
    agents: dict[str, Agent] = {}
    try:
        for host in hosts:
            command = python_agent("testbed.trust.link_probe", site.address(host))
            agents[host] = site.start(host, Program(f"link-probe-{host}", command))
        told = {host: agent.ready() for host, agent in agents.items()}
        ports = {host: int(its["port"]) for host, its in told.items()}
        slow = [host for host, its in told.items() if its["keeps_120_s"]]
        if slow and note_of(slow) not in site.notes:
            site.notes.append(note_of(slow))
        measures: dict[tuple[str, str], PathMeasure] = {}
        for number in range(TRIES):
            for measure in _measure(site, agents, ports, pairs, count, number):
                measures[measure.source, measure.target] = pardoned(measure)
            pairs = [(a, b) for a, b in pairs if measures[a, b].problem or measures[b, a].problem]
            if not pairs or all(measures[pair].lost_count == count for pair in pairs):  # nothing passes: no use
                break
        return list(measures.values())
    finally:
        for agent in agents.values():
            site.forget(agent.name)


def _measure(
    site: Site,
    agents: dict[str, Agent],
    ports: dict[str, int],
    pairs: Sequence[tuple[str, str]],
    count: int,
    number: int,
) -> list[PathMeasure]:
    """One round: every pair at once, asked from its first host."""
    span_s = SLOWER**number * max(count / PAIR_RATE_RPS, count * len(pairs) / RATE_RPS)
    slowest_ns = max(site.topology.path(a, b).one_way_delay_ns + site.topology.path(a, b).jitter_ns for a, b in pairs)
    wait_s = 2 * slowest_ns / 1e9 + GRACE_S
    asked = {a: [b for source, b in pairs if source == a] for a in dict.fromkeys(a for a, _ in pairs)}
    for a, targets in asked.items():
        addresses = [[site.address(b), ports[b]] for b in targets]
        agents[a].post("probe", targets=addresses, count=count, span_s=span_s, wait_s=wait_s, number=number)
    answers = {a: agents[a].answer(span_s + wait_s + 20) for a in asked}
    measures = []
    for a, targets in asked.items():
        for b, result in zip(targets, answers[a]["results"], strict=True):
            heard = agents[b].ask("heard", address=site.address(a), port=ports[a], number=number)["heard_count"]
            ahead_ns = site.clock_offset_ns(b) - site.clock_offset_ns(a)
            there = [delay_ns - ahead_ns for delay_ns in result["there_ns"]]
            back = [delay_ns + ahead_ns for delay_ns in result["back_ns"]]
            measures.append(judged(site, a, b, there, count, count - heard))
            measures.append(judged(site, b, a, back, heard, heard - len(back)))
    return measures


def judged(site: Site, source: str, target: str, delays_ns: list[int], sent: int, lost: int) -> PathMeasure:
    """One direction of a path, measured by ``sent`` messages, against the topology."""
    path = site.topology.path(source, target)
    delays_ns = sorted(delays_ns)
    p05, p50, p95 = (delays_ns[int(share * (len(delays_ns) - 1))] if delays_ns else 0 for share in (0.05, 0.5, 0.95))
    delay_ns, jitter_ns, loss = path.one_way_delay_ns, path.jitter_ns, path.loss_probability
    problem = problem_of(delay_ns, jitter_ns, loss, p50 if delays_ns else None, sent, lost)
    return PathMeasure(source, target, delay_ns, p50, loss, lost, sent, jitter_ns, p05, p95, problem)


def problem_of(delay_ns: int, jitter_ns: int, loss: float, median_ns: int | None, sent: int, lost: int) -> str:
    """What is wrong with a path: ``lost`` of ``sent`` messages, and the median delay of the others; empty: nothing."""
    if lost == sent and loss < 1:
        return f"all {sent} messages are lost" if sent else "nothing came to be sent back"
    if not is_likely(lost, sent, loss):
        return f"{lost} of {sent} messages are lost, wanted {100 * loss:g} %"
    if median_ns is not None:
        spread_ns = jitter_ns / sqrt(max(1, sent - lost))  # standard error of the median of a uniform distribution
        tolerance_ns = max(TOLERANCE_NS, JITTER_SHARE * jitter_ns) + SAMPLING * spread_ns
        if abs(median_ns - delay_ns) > tolerance_ns:
            return f"median delay {median_ns / 1e6:.2f} ms, wanted {delay_ns / 1e6:.2f} ms"
    return ""


def is_likely(lost: int, sent: int, loss: float) -> bool:
    """Whether both tails of the binomial distribution from ``lost`` on are likely enough for a sound path."""

    def tail(first: int, last: int) -> float:
        return sum(comb(sent, k) * loss**k * (1 - loss) ** (sent - k) for k in range(first, last + 1))

    return tail(lost, sent) > LOSS_RISK and tail(0, lost) > LOSS_RISK
