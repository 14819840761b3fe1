"""The rules of the house, each a function from source text to a list of complaints; ``test_tidy.py`` applies them.

Rules read syntax trees, not text, except for ``names_no_machine``, which reads every tracked file.
"""

import ast
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from paper_figs import FIGURES

ROOT = Path(__file__).resolve().parent.parent

FUNCTION_LINES, MODULE_LINES = 70, 400

# What each folder may import of ours, itself aside.  No arrow runs back up, none runs sideways.
_GROUND = ("core",)
_LOWER = ("systems", "workloads", "collectors", *_GROUND)
_MIDDLE = ("testbed", *_LOWER)
_STUDIES = ("studies", *_MIDDLE)
_UPPER = ("harness", "analysis", *_STUDIES)
ALLOWED: dict[str, tuple[str, ...]] = {
    "core": (),
    "systems": _GROUND,
    "workloads": _GROUND,
    "collectors": _GROUND,
    "testbed": _LOWER,
    "analysis": ("collectors.schema", "collectors.integrity", "collectors.store", *_GROUND),
    "studies": _MIDDLE,
    "harness": _STUDIES,
    "paper_figs": _UPPER,
    "ratebed": ("paper_figs", *_UPPER),
    "benchmarks": ("ratebed", "paper_figs", *_UPPER),
}

PURE = ("systems", "workloads")  # no clock, no sockets, no global randomness
IMPURE_MODULES = {
    *("asyncio", "concurrent", "multiprocessing", "secrets", "selectors", "signal"),
    *("socket", "ssl", "subprocess", "threading", "time", "uuid"),
}
SEEDED = {
    "random": {"Random"},
    "numpy.random": {"BitGenerator", "Generator", "PCG64", "PCG64DXSM", "Philox", "SeedSequence", "default_rng"},
}
CLOCKS = {f"datetime.{cls}.{call}" for cls in ("datetime", "date") for call in ("now", "utcnow", "today")}
UNSEEDED = {"random.Random", "numpy.random.default_rng"}  # without arguments

SHARED_NAMES = {"Config"}  # public class names with several meanings: the options of whatever the module is
PRODUCT = tuple(folder for folder in ALLOWED if folder != "benchmarks")

# What runs on real machines knows nothing of virtual time.
LIVE = re.compile(
    r"testbed/(hosts|nodes|brokers|servers|trust)/.*|studies/\w+/(live|planes|accounts|joined)\.py|testbed/play\.py"
)

METHODS = {("testbed/api.py", "Testbed"): 5, ("testbed/hosts/site.py", "Site"): 14}  # at most

# What deployed limiters share, together, and each of their drivers.
DEPLOYED = ("systems/limiting/deployed.py", "testbed/servers/driven.py", "testbed/servers/asking.py")
DRIVERS = "systems/limiting/drivers/"
DEPLOYED_LINES, DRIVER_LINES = 450, 80

FOLDER_MODULES = 16  # at most, in these
COUNTED = ("testbed", "studies", "harness")

DRAWING = "paper_figs/drawing.py"  # what alone knows how an axis is scaled and its numbers are written
SCALES = {"set_xscale", "set_yscale", "FuncFormatter"}

PROBES = {"hasattr", "getattr"}
KINDS = {"procedure", "study"}  # what dispatches: by its type, or by what it declares

# Folders of tests beside which there is no folder of the product.
UNMIRRORED = {
    "tests": "of the whole, and of what tests themselves rest on",
    "tests/fuzz": "every parser, wherever it is",
    "tests/paper_figs/broken": "systems that claims must not survive, of figures of every paper",
    "tests/testbed/hosts/kubernetes": "a testbed from outside the tree",
}
# Public names that nobody in the tree uses: they are for others.
FOR_OTHERS = {
    "check_driver": "whoever writes a driver of their own asks it (docs/deployed.md)",
    "check_system": "whoever writes a system of their own asks it (systems/README.md)",
    "VirtualBench": "where that is asked",
}

SKIPPED_FORMATS, ANYS = 40, 350  # `fmt: skip` in paper_figs and `Any` in the product, at most

# What takes a text apart: of Spark's functions and columns, in SQL, of pandas.
PARSING = {"substring_index", "split_part", "regexp_extract", "regexp_extract_all", "regexp_replace", "regexp_substr",
           "rlike", "like", "ilike", "extractall"}  # fmt: skip
SPLITTING = {
    *(
        ("str", name)
        for name in ("split", "rsplit", "partition", "rpartition", "extract", "replace", "slice", "contains", "match")
    ),
    *((functions, name) for functions in ("f", "F", "functions") for name in ("split", "substring", "substr", "instr")),
}
_SQL_PARSING = re.compile(r"\b(substring_index|substring|split|split_part|regexp\w*)\(|\b[ri]?like\s+'", re.I)
PARSED_OPTIONS = {"analysis/limiting.py": 2}  # options are texts as users write them: a rate "1/3", a span "0ms"

HEAVY = {"seaborn", "matplotlib", "pyspark", "numba", "cvxpy", "scipy"}  # half a second and more each
LIGHT = ("paper_figs", "systems")  # folders that `ratebed list` imports


@dataclass(frozen=True)
class Source:
    """A Python file: its path below the checkout, with forward slashes, and its text."""

    path: str
    text: str

    @property
    def folder(self) -> str:
        """The top-level folder, the unit of import directions."""
        return self.path.partition("/")[0]

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text, self.path)

    def complain(self, node: ast.AST, what: str) -> str:
        """One line a reader can click."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {what}"


@cache
def tracked_files() -> list[Path]:
    """The files of the checkout that git knows and that exist; without git, all but hidden and made ones."""
    try:
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        names = [name for name in listing.decode().split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        skipped = re.compile(r"(^|/)(\.(?!ci/|gitignore$)[^/]*|__pycache__|out|[^/]*\.egg-info)(/|$)")
        everything = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*"))
        names = [name for name in everything if not skipped.search(name)]
    return sorted(path for name in names if (path := ROOT / name).is_file())


def python_sources() -> list[Source]:
    """Every tracked Python file."""
    return [
        Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for path in tracked_files()
        if path.suffix == ".py"
    ]


@dataclass(frozen=True)
class Import:
    """One imported name: ``from a import b as c`` has the name ``a.b`` and the alias ``c``."""

    node: ast.AST
    name: str
    alias: str


def imports(nodes: Iterator[ast.AST]) -> Iterator[Import]:
    """Every imported name in full; relative imports have a rule of their own."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (Import(node, part.name, part.asname or part.name) for part in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (Import(node, f"{node.module}.{part.name}", part.asname or part.name) for part in node.names)


def within(name: str, package: str) -> bool:
    """Whether ``name`` is ``package`` or inside it."""
    return name == package or name.startswith(package + ".")


def import_direction(source: Source) -> list[str]:
    """Imports run down the floors; a folder's own modules are free to import each other."""
    if source.folder not in ALLOWED:
        return []
    allowed = (source.folder, *ALLOWED[source.folder])
    return [
        source.complain(imported.node, f"{source.folder} must not import {imported.name}")
        for imported in imports(ast.walk(source.tree))
        if imported.name.partition(".")[0] in ALLOWED and not any(within(imported.name, package) for package in allowed)
    ]


def absolute_imports(source: Source) -> list[str]:
    """Relative imports hide the direction."""
    return [
        source.complain(node, "relative import; write the full name")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]


def purity(source: Source) -> list[str]:
    """Systems and workloads have no clock, no sockets and no global randomness; systems open no files."""
    if source.folder not in PURE:
        return []
    complaints = []
    aliases: dict[str, str] = {}
    for imported in imports(ast.walk(source.tree)):
        aliases[imported.alias] = imported.name
        if imported.name.partition(".")[0] in IMPURE_MODULES or _is_global_random(imported.name):
            complaints.append(source.complain(imported.node, f"imports {imported.name}"))
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and _is_global_random(_full_name(node, aliases)):
            complaints.append(source.complain(node, f"uses {ast.unparse(node)}; draw from a seeded generator"))
        elif isinstance(node, ast.Call):
            complaints += _impure_call(source, node, _full_name(node.func, aliases))
    return complaints


def _impure_call(source: Source, node: ast.Call, name: str) -> list[str]:
    if name in CLOCKS:
        return [source.complain(node, f"reads the clock by {name}")]
    if name in UNSEEDED and not node.args and not node.keywords:
        return [source.complain(node, f"{name} without a seed")]
    if name == "open" and source.folder == "systems":
        return [source.complain(node, "opens a file")]
    return []


def _is_global_random(name: str) -> bool:
    module, _, member = name.rpartition(".")
    return member not in SEEDED.get(module, {member})


def _full_name(node: ast.AST, aliases: dict[str, str]) -> str:
    """``np.random.rand`` as ``numpy.random.rand``; empty for what is not a dotted name."""
    if isinstance(node, ast.Attribute):
        owner = _full_name(node.value, aliases)
        return f"{owner}.{node.attr}" if owner else ""
    return aliases.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def light_imports(source: Source) -> list[str]:
    """No heavy package at module level where ``ratebed list`` looks; registries do without pandas too."""
    is_registry = source.path.endswith("/__init__.py") and source.folder in ALLOWED
    if not is_registry and source.folder not in LIGHT:
        return []
    heavy = HEAVY | {"pandas"} if is_registry else HEAVY
    return [
        source.complain(
            imported.node, f"imports {imported.name} at module level; import it in the function that needs it"
        )
        for imported in imports(_module_level(source.tree))
        if imported.name.partition(".")[0] in heavy
    ]


def _module_level(node: ast.AST) -> Iterator[ast.AST]:
    """All that runs when the module is imported."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        yield child
        body = child.orelse if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test) else [child]
        for part in body:
            yield from _module_level(part)


def function_length(source: Source) -> list[str]:
    """A function fits on a screen or two."""
    return [
        source.complain(node, f"{node.name} has {lines} lines, at most {FUNCTION_LINES}")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES
    ]


def module_length(source: Source) -> list[str]:
    """One idea a file; tests may enumerate."""
    lines = len(source.text.splitlines())
    if source.folder == "tests" or lines <= MODULE_LINES:
        return []
    return [f"{source.path}: {lines} lines, at most {MODULE_LINES}"]


def docstrings(source: Source) -> list[str]:
    """What is public says what it is; a placeholder says nothing, in tests neither."""
    complaints = []
    for node in _documented(source.tree):
        text = ast.get_docstring(node)
        name = getattr(node, "name", "the module")
        if text is None and source.folder != "tests":
            complaints.append(source.complain(node, f"{name} has no docstring"))
        elif text is not None and re.fullmatch(r"\W*(todo|fixme|xxx|tbd)\b\W*|\W*", text, re.IGNORECASE):
            complaints.append(source.complain(node, f"the docstring of {name} is a placeholder"))
    return complaints


Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _documented(node: Documented) -> Iterator[Documented]:
    """The module, its public functions and classes, and their public methods.

    Of a class that says no more than "See ``Driver``.", methods are described there.
    """
    yield node
    if isinstance(node, ast.ClassDef) and re.fullmatch(r"See ``\w+``\.", ast.get_docstring(node) or ""):
        return
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from _documented(child)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and _wants_docstring(child):
            yield child


def _wants_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    marks = {ast.unparse(mark).rpartition(".")[2] for mark in function.decorator_list}
    return not function.name.startswith("_") and not marks & {"overload", "setter"}


def procedures(source: Source) -> list[str]:
    """What a study asks is a type, not a name to compare; what a schedule offers is declared, not looked for."""
    complaints = []
    for node in ast.walk(source.tree):
        if source.folder in PRODUCT and _asks_for_kind(node):
            complaints.append(source.complain(node, "asks for a kind by name; dispatch on what is declared"))
        elif isinstance(node, ast.Call) and _last_name(node.func) in PROBES and _probes_schedule(node.args):
            complaints.append(source.complain(node, "looks for what the workload's offer declares"))
    return complaints


def _asks_for_kind(node: ast.AST) -> bool:
    if isinstance(node, ast.Match):
        return _last_name(node.subject) in KINDS
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    return any(_last_name(side) in KINDS for side in sides) and any(map(_is_text, sides))


def _is_text(node: ast.AST) -> bool:
    """A literal text, or a literal collection of such."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(_is_text, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _probes_schedule(args: list[ast.expr]) -> bool:
    return len(args) > 1 and _last_name(args[0]) == "schedule" and isinstance(args[1], ast.Constant)


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def telling_names(source: Source) -> list[str]:
    """What a function of the product found is called by a name of its own."""
    functions = [node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    named = {node for function in functions for node in ast.walk(function) if isinstance(node, ast.Name | ast.arg)}
    return [
        source.complain(node, "say what was found")
        for node in named
        if source.folder in PRODUCT and (node.id if isinstance(node, ast.Name) else node.arg) == "found"
    ]


def live_without_virtual(source: Source) -> list[str]:
    """Code of live runs imports nothing of virtual time."""
    if not LIVE.fullmatch(source.path):
        return []
    return [
        source.complain(imported.node, f"live code must not import {imported.name}")
        for imported in imports(ast.walk(source.tree))
        if within(imported.name, "testbed.virtual")
    ]


def narrow_interfaces(source: Source) -> list[str]:
    """What a testbed must give to others stays small and typed; properties are not methods."""
    complaints = []
    for node in source.tree.body:
        if not isinstance(node, ast.ClassDef) or (source.path, node.name) not in METHODS:
            continue
        methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        public = [method.decorator_list for method in methods if not method.name.startswith("_")]
        count = sum(not {"property", "cached_property"} & set(map(_last_name, marks)) for marks in public)
        most = METHODS[source.path, node.name]
        if count > most:
            complaints.append(source.complain(node, f"{node.name} has {count} methods, at most {most}"))
        complaints += [
            source.complain(part, f"{node.name} names Any") for part in ast.walk(node) if _last_name(part) == "Any"
        ]
    return complaints


def axes_in_one_place(source: Source) -> list[str]:
    """Figures ask ``paper_figs.drawing`` for their axes."""
    if source.folder != "paper_figs" or source.path == DRAWING:
        return []
    named = [(node, _last_name(node)) for node in ast.walk(source.tree)]
    return [source.complain(node, f"uses {name}; see {DRAWING}") for node, name in named if name in SCALES]


def no_records_in_text(source: Source) -> list[str]:
    """Columns of raw tables hold values: nobody who reads them takes texts apart, or looks for a part in them."""
    if source.folder not in ("paper_figs", "analysis"):
        return []
    complaints = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, of = node.func.attr, _last_name(node.func.value)
            if name in PARSING or (of, name) in SPLITTING:
                complaints.append(source.complain(node, f"{name} of a text; give the table a column"))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and (match := _SQL_PARSING.search(node.value))
        ):
            complaints.append(source.complain(node, f"{match[0]!r} of a text; give the table a column"))
    allowed = PARSED_OPTIONS.get(source.path, 0)
    return complaints if len(complaints) > allowed else []


def figures_apart(source: Source) -> list[str]:
    """No figure imports another figure's module: what two need has a module of its own."""
    modules = figure_modules()
    own = source.path.removesuffix(".py").replace("/", ".")
    if own not in modules:
        return []
    return [
        source.complain(imported.node, f"imports {imported.name}, of another figure")
        for imported in imports(ast.walk(source.tree))
        for module in sorted(modules - {own})
        if within(imported.name, module)
    ]


def figure_modules() -> set[str]:
    """The modules that the registry of figures names."""
    return {place.partition(":")[0] for place in FIGURES.values()}


def one_meaning(sources: Sequence[Source]) -> list[str]:
    """No two modules of the product define one public class name."""
    homes = defaultdict(list)
    for source in sources:
        for node in ast.walk(source.tree) if source.folder in PRODUCT else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in SHARED_NAMES:
                homes[node.name].append(source.complain(node, f"class {node.name}"))
    return [f"{places[0]} is also {place}" for places in homes.values() for place in places[1:]]


def small_folders(sources: Sequence[Source]) -> list[str]:
    """A folder of the harness can be taken in at a glance."""
    counts = Counter(source.path.rpartition("/")[0] for source in sources if source.folder in COUNTED)
    return [
        f"{folder}: {count} modules, at most {FOLDER_MODULES}"
        for folder, count in counts.items()
        if count > FOLDER_MODULES
    ]


def small_drivers(sources: Sequence[Source]) -> list[str]:
    """A deployed limiter is a page, and so is most of what all of them share."""
    lines = {source.path: len(source.text.splitlines()) for source in sources}
    shared = sum(lines.get(path, 0) for path in DEPLOYED)
    complaints = [f"{', '.join(DEPLOYED)}: {shared} lines, at most {DEPLOYED_LINES}"] if shared > DEPLOYED_LINES else []
    return complaints + [
        f"{path}: {count} lines, at most {DRIVER_LINES}"
        for path, count in lines.items()
        if path.startswith(DRIVERS) and count > DRIVER_LINES
    ]


def mirrored_tests(sources: Sequence[Source]) -> list[str]:
    """Tests lie in the folder of what they test, as deep as that."""
    homes = defaultdict(set)
    for source in sources:
        folder, _, name = source.path.rpartition("/")
        if source.folder in ALLOWED:
            homes[name].add(folder)
    folders = set().union(*homes.values())
    complaints = []
    for source in sources:
        folder, _, name = source.path.rpartition("/")
        if source.folder != "tests" or not name.startswith("test_") or folder in UNMIRRORED:
            continue
        mirrored, module = folder.removeprefix("tests/"), name.removeprefix("test_")
        deeper = sorted(home for home in homes[module] if home.startswith(mirrored + "/"))
        if mirrored not in folders:
            complaints.append(f"{source.path}: there is no folder {mirrored}")
        elif deeper and mirrored not in homes[module]:
            complaints.append(f"{source.path}: {module} is in {deeper[0]}")
    return complaints


def used_names(sources: Sequence[Source]) -> list[str]:
    """What is public at a module's top is used by the product, a benchmark or an example: tests alone keep nothing.

    A text counts as use: registries, and what is started by its name, have names as texts.
    """
    users: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for source in sources:
        for number, statement in enumerate(source.tree.body if source.folder in (*ALLOWED, "docs") else ()):
            for name in _names_in(statement):
                users[name].add((source.path, number))
    return [
        source.complain(node, f"nobody but tests uses {node.name}")
        for source in sources
        if source.folder in PRODUCT
        for number, node in enumerate(source.tree.body)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and node.name not in FOR_OTHERS
        and not users[node.name] - {(source.path, number)}
    ]


def _names_in(statement: ast.AST) -> Iterator[str]:
    """All names, and all words of texts that are no statements, as docstrings are."""
    said = {id(node.value) for node in ast.walk(statement) if isinstance(node, ast.Expr)}
    for node in ast.walk(statement):
        if isinstance(node, ast.Name | ast.Attribute):
            yield _last_name(node)
        elif isinstance(node, ast.alias):
            yield node.name.rpartition(".")[2]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield from re.findall(r"\w+", node.value)


def ratchets(sources: Sequence[Source]) -> list[str]:
    """What there was too much of does not come back."""
    drawn = [source for source in sources if source.folder == "paper_figs"]
    product = [source for source in sources if source.folder in PRODUCT]
    counts = {
        "`fmt: skip` in paper_figs": (sum(source.text.count("# fmt: skip") for source in drawn), SKIPPED_FORMATS),
        "`Any` in the product": (
            sum(_last_name(node) == "Any" for source in product for node in ast.walk(source.tree)),
            ANYS,
        ),
    }
    return [f"{what}: {count}, at most {most}" for what, (count, most) in counts.items() if count > most]


# Put together, so that this file passes its own rule.
_HOSTS = "|".join(
    (r"py" r"pi\.(org|python)", r"pythonhosted" r"\.org", r"npmjs" r"\.(org|com)", r"proxy\.golang" r"\.org")
)
_MACHINE = re.compile(rf"\b({_HOSTS})\b|(?<![\w.~$}}/-])/(root|work|tmp|Users|home/(?!vagrant\b)\w+)/[\w.]")


def names_no_machine(path: str, text: str) -> list[str]:
    """No file names a package registry's host or an absolute path of the machine it was made on."""
    return [
        f"{path}:{number}: names {match[0]!r}"
        for number, line in enumerate(text.splitlines(), 1)
        if (match := _MACHINE.search(line))
    ]


RULES = {
    rule.__name__: rule
    for rule in (
        import_direction,
        absolute_imports,
        purity,
        light_imports,
        function_length,
        module_length,
        docstrings,
        procedures,
        telling_names,
        live_without_virtual,
        narrow_interfaces,
        axes_in_one_place,
        no_records_in_text,
        figures_apart,
    )
}
TREE_RULES = {
    rule.__name__: rule for rule in (one_meaning, small_folders, small_drivers, mirrored_tests, used_names, ratchets)
}
