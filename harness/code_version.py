"""Which code makes a run: exactly the files that it imports and opens, whose hash is part of its id.

Imports are followed from the harness' run and from what the spec names: its study, with the body for that testbed, its
system, and on real hosts what this declares, workload, topology and testbed.  Of a registry (a dict of names ->
"module:OBJECT") only the entries that the spec uses count: neither a new line in it nor a new file voids anything.
So it is with installed packages that add something to the tree.  Files outside it, ``path.py:SYSTEM``, are among the
run's inputs (``studies.inputs``); what of ours they import is followed from here.
"""

import ast
import hashlib
import re
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from math import inf
from pathlib import Path

from core.digests import digest_of
from core.files import files_of as files_outside
from core.files import is_file
from core.registry import known, packages
from studies import STUDIES, load_study
from studies.inputs import files_declared, run_id
from studies.spec import RunSpec
from systems import SYSTEMS
from systems.loader import declared, load_system
from testbed import TESTBEDS, load_testbed
from testbed.servers import BUILT, SERVERS
from testbed.topologies.topology import TOPOLOGIES
from workloads import WORKLOADS

_BEGUN_NS = time.time_ns()  # of this process: what it reads of the code it has read since
ROOT = Path(__file__).resolve().parent.parent
SHIPPED = "COMMIT"  # the file in a copy of the checkout that says which commit it is
_OURS = ("core", "systems", "workloads", "testbed", "studies", "collectors", "harness", "paper_figs")
_DATA = (".csv", ".toml", ".json", ".erl", "go.mod", "go.sum")
_GO = ("*.go", "go.mod", "go.sum")
_BROKER = Path("testbed/brokers/brokerd")
_JAVA = (".java", ".options", ".properties", ".sha256", "pom.xml")
_NAME = re.compile(r"\w+((\.\w+)+(:\w+)?|:\w+)")
_BY_SPEC = {"virtual", "live", "plane", "stand_in", "servers"}  # options whose text counts for some specs only


@dataclass(frozen=True)
class _Source:
    """What a module of ours says, its registries aside."""

    digest: str
    names: frozenset[str]  # imports, and text that names a module or an object in one
    data: frozenset[str]  # text that names a data file


def id_of(spec: RunSpec) -> str:
    """The id of a run, by this code; SpecError for an input file that cannot be read."""
    return run_id(spec, code_hash(spec))


def code_hash(spec: RunSpec, root: Path = ROOT) -> str:
    """Hash of every file below ``root`` that can change the run's result, the pinned packages among them.

    SpecError for a name in the spec that nothing has.
    """
    names = _named(spec)
    made = (
        _hash_now if [*filter(is_file, names), *_declared(names)] else _hash_once
    )  # files outside the tree may change
    return made(root, names, spec.calibration)


def files_of(spec: RunSpec, root: Path = ROOT) -> list[Path]:
    """The files that ``code_hash`` looks at, relative to ``root``; those of installed packages are absolute."""
    return _files(root, _roots(_named(spec)), load_testbed(spec.testbed).real_time, spec.calibration)


def changed_since(spec: RunSpec, root: Path = ROOT, since_ns: int = _BEGUN_NS) -> list[str]:
    """Those of ``files_of`` that were changed since this process began: processes that it starts read them anew."""
    return [path.as_posix() for path in files_of(spec, root) if _changed_ns(root / path) > since_ns]


def _changed_ns(path: Path) -> float:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # it is gone
        return inf


def _named(spec: RunSpec) -> tuple[str, str, str, str, str]:
    """The testbed, study, system, workload and topology of a spec: what of it decides the code."""
    return spec.testbed, spec.study, spec.system, spec.workload, spec.topology


def _roots(names: tuple[str, str, str, str, str]) -> tuple[str, ...]:
    """Where a run's imports begin, as "module:OBJECT" or module."""
    outside = [*(path for name in names if is_file(name) for path in files_outside(name)), *_declared(names)]
    sources = tuple(path.read_bytes() for path in dict.fromkeys(outside) if path.suffix == ".py")
    roots = {*_named_by(names, sources), *(name for source in sources for name in _read(source, "").names)}
    return tuple(sorted(root for root in roots if _is_followed(root)))


def _declared(names: tuple[str, str, str, str, str]) -> list[Path]:
    return files_declared(names[2]) if load_testbed(names[0]).real_time else []


def code_of(spec: RunSpec) -> dict[str, str]:
    """Each of ``files_of``, and the hash of what counts in it: what ``code_hash`` is made of."""
    return {path.as_posix(): _digest(ROOT, path) for path in files_of(spec)}


def imported(names: Iterable[str], root: Path = ROOT) -> dict[str, str]:
    """Each module of ours or of a package that adds something which is imported from these on, and what counts: a hash.

    ``names``: "module:OBJECT", or a module.
    """
    return {_label(path): _digest(root, path) for path in sorted(_reached(root, filter(_is_followed, names)))}


@cache
def _named_by(names: tuple[str, str, str, str, str], sources: tuple[bytes, ...]) -> list[str]:
    """What a spec names, and what that declares; ``sources``: of the files outside the tree, for they may change."""
    registries = {
        "testbed": TESTBEDS, "study": STUDIES, "system": SYSTEMS, "workload": WORKLOADS, "topology": TOPOLOGIES
    }  # fmt: skip
    roots = ["harness.run"]
    for (kind, registry), name in zip(registries.items(), names, strict=True):
        if not is_file(name):
            roots.append(registry.get(name) or known(kind, registry).get(name, ""))
    place, asked, competes = load_testbed(names[0]), load_study(names[1]), load_system(names[2])
    body = asked.live if place.real_time else asked.virtual
    roots.append(body if isinstance(body, str) else getattr(body, "__name__", ""))
    if place.real_time:
        servers = known("server", SERVERS)
        stand_in = competes.stand_in
        named = [*competes.servers, competes.plane, *((stand_in.make, *stand_in.servers) if stand_in else ())]
        roots += [servers.get(name, name) for name in named]
        asks = [declared(competes, servers.get(name, name)) for name in competes.servers]
        roots += [BUILT[program] for server in asks for program in getattr(server, "programs", ()) if program in BUILT]
        roots += [text for text in vars(place).values() if isinstance(text, str)]
    return roots


def _is_followed(name: str) -> bool:
    """Whether a text names a module, or an object in one, of ours or of a package that adds something."""
    first = re.split("[.:]", name)[0]
    return bool(_NAME.fullmatch(name)) and (first in _OURS or first in _packages())


@cache
def _packages() -> dict[str, Path]:
    return packages()


def _hash_now(root: Path, names: tuple[str, str, str, str, str], calibration: str) -> str:
    return _hash(root, _roots(names), load_testbed(names[0]).real_time, calibration)


_hash_once = cache(_hash_now)


@cache
def _hash(root: Path, roots: tuple[str, ...], live: bool, calibration: str) -> str:
    digest = hashlib.sha256("\n".join(roots).encode())
    for path in _files(root, roots, live, calibration):
        digest.update(f"\n{_label(path)} {_digest(root, path)}".encode())
    return digest.hexdigest()


def _digest(root: Path, path: Path) -> str:
    return _source(root, path).digest if path.suffix == ".py" else digest_of((root / path).read_bytes())


def _label(path: Path) -> str:
    """A file's name wherever its tree or its package is installed."""
    bases = [base for base in _packages().values() if path.is_absolute() and path.is_relative_to(base)]
    return (path.relative_to(max(bases, key=lambda base: len(base.parts))) if bases else path).as_posix()


@cache
def _files(root: Path, roots: tuple[str, ...], live: bool, calibration: str) -> list[Path]:
    modules = _reached(root, roots)
    data = [_data_file(root, path, name) for path in modules for name in _source(root, path).data]
    others = [Path("requirements.lock"), Path(f"testbed/calibrations/{calibration}.toml")]
    if live:
        built = (path for pattern in _GO for path in (root / _BROKER).glob(pattern))
        others += [path.relative_to(root) for path in built if not path.name.endswith("_test.go")]
    there = (path for path in [*data, *others] if path is not None and (root / path).is_file())
    return sorted({*modules, *there})


def _reached(root: Path, roots: Iterable[str]) -> set[Path]:
    """The modules that are imported from ``roots`` on, at the top or inside of a function."""
    modules: set[Path] = set()
    waiting = list(roots)
    while waiting:
        for path in _paths(root, waiting.pop()):
            if path not in modules:
                modules.add(path)
                waiting += _source(root, path).names
    return modules


@cache
def _paths(root: Path, name: str) -> tuple[Path, ...]:
    """The files of a module and of the packages that it is in; of an object, those of its module."""
    parts = name.partition(":")[0].split(".")
    base = Path() if parts[0] in _OURS else _packages()[parts[0]]
    places = [base.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
    files = ((place / "__init__.py", place.with_suffix(".py")) for place in places)  # the first that there is
    return tuple(file for either in files if (file := next((it for it in either if (root / it).is_file()), None)))


def _data_file(root: Path, module: Path, name: str) -> Path | None:
    """A shipped file that a module names: beside it, or in a folder below."""
    there = sorted((root / module.parent).rglob(name))
    return (there[0] if module.is_absolute() else there[0].relative_to(root)) if there else None


@cache
def _source(root: Path, path: Path) -> _Source:
    return _read((root / path).read_bytes(), Path(_label(path)).with_suffix("").as_posix().replace("/", "."))


@lru_cache(maxsize=64)
def _read(source: bytes, module: str) -> _Source:
    lines = source.splitlines(keepends=True)
    names: set[str] = set()
    data: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if _is_registry(node):
            assert isinstance(node, ast.Assign) and node.end_lineno is not None
            lines[node.lineno - 1 : node.end_lineno] = [b""] * (node.end_lineno - node.lineno + 1)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            place = [*(module.split(".")[: -node.level] if node.level else ()), *filter(None, [node.module])]
            names.update(".".join([*place, alias.name]) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if _is_followed(node.value):
                names.add(node.value)
            elif node.value.endswith((*_DATA, *_JAVA)) and "\n" not in node.value and "*" not in node.value:
                data.add(node.value)
        elif not (isinstance(node, ast.keyword) and node.arg in _BY_SPEC):
            waiting += ast.iter_child_nodes(node)
    followed = frozenset(name for name in names if name.partition(".")[0] in _OURS or _is_followed(name))
    return _Source(digest_of(b"".join(lines)), followed, frozenset(Path(name).name for name in data))


def _is_registry(node: ast.AST) -> bool:
    """A dict of names -> "module:OBJECT" of ours."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict) or not node.value.values:
        return False
    values = [value.value for value in node.value.values if isinstance(value, ast.Constant)]
    texts = [value for value in values if isinstance(value, str) and ":" in value and _is_followed(value)]
    return len(texts) == len(node.value.values)


@cache
def commit() -> str:
    """The git commit, with ``+`` where files differ from it; "unknown" outside a checkout and its shipped copies."""
    if (ROOT / SHIPPED).is_file():
        return (ROOT / SHIPPED).read_text()
    try:
        process = subprocess.run(
            ["git", "describe", "--always", "--abbrev=10", "--dirty=+"],
            cwd=ROOT, capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return process.stdout.strip()
