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

    try:
        return getattr(import_module(_HOMES[name]), name)
    except ImportError as error:
        if stranger := _stranger():
            raise ImportError(
                f"{stranger}, which Python finds before Ratebed's own; docs/python.md has ways"
            ) from error
        raise


def _stranger() -> str:
    """Somebody else's package with the name of one of ours, which are generic."""
    import sys
    from pathlib import Path

    checkout = Path(__file__).resolve().parents[1]
    for name in sorted(path.parent.name for path in checkout.glob("*/__init__.py")):
        places = [*getattr(sys.modules.get(name), "__path__", ()), getattr(sys.modules.get(name), "__file__", None)]
        for place in filter(None, places):
            if checkout not in Path(place).resolve().parents:
                return f"{name} is {place}"
    return ""


def __dir__() -> list[str]:
    """Also what has not been used yet."""
    return sorted({*globals(), *__all__})
