"""A process that may take a share of one core and no more: a control group with a CPU quota, as Mininet's hosts have.

The kernel stops the group once it has used up its quota, until the period is over; so a wait of up to a period is
part of the latency of a process that is at its limit, and of bursts of one that is near it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from core.errors import MachineError
from testbed.hosts.site import Site

QUOTA_US = 1_000  # the least that the kernel takes: the shorter, the shorter the stops
ROOTS = ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup")  # version 1, and 2


@contextmanager
def confined(site: Site, pid: int, share: float) -> Iterator[None]:
    """While this lasts, ``pid`` has at most ``share`` of a core's time (1: no limit).

    MachineError where the machine has no quotas, or does not let us set them.
    """
    assert 0 < share <= 1, share
    if share == 1:
        yield
        return
    root = _root()
    group = root / f"ratebed-{site.state.tag}-{pid}"
    number = site.state.making("folder", path=str(group))
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
            _move(pid, root)  # the process, if it lives, is let out: an empty group can go
        with suppress(FileNotFoundError):
            group.rmdir()
        site.state.gone(number)


def _root() -> Path:
    for root in map(Path, ROOTS):
        if (root / "cpu.cfs_quota_us").is_file() or (root / "cgroup.subtree_control").is_file():
            return root
    raise MachineError("no control groups for CPU quotas", "mount them, or use core_share=1")


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
