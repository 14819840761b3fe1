"""Coordinate agents for real: a Serf agent a node, over the links of a site, asked by RPC where they are.

Links are verified before any agent starts; time 0 is half a second after all have joined.  A read asks all agents one
after the other, a tenth of a millisecond each.  An agent that does not answer any more has no coordinate from then on:
its row is not a number, and the run says that it was lost.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import nan

from collectors import procfs
from collectors.probes import ALL_EVERY_S
from collectors.writer import read_logs
from core.errors import MachineError, SpecError
from core.units import SECOND_NS, duration_text
from studies.coordinates.asked import Located, Locating
from systems.parts.coordinates import Coordinates, stacked
from systems.parts.vivaldi import SERF, Coordinate
from testbed.faults import Handover
from testbed.hosts.site import Site
from testbed.servers.serf import PROBE_EVERY_S, SerfCluster, SerfServer
from testbed.trust.fidelity import SCALE_NS
from testbed.trust.observed import Findings, Row

UNKNOWN = Coordinate((nan,) * SERF.dimensions, nan, nan, nan)
JOIN_S = 60.0
_TICK_S = 0.1  # Ctrl-C is heard


def profile_of(interval_ns: int) -> str:
    """The profile of Serf that probes so often; SpecError where none does."""
    for profile, every_s in PROBE_EVERY_S.items():
        if round(every_s * SECOND_NS) == interval_ns:
            return profile
    known = " or ".join(f"{every_s:g} s ({profile})" for profile, every_s in PROBE_EVERY_S.items())
    raise SpecError(f"Serf agents do not probe every {duration_text(interval_ns)}", f"give an interval of {known}")


def locate_live(site: Site, locating: Locating) -> Located:
    """See ``testbed.Backend.locate``.  LinkError where a path is not as the topology wants it."""
    findings = Findings(SCALE_NS, site.verify())
    with SerfCluster(site, locating.nodes, profile_of(locating.interval_ns)) as cluster:
        cluster.start(JOIN_S)
        with site.watched() as watch:
            time.sleep(ALL_EVERY_S / 2)  # reads shall not meet the samples of the machine
            run = _Run(site, cluster, locating.handovers)
            found = [run.read(reads * locating.interval_ns) for reads in locating.reads]
            run.wait_until(locating.rounds * locating.interval_ns)
            end_ns = time.time_ns()
            findings.site_counters = site.counters()
            findings.lost_agents = [
                server.process.name for server in cluster.servers.values() if not server.process.alive
            ]
        findings.rows += run.rows
    findings.played(run.epoch_ns, end_ns)
    findings.late(run.lateness_ns or [0])
    at_ns = tuple(reads * locating.interval_ns for reads in locating.reads)
    return Located(
        locating.nodes, at_ns, tuple(found), findings.evidence(watch.seen(), read_logs(site.folder / "logs"))
    )


@dataclass
class _Run:
    """Time since all have joined; handovers and reads as they fall due."""

    site: Site
    cluster: SerfCluster
    moves: Sequence[Handover]
    epoch_ns: int = field(default_factory=time.time_ns)
    lateness_ns: list[int] = field(default_factory=list)
    # At each read, of each agent: health_score (above 0 it probes less often), and the memory that is its alone.
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._zero_ns = time.monotonic_ns()

    def wait_until(self, at_ns: int) -> None:
        """Sleep; let handovers happen."""
        to_come = [move for move in self.moves if move.at_ns <= at_ns]
        self.moves = self.moves[len(to_come) :]
        for move in to_come:
            self._sleep_until(move.at_ns)
            self.site.apply(move)
        self._sleep_until(at_ns)

    def read(self, at_ns: int) -> Coordinates:
        """Where every agent is at an instant, by its own account."""
        self.wait_until(at_ns)
        self.lateness_ns.append(time.monotonic_ns() - self._zero_ns - at_ns)
        found = stacked([self._own(server) for server in self.cluster.servers.values()])
        for server in self.cluster.servers.values():
            with suppress(MachineError):
                score = float(server.rpc.stats()["serf"]["health_score"])
                self.rows.append((at_ns, server.process.name, "health_score", score))
                own = procfs.anonymous_bytes(server.process.pid)
                self.rows.append((at_ns, server.process.name, "anonymous_bytes", own))
        return found

    @staticmethod
    def _own(server: SerfServer) -> Coordinate:
        with suppress(MachineError):
            return server.rpc.coordinate(server.node) or UNKNOWN
        return UNKNOWN

    def _sleep_until(self, at_ns: int) -> None:
        while (left_ns := self._zero_ns + at_ns - time.monotonic_ns()) > 0:
            time.sleep(min(_TICK_S, left_ns / SECOND_NS))
