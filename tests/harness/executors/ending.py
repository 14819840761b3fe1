"""A system from outside the tree, to be copied there: it says whose modules it meets, and may end its process.

Not where a file ``mended`` lies beside it.
"""

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from systems.api import System
from systems.distribution import lb

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Config:
    """How it ends its process."""

    ends: str = ""  # by "exit" or "signal"


def distribute(problem, config, rng) -> Iterator:
    with (HERE / "met").open("a") as file:
        file.write(" ".join(str(sys.modules[name].__file__) for name in ("core.errors", "harness.run", "systems.api")))
        file.write("\n")
    if config.ends and not (HERE / "mended").exists():
        if config.ends == "exit":
            os._exit(7)
        os.kill(os.getpid(), signal.SIGKILL)
    return lb.distribute(problem, lb.SYSTEM.config(), rng)


SYSTEM = System("ending", "lb, or the end of its process", config=Config, distribute=distribute)
