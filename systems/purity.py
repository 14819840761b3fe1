"""Keeps a system's logic free of I/O, clocks and global randomness: by its source, and while it runs."""

import ast
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from core.errors import SystemFault
from systems.api import System

BANNED_MODULES = frozenset(
    {"asyncio", "concurrent", "ctypes", "datetime", "http", "io", "multiprocessing", "os", "pathlib", "secrets"}
    | {"select", "selectors", "shutil", "signal", "socket", "socketserver", "ssl", "subprocess", "tempfile"}
    | {"threading", "time", "urllib", "uuid"}
)
BANNED_CALLS = {
    "open": "it is I/O",
    "input": "it is I/O",
    "print": "it is I/O; use the Sample effect",
    "exec": "it hides what runs",
    "eval": "it hides what runs",
    "__import__": "it hides an import",
    "hash": "of text it differs from process to process",
    "id": "it differs from process to process",
}
PURE_PARTS = frozenset({"urllib.parse"})  # of banned modules: text alone
RANDOM_ALLOWED = {
    "random": {"Random"},
    "numpy.random": {"Generator", "BitGenerator", "PCG64", "PCG64DXSM", "Philox", "SeedSequence", "default_rng"},
}
TRAPPED = {
    "time": "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time sleep",
    "random": "random randint randrange choice choices sample shuffle uniform gauss expovariate seed getrandbits",
    "numpy.random": "rand randn randint random choice shuffle permutation normal uniform exponential poisson seed",
    "os": "urandom getpid times",
}
_FIX = "a system has no I/O, clock or global randomness (use now_ns, and the seed or rng that it is given)"


def modules_of(system: System, parts: Iterable[object] = ()) -> set[str]:
    """Names of the modules that define the system; ``parts``: further classes of it, its nodes' say."""
    made_by = (system.config, system.nodes, system.distribute, *system.messages, *parts)
    names = {getattr(part, "__module__", None) for part in made_by}
    return {name for name in names if name is not None and name not in ("builtins", "systems.api")}


def check_sources(modules: Iterable[str]) -> None:
    """Read the source of each module; SystemFault with file and line of the first thing that is banned."""
    for name in sorted(modules):
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None:
            _Reader(file).visit(ast.parse(Path(file).read_text(encoding="utf-8"), file))


class _Reader(ast.NodeVisitor):
    """Walks one module."""

    def __init__(self, file: str):
        self.file = file
        self.modules: dict[str, str] = {}  # local name -> module or member that it stands for

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._check_module(alias.name, node)
            local = alias.asname or alias.name.partition(".")[0]
            self.modules[local] = alias.name if alias.asname else local

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        self._check_module(module, node)
        for alias in node.names:
            self._check_random(f"{module}.{alias.name}", node)
            self.modules[alias.asname or alias.name] = f"{module}.{alias.name}"

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._check_random(self._dotted(node), node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = self._dotted(node.func)
        if name in BANNED_CALLS:
            self._fault(node, f"calls {name}: {BANNED_CALLS[name]}")
        if name == "numpy.random.default_rng" and not (node.args or node.keywords):
            self._fault(node, "calls default_rng without a seed")
        self.generic_visit(node)

    def _check_module(self, module: str, node: ast.stmt) -> None:
        if module not in PURE_PARTS and module.partition(".")[0] in BANNED_MODULES:
            self._fault(node, f"imports {module}")

    def _check_random(self, dotted: str, node: ast.stmt | ast.expr) -> None:
        module, _, name = dotted.rpartition(".")
        if name not in RANDOM_ALLOWED.get(module, {name}):
            self._fault(node, f"uses {dotted}")

    def _dotted(self, node: ast.expr) -> str:
        if isinstance(node, ast.Attribute):
            return f"{self._dotted(node.value)}.{node.attr}"
        return self.modules.get(node.id, node.id) if isinstance(node, ast.Name) else ""

    def _fault(self, node: ast.stmt | ast.expr, what: str) -> NoReturn:
        raise SystemFault(f"{self.file}:{node.lineno} {what}", _FIX)


@contextmanager
def traps(modules: set[str]) -> Iterator[None]:
    """While this is open, clocks and global randomness raise SystemFault when one of ``modules`` calls them.

    Everybody else in the process gets the real ones.
    """
    saved: list[tuple[ModuleType, str, object]] = []
    try:
        for owner_name, functions in TRAPPED.items():
            owner = importlib.import_module(owner_name)
            for function in functions.split():
                original = getattr(owner, function)
                saved.append((owner, function, original))
                setattr(owner, function, _trap(f"{owner_name}.{function}", original, modules))
        yield
    finally:
        for owner, function, original in saved:
            setattr(owner, function, original)


def _trap(name: str, original: Callable[..., object], modules: set[str]) -> Callable[..., object]:
    def trapped(*args: object, **kwargs: object) -> object:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller in modules:
            raise SystemFault(f"{caller} called {name}", _FIX)
        return original(*args, **kwargs)

    return trapped
