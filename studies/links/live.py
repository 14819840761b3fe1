"""Real links, measured by small datagrams."""

from collectors.writer import read_logs
from core.errors import LinkError
from studies.links.asked import Measuring
from testbed.hosts.site import Site
from testbed.trust.evidence import DEGRADED, EXACT, Fidelity, RunEvidence


def run(site: Site, asked: Measuring) -> RunEvidence:
    """A path that is off is what was to be found out: the run is degraded, not failed."""
    fidelity = EXACT
    try:
        paths = site.verify()
    except LinkError as error:
        if not error.paths:
            raise
        paths, fidelity = list(error.paths), Fidelity(DEGRADED, (error.what,))
    samples = [(0, host, metric, value) for host, metric, value in site.counters()]
    return RunEvidence(fidelity, paths, samples, read_logs(site.folder / "logs"), notes=tuple(site.notes))
