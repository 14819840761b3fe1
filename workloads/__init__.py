"""What is offered: each workload makes a schedule of emissions that knows nothing of the system under test."""

from importlib import import_module
from typing import TYPE_CHECKING

from core.errors import SpecError

if TYPE_CHECKING:
    from workloads.api import Workload

WORKLOADS = {
    "poisson": "workloads.poisson:WORKLOAD",
    "periodic": "workloads.periodic:WORKLOAD",
    "shifting": "workloads.shifting:WORKLOAD",
    "trace": "workloads.trace:WORKLOAD",
}


def load(key: str) -> "Workload":
    """The workload registered as ``key``, imported on use.  Raises SpecError for an unknown key."""
    if key not in WORKLOADS:
        raise SpecError(f"unknown workload {key!r}", f"choose one of {', '.join(WORKLOADS)}")
    module, name = WORKLOADS[key].split(":")
    return getattr(import_module(module), name)
