"""The nemesis: beside a live run it freezes and kills the run's own processes at their instants, and keeps its records.

A process is known by the name that the site gave it, and held by a descriptor while it is signalled, so that no other
process can have taken its id.  What it did is written down with the machine's real time.
"""

import os
import shutil
import signal
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from pathlib import Path

from core.units import SECOND_NS
from harness.nemesis.clock import step
from harness.nemesis.schedule import ClockStep, Freeze, FullDisk, Kill, Trouble
from testbed.api import SiteServers, Testbed
from testbed.hosts.loop import Clock
from testbed.hosts.places import Place
from testbed.hosts.site import Site
from testbed.hosts.state import start_time
from testbed.topologies.topology import Topology

_POLL_S = 0.02
KEPT = ("nodes", "clients")  # folders of a run in which actors leave their records until its end

# Why a strike did not land.
NO_LOAD = "the load had not begun"
OVER = "the run was over"
FAILED = "the nemesis had ended"
NOT_THERE = "nobody had this name"
STOPPED = "the run had stopped it"
HAD_ENDED = "it had ended"


@dataclass
class Strike:
    """What was done, on CLOCK_REALTIME; ``why_not``: it was not.

    ``tried_ns``: since the begin of the load; None: it did not come to that.
    """

    trouble: Freeze | Kill | ClockStep
    pid: int = 0
    begin_ns: int = 0
    end_ns: int | None = None  # of a freeze; None: it lasted until the process ended
    why_not: str = ""
    tried_ns: int | None = None


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
    """Acts on one run.  ``kept``: where copies of the actors' own records go.

    ``fault``: what has ended the thread that strikes, where that was not the end of the run.
    """

    troubles: Sequence[Trouble]
    kept: Path
    strikes: list[Strike] = field(default_factory=list)
    traces: list[Traces] = field(default_factory=list)
    fault: str = ""

    def outcomes(self) -> tuple[Strike, ...]:
        """A strike for every trouble but a full disk, for those too whose load never began."""
        begun = {strike.trouble for strike in self.strikes}
        never = [trouble for trouble in self.troubles if not isinstance(trouble, FullDisk) and trouble not in begun]
        return (*self.strikes, *(Strike(trouble, why_not=NO_LOAD) for trouble in never))

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
        while (epoch_ns := site.epoch_ns) is None:
            if over.wait(_POLL_S):
                return
        mine = [Strike(trouble, why_not=OVER) for trouble in self.troubles if not isinstance(trouble, FullDisk)]
        self.strikes += mine
        try:
            _strike(site, over, mine, Clock(epoch_ns))
        except Exception as error:  # of a thread: nobody else would hear of it
            self.fault = f"{type(error).__name__}: {error}"
            for strike in mine:
                strike.why_not = FAILED if strike.why_not == OVER else strike.why_not
        finally:
            for strike in mine:
                if isinstance(strike.trouble, Freeze) and strike.pid and strike.end_ns is None:
                    with suppress(OSError):
                        _thaw(site, strike)


def _strike(site: Site, over: threading.Event, strikes: Sequence[Strike], clock: Clock) -> None:
    """Each at its instant of the run, until that is ``over``; those that land, or cannot, say so."""
    names = {name for name, _ in site.processes}  # before anything has been done to them
    serial = count()
    to_come = [(strike.trouble.at_ns, next(serial), strike) for strike in strikes]
    heapify(to_come)
    while to_come:
        if over.wait(max(0, to_come[0][0] - clock.now_ns()) / SECOND_NS):
            return
        _, _, strike = heappop(to_come)
        if strike.pid:
            _thaw(site, strike)
            continue
        what, strike.tried_ns = strike.trouble, clock.now_ns()
        if isinstance(what, ClockStep):
            strike.begin_ns = time.time_ns()
            step(what.by_ns)
            strike.why_not = ""
            continue
        _signal(site, strike, signal.SIGKILL if isinstance(what, Kill) else signal.SIGSTOP, names)
        if isinstance(what, Freeze) and strike.pid:
            heappush(to_come, (what.at_ns + what.span_ns, next(serial), strike))


def _thaw(site: Site, strike: Strike) -> None:
    _signal(site, strike, signal.SIGCONT)
    strike.end_ns = time.time_ns()


def _signal(site: Site, strike: Strike, number: signal.Signals, names: Collection[str] = ()) -> None:
    """To the process that has the name now; to the very same one at its second signal.

    ``names``: of those that were there when the load began.
    """
    assert not isinstance(strike.trouble, ClockStep)
    name, is_first = strike.trouble.process, not strike.pid
    pid = strike.pid or dict(site.processes).get(name, 0)
    if not pid:
        strike.why_not = HAD_ENDED if name in site.agents else STOPPED if name in names else NOT_THERE
        return
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        strike.why_not = HAD_ENDED if is_first else ""
        return
    try:
        # A child that has ended keeps its id until the harness has waited for it: the name is still the same one's.
        if start_time(pid) is None or dict(site.processes).get(name) != pid:
            raise ProcessLookupError
        at_ns = time.time_ns()
        signal.pidfd_send_signal(handle, number)
        if is_first:
            strike.pid, strike.begin_ns, strike.why_not = pid, at_ns, ""
    except ProcessLookupError:
        strike.why_not = HAD_ENDED if is_first else ""
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
