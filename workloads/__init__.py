"""What is offered: each workload makes a schedule of emissions that knows nothing of the system under test."""

from typing import TYPE_CHECKING

from core.errors import SpecError
from core.registry import lookup

if TYPE_CHECKING:
    from workloads.api import Workload

WORKLOADS = {
    "poisson": "workloads.poisson:WORKLOAD",
    "periodic": "workloads.periodic:WORKLOAD",
    "keyed": "workloads.keyed:WORKLOAD",
    "shifting": "workloads.shifting:WORKLOAD",
    "trace": "workloads.trace:WORKLOAD",
    "requests": "workloads.requests:WORKLOAD",
    "data-set": "workloads.data_set:WORKLOAD",
    "request-log": "workloads.request_log:WORKLOAD",
    "service-log": "workloads.service_requests:WORKLOAD",
    "load-curve": "workloads.load_curve:WORKLOAD",
    "instants": "workloads.instants:WORKLOAD",
    "probes": "workloads.probes:WORKLOAD",
    "hot-keys": "workloads.hot_keys:WORKLOAD",
    "uav-swarms": "workloads.uav_swarms:WORKLOAD",
    "mmog": "workloads.mmog:WORKLOAD",
    "static-topics": "workloads.static_topics:WORKLOAD",
    "topic-churn": "workloads.topic_churn:WORKLOAD",
}


def load(key: str) -> "Workload":
    """The workload called ``"poisson"`` or ``"path.py:WORKLOAD"``, imported on use.

    SpecError names the file, line or attribute that is wrong, or the closest registered name.
    """
    from workloads.api import Workload

    workload = lookup("workload", WORKLOADS, key)
    if not isinstance(workload, Workload):
        raise SpecError(f"{key} is a {type(workload).__name__}", "it must be a workloads.api.Workload")
    return workload
