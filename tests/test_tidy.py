"""The tree keeps the rules of ``tidy.py``; and each rule, fed a small offence, complains."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.tidy import (
    ANYS,
    DEPLOYED,
    DEPLOYED_LINES,
    DRIVER_LINES,
    DRIVERS,
    FOLDER_MODULES,
    FOR_OTHERS,
    FUNCTION_LINES,
    MODULE_LINES,
    PARSED_OPTIONS,
    PRODUCT,
    ROOT,
    RULES,
    SHARED_NAMES,
    SKIPPED_FORMATS,
    TREE_RULES,
    UNMIRRORED,
    Source,
    names_no_machine,
    python_sources,
    tracked_files,
)

SOURCES = python_sources()

LONG_FUNCTION = "def f():\n" + "    x = 1\n" * FUNCTION_LINES
LONG_MODULE = "x = 1\n" * (MODULE_LINES + 1)


def expect_none(complaints: list[str]) -> None:
    """Fail with one complaint a line, whole."""
    if complaints:
        pytest.fail("\n" + "\n".join(complaints), pytrace=False)


@pytest.mark.parametrize("name", RULES)
def test_the_tree_is_tidy(name: str) -> None:
    expect_none([complaint for source in SOURCES for complaint in RULES[name](source)])


@pytest.mark.parametrize("name", TREE_RULES)
def test_the_tree_as_a_whole_is_tidy(name: str) -> None:
    expect_none(TREE_RULES[name](SOURCES))


def test_no_file_names_a_registry_or_a_build_machine() -> None:
    complaints = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        complaints += names_no_machine(path.relative_to(ROOT).as_posix(), text)
    expect_none(complaints)


def test_scripts_go_to_the_head_of_the_checkout() -> None:
    """A script that is moved to a deeper folder would else work on another one."""
    gone = {
        path: (path.parent / match[1]).resolve()
        for path in tracked_files()
        if path.suffix == ".sh" or path.parent.name == ".ci"
        for match in [re.search(r'^cd "\$\(dirname "\$\{BASH_SOURCE\[0\]\}"\)/?(.*)"$', path.read_text(), re.MULTILINE)]
        if match
    }
    assert len(gone) >= 3 and set(gone.values()) == {ROOT}, gone


def test_the_rules_read_this_very_tree() -> None:
    paths = {source.path for source in SOURCES}
    assert {"core/units.py", "systems/api.py", "tests/test_tidy.py"} <= paths
    assert not [path for path in paths if path.startswith((".venv", "out/"))]


CANARIES = [
    ("import_direction", "core/a.py", "import systems"),
    ("import_direction", "systems/a.py", "from workloads.poisson import Config"),
    ("import_direction", "systems/a.py", "def f():\n    import testbed.virtual"),
    ("import_direction", "analysis/a.py", "from collectors import histogram"),
    ("import_direction", "analysis/a.py", "from harness.experiment import RunSpec"),
    ("import_direction", "harness/a.py", "import analysis.metrics"),
    ("import_direction", "testbed/a.py", "from harness import run"),
    ("import_direction", "paper_figs/a.py", "from ratebed.cli import main"),
    ("absolute_imports", "core/a.py", "from . import units"),
    ("purity", "systems/a.py", "import time"),
    ("purity", "workloads/a.py", "from socket import socket"),
    ("purity", "systems/a.py", "def f():\n    import asyncio.events"),
    ("purity", "systems/a.py", "import threading as t"),
    ("purity", "workloads/a.py", "import subprocess"),
    ("purity", "systems/a.py", "import random\nrandom.shuffle([])"),
    ("purity", "systems/a.py", "import random as r\nr.random()"),
    ("purity", "systems/a.py", "from random import choice"),
    ("purity", "systems/a.py", "from random import Random\nRandom()"),
    ("purity", "workloads/a.py", "import numpy as np\nnp.random.rand(3)"),
    ("purity", "workloads/a.py", "from numpy import random\nrandom.normal()"),
    ("purity", "workloads/a.py", "import numpy.random\nnumpy.random.seed(1)"),
    ("purity", "workloads/a.py", "from numpy.random import poisson"),
    ("purity", "workloads/a.py", "import numpy as np\nnp.random.default_rng()"),
    ("purity", "systems/a.py", "from datetime import datetime\ndatetime.now()"),
    ("purity", "workloads/a.py", "import datetime as d\nd.date.today()"),
    ("purity", "systems/a.py", "open('x')"),
    ("light_imports", "paper_figs/srtm/eq1.py", "import seaborn as sns"),
    ("light_imports", "paper_figs/style.py", "try:\n    from matplotlib import pyplot\nfinally:\n    pass"),
    ("light_imports", "systems/limiting/a.py", "import numba"),
    ("light_imports", "systems/a.py", "class A:\n    import scipy.stats"),
    ("light_imports", "analysis/__init__.py", "from pyspark.sql import SparkSession"),
    ("light_imports", "workloads/__init__.py", "import pandas as pd"),
    ("function_length", "core/a.py", LONG_FUNCTION),
    (
        "function_length",
        "tests/test_a.py",
        "class A:\n" + "".join(f"    {line}\n" for line in LONG_FUNCTION.split("\n")),
    ),
    ("module_length", "core/a.py", LONG_MODULE),
    ("docstrings", "core/a.py", "x = 1"),
    ("docstrings", "core/a.py", '"""A."""\ndef public(): ...'),
    ("docstrings", "core/a.py", '"""A."""\nclass Public:\n    x = 1'),
    ("docstrings", "core/a.py", '"""A."""\nclass Public:\n    """B."""\n    def method(self): ...'),
    ("docstrings", "core/a.py", '"""A."""\nclass Public(B):\n    """See ``B``, nearly."""\n    def method(self): ...'),
    ("docstrings", "core/a.py", '"""TODO."""'),
    ("docstrings", "tests/test_a.py", '"""todo"""'),
    ("docstrings", "core/a.py", '""""""'),
    ("procedures", "studies/a.py", "def f(asked):\n    if asked.procedure == 'search':\n        pass"),
    ("procedures", "harness/a.py", "procedure == 'search'"),
    ("procedures", "harness/a.py", "if spec.study != 'limiting': ..."),
    ("procedures", "ratebed/a.py", "[spec for spec in specs if spec.study in ('distribution', 'limiting')]"),
    ("procedures", "studies/a.py", "match point.spec.study:\n    case 'limiting': ..."),
    ("procedures", "studies/a.py", "hasattr(point.schedule, 'block')"),
    ("procedures", "ratebed/a.py", "skipped = getattr(schedule, 'skipped', {})"),
    ("telling_names", "core/a.py", "def f(it):\n    found = it.group()\n    return found"),
    ("telling_names", "studies/a.py", "def f(*, found=None): ..."),
    ("live_without_virtual", "testbed/hosts/ssh/a.py", "from testbed.virtual.network import Network"),
    ("live_without_virtual", "testbed/nodes/a.py", "def f():\n    import testbed.virtual"),
    ("live_without_virtual", "testbed/brokers/a.py", "from testbed import virtual"),
    ("live_without_virtual", "testbed/servers/a.py", "import testbed.virtual.fleet"),
    ("live_without_virtual", "studies/limiting/live.py", "import testbed.virtual.fleet"),
    ("live_without_virtual", "testbed/play.py", "import testbed.virtual.fleet"),
    ("live_without_virtual", "testbed/trust/a.py", "import testbed.virtual.fleet"),
    ("live_without_virtual", "studies/quota/planes.py", "import testbed.virtual.fleet"),
    ("narrow_interfaces", "testbed/api.py", "class Testbed:\n" + "    def f(self): ...\n" * 6),
    ("narrow_interfaces", "testbed/hosts/site.py", "class Site:\n" + "    async def f(self): ...\n" * 15),
    ("narrow_interfaces", "testbed/api.py", "class Testbed:\n    def f(self, options: dict[str, Any]): ..."),
    ("narrow_interfaces", "testbed/hosts/site.py", "class Site:\n    x: typing.Any"),
    ("axes_in_one_place", "paper_figs/srtm/a.py", "def f(axes):\n    axes.set_xscale('log')"),
    ("axes_in_one_place", "paper_figs/a.py", "def f(axes):\n    scale = axes.set_yscale"),
    ("axes_in_one_place", "paper_figs/dst/a.py", "def f(axis):\n    axis.set_major_formatter(FuncFormatter(str))"),
    *(
        ("no_records_in_text", "paper_figs/a.py", text)
        for text in (
            "topic = \"substring_index(node, ' of ', -1) as topic\"",
            "samples.where(\"metric = 'span_ns' and node like 'request of %'\")",
            "samples.where(f\"node RLIKE '{SENDERS}'\")",
            "f.regexp_extract('topic', r'(\\d+)$', 1).cast('int')",
            "parts = f.split(f.col('node'), ' ')",
            "f.col('node').like('% of %')",
            "frame.node.str.split(' of ')",
            "frame['node'].str.extract(r'(\\d+)')",
        )
    ),
    ("no_records_in_text", "analysis/a.py", "F.split_part('node', F.lit(' '), F.lit(1))"),
    ("no_records_in_text", "analysis/limiting.py", "f.split(a)\nf.split(b)\nf.split(c)"),
    ("figures_apart", "paper_figs/srtm/eq1.py", "from paper_figs.srtm.fig4 import tables"),
    ("figures_apart", "paper_figs/srtm/eq1.py", "def f():\n    from paper_figs.dst import law"),
]


@pytest.mark.parametrize(("name", "path", "text"), CANARIES)
def test_a_canary_offends(name: str, path: str, text: str) -> None:
    assert RULES[name](Source(path, text))


def test_methods_may_be_described_where_their_class_says() -> None:
    source = Source("core/a.py", '"""A."""\nclass Public(B):\n    """See ``B``."""\n    def method(self): ...')
    assert not RULES["docstrings"](source)


def test_a_class_name_with_two_meanings_offends() -> None:
    pair = [Source("core/a.py", "class Load: ..."), Source("systems/b.py", "def f():\n    class Load: ...")]
    renamed = [Source(source.path, source.text.replace("Load", "Weight")) for source in pair]
    assert TREE_RULES["one_meaning"](renamed) == ["core/a.py:1: class Weight is also systems/b.py:2: class Weight"]
    free = [Source(source.path, source.text.replace("Load", name)) for name in ("Config", "_Load") for source in pair]
    assert not TREE_RULES["one_meaning"]([*free, renamed[0], Source("tests/b.py", "class Weight: ...")])


@pytest.mark.parametrize("folder", ["testbed/x", "studies/x", "harness"])
def test_a_crowded_folder_offends(folder: str) -> None:
    sources = [Source(f"{folder}/m{number}.py", "") for number in range(FOLDER_MODULES)]
    assert not TREE_RULES["small_folders"]([*sources, Source(f"{folder}/deeper/m.py", "")])
    (complaint,) = TREE_RULES["small_folders"]([*sources, Source(f"{folder}/one_more.py", "")])
    assert complaint.startswith(f"{folder}: 17 modules")


def test_a_long_driver_offends_and_so_does_what_drivers_share() -> None:
    assert set(DEPLOYED) <= {source.path for source in SOURCES}
    a_third = Source(DEPLOYED[0], "x\n" * (DEPLOYED_LINES // 3))
    shared = [replace(a_third, path=path) for path in DEPLOYED]
    drivers = [Source(f"{DRIVERS}a.py", "x\n" * DRIVER_LINES), Source("systems/limiting/a.py", "x\n" * 99)]
    assert not TREE_RULES["small_drivers"]([*shared, *drivers])
    (complaint,) = TREE_RULES["small_drivers"]([*shared[:2], replace(shared[2], text=shared[2].text + "x\n"), *drivers])
    assert complaint.endswith("451 lines, at most 450")
    assert len(TREE_RULES["small_drivers"]([Source(f"{DRIVERS}b.py", "x\n" * 81)])) == 1


def test_a_test_that_lies_elsewhere_than_what_it_tests_offends() -> None:
    product = [Source("systems/api.py", ""), Source("systems/parts/md1.py", "")]
    paths = ["systems/parts/test_md1.py", "systems/test_api.py", "systems/test_law.py", "test_a.py"]
    rule = TREE_RULES["mirrored_tests"]
    assert not rule([*product, *(Source(f"tests/{path}", "") for path in paths)])
    flat, nowhere = Source("tests/systems/test_md1.py", ""), Source("tests/systems/pieces/test_law.py", "")
    assert rule([*product, flat, nowhere]) == [
        "tests/systems/test_md1.py: md1.py is in systems/parts",
        "tests/systems/pieces/test_law.py: there is no folder systems/pieces",
    ]


@pytest.mark.parametrize("user", ["testbed/b.py", "benchmarks/b.py", "docs/examples/b.py"])
@pytest.mark.parametrize("use", ["from core.a import f", "core.a.f()", "REGISTRY = {'a': 'core.a:f'}"])
def test_what_only_tests_use_offends(user: str, use: str) -> None:
    rule, tests = TREE_RULES["used_names"], Source("tests/b.py", use)
    source = Source("core/a.py", '"""f."""\ndef f():\n    "Says f."\n    return f()\ndef _g(): ...\n')
    assert rule([source, tests]) == ["core/a.py:2: nobody but tests uses f"]
    assert not rule([source, tests, Source(user, use)])
    assert not rule([replace(source, text=f"{source.text}f()"), tests])


def test_one_more_of_what_there_was_too_much_of_offends() -> None:
    formats = Source("paper_figs/a.py", "x = 1  # fmt: skip\n" * SKIPPED_FORMATS)
    anys = Source("core/a.py", "x: Any\n" * (ANYS - 1) + "x: typing.Any\n")
    rest = [Source("testbed/a.py", formats.text), Source("tests/a.py", anys.text)]
    assert not TREE_RULES["ratchets"]([formats, anys, *rest])
    more = Source("paper_figs/b.py", "y: Any = 1  # fmt: skip")
    first, second = TREE_RULES["ratchets"]([formats, anys, more, *rest])
    assert "41, at most 40" in first and "351, at most 350" in second


def test_what_is_let_off_is_still_there() -> None:
    """Exceptions that nobody needs any more must go."""
    paths = {source.path for source in SOURCES}
    tests = {path for path in paths if path.startswith("tests/")}
    for folder in UNMIRRORED:
        assert any(path.startswith(f"{folder}/test_") for path in paths), folder
        assert not any(path.startswith(f"{folder.removeprefix('tests/')}/") for path in paths - tests), folder
    for name in FOR_OTHERS:
        assert any(re.search(rf"^(def|class) {name}\b", source.text, re.MULTILINE) for source in SOURCES), name
    product = [source for source in SOURCES if source.folder in PRODUCT]
    for name in SHARED_NAMES:
        homes = [source.path for source in product if re.search(rf"^class {name}\b", source.text, re.MULTILINE)]
        assert len(homes) > 1, name
    for path in PARSED_OPTIONS:  # one more would be too many, and they are all there
        [source] = [source for source in SOURCES if source.path == path]
        assert RULES["no_records_in_text"](replace(source, text=source.text + "\nF.split(a, ' ')\n"))


WELL_BEHAVED = [
    ("import_direction", "ratebed/a.py", "import paper_figs, harness, core.units"),
    ("import_direction", "analysis/a.py", "from collectors.schema import RUNS\nfrom analysis import metrics"),
    ("import_direction", "systems/a.py", "import numpy\nfrom systems.api import System"),
    ("purity", "systems/a.py", "from random import Random\nimport numpy as np\nRandom(1)\nnp.random.Generator"),
    ("purity", "workloads/a.py", "def f(rng, time, path):\n    open(path)\n    return rng.random() + time.random"),
    ("purity", "testbed/a.py", "import time"),
    ("light_imports", "paper_figs/a.py", "def draw():\n    import seaborn"),
    ("light_imports", "systems/a.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numba"),
    ("light_imports", "analysis/metrics.py", "import pyspark, pandas"),
    ("function_length", "core/a.py", LONG_FUNCTION.replace("    x = 1\n", "", 1)),
    ("module_length", "tests/test_a.py", LONG_MODULE),
    (
        "docstrings",
        "core/a.py",
        '"""A."""\ndef _private():\n    def inner(): ...\nclass _Hidden:\n    def f(self): ...',
    ),
    ("docstrings", "tests/test_a.py", "def test_a(): ..."),
    ("procedures", "studies/a.py", "procedure = 'search'\nhasattr(point, 'schedule')"),
    ("procedures", "harness/a.py", "getattr(self.best.schedule, name)"),
    ("procedures", "harness/a.py", "kind.study == study and study in seen"),
    ("procedures", "tests/test_a.py", "assert spec.study == 'limiting'"),
    ("telling_names", "testbed/a.py", "class Finding:\n    found: int\nprint(finding.found)"),
    ("telling_names", "tests/test_a.py", "found = 1"),
    ("live_without_virtual", "studies/limiting/virtual.py", "import testbed.virtual.fleet"),
    ("live_without_virtual", "testbed/hosts/a.py", "import testbed.virtually"),
    ("narrow_interfaces", "testbed/api.py", "class Testbed:\n" + "    def f(self): ...\n" * 5),
    ("narrow_interfaces", "testbed/hosts/site.py", "class Site:\n" + "    @property\n    def f(self): ...\n" * 15),
    ("narrow_interfaces", "testbed/api.py", "class Other:\n    x: Any"),
    ("axes_in_one_place", "paper_figs/drawing.py", "axes.set_xscale('log')"),
    (
        "no_records_in_text",
        "paper_figs/a.py",
        "specs = split(4, LOAD)\nname.split()\nNOTES = 'a split (ours); like this'",
    ),
    ("no_records_in_text", "ratebed/a.py", "text.str.split(' of ')"),
    ("figures_apart", "paper_figs/srtm/eq1.py", "from paper_figs.srtm.grids import points"),
    ("figures_apart", "paper_figs/srtm/grids.py", "from paper_figs.srtm.fig4 import tables"),
]


@pytest.mark.parametrize(("name", "path", "text"), WELL_BEHAVED)
def test_good_manners_pass(name: str, path: str, text: str) -> None:
    assert not RULES[name](Source(path, text))


# Put together, so that this file passes the rule.
@pytest.mark.parametrize("named", ["py" + "pi.org", "files.pythonhosted" + ".org", "/wo" + "rk/m", "/home/" + "ann/a"])
def test_a_file_that_names_a_machine_offends(named: str) -> None:
    (complaint,) = names_no_machine("docs/a.md", f"fine\nsee '{named}")
    assert complaint.startswith("docs/a.md:2: names ")
    assert complaint[len("docs/a.md:2: names ") :].strip("'") in named


@pytest.mark.parametrize("text", ["src/tmp/x", "~/files/x", "/home/vagrant/ratebed", "${TMPDIR:-/tmp}", "tmp/main"])
def test_other_paths_are_free(text: str) -> None:
    assert not names_no_machine("docs/a.md", text)


def test_listing_imports_nothing_heavy_by_detour() -> None:
    modules = [
        source.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for source in SOURCES
        if source.folder in ("paper_figs", "systems") and not source.path.endswith("_kernel.py")  # imported on use
    ]
    code = f"""
import importlib, sys
for name in {modules}:
    importlib.import_module(name)
    heavy = sorted({{"seaborn", "matplotlib", "pyspark", "numba", "cvxpy", "scipy"}} & set(sys.modules))
    assert not heavy, f"{{name}} imports {{heavy}}"
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_an_agent_imports_nothing_of_the_harness_end() -> None:
    """There is one on every host, and they all start at once."""
    code = """
import sys
import testbed.trust.link_probe
heavy = {"testbed.hosts.capabilities", "testbed.servers", "systems", "harness", "pyarrow"} & set(sys.modules)
assert not heavy, heavy
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
