"""One topic deployed on the virtual testbed: each round is carried by the kernels of a ``Fleet``."""

from typing import Any

import numpy as np

from core.records import Envelope, Int32, Schedule
from core.units import SECOND_NS
from studies.distribution.asked import Controlled, DeploymentConfig
from studies.distribution.windows import Counts, TopicWindows, sub_buckets
from studies.limiting.virtual import RequestJournal
from systems.api import System
from systems.parts.assignment import rates_of
from systems.parts.token_bucket import release_quantum
from testbed.brokers.model import BrokerModel
from testbed.topologies.topology import Topology
from testbed.trust.evidence import NOTHING, Evidence
from testbed.virtual.boot import event_loop
from testbed.virtual.fleet import Fleet
from testbed.virtual.plane import FleetPlane


class Deployment(TopicWindows):
    """A topic, its brokers and the clock of its schedule; see ``studies.distribution.asked.Deployment``."""

    def __init__(
        self,
        model: BrokerModel,
        names: list[str],
        schedule: Schedule,
        others: list[Schedule | None],
        rule: DeploymentConfig,
        round_ns: int,
        journal_rows: int = 0,
    ):
        loads_rps = [0.0 if other is None else other.population.total_rps for other in others]
        super().__init__(names, schedule, loads_rps, model.mcap_rps, rule, round_ns)
        self.model, self.journal_rows = model, journal_rows
        source = self._window if rule.envelope == "conformant" else schedule
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

    def control(
        self, system: System, config: Any, topology: Topology, duration_ns: int, window_ns: int, seed: int
    ) -> Controlled:
        """Let a controller's nodes work on the running brokers for ``duration_ns``; one report a second.

        Histograms are taken window by window, by the messages' intended instants.
        """
        plane = FleetPlane(self.fleet, self.names)
        begin_ns = self.fleet.now_ns
        loop = event_loop(system, config, topology, self.names, seed, plane, start_ns=begin_ns)
        loop.report_every(SECOND_NS)
        windows = []
        for start_ns in range(begin_ns, begin_ns + duration_ns - window_ns + 1, window_ns):
            self.fleet.state.clear_histograms()
            self.fleet.record(start_ns, start_ns + window_ns)
            journal = RequestJournal(loop.run(start_ns + window_ns - 1))
            self.fleet.advance(start_ns + window_ns)
            windows.append((self.fleet.state.latency.copy(), self.fleet.state.access_delay.copy()))
        return Controlled(windows, journal.samples(), journal.journal.commands)

    def messages(self) -> dict[str, np.ndarray]:
        """Columns of ``messages`` for the last window, where the run asked for them; otherwise none."""
        return self.fleet.messages() if self.journal_rows else {}

    def evidence(self) -> Evidence:
        """Virtual time keeps its schedule exactly."""
        return NOTHING

    def close(self) -> None:
        """Nothing to take down."""
