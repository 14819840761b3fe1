"""A topic in virtual time: each round is carried by the kernels of a ``Fleet``."""

from dataclasses import replace

import numpy as np

from core.errors import SpecError
from core.records import Envelope, Int32
from studies.api import VirtualBody
from studies.distribution.asked import Deployed, Searched, Searching, check_deployed
from studies.distribution.far import far_of
from studies.distribution.search import searched
from studies.distribution.windows import TopicWindows, sub_buckets
from systems.parts.assignment import rates_of
from systems.parts.token_bucket import release_quantum
from testbed.brokers.counts import Counts
from testbed.brokers.model import BrokerModel, load_calibration
from testbed.trust.evidence import NOTHING, Evidence
from testbed.virtual.capacity import benchmarked_capacity_rps
from testbed.virtual.fleet import Fleet

JOURNAL_ROWS = 2_000_000  # messages kept at most when a run asks for them


class Deployment(TopicWindows):
    """A topic, its brokers and the clock of its schedule."""

    def __init__(self, asked: Deployed, model: BrokerModel, journal_rows: int):
        others = asked.other_topics()
        super().__init__(asked, others, model.mcap_rps)
        self.model, self.journal_rows = model, journal_rows
        rule = asked.rule
        source = self._window if rule.envelope == "conformant" else asked.schedule
        self.fleet = Fleet(
            model, self.topic, source, others, journal_rows, rule.non_conformant == "drop", rule.release_quantum
        )

    def start(self, start_ns: int, assignment: Int32, envelope: Envelope) -> tuple[Envelope | None, ...]:
        """Idle brokers, full sub-buckets in proportion to the assigned load; returns the sub-buckets."""
        self.fleet.restart(start_ns)
        self.fleet.move(assignment)
        rates = rates_of(self.schedule.population, assignment, len(self.loads_rps))
        quantum = release_quantum(envelope.burst_count) if self.rule.release_quantum else 1
        parts = sub_buckets(envelope, rates, self.schedule.population.total_rps, quantum)
        for broker, part in enumerate(parts):
            if part is not None:
                self.fleet.set_bucket(broker, part, full=True)
        return parts

    def carry(self, start_ns: int, end_ns: int, from_ns: int, until_ns: int) -> Counts:
        """See ``TopicWindows``."""
        assert self.fleet.now_ns == start_ns
        self.fleet.record(from_ns, until_ns)
        self.fleet.advance(end_ns)
        state = self.fleet.state
        return Counts(state.latency, state.access_delay, state.dropped_count)

    def messages(self) -> dict[str, np.ndarray]:
        """Columns of ``messages`` for the last window, where the run asked for them; otherwise none."""
        return self.fleet.messages() if self.journal_rows else {}

    def evidence(self) -> Evidence:
        """Virtual time keeps its schedule exactly."""
        return NOTHING


def deployment_of(asked: Deployed) -> Deployment:
    """The topic on modelled brokers, near or far."""
    from studies.distribution.far_deployment import FarDeployment

    model = load_calibration(asked.calibration)
    if asked.rule.stamps == "read":
        model = replace(model, read_time_stamps=True)
    if asked.rule.mcap_batch:
        capacity_rps = benchmarked_capacity_rps(model, asked.slo_ns, asked.rule.mcap_batch, asked.seed)
        model = replace(model, mcap_rps=capacity_rps)
    far = far_of(asked.topology, asked.schedule.population.count)
    if far is not None:
        return FarDeployment(asked, model, far)
    return Deployment(asked, model, JOURNAL_ROWS if asked.keeps_messages else 0)


def run(asked: Searching) -> Searched:
    """Search, and judge the answer."""
    return searched(asked, deployment_of(asked.deployed))


def check(asked: Searching) -> None:
    """SpecError for what modelled brokers cannot do."""
    check_modelled(asked.deployed)


def check_modelled(asked: Deployed) -> None:
    """SpecError for what modelled brokers, and the model of long paths, cannot do."""
    check_deployed(asked)
    rule = asked.rule
    for option, value, only in (("faults", rule.faults, ()), ("gc", rule.gc, "friendly")):
        if value != only:
            raise SpecError(f"virtual brokers have no {option}", "use --testbed mininet, or local")
    far = far_of(asked.topology, 1)
    if far is None:
        return
    if far.uncertain:
        raise SpecError(f"topology {asked.topology.name}: jitter or loss on a topic's path", "use --testbed mininet")
    if rule.non_conformant == "drop":
        raise SpecError("virtual brokers at the end of long paths drop nothing", "use srtm-lan, or delay")


BODY = VirtualBody(run, check)
