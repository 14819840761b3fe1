"""Control groups: where a container's are, and how an agent gets into them; versions 1 and 2, and both at once."""

from pathlib import Path

from collectors.procfs import read


def hierarchies(text: str) -> dict[str, tuple[Path, str]]:
    """Controllers ("" for version 2) -> (where they are mounted, which group is the root there), from mountinfo."""
    mounted = {}
    for line in text.splitlines():
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
    mounted = hierarchies(read("/proc/self/mountinfo"))
    groups = {}
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


def members(group: Path) -> list[int]:
    """The processes in a group."""
    try:
        return [int(word) for word in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []
