"""Ratebed: the command line's package, and a library, whose names are these (docs/python.md).

    import ratebed

    results = ratebed.load("out")
    results.table("srtm-fig7/p99")

Each is imported when it is first used: the command line, which needs none of them, stays quick.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.errors import HarnessError, LinkError, MachineError, SpecError, SystemFault
    from ratebed.points import matrix, point, run
    from ratebed.results import Results, load
    from studies.spec import RunSpec

_HOMES = {
    "load": "ratebed.results",
    "Results": "ratebed.results",
    "point": "ratebed.points",
    "matrix": "ratebed.points",
    "run": "ratebed.points",
    "RunSpec": "studies.spec",
    "HarnessError": "core.errors",
    "SpecError": "core.errors",
    "MachineError": "core.errors",
    "SystemFault": "core.errors",
    "LinkError": "core.errors",
}
__all__ = [
    "HarnessError",
    "LinkError",
    "MachineError",
    "Results",
    "RunSpec",
    "SpecError",
    "SystemFault",
    "load",
    "matrix",
    "point",
    "run",
]


def __getattr__(name: str) -> object:
    """One of the names above, from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module 'ratebed' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Also what has not been used yet."""
    return sorted({*globals(), *__all__})
