"""The Go fuzz targets of brokerd, for some processor time; what fails Go itself keeps in ``testdata/fuzz/``."""

import re
import resource

from core.errors import MachineError
from testbed import golang
from testbed.brokers.brokerd import build
from tests.fuzz.worker import Outcome

TARGETS = {"brokerd-ingress": "FuzzIngress", "brokerd-control": "FuzzControl"}
_AT_A_TIME = 4  # inputs mostly wait
_ROUND_S = 20  # of the clock
_EXECS = re.compile(r"execs: ([0-9]+)")
_FAILING = re.compile(r"Failing input written to (\S+)")


def run_go(name: str, seconds: float) -> Outcome:
    """Fuzz a target until so much processor time is over, its compilation aside; MachineError without Go."""
    _go(TARGETS[name], "1x")  # compiles
    outcome = Outcome(0)  # Go draws its own seeds, and tells none
    while outcome.seconds < seconds and not outcome.failures:
        began_s = _children_s()
        code, said = _go(TARGETS[name], f"{_ROUND_S}s")
        outcome.seconds += _children_s() - began_s
        outcome.inputs += max(map(int, _EXECS.findall(said)), default=0)
        if code:
            file = _FAILING.search(said)
            outcome.failures[file[1] if file else name] = " ".join(said.split())[-300:]
    return outcome


def _go(target: str, time: str) -> tuple[int, str]:
    words = ("test", "-run", "^$", "-fuzz", f"^{target}$", "-fuzztime", time, "-fuzzminimizetime", "1x")
    result = build.MODULE.go(*words, "-parallel", str(_AT_A_TIME), ".")
    return result.returncode, result.stdout + result.stderr


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def has_go() -> bool:
    """Whether there is a Go to fuzz with."""
    try:
        golang.find_go()
    except MachineError:
        return False
    return True
