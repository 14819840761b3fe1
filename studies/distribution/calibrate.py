"""Measures one real broker of this machine: what ``testbed.brokers.model`` wants to know of it.

One broker, one topic without a limit, publishers of whom only some send: so one deployment gives every rate.

* base latency and costs: single messages at a low rate, then batches: what a batch takes longer is the messages'.
  Medians of the steps from the kernel's stamp to the release, and from there to the subscriber.  What is left of the
  base latency is the network's, half of it each way.
* the SLO (ours): ``SLO_FACTOR`` times the 99th percentile at 1,000 msg/s, and not less than the time in which a topic
  of that rate sends ``SLO_LEAST_MS`` messages, as in the paper (1 ms, at 10 to 100 messages a millisecond).
* mcap: the largest rate of single Poisson messages whose p99 meets the SLO, all else on this machine running, too.
* timer overshoot: how much later than asked a thread wakes up.  What is shorter cannot be told apart here.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from math import ceil

import numpy as np

from core.errors import MachineError
from core.records import Int64
from core.units import MILLISECOND_NS, SECOND_NS, duration_text
from studies.distribution.asked import Deployed, DeploymentConfig, poisson_topic
from studies.distribution.live import LiveDeployment
from studies.distribution.window import Window
from studies.distribution.windows import measured
from systems.api import UNASSIGNED
from testbed.api import Testbed
from testbed.topologies.topology import srtm_lan
from testbed.trust.accounts import ABSENT
from testbed.trust.evidence import LEAST_VALID_LAST, VALID
from testbed.trust.observed import Findings

PUBLISHER_RPS = 10.0  # SRTM VI
QUIET_RPS, SLO_RPS = 100, 1_000  # ours; the second is a topic of the scale small
MOST_RPS = 16_000  # what one publisher process can send in time, with room (ours)
SLO_FACTOR, SLO_LEAST_MS = 4, 20  # ours
STEP_RPS = 250  # mcap is a multiple of it
BATCH = 50  # large enough for the messages' costs to outweigh the wake-up's
SLEEP_NS, SLEEPS = 200_000, 500
NO_MESSAGE = "a trial has no message to be judged by", "give a longer --span"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Measures:
    """What was found; spans in nanoseconds."""

    network_ns: int
    wakeup_ns: int
    message_ns: int
    pump_ns: int
    cores: int
    mcap_rps: int
    slo_ns: int
    base_p50_ns: int  # end to end, single messages, quiet
    base_p99_ns: int
    topic_p99_ns: int  # at 1,000 msg/s
    overshoot_p50_ns: int
    overshoot_p99_ns: int
    validity: str = VALID  # of the trials that they were taken from
    validity_reasons: Sequence[str] = ()

    def toml(self, provenance: str) -> str:
        """A calibration file."""
        broker = ("network_ns", "wakeup_ns", "message_ns", "pump_ns", "cores", "mcap_rps")
        beside = ("base_p50_ns", "base_p99_ns", "topic_p99_ns", "overshoot_p50_ns", "overshoot_p99_ns")
        lines = {name: f"{name} = {value}\n" for name, value in asdict(self).items()}
        return (
            "# Written by `ratebed calibrate`: one real broker of one machine.  For --calibration.\n"
            f"[broker]\n{''.join(lines[name] for name in broker)}"
            f'slo = "{duration_text(self.slo_ns)}"\nread_time_stamps = false\n\n'
            f'[origin]\nfitted_on = []\nprovenance = """\n{provenance}\n"""\n\n'
            f"[measured]  # beside the model; read by people only\n{''.join(lines[name] for name in beside)}"
        )


class Bench(LiveDeployment):
    """A deployment whose topic has no limit."""

    def offer(self, rate_rps: float, span_ns: int) -> Window:
        """One window with as many publishers as make the rate."""
        count = round(rate_rps / PUBLISHER_RPS)
        assignment = np.full(self.schedule.population.count, UNASSIGNED, np.int32)
        assignment[:count] = 0
        start_ns, self.now_ns = self.now_ns, self.now_ns + span_ns
        self._place(assignment, start_ns)
        self.brokers_up.set_bucket(0, self.topic, None)
        return self.play(start_ns, self.now_ns)

    def attempt(self, rate_rps: float, span_ns: int) -> Window:
        """The same of a rate that may be too much: what is late or lost then is the answer, and no doubt about it."""
        kept, self.findings = self.findings, Findings(self.findings.slo_ns, ())
        try:
            return self.offer(rate_rps, span_ns)
        finally:
            self.findings = kept


def measure(
    testbed: Testbed, span_ns: int, seed: int, slo_ns: int = 0, most_rps: int = MOST_RPS, say: Say = print
) -> Measures:
    """Measure; ``slo_ns`` 0: find one.  Takes some 15 spans, and as many seconds again."""
    overshoot_ns = timer_overshoot_ns()
    with _bench(testbed, BATCH, SLO_RPS, seed, span_ns) as bench:
        batches = _medians(bench.offer(SLO_RPS, span_ns))
        seen = [bench.evidence().fidelity]
    with _bench(testbed, 1, most_rps, seed, span_ns) as bench:
        cores = next(host.cores for host in bench.site.topology.hosts if host.role == "broker")
        quiet = bench.offer(QUIET_RPS, span_ns)
        singles = _medians(quiet)
        topic_p99_ns = _p99_ns(bench.offer(SLO_RPS, span_ns), span_ns)
        if not slo_ns:
            slo_ns = max(SLO_LEAST_MS, ceil(SLO_FACTOR * topic_p99_ns / MILLISECOND_NS)) * MILLISECOND_NS
        say(f"p99 at {SLO_RPS:,} msg/s: {topic_p99_ns / 1e6:.2f} ms; SLO {slo_ns / 1e6:g} ms")
        mcap_rps = _largest_rate(bench, slo_ns, span_ns, most_rps, say)
        seen.append(bench.evidence().fidelity)
    latency_ns = _latency_ns(quiet)
    base_ns = int(np.quantile(latency_ns, 0.5))
    message_ns = max(0, (batches["read"] - singles["read"]) // (BATCH - 1))
    pump_ns = max(0, (batches["out"] - singles["out"]) // (BATCH - 1))
    return Measures(
        network_ns=max(0, (base_ns - singles["read"] - pump_ns) // 2),
        wakeup_ns=max(0, singles["read"] - message_ns),
        message_ns=message_ns,
        pump_ns=pump_ns,
        cores=min(cores, 2),
        mcap_rps=mcap_rps,
        slo_ns=slo_ns,
        base_p50_ns=base_ns,
        base_p99_ns=int(np.quantile(latency_ns, 0.99)),
        topic_p99_ns=topic_p99_ns,
        overshoot_p50_ns=int(np.quantile(overshoot_ns, 0.5)),
        overshoot_p99_ns=int(np.quantile(overshoot_ns, 0.99)),
        validity=max((fidelity.validity for fidelity in seen), key=LEAST_VALID_LAST.index),
        validity_reasons=tuple(dict.fromkeys(reason for fidelity in seen for reason in fidelity.reasons)),
    )


def timer_overshoot_ns() -> Int64:
    """How much later than asked this process wakes up from short sleeps."""
    late_ns = []
    for _ in range(SLEEPS):
        began_ns = time.monotonic_ns()
        time.sleep(SLEEP_NS / SECOND_NS)
        late_ns.append(time.monotonic_ns() - began_ns - SLEEP_NS)
    return np.array(late_ns, np.int64)


@contextmanager
def _bench(testbed: Testbed, batch: int, rate_rps: int, seed: int, longest_ns: int) -> Iterator[Bench]:
    """``longest_ns``: of a trial; a delivery without room for its record would count as lost."""
    topology = srtm_lan(brokers=1)
    schedule = poisson_topic(round(rate_rps / PUBLISHER_RPS), PUBLISHER_RPS, batch, seed)
    spans_ns = SLO_LEAST_MS * MILLISECOND_NS, SECOND_NS
    asked = Deployed(topology, schedule, DeploymentConfig(), "small", seed, *spans_ns, longest_ns=longest_ns)
    with testbed.site(topology, seed) as site, closing(Bench(site, asked)) as bench:
        yield bench


def _largest_rate(bench: Bench, slo_ns: int, span_ns: int, most_rps: int, say: Say) -> int:
    """Binary search over multiples of ``STEP_RPS``; one trial that fails may be the machine's: it gets a second.

    MachineError where not even the least of them meets the SLO.
    """
    low, high = 0, most_rps // STEP_RPS + 1
    while high - low > 1:
        middle = (low + high) // 2
        p99_ns = _p99_ns(bench.attempt(middle * STEP_RPS, span_ns), span_ns)
        if p99_ns > slo_ns:
            p99_ns = min(p99_ns, _p99_ns(bench.attempt(middle * STEP_RPS, span_ns), span_ns))
        met = p99_ns <= slo_ns
        say(f"{middle * STEP_RPS:>7,} msg/s: p99 {p99_ns / 1e6:.2f} ms{'' if met else ', too much'}")
        low, high = (middle, high) if met else (low, middle)
    if not low:
        raise MachineError(f"not even {STEP_RPS} messages a second meet the SLO", "give a longer --slo")
    return low * STEP_RPS


def _p99_ns(window: Window, span_ns: int) -> int:
    """Of all but the first sixth; what never came is beyond any.  MachineError where nothing was sent."""
    counts = window.counts(window.start_ns + span_ns // 6, window.start_ns + span_ns, 1)
    assert counts.lost_count is not None
    if not counts.latency.any() and not counts.lost_count.any():
        raise MachineError(*NO_MESSAGE)
    return measured(counts.latency, np.ones(1), counts.lost_count).p99_ns


def _latency_ns(window: Window) -> Int64:
    came = window.offered & (window.received_at_ns != ABSENT)
    latency: Int64 = window.received_at_ns[came] - window.intended_at_ns[came]
    return latency


def _medians(window: Window) -> dict[str, int]:
    """Medians of a batch's steps, by its last message: ``read``, from stamp to release; ``out``, to the subscriber.

    MachineError where none came.
    """
    last = window.offered & (window.received_at_ns != ABSENT) & (window.released_at_ns != ABSENT)
    same = (window.intended_at_ns[1:] == window.intended_at_ns[:-1]) & (window.publisher[1:] == window.publisher[:-1])
    last[:-1] &= ~same
    if not last.any():
        raise MachineError(*NO_MESSAGE)
    steps = {
        "read": (window.released_at_ns - window.arrived_at_ns)[last],
        "out": (window.received_at_ns - window.released_at_ns)[last],
    }
    return {name: max(0, int(np.median(step))) for name, step in steps.items()}
