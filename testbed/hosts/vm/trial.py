"""``make test-vm``: all that is said of virtual machines, tried from an empty folder, without hardware virtualisation.

Builds the box, starts a hypervisor of its own, does ``vagrant up``, and in the machine ``ratebed doctor`` and a Mininet
run with the kernel's netem; brings that run here over SSH, runs something on the machine from here, draws both ways of
delaying packets in one figure, destroys everything, and looks whether anything is left.

``OUT/vm/result.json`` has what became of each step; it is written anew after each.
"""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from collectors.integrity import read_manifest
from collectors.schema import MANIFEST
from core.errors import HarnessError, MachineError
from core.records import Json
from testbed.hosts.capabilities import CHECKOUT, require, tool
from testbed.hosts.cleaning import marked_processes
from testbed.hosts.private import host_settings
from testbed.hosts.vm.hypervisor import NEEDED, Hypervisor, run_logged
from testbed.hosts.vm.inventory import inventory_text

FIGURE = ("run", "link-accuracy", "--scale", "tiny")
OUTSIDE = (  # on the machine, from here: a load that emulation can carry
    *("run", "--system", "crdt-counter", "--workload", "data-set", "--set", "workload.set=B-extreme"),
    *("--topology", "full-mesh", "--set", "topology.nodes=2", "--set", "study.duration=3s", "--testbed", "ssh"),
)
BOX = "local/ratebed"
MACHINE = "testbed"
_CHOICES = {"RATEBED_BOX": BOX, "RATEBED_HOSTS": "1"}  # of the Vagrantfile's
BOX_S, UP_S, INSIDE_S, SHORT_S = 900.0, 600.0, 600.0, 120.0
_BOX_OF = (
    "bootstrap.sh",
    "requirements-build.lock",
    "requirements.lock",
    "testbed/hosts/vm/box.sh",
    "testbed/hosts/vm/box.rb",
)


class MachineTrial:
    """The steps, and what became of them."""

    vm: Hypervisor

    def __init__(self, out: Path):
        self.out, self.log, self.file = out, out / "log", out / "result.json"
        self.results = out / "results"  # runs and figures
        self.result: Json = {"exit_code": None, "seconds": 0.0, "steps": []}
        self._began_s = time.monotonic()

    def run(self) -> int:
        """All steps; what was made is removed even where one fails.  Returns the exit code."""
        code, before = 0, host_settings()
        for part in (self._try, partial(self._check_nothing_left, before)):
            try:
                part()
            except (HarnessError, OSError, KeyboardInterrupt, ValueError, KeyError) as error:
                print(f"ratebed: {error or type(error).__name__}", file=sys.stderr)
                code = 1
        self.result["exit_code"] = code
        self._write()
        print(f"test-vm: {'passed' if code == 0 else 'failed'} in {self.result['seconds']:.0f} s: {self.file}")
        return code

    def _try(self) -> None:
        with self._step("tools"):
            require(*NEEDED, "debootstrap")
        box = self.out / "ratebed.box"
        with self._step("box"):
            if not _is_current(box):  # what making it has mounted ends with it, and it with us
                dying = [str(tool("setpriv")), "--pdeathsig", "KILL"]
                run_logged([str(CHECKOUT / "testbed/hosts/vm/box.sh"), str(self.out)], self.log, BOX_S, dying)
            self.result["box_bytes"] = box.stat().st_size
        with ExitStack() as undo:
            with self._step("hypervisor"):
                self.vm = undo.enter_context(Hypervisor())
            self._use(box)

    # --- with a hypervisor ---------------------------------------------------------------------------------

    def _use(self, box: Path) -> None:
        with self._step("box add"):
            self._vagrant(["box", "add", "--name", BOX, str(box)], SHORT_S)
        with ExitStack() as undo:
            undo.callback(self._destroy)
            with self._step("up"):
                self._vagrant(["up", MACHINE, "--no-tty"], UP_S)
            with self._step("doctor"):
                self.result["doctor"] = json.loads(self._inside("ratebed doctor --json", INSIDE_S))
                self.result["kernel"] = self._inside("uname -r", SHORT_S).strip()
                missing = [row["what"] for row in self.result["doctor"] if row["needed"] and not row["found"]]
                if missing:
                    raise MachineError(f"the machine lacks {', '.join(missing)}", f"see {self.file}")
            with self._step("run inside, netem"):
                self._inside(" ".join(["ratebed", *FIGURE, "--delays", "netem"]), INSIDE_S)
            with self._step("fetch"):
                inventory = self.out / "hosts.toml"
                inventory.write_text(inventory_text(lambda words: self._vagrant(words, SHORT_S)))
                self._ratebed(["fetch", "--inventory", str(inventory), "--from", "/home/vagrant/out"], SHORT_S)
                self.result["round_trips"] = round_trips(self.results)
                if not self.result["round_trips"]:
                    raise MachineError("no run came from the machine", f"see {self.log}")
            with self._step("run from outside, ssh"):
                self._run_outside(inventory)
            with self._step("figure of both"):
                self._ratebed([*FIGURE, "--delays", "netem,user-space"], INSIDE_S)

    def _run_outside(self, inventory: Path) -> None:
        """A run that comes home whole has done what is tried: an emulated processor may be too slow for a valid one."""
        try:
            self._ratebed([*OUTSIDE, "--inventory", str(inventory)], INSIDE_S)
        except MachineError:
            if not validities(self.results, "ssh"):
                raise
        self.result["outside"] = validities(self.results, "ssh")

    def _destroy(self) -> None:
        with self._step("destroy"):
            self._vagrant(["destroy", "--force", "--no-tty"], SHORT_S)

    def _vagrant(self, words: Sequence[str], timeout_s: float) -> str:
        return self.vm.run([str(tool("vagrant")), *words], self.log, timeout_s)

    def _inside(self, command: str, timeout_s: float) -> str:
        return self._vagrant(["ssh", MACHINE, "--no-tty", "-c", command], timeout_s)

    def _ratebed(self, words: Sequence[str], timeout_s: float) -> None:
        """On this machine, with the way to the virtual one."""
        command = [sys.executable, "-m", "ratebed", *words, "--out", str(self.results)]
        self.vm.run(command, self.log, timeout_s)

    # --- steps -------------------------------------------------------------------------------------------

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        began_s, step = time.monotonic(), {"step": name, "seconds": 0.0, "error": "interrupted"}
        self.result["steps"].append(step)
        try:
            yield
            step["error"] = ""
        except Exception as error:
            step["error"] = str(error)
            raise
        finally:
            step["seconds"] = round(time.monotonic() - began_s, 1)
            self._write()
            print(f"{step['seconds']:7.1f} s  {name}{step['error'] and ': ' + str(step['error'])}", flush=True)

    def _write(self) -> None:
        self.result["seconds"] = round(time.monotonic() - self._began_s, 1)
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(self.result, indent=2) + "\n")
        part.replace(self.file)

    def _check_nothing_left(self, before: dict[str, list[str]]) -> None:
        with self._step("nothing is left"):
            left = []
            if hasattr(self, "vm"):
                left += [f"process {process['pid']}" for process in marked_processes(self.vm.state.token)]
                left += [f"folder {self.vm.folder}"] if self.vm.folder.exists() else []
            now = host_settings()
            left += [f"{name} is {now[name]!r}, was {was!r}" for name, was in before.items() if now[name] != was]
            if left:
                raise MachineError(f"left: {'; '.join(left)}", "ratebed clean")


def round_trips(results: Path) -> list[Json]:
    """Of every pair of hosts and run that was measured: what was asked for, and the medians of both ways together."""
    trips = []
    for path in sorted(results.glob("runs/*/paths.parquet")):
        rows = {(row["source"], row["target"]): row for row in pq.read_table(path).to_pylist()}
        for (a, b), there in rows.items():
            if a < b and (b, a) in rows:
                both = [there, rows[b, a]]
                sums = {f"{name}_ms": round(sum(row[f"{name}_delay_ns"] for row in both) / 1e6, 3)
                        for name in ("requested", "measured")}  # fmt: skip
                jitter = there["requested_jitter_ns"] / 1e6
                lost = {"jitter_ms": jitter, "loss_probability": there["requested_loss_probability"]}
                trips.append({"run": path.parent.name, "source": a, "target": b, **sums, **lost})
    return trips


def validities(results: Path, testbed: str) -> dict[str, list[str]]:
    """Run -> how valid it calls itself, and why, of the finished runs on a testbed."""
    manifests = [read_manifest(path.parent) for path in sorted(results.glob(f"runs/*/{MANIFEST}"))]
    return {
        its["run_id"]: [its["validity"], *its["validity_reasons"]]
        for its in manifests
        if its["spec"]["testbed"] == testbed
    }


def _is_current(box: Path) -> bool:
    """Whether it is there, and newer than all that decides what is in it; the code itself comes by ``vagrant up``."""
    return box.is_file() and all((CHECKOUT / name).stat().st_mtime < box.stat().st_mtime for name in _BOX_OF)


def main() -> int:
    """Run the trial in OUT (of the environment, as for make)."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what was made is taken down
    out = Path(os.environ.get("OUT") or "out").resolve() / "vm"
    out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(out / "results", ignore_errors=True)
    (out / "log").unlink(missing_ok=True)
    os.environ |= _CHOICES
    return MachineTrial(out).run()


if __name__ == "__main__":
    sys.exit(main())
