"""What each machine of a topology is on this testbed: a container or a namespace, of which image, with how much.

Options are flat, as ``ratebed run --set testbed.KEY=VALUE`` writes them: ``cpus`` is every host's, ``broker.cpus`` that
of all hosts with the role broker, ``brokers1.cpus`` that of one host (or of the host of one node).  The nearest counts.
"""

import re
import shlex
from dataclasses import dataclass, fields

from core.errors import SpecError
from core.records import Options
from core.registry import configure, hint
from testbed.topologies.topology import Topology

CONTAINER, NAMESPACE = "docker", "mininet"  # kinds of hosts
ARCHIVE = ".tar"  # ends the path of what docker save has written, and no name of an image
LEAST_CPUS = 0.01  # Docker's own
LEAST_MEMORY_BYTES = 6 << 20  # the same
_UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE = re.compile(r"\s*([0-9]+)\s*([A-Za-z]+)\s*")


@dataclass(frozen=True)
class Wish:
    """One host.  A container without a ``command`` runs what its image says; one of our own image waits for agents."""

    kind: str = CONTAINER
    image: str = ""  # a name, or the path of a .tar (docker save); empty = built of this checkout
    command: str = ""  # instead of the image's own
    cpus: float = 0.0  # processors that its processes have together, at most; 0 = no limit
    memory: str = ""  # as in 256MB: more, and it is killed; empty = no limit

    def __post_init__(self) -> None:
        if self.kind not in (CONTAINER, NAMESPACE):
            raise SpecError(f"testbed docker: kind = {self.kind!r}", f"give {CONTAINER} or {NAMESPACE}")
        if self.kind == NAMESPACE and (self.image or self.command or self.cpus or self.memory):
            raise SpecError("testbed docker: a mininet host has no image, command, cpus or memory", "leave them out")
        if self.cpus and not LEAST_CPUS <= self.cpus < float("inf"):
            raise SpecError(f"testbed docker: cpus = {self.cpus:g}", f"give at least {LEAST_CPUS}, or 0 for no limit")
        if self.memory and self.memory_bytes < LEAST_MEMORY_BYTES:
            raise SpecError(f"testbed docker: memory = {self.memory!r}", "give at least 6MiB")
        try:
            shlex.split(self.command)
        except ValueError as error:
            raise SpecError(f"testbed docker: command = {self.command!r}: {error}", "mend the quotes") from None

    @property
    def memory_bytes(self) -> int:
        """The limit, 0 for none; SpecError where it is no size."""
        if not self.memory:
            return 0
        match = _SIZE.fullmatch(self.memory)
        if match is None or match[2] not in _UNITS:
            raise SpecError(f"testbed docker: memory = {self.memory!r}", f"give a size in {', '.join(_UNITS)}: 256MB")
        return int(match[1]) * _UNITS[match[2]]


def read_wishes(options: Options, topology: Topology) -> dict[str, Wish]:
    """By machine; SpecError for an option that is none, for a host that is none, for values that cannot be."""
    known = [field.name for field in fields(Wish)]
    by_whom: dict[str, dict[str, object]] = {}
    for key, value in options.items():
        whom, _, name = key.rpartition(".")
        if name not in known:
            raise SpecError(f"testbed docker has no option {key!r}", hint(name, known))
        by_whom.setdefault(whom, {})[name] = value
    roles = {host.role for host in topology.machines}
    if "proxy" in roles:
        roles.add("client")  # who come with the load: testbed/topologies/places.py
    hosts = {name: host.name for host in topology.machines for name in (host.name, *host.node_names)}
    if strangers := sorted(set(by_whom) - roles - set(hosts) - {""}):
        raise SpecError(
            f"testbed docker: {topology.name} has no host or role {strangers[0]!r}",
            hint(strangers[0], {*roles, *hosts}),
        )
    wishes = {}
    for machine in topology.machines:
        layers = [by_whom.get("", {}), by_whom.get(machine.role, {})]
        layers += [of for name, of in by_whom.items() if hosts.get(name) == machine.name]
        if any(layer.get("kind") == NAMESPACE for layer in layers[1:]):
            layers[0] = {}  # what holds for all containers is not meant for it
        values = {name: value for layer in layers for name, value in layer.items()}
        wishes[machine.name] = configure(f"testbed docker, host {machine.name},", Wish, values)
    return wishes
