"""One parser fuzzed in a process of its own, within limits; should the process end, its last input is in a file.

``python -m tests.fuzz.worker PARSER SEED SECONDS FOLDER``
"""

import hashlib
import json
import math
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType

from core.writing import replace_file
from tests.fuzz.parsers import CORPUS, FOUND, PARSERS, complaint, seeds

INPUT_S, INPUT_BYTES = 5.0, 1 << 30  # of an input: so long it may compute, and wait
WARM_UP_S = 30.0  # of a kept input the first time, with what its parser imports and compiles
GRACE_S = 60.0  # of a worker that is stuck where no signal is heard, beside its time
CURRENT, TRIED, FAILED, SAID = "current", "tried", "found.jsonl", "outcome.json"  # TRIED: a byte an input
WARMED = "warmed"  # the processor time that went by before the inputs
WAITS = "waits more than"
_KEPT = 5  # failures of one kind say no more than these


@dataclass
class Outcome:
    """What came of a parser's inputs: ``failures`` by file in the corpus."""

    seed: int
    inputs: int = 0
    seconds: float = 0.0  # of processor time
    slowest_s: float = 0.0
    megabytes: int = 0  # of the process, at most
    failures: dict[str, str] = field(default_factory=dict)


class _TooSlow(BaseException):
    """An input has had its time, of which kind its text says."""


def run(name: str, seed: int, seconds: float) -> Outcome:
    """Fuzz a parser in a process; one that dies or hangs has failed on the input that it left."""
    total, spent_s = Outcome(seed), 0.0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        while (left := seconds - spent_s) > 0:
            command = [sys.executable, "-m", "tests.fuzz.worker", name, str(seed + total.inputs), str(left), place]
            began, used_s = time.monotonic(), children_s()
            try:
                code = subprocess.run(command, timeout=left * 20 + GRACE_S).returncode
            except subprocess.TimeoutExpired:
                code = -signal.SIGKILL
            part = _told(folder, seed)
            if code:
                part.seconds = max(0.0, children_s() - used_s - _warmed_s(folder))
                part.failures |= _guilty(name, folder, f"its process ended with {code}")
            spent_s += time.monotonic() - began if code else part.seconds  # one that waits comes to an end, too
            _add(total, part)
            for file in (CURRENT, TRIED, FAILED, SAID, WARMED):
                (folder / file).unlink(missing_ok=True)
    return total


def children_s() -> float:
    """Processor time of all processes that this one has started, and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _warmed_s(folder: Path) -> float:
    """Of a worker that died as it warmed up: all, as none of its time was its inputs'."""
    return float((folder / WARMED).read_text()) if (folder / WARMED).exists() else math.inf


def _told(folder: Path, seed: int) -> Outcome:
    """What a worker says at its end; of one that died, what it had tried and found by then."""
    if (folder / SAID).exists():
        return Outcome(**json.loads((folder / SAID).read_text()))
    outcome = Outcome(seed)
    if (folder / TRIED).exists():
        outcome.inputs = (folder / TRIED).stat().st_size
    if (folder / FAILED).exists():
        for line in (folder / FAILED).read_text().splitlines():
            with suppress(ValueError):  # it died while it wrote this
                outcome.failures |= json.loads(line)
    return outcome


def _guilty(name: str, folder: Path, why: str) -> dict[str, str]:
    """The input that a worker died of, as a failure; without one, it was none of the inputs."""
    if not (folder / CURRENT).exists():
        return {name: f"{why}, before any input"}
    return {_keep(name, (folder / CURRENT).read_bytes()): why}


def _add(total: Outcome, part: Outcome) -> None:
    total.inputs += part.inputs
    total.seconds += part.seconds
    total.slowest_s = max(total.slowest_s, part.slowest_s)
    total.megabytes = max(total.megabytes, part.megabytes)
    total.failures |= part.failures


def _keep(name: str, data: bytes) -> str:
    """Keep an input in the corpus, unless it is there; returns its file's name."""
    for kept in sorted((CORPUS / name).iterdir()):
        if kept.read_bytes() == data:
            return f"{name}/{kept.name}"
    path = CORPUS / name / f"{FOUND}{hashlib.sha256(data).hexdigest()[:12]}"
    path.write_bytes(data)
    return f"{name}/{path.name}"


def judged(name: str, data: bytes, folder: Path, limit_s: float = 0.0) -> str:
    """``complaint`` within ``limit_s``, or else the time of an input; one that waits does so twice: machines stall."""
    limit_s = limit_s or INPUT_S
    problem = _timed(name, data, folder, limit_s)
    return _timed(name, data, folder, limit_s) if problem == f"{WAITS} {limit_s:.0f} s" else problem


def _timed(name: str, data: bytes, folder: Path, limit_s: float) -> str:
    began_s = _waited_s()

    def ring(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGPROF:
            raise _TooSlow("takes more than")
        if _waited_s() - began_s > limit_s:
            raise _TooSlow(WAITS)

    signal.signal(signal.SIGPROF, ring)
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    signal.setitimer(signal.ITIMER_REAL, limit_s, limit_s / 10)
    try:
        return complaint(name, data, folder)
    except _TooSlow as slow:
        return f"{slow} {limit_s:.0f} s"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _waited_s() -> float:
    """Real time so far in which this process neither ran nor wanted to: on a busy machine it stands in a queue."""
    queued = Path("/proc/self/schedstat")
    queued_ns = int(queued.read_text().split()[1]) if queued.exists() else 0
    return time.monotonic() - time.process_time() - queued_ns / 1e9


def warm_up(name: str, folder: Path) -> None:
    """What parsers import, compile and keep is not their inputs': so all kept inputs once, and ``work`` judges them."""
    for data in seeds(name):
        (folder / CURRENT).write_bytes(data)  # should it end here
        judged(name, data, folder, WARM_UP_S)


def work(name: str, seed: int, seconds: float, folder: Path) -> Outcome:
    """What the process does: the kept inputs, then mutated ones until its processor time is over."""
    rng, inputs, outcome = random.Random(f"{name} {seed}"), seeds(name), Outcome(seed)
    limit = _size_bytes() + INPUT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    kinds: dict[str, int] = {}
    begun, waiting = time.process_time(), list(inputs)
    (folder / WARMED).write_text(str(begun))
    while (since_s := time.process_time()) - begun < seconds:
        data = waiting.pop() if waiting else PARSERS[name].mutated(inputs, rng)
        (folder / CURRENT).write_bytes(data)
        _append(folder / TRIED, b".")
        problem = judged(name, data, folder)
        outcome.inputs += 1
        outcome.slowest_s = max(outcome.slowest_s, time.process_time() - since_s)
        if problem:
            kinds[problem[:40]] = kinds.get(problem[:40], 0) + 1
            if kinds[problem[:40]] <= _KEPT:
                failure = {_keep(name, data): problem}
                outcome.failures |= failure
                _append(folder / FAILED, json.dumps(failure).encode() + b"\n")
    outcome.seconds = time.process_time() - begun
    outcome.megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return outcome


def _append(path: Path, data: bytes) -> None:
    """At once, as this process may end with the next input."""
    with path.open("ab", buffering=0) as file:
        file.write(data)


def _size_bytes() -> int:
    """The address space of this process, with all that its parsers load once."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main() -> None:
    """See the module."""
    name, seed, seconds, place = sys.argv[1:]
    folder = Path(place)
    warm_up(name, folder)
    outcome = work(name, int(seed), float(seconds), folder)
    replace_file(folder / SAID, json.dumps(asdict(outcome)).encode())


if __name__ == "__main__":
    main()
