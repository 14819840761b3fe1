"""How much would a soak notice?  ``python -m tests.mutants [WORD] [--each N] [--seeds N] [--ledger FILE]``.

Each mutant is one automatic edit of the systems' protocol code: a comparison flipped, a whole number one more, plus for
minus, a condition negated, ``and`` for ``or``, ``max`` for ``min``, a statement left out.  It is killed when a schedule
breaks an invariant that the code as it is keeps; each lives in a process of its own.  The ledger has every mutant, and
which seed killed it; survivors are to be looked at: an edit may change nothing, or only what nobody promises.  One
whose process ended of something else, a full machine say, is undecided, and is played again by the next call.

The ledger adds up file by file: of a file that is as it was, only what survived fewer schedules is played again.
"""

import argparse
import ast
import copy
import hashlib
import importlib.util
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import msgspec
import numba

from core.seeds import generator
from core.writing import replace_file
from tests.tidy import ROOT

SECONDS_MAXIMUM = 120.0  # of processor time of one mutant; one that takes longer never ends, and is killed
BASELINE_SECONDS = 3_600.0  # the same, of the code as it is with all schedules
ITS_OWN_ENDS = {-signal.SIGPROF: "it does not end", -signal.SIGSEGV: "it spoils its memory"}
PATIENCE = 30  # times as long by the clock: a machine may be busy, and a process may wait for nothing
LIMITERS, QUEUES = "systems/limiting", ("crdt-queue", "sliding-log")
PLACED = ("epulsar",)
OURS = ("systems", "harness", "testbed", "studies")  # what an edited module is imported by
TARGETS = {  # file -> systems whose schedules reach it
    f"{LIMITERS}/centralised.py": ("centralised",),
    f"{LIMITERS}/static_split.py": ("static-split",),
    f"{LIMITERS}/fixed_window.py": ("fixed-window",),
    f"{LIMITERS}/overwrite.py": ("overwrite",),
    f"{LIMITERS}/owner_global.py": ("owner-global",),
    f"{LIMITERS}/counter_node.py": ("crdt-counter",),
    f"{LIMITERS}/counter_fast.py": ("crdt-counter",),
    f"{LIMITERS}/crdt_counter_kernel.py": ("crdt-counter",),
    f"{LIMITERS}/crdt_counter_literal.py": ("crdt-counter",),
    f"{LIMITERS}/crdt_queue_kernel.py": QUEUES,
    f"{LIMITERS}/crdt_queue_literal.py": QUEUES,
    f"{LIMITERS}/queue_arrays.py": QUEUES,
    f"{LIMITERS}/queue_common.py": QUEUES,
    f"{LIMITERS}/queue_merge_kernel.py": QUEUES,
    f"{LIMITERS}/leases.py": ("leases",),
    f"{LIMITERS}/throttler.py": ("throttler",),
    f"{LIMITERS}/throttling_ledger.py": ("throttler",),
    f"{LIMITERS}/throttling_node.py": ("throttler", "centralised-throttler"),
    f"{LIMITERS}/throttling_users.py": ("throttler", "centralised-throttler"),
    f"{LIMITERS}/centralised_throttler.py": ("centralised-throttler",),
    "systems/parts/lease_book.py": ("leases",),
    "systems/parts/lease_client.py": ("leases",),
    "systems/parts/portion.py": ("leases", "throttler"),
    "systems/parts/gather_loop.py": ("owner-global",),
    "systems/parts/gossip.py": ("crdt-counter", "crdt-queue"),
    "systems/parts/majority_lease.py": ("gossip-placer",),
    "systems/parts/limit.py": ("static-split", "centralised"),
    "systems/parts/questions.py": ("centralised", "redis-gcra"),
    "systems/parts/token_bucket.py": ("tb-adaptor",),
    "systems/distribution/tb_adaptor.py": ("tb-adaptor",),
    "systems/placement/broker.py": PLACED,
    "systems/placement/client.py": PLACED,
    "systems/placement/gossip_broker.py": ("gossip-placer",),
    "systems/placement/manager.py": PLACED,
    "systems/placement/store.py": PLACED,
}
SPARED = {  # what is reckoned there is no protocol, or is what a mutant is judged by
    *("state_bytes", "allocated_bytes", "model_bytes", "entries_count", "check", "_check", "nodes", "__post_init__"),
    *("broken", "holds", "answered_or_alone", "timeout_ns", "terms_of", "update_cycle", "limit_of", "rule_of"),
    *("cluster", "_rejected", "too_late", "too_many", "account", "release_quantum", "wait_ns", "take", "rounded_debt"),
}
FLIPS: dict[type, type] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.And: ast.Or, ast.Or: ast.And},
}
SWAPS = {"max": "min", "min": "max", "any": "all", "all": "any"}


class Mutant(msgspec.Struct, frozen=True):
    """One edit, at a site of its file; ``killer``: "seed 12: invariant", "" for a survivor.

    ``undecided``: why it is neither, where its process ended of something else.
    """

    file: str
    line: int
    edit: str
    killer: str = ""
    undecided: str = ""
    site: int = 0
    seeds: int = 0  # how many schedules of each system it survived, or was to

    @property
    def name(self) -> str:
        """What reasons are given to."""
        return f"{self.file}:{self.line}: {self.edit}"


class Judged(msgspec.Struct, frozen=True):
    """Of which file the mutants are, and at which commit they were judged last."""

    commit: str
    source: str  # SHA-256 of the file


class MutantLedger(msgspec.Struct, frozen=True):
    """All sessions.  ``reasons``: why a survivor may live, by its name."""

    files: dict[str, Judged] = {}
    mutants: tuple[Mutant, ...] = ()
    reasons: dict[str, str] = {}

    def of(self, file: str, source: str) -> dict[int, Mutant]:
        """By site, those of a file as it is."""
        is_alike = file in self.files and self.files[file].source == source
        return {mutant.site: mutant for mutant in self.mutants if mutant.file == file and is_alike}

    def with_file(self, file: str, judged: Judged, mutants: dict[int, Mutant]) -> "MutantLedger":
        """With a file's mutants in the place of what there was."""
        others = (mutant for mutant in self.mutants if mutant.file != file)
        return MutantLedger({**self.files, file: judged}, (*others, *mutants.values()), self.reasons)

    @property
    def killed(self) -> int:
        """How many were noticed."""
        return sum(bool(mutant.killer) for mutant in self.mutants)

    @property
    def decided(self) -> int:
        """How many were killed, or have survived."""
        return sum(not mutant.undecided for mutant in self.mutants)


class Unanswered(Exception):
    """A process has not said what it was asked; ``by_itself``: for what its code does, not for what befell it."""

    def __init__(self, why: str, by_itself: bool):
        super().__init__(why)
        self.by_itself = by_itself


@dataclass(frozen=True)
class Site:
    """A place in a file, and what can be done there, in place."""

    node: ast.AST
    edit: str
    change: Callable[[ast.AST], None]


def sites(tree: ast.Module) -> Iterator[Site]:
    """All edits of a module, in the order of the text."""
    for function in _functions(tree):
        for node in ast.walk(function):
            yield from _edits(node)


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _functions(node)
        elif isinstance(node, ast.FunctionDef) and node.name not in SPARED and not _judges(node):
            yield node


def _judges(function: ast.FunctionDef) -> bool:
    """Whether it is of an invariant."""
    return any(argument.arg == "history" for argument in function.args.args)


def _edits(node: ast.AST) -> Iterator[Site]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in FLIPS:
            new = FLIPS[type(op)]
            yield Site(node, f"{type(op).__name__} -> {new.__name__}", lambda n, new=new: _set(n, "ops", [new()]))
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op) if type(op) in FLIPS:
            new = FLIPS[type(op)]
            yield Site(node, f"{type(op).__name__} -> {new.__name__}", lambda n, new=new: _set(n, "op", new()))
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            yield Site(node, f"{value} -> {value + 1}", lambda n, value=value: _set(n, "value", value + 1))
        case ast.Call(func=ast.Name(id=name)) if name in SWAPS:
            yield Site(node, f"{name} -> {SWAPS[name]}", lambda n, name=name: _set(n.func, "id", SWAPS[name]))
    if isinstance(node, ast.If | ast.IfExp):
        yield Site(node, "condition negated", lambda n: _set(n, "test", ast.UnaryOp(ast.Not(), n.test)))
    body = getattr(node, "body", None)
    for place, statement in enumerate(body if isinstance(body, list) else ()):
        text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if (isinstance(statement, ast.Expr | ast.AugAssign | ast.Delete) and not text) or _sets_state(statement):
            yield Site(node, f"without {ast.unparse(statement)[:60]}", lambda n, at=place: _leave_out(n, at))


def _sets_state(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and all(
        isinstance(one, ast.Attribute | ast.Subscript) for one in statement.targets
    )


def _leave_out(node: ast.AST, at: int) -> None:
    node.body[at] = ast.Pass()  # type: ignore[attr-defined]


def _set(node: ast.AST, name: str, value: object) -> None:
    setattr(node, name, value)


def sample(file: str, each: int) -> list[int]:
    """The sites of so many mutants of a file, always the same for the same code."""
    everywhere: list[int] = generator(1, "mutants", file).permutation(len(list(sites(_parsed(file))))).tolist()
    return everywhere[::-1][:each]


def _parsed(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"), file)


def mutated(file: str, number: int) -> tuple[ast.Module, Mutant]:
    """The module with one edit, and what it is."""
    tree = copy.deepcopy(_parsed(file))
    site = next(islice(sites(tree), number, None))
    body, line = getattr(site.node, "body", None), getattr(site.node, "lineno", 0)
    if site.edit.startswith("without") and isinstance(body, list):
        line = next((one.lineno for one in body if ast.unparse(one)[:60] == site.edit.removeprefix("without ")), line)
    site.change(site.node)
    return ast.fix_missing_locations(tree), Mutant(file, line, site.edit, site=number)


def in_a_process(work: Callable[[], str], seconds: float = SECONDS_MAXIMUM) -> str:
    """What ``work`` says, in a process of its own that imports every system anew; Unanswered where it says nothing."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _limit(seconds)
            for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
                del sys.modules[name]
            told = work(), "", True
        except BaseException as error:
            is_its_own = isinstance(error, Exception) and not isinstance(error, MemoryError)
            told = "", f"{type(error).__name__}: {error}"[:200], is_its_own
        os.write(writer, pickle.dumps(told))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        content = stream.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code in ITS_OWN_ENDS:
        raise Unanswered(ITS_OWN_ENDS[code], by_itself=True)
    if code or not content:
        raise Unanswered(f"its process ended with {code}", by_itself=False)
    answer, why, by_itself = pickle.loads(content)
    if why:
        raise Unanswered(why, by_itself)
    return str(answer)


def _limit(seconds: float) -> None:
    """Signals end this process when it has had its processor time, or lasts far too long by the clock."""
    for alarm, timer, limit in (
        (signal.SIGPROF, signal.ITIMER_PROF, seconds),
        (signal.SIGALRM, signal.ITIMER_REAL, seconds * PATIENCE),
    ):
        signal.signal(alarm, signal.SIG_DFL)
        signal.setitimer(timer, limit)


def first_breach(systems: tuple[str, ...], seeds: int, known: frozenset[str] = frozenset()) -> str:
    """The first seed that breaks anything but what is known, in a fresh process."""
    from harness.soak.draw import draw, system_of
    from harness.soak.trial import play

    for system in systems:
        for seed in islice((seed for seed in count(1) if system_of(seed) == system), seeds):
            try:
                breaches = [breach.invariant for breach in play(draw(seed)).breaches]
            except MemoryError:  # of the machine, perhaps
                raise
            except Exception as error:
                breaches = [type(error).__name__]
            new = [name for name in breaches if f"{seed} {name}" not in known]
            if new:
                return f"seed {seed}: {new[0]}"
    return ""


def baseline(seeds: int) -> frozenset[str]:
    """What the code as it is breaks: nobody's kill.  Unanswered where it does not say."""

    def every() -> str:
        from harness.soak.draw import draw, system_of
        from harness.soak.trial import play

        known = []
        for system in sorted({system for systems in TARGETS.values() for system in systems}):
            for seed in islice((seed for seed in count(1) if system_of(seed) == system), seeds):
                known += [f"{seed} {breach.invariant}" for breach in play(draw(seed)).breaches]
        return "\n".join(known)

    return frozenset(filter(None, in_a_process(every, BASELINE_SECONDS).split("\n")))


def judge(file: str, number: int, seeds: int, known: frozenset[str]) -> Mutant:
    """Run one mutant."""
    tree, mutant = mutated(file, number)

    def live() -> str:
        if file.endswith("_kernel.py"):
            numba.config.DISABLE_JIT = True  # machine code is kept by file: it would be that of the code as it is
        name = file.removesuffix(".py").replace("/", ".")
        code = compile(tree, str(ROOT / file), "exec")

        class Finder:
            """Gives the edited module where the real one is asked for."""

            def find_spec(self, wanted: str, path: object = None, target: object = None) -> object:
                return (
                    importlib.util.spec_from_loader(wanted, self, origin=str(ROOT / file)) if wanted == name else None
                )

            def create_module(self, spec: object) -> None:
                return None

            def exec_module(self, module: object) -> None:
                exec(code, vars(module))

        sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]
        return first_breach(TARGETS[file], seeds, known)

    return outcome_of(mutant, live)


def outcome_of(mutant: Mutant, work: Callable[[], str]) -> Mutant:
    """The mutant with what its process says, or why that says nothing."""
    try:
        return msgspec.structs.replace(mutant, killer=in_a_process(work))
    except Unanswered as ended:
        told = {"killer" if ended.by_itself else "undecided": str(ended)}
        return msgspec.structs.replace(mutant, **told)


def word_of(mutant: Mutant) -> str:
    """What became of it."""
    return mutant.killer or (f"UNDECIDED: {mutant.undecided}" if mutant.undecided else "SURVIVES")


def summary(ledger: MutantLedger) -> str:
    """How many were killed, of those that are decided."""
    killed, of = ledger.killed, ledger.decided
    left = len(ledger.mutants) - of
    words = f"; {left} undecided, which the next call plays again" if left else ""
    return f"{killed} of {of} mutants killed: {100 * killed / max(1, of):.0f} %{words}"


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("word", nargs="?", default="", help="only files with this in their name")
    parser.add_argument("--each", type=int, default=5, help="mutants of each file")
    parser.add_argument("--again", action="store_true", help="play survivors again, as by new invariants")
    parser.add_argument("--seeds", type=int, default=60, help="schedules of each system that a mutant must survive")
    parser.add_argument("--ledger", type=Path, default=ROOT / "results" / "mutants.json")
    asked = parser.parse_args()
    import harness.soak.trial  # noqa: F401  # with all packages that are not ours: forks have them already
    from harness.code_version import commit

    version, ledger = commit(), MutantLedger()
    if asked.ledger.exists():
        ledger = msgspec.json.decode(asked.ledger.read_bytes(), type=MutantLedger)
    try:
        known = baseline(asked.seeds)
    except Unanswered as ended:
        print(f"the code as it is: {ended}", file=sys.stderr)
        return 2
    for file in (file for file in TARGETS if asked.word in file):
        judged = Judged(version, hashlib.sha256((ROOT / file).read_bytes()).hexdigest())
        done = ledger.of(file, judged.source)
        for site in sample(file, asked.each):
            old = done.get(site)
            if old and (old.killer or not (asked.again or old.undecided or old.seeds < asked.seeds)):
                continue
            last = done[site] = msgspec.structs.replace(judge(file, site, asked.seeds, known), seeds=asked.seeds)
            print(f"{word_of(last):<45.45} {last.name}", flush=True)
            ledger = ledger.with_file(file, judged, done)
            replace_file(asked.ledger, msgspec.json.format(msgspec.json.encode(ledger), indent=1) + b"\n")
    print(summary(ledger))
    return 0


if __name__ == "__main__":
    sys.exit(main())
