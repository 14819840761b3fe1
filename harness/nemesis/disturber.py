"""The nemesis: beside a live run it freezes and kills the run's own processes at their instants, and keeps its records.

A process is known by the name that the site gave it, and held by a descriptor while it is signalled, so that no other
process can have taken its id.  What it did is written down with the machine's real time.
"""

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from pathlib import Path

from core.units import SECOND_NS
from harness.nemesis.clock import step
from harness.nemesis.schedule import ClockStep, Freeze, FullDisk, Kill, Trouble
from testbed.api import SiteServers, Testbed
from testbed.hosts.places import Place
from testbed.hosts.site import Site
from testbed.hosts.state import start_time
from testbed.topologies.topology import Topology

_POLL_S = 0.02
KEPT = ("nodes", "clients")  # folders of a run in which actors leave their records until its end


@dataclass
class Strike:
    """What was done, on CLOCK_REALTIME; ``why_not``: it was not."""

    trouble: Freeze | Kill | ClockStep
    pid: int = 0
    begin_ns: int = 0
    end_ns: int | None = None  # of a freeze; None: it lasted until the process ended
    why_not: str = ""


@dataclass(frozen=True)
class Traces:
    """By what a run can be known after its end."""

    token: str
    tag: str
    folder: Path
    memory: Path | None
    state: Path


@dataclass
class Nemesis:
    """Acts on one run.  ``kept``: where copies of the actors' own records go."""

    troubles: Sequence[Trouble]
    kept: Path
    strikes: list[Strike] = field(default_factory=list)
    traces: list[Traces] = field(default_factory=list)

    @contextmanager
    def beside(self, site: Site) -> Iterator[None]:
        """While the run goes on: acts from a thread of its own."""
        numbers, over = count(), threading.Event()

        def keep(path: Path) -> None:
            with suppress(OSError):
                shutil.copyfile(path, self.kept / f"{next(numbers)}.{path.name}")

        site.witness = keep
        thread = threading.Thread(target=self._act, args=(site, over), name="nemesis", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            memory = vars(site).get("memory")  # not asked for here: that would make it
            traces = Traces(site.state.token, site.state.tag, site.folder, memory, site.state.path)
            self.traces.append(traces)
            for name in KEPT:
                if (site.folder / name).is_dir():
                    shutil.copytree(site.folder / name, self.kept / name, dirs_exist_ok=True)

    def _act(self, site: Site, over: threading.Event) -> None:
        while site.epoch_ns is None:
            if over.wait(_POLL_S):
                return
        epoch_ns = time.monotonic_ns() + site.epoch_ns - time.time_ns()  # no step of the clock moves it
        to_come: list[tuple[int, int, Freeze | Kill | ClockStep | Strike]] = []  # a Strike: its freeze ends
        serial = count()
        for trouble in self.troubles:
            if not isinstance(trouble, FullDisk):
                heappush(to_come, (trouble.at_ns, next(serial), trouble))
        while to_come:
            if over.wait(max(0, epoch_ns + to_come[0][0] - time.monotonic_ns()) / SECOND_NS):
                break
            _, _, what = heappop(to_come)
            if isinstance(what, Strike):
                _signal(site, what, signal.SIGCONT)
                what.end_ns = time.time_ns()
                continue
            self.strikes.append(strike := Strike(what))
            if isinstance(what, ClockStep):
                strike.begin_ns = time.time_ns()
                step(what.by_ns)
                continue
            _signal(site, strike, signal.SIGKILL if isinstance(what, Kill) else signal.SIGSTOP)
            if isinstance(what, Freeze) and not strike.why_not:
                heappush(to_come, (what.at_ns + what.span_ns, next(serial), strike))
        for _, _, what in to_come:
            if isinstance(what, Strike):
                _signal(site, what, signal.SIGCONT)
                what.end_ns = time.time_ns()


def _signal(site: Site, strike: Strike, number: signal.Signals) -> None:
    """To the process that has the name now; to the very same one at its second signal."""
    assert not isinstance(strike.trouble, ClockStep)
    pid = strike.pid or dict(site.processes).get(strike.trouble.process, 0)
    try:
        if not pid:
            raise ProcessLookupError
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        strike.why_not = strike.why_not or ("" if strike.pid else "it was not there")
        return
    try:
        # A child that has ended keeps its id until the harness has waited for it: the name is still the same one's.
        if start_time(pid) is None or dict(site.processes).get(strike.trouble.process) != pid:
            raise ProcessLookupError
        at_ns = time.time_ns()
        signal.pidfd_send_signal(handle, number)
        if not strike.pid:
            strike.pid, strike.begin_ns = pid, at_ns
    except ProcessLookupError:
        strike.why_not = strike.why_not or ("" if strike.pid else "it had ended")
    finally:
        os.close(handle)


@dataclass(frozen=True)
class DisturbedPlace(Place):
    """A testbed on whose sites a nemesis is at work."""

    nemesis: Nemesis | None = None

    @contextmanager
    def site(self, topology: Topology, seed: int, servers: SiteServers | None = None) -> Iterator[Site]:
        """See ``testbed.api.Testbed``."""
        assert self.nemesis is not None
        with super().site(topology, seed, servers) as site, self.nemesis.beside(site):
            yield site


def disturbed(nemesis: Nemesis, testbed: Testbed) -> Testbed:
    """The testbed as it is, and the nemesis."""
    assert isinstance(testbed, Place)
    return testbed.become(DisturbedPlace, nemesis=nemesis)
