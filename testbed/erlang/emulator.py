"""The Erlang emulator: compiles the thesis' nodes, once for each state of their sources, and runs them in virtual time.

``virtual_time.erl`` is the scheduler, ``limiter_process.erl`` a node as a process, ``token_counter.erl`` and
``token_queue.erl`` what it does, as the listings print it.  One scheduler of the emulator's: one process works at a
time, and equal jobs have equal answers, heaps included, on one release of Erlang.

A word of memory is 8 bytes.  Words of a term (a test asks Erlang for them):

    small integer, atom, process id, empty list 0 · float 2 · cons cell 2 · tuple of n: 1 + n
    binary of up to 64 letters: 2, and one for each 8 letters begun
    map of n <= 32 keys: 3 + n, and 1 + n for the tuple of its keys, none for no keys; maps of equal keys may share it

So a bucket, {bucket, Counts, Limit, At}, is 5, 2 for its limit, and those of its counts; an element, {element, Birth,
Death}, is 4; and 2 more for each queue that an element is in.  Whoever refers to a term has no words for it: a bucket,
or an element, that local and delta states refer to counts once.
"""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from core.errors import MachineError, SystemFault
from testbed.hosts.capabilities import require, tool
from testbed.making import made_once

FOLDER = Path(__file__).resolve().parent
SOURCES = ("limiter_process.erl", "token_counter.erl", "token_queue.erl", "virtual_time.erl")
CACHE = FOLDER.parents[1] / ".erlang"  # of the checkout
COMPILE_TIMEOUT_S = 120
RUN_TIMEOUT_S = 7_200  # ours: of one run
# One scheduler, and no more threads than there must be; no file of the user's is read.
FLAGS = ("-noshell", "-noinput", "-boot", "no_dot_erlang", "+S", "1:1", "+SDcpu", "1:1", "+SDio", "1", "+A", "1")

Value = bool | int | float | str | tuple["Value", ...] | Mapping[str, "Value"]  # an Erlang term; text is an atom


@dataclass(frozen=True)
class ErlangJob:
    """What is run: ``nodes`` processes, numbered from 1, gossiping every ``interval`` ms.

    ``options``: the module of a node, and what it wants (see there).  ``phase``: ``aligned``, or ``random`` rounds of
    different nodes.  ``drain``: how many ms after the last request until all are cut off.  ``collected``: garbage
    is collected before each look at the processes, every ``look`` ms.  ``own_words``: of memory that a process holds
    besides.  ``journal``: every message is told.  ``epoch``: UNIX time in ms of the run's time 0.
    """

    nodes: int
    seed: int
    interval: int
    phase: str
    drain: int
    options: tuple[str, Mapping[str, Value]]
    epoch: int
    collected: bool = True
    own_words: int = 0
    journal: bool = False
    look: int = 1_000


class ErlangWeight(NamedTuple):
    """A process at an instant: its memory, its state's terms, and what it sent since the look before.

    ``process_bytes``: all that Erlang counts to it.  ``shared_bytes``: local and delta states, each term once (live
    words); ``flat_bytes``: each term wherever it is referred to.  All three are None at the run's end, where only what
    was sent since the last look is told.  ``external_bytes``, ``word_bytes``: messages in Erlang's external format,
    and as words of memory.
    """

    at_ms: int
    node: int
    process_bytes: int | None
    shared_bytes: int | None
    flat_bytes: int | None
    sent_count: int
    external_bytes: int
    word_bytes: int


class ErlangMessage(NamedTuple):
    """A message between nodes; ``urgent``: sent at once (4.2.3), not in a round."""

    at_ms: int
    source: int
    target: int
    urgent: bool


@dataclass
class ErlangAnswer:
    """What came back.  ``accepted``: for each request; the rest as its name says, instants in ms, None: never."""

    release: str
    accepted: list[bool]
    messages: list[ErlangMessage]
    weights: list[ErlangWeight]
    converged_at_ms: int | None = None
    last_sent_at_ms: int | None = None


def play(job: ErlangJob, requests: Sequence[tuple[int, int, str]]) -> ErlangAnswer:
    """Run ``requests``: (instant in ms, node, user without blanks), in order of time.

    MachineError where there is no Erlang; SystemFault where the nodes broke, or were not through in ``RUN_TIMEOUT_S``.
    """
    beams = compiled()
    with tempfile.TemporaryDirectory(prefix="ratebed-erlang-") as folder:
        files = [Path(folder, name) for name in ("job", "requests", "answer")]
        files[0].write_text(f"{term(asdict(job))}.\n")
        files[1].write_text("".join(f"{at_ms} {node} {user}\n" for at_ms, node, user in requests))
        command = [str(tool("erl")), *FLAGS, "-pa", str(beams), "-run", "virtual_time", "main", *map(str, files)]
        said = _run(command, folder, RUN_TIMEOUT_S)
        if said.returncode:
            raise SystemFault(f"the Erlang nodes broke: {said.stderr.strip()[-300:]}", "see testbed/erlang")
        return _answer(files[2].read_text())


def term(value: Value) -> str:
    """A value as Erlang reads it: text is an atom, a mapping a map with atoms for keys."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return f"{value:.17e}"
        case str():
            return f"'{value}'"
        case tuple():
            return f"{{{', '.join(map(term, value))}}}"
        case _:
            return f"#{{{', '.join(f'{key} => {term(each)}' for key, each in value.items())}}}"


def compiled() -> Path:
    """The folder of the compiled modules; MachineError where there is no Erlang, or it cannot compile them."""
    require("erlang")
    digest = hashlib.sha256()
    for name in SOURCES:
        digest.update(f"{name}\0".encode() + FOLDER.joinpath(name).read_bytes() + b"\0")
    return made_once(CACHE / digest.hexdigest()[:16], _compile)


def _compile(made: Path) -> None:
    sources = [str(FOLDER / name) for name in SOURCES]
    said = _run([str(tool("erlc")), "-Werror", "-o", str(made), *sources], str(made.parent), COMPILE_TIMEOUT_S)
    if said.returncode:
        raise MachineError(f"erlc failed: {said.stdout.strip()[-300:]}", "install Erlang/OTP 24 or newer")


def _run(command: Sequence[str], folder: str, timeout_s: int) -> subprocess.CompletedProcess[str]:
    """In ``folder``, without a dump of the emulator's memory should it crash."""
    environment = {**os.environ, "ERL_CRASH_DUMP_BYTES": "0"}
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SystemFault(f"{command[0]} was not through in {timeout_s} s", "ask for less: a shorter drain") from None


def _answer(text: str) -> ErlangAnswer:
    answer = ErlangAnswer("", [], [], [])
    for line in text.splitlines():
        kind, *told = line.split()
        if kind == "o":
            answer.release = told[0]
            continue
        numbers = [int(number) for number in told]
        if kind == "v":
            answer.accepted.append(numbers[0] == 1)
        elif kind == "m":
            at_ms, source, target, urgent = numbers
            answer.messages.append(ErlangMessage(at_ms, source, target, urgent == 1))
        elif kind == "u":
            at_ms, node, *held, count, external, words = numbers
            process, shared, flat = (each if each >= 0 else None for each in held)
            answer.weights.append(ErlangWeight(at_ms, node, process, shared, flat, count, external, words))
        else:
            answer.converged_at_ms, answer.last_sent_at_ms = (each if each >= 0 else None for each in numbers)
    return answer
