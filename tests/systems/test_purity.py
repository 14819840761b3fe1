from pathlib import Path

import pytest

from core.errors import SystemFault
from systems.conformance import check_system
from systems.loader import load_system
from testbed.virtual.bench import VirtualBench

BENCH = VirtualBench()

IMPURE = """
from dataclasses import dataclass
import importlib
import numpy as np
from systems.api import Distribution, Message, System
{imports}

@dataclass(frozen=True)
class Config:
    pass

def distribute(problem, config, rng):
    {line}
    return Distribution(np.zeros(problem.publishers.count, np.int32))
    yield

SYSTEM = System("impure", "", config=Config, distribute=distribute)
"""


@pytest.mark.parametrize(
    ("imports", "line", "rule"),
    [
        ("import time", "time.time()", "imports time"),
        ("from time import monotonic as now", "now()", "imports time"),
        ("import datetime", "pass", "imports datetime"),
        ("import urllib.request", "pass", "imports urllib.request"),
        ("import random", "random.random()", "uses random.random"),
        ("import random as r", "r.shuffle([1])", "uses random.shuffle"),
        ("from random import choice", "choice([1])", "uses random.choice"),
        ("", "np.random.rand(3)", "uses numpy.random.rand"),
        ("import numpy.random as nr", "nr.seed(1)", "uses numpy.random.seed"),
        ("from numpy.random import normal", "normal()", "uses numpy.random.normal"),
        ("", "np.random.default_rng()", "default_rng without a seed"),
        ("", "open('/dev/null')", "calls open"),
        ("", "hash('x')", "calls hash"),
        ("", "importlib.import_module('ti' + 'me').time()", "called time.time"),
        ("", "importlib.import_module('ran' + 'dom').random()", "called random.random"),
        ("", "importlib.import_module('o' + 's').urandom(1)", "called os.urandom"),
    ],
)
def test_a_system_with_a_clock_or_global_randomness_is_caught(
    tmp_path: Path, imports: str, line: str, rule: str
) -> None:
    file = tmp_path / "impure.py"
    file.write_text(IMPURE.format(imports=imports, line=line))
    with pytest.raises(SystemFault, match=rule):
        check_system(load_system(str(file)), BENCH)


@pytest.mark.parametrize(
    ("imports", "line"),
    [
        ("from random import Random", "Random(1).random()"),
        ("import random", "random.Random(1).random()"),
        ("", "np.random.default_rng(1).random()"),
        ("from numpy.random import Generator, PCG64", "Generator(PCG64(1)).random()"),
    ],
)
def test_seeded_randomness_is_fine(tmp_path: Path, imports: str, line: str) -> None:
    file = tmp_path / "pure.py"
    file.write_text(IMPURE.format(imports=imports, line=line))
    check_system(load_system(str(file)), BENCH)
