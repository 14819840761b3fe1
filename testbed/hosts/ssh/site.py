"""Hosts on the machines of an inventory, over SSH; their links as they are, or shaped there."""

import socket
import sys
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import cast

from core.errors import HarnessError, MachineError, SpecError
from testbed.brokers.brokerd.build import BINARY, brokerd_path
from testbed.faults import Fault, Handover
from testbed.hosts.agent import COMMENT
from testbed.hosts.local import unmet_wishes
from testbed.hosts.mininet.shaping import host_lines, is_limited, unmet_rates
from testbed.hosts.pipes import AgentProcess
from testbed.hosts.site import PathMeasure, Program, Site, SiteWatch
from testbed.hosts.ssh.host import RemoteHost
from testbed.hosts.ssh.inventory import Machine, read_inventory
from testbed.links import LinkStates
from testbed.trust.link_check import TOLERANCE_NS, check_links, raise_problems
from testbed.trust.observed import CLOCK_DOUBT

_SILENT = "no answer of"
AS_THEY_ARE_NS = 1_000_000  # ours: a path that differs from the topology by so much is worth a note


class SshSite(Site):
    """Agents on other machines.  MachineError names the machine that cannot be used, and why; a context manager.

    The topology's machines are dealt out to those of the inventory in turn, so that several may share one: what that
    means for their paths is said in ``notes``.
    """

    def _set_up(self) -> None:
        self.machines = read_inventory(Path(self.options["inventory"]))
        names = [host.name for host in self.topology.machines]
        self._machine_of = {name: self.machines[i % len(self.machines)].name for i, name in enumerate(names)}
        self.hosts: dict[str, RemoteHost] = {}  # by the machine's name
        used = [machine for machine in self.machines if machine.name in self._machine_of.values()]
        paths = LinkStates(self.topology).states().values()
        has_shape = any(path.delay_ns or path.loss_probability or is_limited(path.rate_bps) for path in paths)
        self._shaped = [machine for machine in used if machine.shape and has_shape]
        if self._shaped and len(names) > len(self.machines):  # tc tells paths by address
            what = f"{len(names)} hosts of {self.topology.name} on {len(self.machines)} machines"
            raise SpecError(f"{what}: paths inside of a machine cannot be shaped", "add machines, or leave out shape")
        brokerd = brokerd_path() if self.topology.node_names("broker") else None
        _together(lambda machine: self._open(machine, brokerd), used)
        self.hosts = {machine.name: self.hosts[machine.name] for machine in used}  # in the inventory's order
        for name, remote in self.hosts.items():
            self.notes += remote.shipped.notes
            shared = [host for host, machine in self._machine_of.items() if machine == name]
            if len(shared) > 1:
                self.notes.append(f"{', '.join(shared)} share the machine {name}")
        self._note_wishes(used)
        _together(self._shape, self._shaped)

    # --- hosts -------------------------------------------------------------------------------------------

    def address(self, host: str) -> str:
        """See ``testbed.hosts.site.Site.address``."""
        return self.remote(host).machine.address

    def remote(self, host: str) -> RemoteHost:
        """The machine that carries a host of the topology."""
        return self.hosts[self._machine_of[self.topology.host_of(host)]]

    def _process(self, host: str, program: Program, log: Path) -> tuple[AgentProcess, list[str]]:
        remote, command = self.remote(host), program.command
        own = {sys.executable: remote.shipped.python, str(BINARY): remote.shipped.brokerd}
        words = [own.get(command[0], command[0]), *command[1:]]
        try:
            with log.open("a") as file:
                file.write(f"{COMMENT}on {host}, {remote.machine.name}: {' '.join(words)}\n")
        except OSError as error:
            what = f"cannot start {program.name}: {log}: {error.strerror}"
            raise MachineError(what, "write elsewhere (--out)") from None
        return remote.keeping.start(replace(program, command=words), log)

    def watched(self) -> SiteWatch:
        """Agents are seen by the keepers' probes, where they live."""
        return SiteWatch(elsewhere=self.probes)

    def connect(self, host: str, port: int, timeout_s: float = 5.0) -> socket.socket:
        """Through the SSH connection; a channel of it behaves as a socket does."""
        return cast(socket.socket, self.remote(host).connection.reach(port, timeout_s))

    def place(self, host: str, path: Path) -> str:
        """See ``testbed.hosts.site.Site.place``; what the agents are told later comes after the folder is made."""
        remote = self.remote(host)
        there = remote.place(self._relative(path))
        remote.keeping.tell("folder", path=str(Path(there).parent))
        return there

    def put(self, host: str, path: Path) -> str:
        """See ``testbed.hosts.site.Site.put``."""
        return self.remote(host).put(self._relative(path), path.read_bytes())

    def _bring(self, host: str, path: Path) -> None:
        path.write_bytes(self.remote(host).fetch(self._relative(path)))

    @cached_property
    def memory(self) -> Path:
        """A folder of the run's: its machines have disks of their own."""
        return self.folder / "memory"

    def clock_offset_ns(self, host: str) -> int:
        """As measured when the connection was made."""
        return self.remote(host).offset.offset_ns

    def probes(self) -> Sequence[RemoteHost]:
        """The machines that are not lost."""
        return [remote for remote in self.hosts.values() if not remote.keeping.lost]

    def explained(self, error: HarnessError) -> HarnessError:
        """See ``testbed.hosts.site.Site.explained``; takes some seconds where a host is silent."""
        if not isinstance(error, MachineError) or error.what.startswith(_SILENT):
            return error
        silent = [name for name, remote in self.hosts.items() if not remote.answers()]
        if not silent:
            named = [agent for agent in self.agents.values() if f"agent {agent.name}," in error.what]
            where = f"{self.remote(named[0].host).machine.name}: " if named else ""
            return error if error.what.startswith(where) else MachineError(where + error.what, error.fix)
        return MachineError(f"{_SILENT} {', '.join(silent)} any more: {error.what}", "is it up, and the network?")

    # --- links -------------------------------------------------------------------------------------------

    def verify(self) -> list[PathMeasure]:
        """Measure every path; where nobody can set a delay, what was measured is what counts."""
        self._check_alive()
        measures = check_links(self, self._judged)
        unshaped = [measure for measure in measures if not self._is_shaped(measure.source)]
        far = [measure for measure in unshaped if _off_ns(measure) > AS_THEY_ARE_NS]
        if far:
            worst = max(far, key=_off_ns)
            self.notes.append(
                f"{len(far)} of {len(measures)} paths are as the machines have them: {worst.source} to {worst.target} "
                f"takes {worst.measured_delay_ns / 1e6:.2f} ms, {self.topology.name} wants "
                f"{worst.requested_delay_ns / 1e6:.2f} ms"
            )
        raise_problems(measures)
        return measures

    def apply(self, fault: Fault) -> None:
        """SpecError: the links are not ours to change; no host moves, either."""
        if isinstance(fault, Handover):
            return
        raise SpecError(f"{fault}: ssh changes no links while a run goes on", "use --testbed mininet, or virtual")

    def counters(self) -> list[tuple[str, str, float]]:
        """Of each machine: its clock against ours, at the start and now, and how certain that is."""
        rows: list[tuple[str, str, float]] = []
        for name, remote in self.hosts.items():
            try:
                later = remote.measured_offset()
            except MachineError:
                rows.append((name, "alive_count", 0.0))
                continue
            rows += [
                (name, "clock_offset_before_ns", float(remote.offset.offset_ns)),
                (name, "clock_offset_after_ns", float(later.offset_ns)),
                (name, CLOCK_DOUBT, float(remote.offset.doubt_until_ns(later))),
            ]
        return rows

    # --- inside ------------------------------------------------------------------------------------------

    def _open(self, machine: Machine, brokerd: Path | None) -> None:
        remote = RemoteHost(machine)
        self._undo.callback(remote.connection.close)
        remote.ship(brokerd, self.state.token)
        clean = remote.clean_command()
        number = self.state.making("remote", name=machine.name, machine=asdict(machine), clean=clean)
        try:
            remote.keep(f"{self.state.token}-{machine.name}")
        except BaseException:
            with suppress(MachineError):  # where it cannot be asked, it stays on record
                remote.connection.done(clean)
                self.state.gone(number)
            raise
        self._undo.callback(self._close_keeper, remote, number)
        self.hosts[machine.name] = remote

    def _close_keeper(self, remote: RemoteHost, number: int) -> None:
        """What a lost machine still has is left to its keeper, and stays on record for ``ratebed clean``."""
        if remote.keeping.close():
            self.state.gone(number)

    def _shape(self, machine: Machine) -> None:
        """What leaves a machine, which carries one host, takes the topology's paths; its keeper takes that back."""
        wanted = LinkStates(self.topology).states().items()
        paths = {self.address(b): path for (a, b), path in wanted if self._machine_of[a] == machine.name}
        keeping = self.hosts[machine.name].keeping
        device = keeping.ask("device", address=machine.address)["device"]
        netem = any(path.delay_ns or path.loss_probability for path in paths.values())
        if lines := host_lines(device, paths, netem=netem):
            try:
                keeping.ask("shape", device=device, lines=lines)
            except MachineError as error:
                fix = "delays want the kernel module sch_netem there, all want root or sudo; or leave out shape"
                raise MachineError(error.what, fix) from None

    def _note_wishes(self, used: Collection[Machine]) -> None:
        """What the links want and do not get, beside the delays, which are measured."""
        plain = [machine.name for machine in used if not machine.shape]
        if len(plain) < len(used):
            self.notes += unmet_rates(self.topology, is_tree=False)
        if plain and (wishes := unmet_wishes(self.topology, delays=False)):
            what = f"what leaves {', '.join(plain)} has no {', '.join(wishes)} of ours"
            self.notes.append(f"{what}, as {self.topology.name} asks for; shape = true in the inventory gives them")

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _judged(self, measure: PathMeasure) -> PathMeasure:
        """A path that nobody shapes may be slower than the topology wants, but must not lose everything.

        Of one that is shaped, what the clocks leave open is no fault.
        """
        if measure.probe_count == measure.lost_count:
            return measure
        if self._is_shaped(measure.source):
            doubt_ns = sum(self.remote(host).offset.doubt_ns for host in (measure.source, measure.target))
            if not measure.problem.startswith("median") or _off_ns(measure) > TOLERANCE_NS + doubt_ns:
                return measure
        return replace(measure, problem="")

    def _is_shaped(self, host: str) -> bool:
        return self.remote(host).machine in self._shaped


def _off_ns(measure: PathMeasure) -> int:
    return abs(measure.measured_delay_ns - measure.requested_delay_ns)


def _together(what: Callable[[Machine], None], machines: Collection[Machine]) -> None:
    """Do something to machines at once; the first error is raised after all have ended."""
    with ThreadPoolExecutor(len(machines) or 1) as pool:
        list(pool.map(what, machines))
