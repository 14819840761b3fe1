"""What the figures of the placement family have in common: points of the study ``placement``."""

from core.records import Options
from harness.experiment import RunSpec


def placed(
    system: str,
    workload: tuple[str, Options],
    topology: tuple[str, Options],
    study: Options,
    inputs: tuple[str, ...] = (),
    **system_options: object,
) -> RunSpec:
    """A point: who places the topics of which clients, where, for how long."""
    return RunSpec(
        system=system,
        system_options=system_options,
        workload=workload[0],
        workload_options=dict(workload[1]),
        topology=topology[0],
        topology_options=dict(topology[1]),
        calibration="bucket-only",
        study="placement",
        study_options=dict(study),
        inputs=inputs,
    )
