"""Points of the ePulsar studies: ``placement``, and those in which nothing is offered."""

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


def idle(
    study: str, topology: str, topology_options: Options, options: Options, inputs: tuple[str, ...] = ()
) -> RunSpec:
    """A point at which nothing is offered, so that system and workload are idle; ``options`` are the study's."""
    return RunSpec(
        system="static-split",
        workload="requests",
        topology=topology,
        topology_options=dict(topology_options),
        study=study,
        study_options=dict(options),
        inputs=inputs,
    )
