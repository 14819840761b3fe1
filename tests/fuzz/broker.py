"""The Go fuzz targets of brokerd, for some processor time; what fails Go itself keeps in ``testdata/fuzz/``."""

import re
import resource
from concurrent.futures import ProcessPoolExecutor

from core.errors import MachineError
from testbed import golang
from testbed.brokers.brokerd import build
from tests.fuzz.worker import INPUT_BYTES, Outcome, children_s

TARGETS = {"brokerd-ingress": "FuzzIngress", "brokerd-control": "FuzzControl"}
_AT_A_TIME = 4  # inputs mostly wait
_ROUND = "2000x"  # by count: up to 1.26 Go takes the end of a round by the clock for a failure, now and then (75804)
_EXECS = re.compile(r"execs: ([0-9]+)")
_FAILING = re.compile(r"Failing input written to (\S+)")


def run_go(name: str, seconds: float) -> Outcome:
    """Fuzz a target until so much processor time is over, its compilation aside; MachineError without Go.

    Go tells of no input how long it took: one that takes 5 s fails there.
    """
    _alone(TARGETS[name], "1x")  # compiles
    outcome = Outcome(0)  # Go draws its own seeds, and tells none
    while outcome.seconds < seconds and not outcome.failures:
        code, said, used_s, used_bytes = _alone(TARGETS[name], _ROUND)
        outcome.seconds += used_s
        outcome.inputs += max(map(int, _EXECS.findall(said)), default=0)
        outcome.megabytes = max(outcome.megabytes, used_bytes >> 20)
        if code:
            file = _FAILING.search(said)
            outcome.failures[file[1] if file else name] = " ".join(said.split())[-300:]
        elif used_bytes > INPUT_BYTES:
            outcome.failures[name] = f"takes {used_bytes >> 20} MB"
    return outcome


def _alone(target: str, count: str) -> tuple[int, str, float, int]:
    """As ``_go``, in a process that has no other children: the largest of all that there ever were is told."""
    with ProcessPoolExecutor(1) as process:
        return process.submit(_go, target, count).result()


def _go(target: str, count: str) -> tuple[int, str, float, int]:
    """Exit code, output, processor time, and the bytes of the largest process, be it Go's linker."""
    words = ("test", "-run", "^$", "-fuzz", f"^{target}$", "-fuzztime", count, "-fuzzminimizetime", "1x")
    result = build.MODULE.go(*words, "-parallel", str(_AT_A_TIME), ".")
    largest_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    return result.returncode, result.stdout + result.stderr, children_s(), largest_bytes


def has_go() -> bool:
    """Whether there is a Go to fuzz with."""
    try:
        golang.find_go()
    except MachineError:
        return False
    return True
