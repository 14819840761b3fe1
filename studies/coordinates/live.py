"""Coordinate agents for real: a Serf agent a node, over the links of a site, asked by RPC where they are.

Links are verified before any agent starts; time 0 is half a second after all have joined.  A read asks all agents one
after the other, a tenth of a millisecond each.  An agent that does not answer any more has no coordinate from then on:
its row is not a number, and the run says that it was lost.
"""

import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import nan

from collectors import procfs
from collectors.probes import ALL_EVERY_S
from core.errors import MachineError, SpecError
from core.records import Sample
from core.units import SECOND_NS
from studies.coordinates.asked import Located, Locating
from studies.coordinates.plan import Plan
from systems.parts.coordinates import Coordinates, stacked
from systems.parts.vivaldi import SERF, Coordinate
from testbed.api import Testbed
from testbed.faults import Handover
from testbed.hosts.site import Site
from testbed.play import Observer, Play, hand_over
from testbed.servers.serf import SerfCluster, SerfServer, profile_of
from testbed.trust.fidelity import SCALE_NS

UNKNOWN = Coordinate((nan,) * SERF.dimensions, nan, nan, nan)


def run(site: Site, plan: Plan) -> Located:
    """See ``locate_live``."""
    return locate_live(site, plan.locating)


def locate_live(site: Site, locating: Locating) -> Located:
    """The agents' own coordinates at every read.  LinkError where a path is not as the topology wants it."""
    observer = Observer(site, SCALE_NS)
    with SerfCluster(site, locating.nodes, profile_of(locating.interval_ns)) as cluster:
        cluster.start()
        with observer.watch:
            play, moved = Play(), list[Sample]()

            def let_move(move: Handover) -> None:
                moved.append(hand_over(site, play, move))

            for move in locating.handovers:
                play.plan(move.at_ns, partial(let_move, move))
            play.begin(int(ALL_EVERY_S / 2 * SECOND_NS))  # reads shall not meet the samples of the machine
            reader = _Reader(cluster, play)
            at_ns = tuple(reads * locating.interval_ns for reads in locating.reads)
            coordinates = tuple(reader.read(instant_ns) for instant_ns in at_ns)
            play.until(locating.rounds * locating.interval_ns)
            end_ns = time.time_ns()
            observer.findings.lost_agents = [
                server.process.name for server in cluster.servers.values() if not server.process.alive
            ]
            observer.findings.rows += [*reader.rows, *moved]
            observer.findings.handover_lateness_ns = [late_ns for _, _, _, late_ns in moved]
            observer.findings.played(play.epoch_ns, end_ns)
            observer.findings.late(reader.lateness_ns or [0])
            evidence = observer.evidence()
    return Located(locating.nodes, at_ns, coordinates, evidence)


@dataclass
class _Reader:
    cluster: SerfCluster
    play: Play
    lateness_ns: list[int] = field(default_factory=list)
    # At each read, of each agent: health_score (above 0 it probes less often), and the memory that is its alone.
    rows: list[Sample] = field(default_factory=list)

    def read(self, at_ns: int) -> Coordinates:
        """Where every agent is at an instant, by its own account."""
        self.play.until(at_ns)
        self.lateness_ns.append(self.play.now_ns() - at_ns)
        coordinates = stacked([self._own(server) for server in self.cluster.servers.values()])
        for server in self.cluster.servers.values():
            with suppress(MachineError):
                score = float(server.rpc.stats()["serf"]["health_score"])
                self.rows.append((at_ns, server.process.name, "health_score", score))
                own = procfs.anonymous_bytes(server.process.pid)
                self.rows.append((at_ns, server.process.name, "anonymous_bytes", own))
        return coordinates

    @staticmethod
    def _own(server: SerfServer) -> Coordinate:
        with suppress(MachineError):
            return server.rpc.coordinate(server.node) or UNKNOWN
        return UNKNOWN


def check(testbed: Testbed, plan: Plan) -> None:
    """SpecError where no agent probes so often, or there are no links to be far apart on."""
    profile_of(plan.locating.interval_ns)
    if not testbed.has_links:
        fix = "use --testbed mininet, or virtual"
        raise SpecError(f"{testbed.name} has no links whose delays coordinate agents could estimate", fix)
