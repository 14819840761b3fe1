"""Control groups: where they are, who is in them, a share of a core, and their end; versions 1, 2, and both at once."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from collectors.procfs import read
from core.errors import MachineError
from testbed.hosts.state import RunState

QUOTA_US = 1_000  # the least that the kernel takes: the shorter, the shorter the stops
END_TIMEOUT_S = 5.0


def hierarchies(text: str | None = None) -> dict[str, tuple[Path, str]]:
    """Controllers ("" for version 2) -> (where they are mounted, which group is the root there), from mountinfo."""
    mounted = {}
    for line in (read("/proc/self/mountinfo") if text is None else text).splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if kinds[:1] == ["cgroup2"]:
            mounted[""] = Path(fields[4]), fields[3]
        elif kinds[:1] == ["cgroup"]:
            for controller in kinds[2].split(","):
                mounted.setdefault(controller, (Path(fields[4]), fields[3]))
    return mounted


def groups_of(pid: int) -> dict[str, Path]:
    """The groups of a process, by controller; those at the root, which limit nothing, are left out."""
    mounted, groups = hierarchies(), {}
    for line in read(f"/proc/{pid}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            if controller in mounted and path != "/":
                place, root = mounted[controller]
                inside = path.removeprefix(root) if root != "/" else path
                groups[controller] = place / inside.lstrip("/")
    return groups


def joining(groups: dict[str, Path]) -> list[str]:
    """The words before a command that make it a member of the groups; the process keeps its id.

    ``cpuset`` is left out: nobody asks for cores of a container, and joining would undo an earlier pinning.
    """
    places = sorted({str(path) for controller, path in groups.items() if controller != "cpuset"})
    script = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo 0 >"$1/cgroup.procs" || exit 126; shift; n=$((n - 1)); done'
    return ["/bin/sh", "-c", f'{script}; exec "$@"', "join", str(len(places)), *places]


def kills_count(memory: Path) -> int | None:
    """How many processes of a memory group were killed because it was full; None where the group is gone."""
    for name in ("memory.events", "memory.oom_control"):  # version 2, version 1
        try:
            lines = (memory / name).read_text().splitlines()
        except OSError:
            continue
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    return None


def kill_members(group: Path) -> list[int]:
    """SIGKILL for all processes in a group; returns those that were there."""
    try:
        pids = [int(word) for word in (group / "cgroup.procs").read_text().split()]
    except OSError:  # the group is gone
        return []
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


def remove_group(name: str) -> bool:
    """Remove a control group, as it is called below each hierarchy's root; what still runs in it is killed.

    Returns whether it was there.
    """
    places = {place for place, _ in hierarchies().values()}
    groups = [path for place in places if (path := place / name.lstrip("/")).is_dir()]
    for path in groups:
        for folder, _, _ in os.walk(path, topdown=False):
            until_s = time.monotonic() + END_TIMEOUT_S
            while pids := kill_members(Path(folder)):
                if time.monotonic() > until_s:
                    raise OSError(f"processes {', '.join(map(str, pids))} do not end")
                time.sleep(0.01)
            os.rmdir(folder)
    return bool(groups)


@contextmanager
def confined(state: RunState, pid: int, share: float) -> Iterator[None]:
    """While this lasts, ``pid`` has at most ``share`` of a core's time (1: no limit), as Mininet's hosts have.

    The kernel stops the group once it has used up its quota, until the period is over; so a wait of up to a period is
    part of the latency of a process that is at its limit, and of bursts of one that is near it.  MachineError where
    the machine has no quotas, or does not let us set them, and where its group has one already, a container's say,
    which it would be let out of.
    """
    assert 0 < share <= 1, share
    if share == 1:
        yield
        return
    mounted = hierarchies()
    if not mounted.keys() & {"cpu", ""}:
        raise MachineError("no control groups for CPU quotas", "mount them, or use core_share=1")
    controller = "cpu" if "cpu" in mounted else ""
    root, _ = mounted[controller]
    before = groups_of(pid).get(controller, root)
    if before != root and (limit := _quota_of(before)):
        raise MachineError(f"its group {before} has a CPU quota already: {limit}", "leave it out, or use core_share=1")
    group = root / f"ratebed-{state.tag}-{pid}"
    number = state.making("folder", path=str(group))
    try:
        try:
            group.mkdir()
            _set_quota(group, round(QUOTA_US / share))
            _move(pid, group)
        except OSError as error:
            fix = "run as root, or use core_share=1"
            raise MachineError(f"no CPU quota at {group}: {error.strerror}", fix) from None
        yield
    finally:
        with suppress(OSError):
            _move(pid, before)  # the process, if it lives, is let out: an empty group can go
        with suppress(FileNotFoundError):
            group.rmdir()
        state.gone(number)


def _quota_of(group: Path) -> str:
    """What a group may have, as the kernel writes it; "": all that there is."""
    for name, none in (("cpu.max", "max"), ("cpu.cfs_quota_us", "-1")):
        with suppress(FileNotFoundError):
            text = (group / name).read_text().strip()
            return "" if text.startswith(none) else text
    return ""


def _set_quota(group: Path, period_us: int) -> None:
    if (group / "cpu.cfs_quota_us").is_file():
        (group / "cpu.cfs_period_us").write_text(str(period_us))
        (group / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
    else:
        (group / "cpu.max").write_text(f"{QUOTA_US} {period_us}")


def _move(pid: int, group: Path) -> None:
    """Into a group.  One of version 2 may manage cores, too, and would undo the pinning of each thread."""
    cores: dict[int, set[int]] = {}
    for thread in map(int, os.listdir(f"/proc/{pid}/task")):
        with suppress(ProcessLookupError):  # threads come and go
            cores[thread] = os.sched_getaffinity(thread)
    (group / "cgroup.procs").write_text(str(pid))
    for thread, its in cores.items():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(thread, its)
