"""Which code makes a run: exactly the files that it imports and opens, whose hash is part of its id.

Imports are followed from the harness' run and from what the spec names: its study, with the body for that testbed, its
system, and on real hosts what this declares, workload, topology and testbed.  Of a registry (a dict of names ->
"module:OBJECT") only the entries that the spec uses count: neither a new line in it nor a new file voids anything.
"""

import ast
import hashlib
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from core.digests import digest_of
from studies import STUDIES, load_study
from studies.spec import RunSpec
from systems import SYSTEMS
from systems.loader import declared, is_file, load_system
from testbed import TESTBEDS, load_testbed
from testbed.servers import BUILT, SERVERS
from testbed.topologies.topology import TOPOLOGIES
from workloads import WORKLOADS

ROOT = Path(__file__).resolve().parent.parent
_OURS = ("core", "systems", "workloads", "testbed", "studies", "collectors", "harness")
_DATA = (".csv", ".toml", ".json", ".erl", "go.mod", "go.sum")
_GO = ("*.go", "go.mod", "go.sum")
_BROKER = Path("testbed/brokers/brokerd")
_JAVA = (".java", ".options", ".properties", ".sha256", "pom.xml")
_NAME = re.compile(rf"({'|'.join(_OURS)})(\.\w+)+(:\w+)?")
_BY_SPEC = {"virtual", "live", "plane", "stand_in", "servers"}  # options whose text counts for some specs only


@dataclass(frozen=True)
class _Source:
    """What a module of ours says, its registries aside."""

    digest: str
    names: frozenset[str]  # imports, and text that names a module or an object in one
    data: frozenset[str]  # text that names a data file


def id_of(spec: RunSpec) -> str:
    """The id of a run, by this code; SpecError for an input file that cannot be read."""
    return spec.run_id(code_hash(spec))


def code_hash(spec: RunSpec, root: Path = ROOT) -> str:
    """Hash of every file below ``root`` that can change the run's result, the pinned packages among them.

    SpecError for a name in the spec that nothing has.
    """
    names = (spec.testbed, spec.study, spec.system, spec.workload, spec.topology)
    return _hash(root, tuple(_roots(*names)), load_testbed(spec.testbed).real_time, spec.calibration)


def files_of(spec: RunSpec, root: Path = ROOT) -> list[Path]:
    """The files that ``code_hash`` looks at, relative to ``root``."""
    names = (spec.testbed, spec.study, spec.system, spec.workload, spec.topology)
    return _files(root, tuple(_roots(*names)), load_testbed(spec.testbed).real_time, spec.calibration)


def code_of(spec: RunSpec) -> dict[str, str]:
    """Each of ``files_of``, and the hash of what counts in it: what ``code_hash`` is made of."""
    return {path.as_posix(): _digest(ROOT, path) for path in files_of(spec)}


@cache
def _roots(testbed: str, study: str, system: str, workload: str, topology: str) -> list[str]:
    """Where a run's imports begin, as "module:OBJECT" or module."""
    registered = (
        (TESTBEDS, testbed),
        (STUDIES, study),
        (SYSTEMS, system),
        (WORKLOADS, workload),
        (TOPOLOGIES, topology),
    )
    roots = ["harness.run", *(registry[name] for registry, name in registered if name in registry)]
    place, asked, competes = load_testbed(testbed), load_study(study), load_system(system)
    body = asked.live if place.real_time else asked.virtual
    roots.append(body if isinstance(body, str) else getattr(body, "__name__", ""))
    if place.real_time:
        stand_in = competes.stand_in
        named = [*competes.servers, competes.plane, *((stand_in.make, *stand_in.servers) if stand_in else ())]
        roots += [SERVERS.get(name, name) for name in named]
        asks = [declared(competes, SERVERS.get(name, name)) for name in competes.servers]
        roots += [BUILT[program] for server in asks for program in getattr(server, "programs", ()) if program in BUILT]
        roots += [text for text in vars(place).values() if isinstance(text, str)]
    for file in (name.partition(":")[0] for name in (study, system) if is_file(name)):
        roots += sorted(_read(Path(file).read_bytes(), "").names)  # the file itself is among the run's inputs
    return sorted({root for root in roots if _NAME.fullmatch(root)})


@cache
def _hash(root: Path, roots: tuple[str, ...], live: bool, calibration: str) -> str:
    digest = hashlib.sha256("\n".join(roots).encode())
    for path in _files(root, roots, live, calibration):
        digest.update(f"\n{path.as_posix()} {_digest(root, path)}".encode())
    return digest.hexdigest()


def _digest(root: Path, path: Path) -> str:
    return _source(root, path).digest if path.suffix == ".py" else digest_of((root / path).read_bytes())


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


def _paths(root: Path, name: str) -> Iterator[Path]:
    """The files of a module and of the packages that it is in; of an object, those of its module."""
    parts = name.partition(":")[0].split(".")
    for count in range(1, len(parts) + 1):
        place = Path(*parts[:count])
        if (root / place / "__init__.py").is_file():
            yield place / "__init__.py"
        elif (root / place.with_suffix(".py")).is_file():
            yield place.with_suffix(".py")


def _data_file(root: Path, module: Path, name: str) -> Path | None:
    """A shipped file that a module names: beside it, or in a folder below."""
    there = sorted((root / module.parent).rglob(name))
    return there[0].relative_to(root) if there else None


@cache
def _source(root: Path, path: Path) -> _Source:
    return _read((root / path).read_bytes(), ".".join(path.with_suffix("").parts))


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
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if _NAME.fullmatch(node.value):
                names.add(node.value)
            elif node.value.endswith((*_DATA, *_JAVA)) and "\n" not in node.value and "*" not in node.value:
                data.add(node.value)
        elif not (isinstance(node, ast.keyword) and node.arg in _BY_SPEC):
            waiting += ast.iter_child_nodes(node)
    ours = frozenset(name for name in names if name.partition(".")[0] in _OURS)
    return _Source(digest_of(b"".join(lines)), ours, frozenset(Path(name).name for name in data))


def _is_registry(node: ast.AST) -> bool:
    """A dict of names -> "module:OBJECT" of ours."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict) or not node.value.values:
        return False
    values = [value.value for value in node.value.values if isinstance(value, ast.Constant)]
    texts = [value for value in values if isinstance(value, str) and ":" in value and _NAME.fullmatch(value)]
    return len(texts) == len(node.value.values)


@cache
def commit() -> str:
    """The git commit, with ``+`` where files differ from it; "unknown" outside a checkout."""
    try:
        process = subprocess.run(
            ["git", "describe", "--always", "--abbrev=10", "--dirty=+"],
            cwd=ROOT, capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return process.stdout.strip()
