"""Samples a live run's machine while it goes on: cores, memory, processes, namespaces, the clock.

A thread of the harness, which has nothing else to do then.  Rows are those of the table ``samples``; counters are
kept as they are, since their start.  Every ``CORES_EVERY_S`` the cores, the clock (0.1 ms) and who stands still
(``collectors.stops``), every ``ALL_EVERY_S`` all of it: about 0.15 ms a process and 0.4 ms a namespace.  What it really
cost is a row, ``probing_ns``.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from collectors import procfs
from collectors.stops import Stops, looks_at
from core.errors import MachineError
from core.records import Sample

CORES_EVERY_S = 0.2
ALL_EVERY_S = 1.0
FULL_SHARE = 0.95  # a core that is busy for this share of an interval has no room left
MACHINE, HARNESS = "machine", "harness"  # nodes of rows beside the agents and hosts
STOPPED = "stopped_ns"  # the metric of a process that stood still until then


class Seen(Protocol):
    """What was seen of a machine, or of several.  Instants are CLOCK_REALTIME."""

    def samples(self, epoch_ns: int) -> list[Sample]:
        """Rows of ``samples`` with instants since ``epoch_ns``."""
        ...

    def busy_share(self, from_ns: int = 0, until_ns: int | None = None) -> float | None:
        """Share of a span in which every core was at least 95 % busy; None where nothing is known of it."""
        ...

    def steal_share(self, from_ns: int = 0, until_ns: int | None = None) -> float | None:
        """Share of the cores' time in a span that other guests of the machine took; None as above."""
        ...

    @property
    def clock_step_ns(self) -> int:
        """The most that CLOCK_REALTIME was moved against CLOCK_MONOTONIC."""
        ...


class Probes:
    """Samples from ``start`` to ``stop``; a context manager.

    ``processes``: (name, pid) of what lives now · ``namespaces``: host -> pid of a process in its network namespace;
    hosts that share ours are one · ``more``: further counters, (node, metric, value), as a site's ``counters``, which
    are asked for at start and stop only, by the caller's thread (agents answer to one thread) · ``usage``: counters of
    the same kind that somebody else keeps of whole hosts, asked for with the processes'.
    """

    def __init__(
        self,
        processes: Callable[[], Iterable[tuple[str, int]]] = tuple,
        namespaces: Callable[[], Mapping[str, int]] = dict,
        more: Callable[[], Iterable[tuple[str, str, float]]] = tuple,
        usage: Callable[[], Iterable[tuple[str, str, float]]] = tuple,
    ):
        self._processes, self._namespaces, self._more, self._usage = processes, namespaces, more, usage
        self._rows: list[Sample] = []  # at_ns is CLOCK_REALTIME
        self._cores: list[tuple[int, list[procfs.CoreTimes]]] = []  # monotonic instant
        self._clock: list[tuple[int, int]] = []  # monotonic instant, real time minus monotonic time
        self._stops = Stops()  # CLOCK_REALTIME
        self._own_namespace = procfs.namespace_of(os.getpid())
        self._cpu_ns = 0
        self._reading = threading.Lock()
        self._done = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)

    def start(self) -> None:
        """Take the first samples at once, the others in a thread."""
        self._sample_all(at_an_end=True)
        self._thread.start()

    def stop(self) -> None:
        """Take the last samples; MachineError where they had ended before.  A second call does nothing."""
        if not self._done.is_set():
            self._done.set()
            self._thread.join()
            self.check()
            self._sample_all(at_an_end=True)

    def check(self) -> None:
        """MachineError where the thread has ended by itself."""
        if self._failure is not None:
            what = f"{type(self._failure).__name__}: {self._failure}"
            raise MachineError(f"the machine was not watched to the end of the run: {what}") from self._failure

    def mark(self) -> int:
        """Take the counters of processes and namespaces once more, now, in the caller's thread.

        Returns the instant of their rows, CLOCK_REALTIME: what a span cost lies between two such marks.
        """
        at_ns, rows = self._groups_now(extended=False)
        self._rows += [(at_ns, node, metric, value) for node, metric, value in rows]
        return at_ns

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except MachineError:
            if error is None:  # else that is what ended the run
                raise

    # --- what was seen -------------------------------------------------------------------------------------

    def samples(self, epoch_ns: int) -> list[Sample]:
        """Rows of ``samples`` with instants since ``epoch_ns`` of CLOCK_REALTIME, in order of time."""
        stopped = [(stop.end_ns, stop.name, STOPPED, float(stop.span_ns)) for stop in self._stops.all()]
        rows = sorted([*self._rows, *stopped], key=lambda row: row[0])
        return [(at_ns - epoch_ns, node, metric, value) for at_ns, node, metric, value in rows]

    def busy_share(self, from_ns: int = 0, until_ns: int | None = None) -> float | None:
        """Share of the time in which every core was at least 95 % busy; None if no interval lies within.

        Instants are CLOCK_REALTIME, as are those of the run's load.
        """
        full_ns = seen_ns = 0
        for span_ns, before, after in self._intervals(from_ns, until_ns):
            shares = [
                1 - (new.idle_ns - old.idle_ns) / max(1, new.total_ns - old.total_ns)
                for old, new in zip(before, after, strict=False)
            ]
            if shares:  # else it could not be read: that is no idle machine
                seen_ns += span_ns
                full_ns += span_ns if min(shares) >= FULL_SHARE else 0
        return full_ns / seen_ns if seen_ns else None

    def steal_share(self, from_ns: int = 0, until_ns: int | None = None) -> float | None:
        """Share of the cores' time that other guests of the machine took; None if no interval lies within."""
        intervals = list(self._intervals(from_ns, until_ns))
        if not intervals:
            return None
        first, last = intervals[0][1], intervals[-1][2]
        total_ns = sum(core.total_ns for core in last) - sum(core.total_ns for core in first)
        return (sum(core.steal_ns for core in last) - sum(core.steal_ns for core in first)) / max(1, total_ns)

    @property
    def clock_step_ns(self) -> int:
        """The most that CLOCK_REALTIME was moved against CLOCK_MONOTONIC, to either side; slewing moves both."""
        offsets = [offset_ns for _, offset_ns in self._clock]
        return max((abs(offset_ns - offsets[0]) for offset_ns in offsets), default=0)

    def _intervals(
        self, from_ns: int, until_ns: int | None
    ) -> Iterable[tuple[int, list[procfs.CoreTimes], list[procfs.CoreTimes]]]:
        """Pairs of neighbouring samples of the cores whose middle is in the span."""
        offset_ns = self._clock[0][1] if self._clock else 0
        for (before_ns, before), (after_ns, after) in zip(self._cores, self._cores[1:], strict=False):
            middle_ns = (before_ns + after_ns) // 2 + offset_ns
            if from_ns <= middle_ns and (until_ns is None or middle_ns <= until_ns) and after_ns > before_ns:
                yield after_ns - before_ns, before, after

    # --- the thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._sample_on()
        except Exception as error:  # told by ``stop``: what nobody looked at would pass for well
            self._failure = error

    def _sample_on(self) -> None:
        due_s = time.monotonic()
        all_due_s = due_s + ALL_EVERY_S
        while True:
            due_s = max(due_s + CORES_EVERY_S, time.monotonic() + CORES_EVERY_S / 10)  # late ones are left out
            if self._done.wait(due_s - time.monotonic()):
                return
            if due_s >= all_due_s:
                all_due_s = due_s + ALL_EVERY_S
                self._sample_all()
            else:
                self._sample_cores()

    def _sample_cores(self) -> None:
        began_ns = time.thread_time_ns()
        self._clock.append(clock_offset())
        self._cores.append((time.monotonic_ns(), procfs.core_times()))
        self._stops.look(time.time_ns(), looks_at(self._processes()))
        self._cpu_ns += time.thread_time_ns() - began_ns

    def _sample_all(self, at_an_end: bool = False) -> None:
        self._sample_cores()
        began_ns = time.thread_time_ns()
        at_ns, groups = self._groups_now(at_an_end)
        rows = [*self._machine(), *groups, *self._usage(), *(self._more() if at_an_end else ())]
        self._rows += [(at_ns, node, metric, value) for node, metric, value in rows]
        self._cpu_ns += time.thread_time_ns() - began_ns

    def _machine(self) -> Iterable[tuple[str, str, float]]:
        cores = self._cores[-1][1]
        yield MACHINE, "cpu_ns", float(sum(core.total_ns - core.idle_ns for core in cores))
        yield MACHINE, "steal_ns", float(sum(core.steal_ns for core in cores))
        yield MACHINE, "core_count", float(len(cores))
        yield MACHINE, "clock_offset_ns", float(self._clock[-1][1] - self._clock[0][1])
        yield HARNESS, "probing_ns", float(self._cpu_ns)

    def _groups_now(self, extended: bool) -> tuple[int, list[tuple[str, str, float]]]:
        """With their instant: of two threads the one whose instant is later reads later, so that no counter falls."""
        with self._reading:
            return time.time_ns(), list(self._groups(extended))

    def _groups(self, extended: bool) -> Iterable[tuple[str, str, float]]:
        own = os.getpid()
        groups = [(MACHINE, procfs.machine_counters()), (HARNESS, procfs.process_counters(own))]
        groups += [(name, procfs.process_counters(pid)) for name, pid in self._processes()]
        groups.append((MACHINE, procfs.network_counters(own, extended)))
        for host, pid in self._namespaces().items():
            if procfs.namespace_of(pid) not in (self._own_namespace, None):
                groups.append((host, procfs.network_counters(pid, extended)))
        for node, counters in groups:
            for metric, value in counters.items():
                yield node, metric, value


def clock_offset() -> tuple[int, int]:
    """A monotonic instant, and by how much CLOCK_REALTIME is ahead of it: the best of three readings."""
    best = (1 << 62, 0, 0)
    for _ in range(3):
        before_ns = time.monotonic_ns()
        real_ns = time.time_ns()
        after_ns = time.monotonic_ns()
        best = min(best, (after_ns - before_ns, before_ns, real_ns - (before_ns + after_ns) // 2))
    return best[1], best[2]


class Together:
    """``Seen`` of the harness' machine and of those that carry a run elsewhere: the worst of the latter counts."""

    def __init__(self, ours: Seen, theirs: Sequence[Seen] = ()):
        self._all = (ours, *theirs)
        self._carrying = theirs or (ours,)

    def samples(self, epoch_ns: int) -> list[Sample]:
        """All rows, in order of time."""
        return sorted((row for seen in self._all for row in seen.samples(epoch_ns)), key=lambda row: row[0])

    def busy_share(self, from_ns: int = 0, until_ns: int | None = None) -> float | None:
        """Of the machine that was busiest."""
        shares = [seen.busy_share(from_ns, until_ns) for seen in self._carrying]
        return max((share for share in shares if share is not None), default=None)

    def steal_share(self, from_ns: int = 0, until_ns: int | None = None) -> float | None:
        """Of the machine that lost most."""
        shares = [seen.steal_share(from_ns, until_ns) for seen in self._carrying]
        return max((share for share in shares if share is not None), default=None)

    @property
    def clock_step_ns(self) -> int:
        """Of the clock that was moved most."""
        return max(seen.clock_step_ns for seen in self._carrying)
