"""Sites that outlast a run: with the servers on them, which take long to start, they are the next run's as well.

Only for a run that asks for the same: hosts, links, options, servers, and the seed.  Repetitions have other seeds, and
so share nothing; the points of one repetition do.
"""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import NamedTuple, Self

from core.errors import HarnessError
from testbed.api import SiteServers
from testbed.faults import Handover
from testbed.hosts.site import Site
from testbed.topologies.topology import Topology


class SiteAsked(NamedTuple):
    """What a run asks for before it begins.  Equal ones may have a site one after another."""

    testbed: object
    topology: Topology
    seed: int
    servers: SiteServers


class _Kept(NamedTuple):
    """What was asked for, and the site as it was when its servers had been started."""

    asked: SiteAsked
    site: Site
    agents: frozenset[str]
    files: frozenset[str]
    notes: tuple[str, ...]
    carried_count: int = 0  # runs


class SiteKeeper:
    """Keeps the last run's site, if it had servers and is as good as new, until its end; a context manager."""

    def __init__(self) -> None:
        self._kept: _Kept | None = None
        self._stack = ExitStack()  # what takes it down

    @contextmanager
    def lent(self, asked: SiteAsked, make: Callable[[], AbstractContextManager[Site]]) -> Iterator[Site]:
        """The site that is kept, where it is what is asked for, else one made for it.

        A run that ends with an error takes its site down, and sees to the logs as ever.
        """
        kept, self._kept = self._kept, None
        if not (kept and kept.asked == asked and _is_renewed(kept)):
            kept = None
            self.close()
        with self._stack.pop_all() as stack:
            kept = kept or _as_made(asked, stack.enter_context(make()))
            yield kept.site
            if not kept.site.is_worn and not _draws(asked.topology):
                self._kept = kept._replace(carried_count=kept.carried_count + 1)
                self._stack = stack.pop_all()

    def close(self) -> None:
        """Take it down.  No run is to blame where that is not clean: so it is told, and stays on record."""
        self._kept = None
        try:
            self._stack.pop_all().close()
        except (OSError, HarnessError) as error:
            print(f"ratebed: {error}", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _as_made(asked: SiteAsked, site: Site) -> _Kept:
    files = frozenset(path.name for folder in (site.folder, site.folder / "logs") for path in folder.iterdir())
    return _Kept(asked, site, frozenset(site.agents), files, tuple(site.notes))


def _draws(topology: Topology) -> bool:
    """Whether links draw: what the next run drew would hang on what this one had."""
    return any(link.jitter_ns or link.loss_probability for link in topology.links)


def _is_renewed(kept: _Kept) -> bool:
    """End what the last run began, bring home who moved, remove what was written; False where that does not help."""
    site, made = kept.site, kept.asked.topology
    try:
        for name in [name for name in site.agents if name not in kept.agents]:
            site.forget(name)
        if set(site.agents) != kept.agents or not all(agent.alive for agent in site.agents.values()):
            return False
        for host in made.hosts:
            points = _points(made, host.name)
            if points != _points(site.topology, host.name) and len(points) == 1:
                site.apply(Handover(0, host.name, *points))
        if _links(site.topology) != _links(made):
            return False
        _remove_files(kept)
    except (OSError, HarnessError):
        return False
    site.epoch_ns, site.notes = None, [*kept.notes, f"runs that these servers carried before: {kept.carried_count}"]
    return True


def _points(topology: Topology, host: str) -> set[str]:
    """Where a host's links lead."""
    return {end for link in topology.links if host in (link.a, link.b) for end in (link.a, link.b)} - {host}


def _links(topology: Topology) -> set[tuple[object, ...]]:
    """The links, either way round."""
    return {
        (frozenset((link.a, link.b)), link.one_way_delay_ns, link.jitter_ns, link.loss_probability, link.rate_bps)
        for link in topology.links
    }


def _remove_files(kept: _Kept) -> None:
    """What came after the servers; their logs begin anew."""
    folder = kept.site.folder
    for path in [*folder.iterdir(), *(folder / "logs").iterdir()]:
        if path.name not in kept.files:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif path.parent.name == "logs":
            with path.open("r+") as log:
                log.truncate()
