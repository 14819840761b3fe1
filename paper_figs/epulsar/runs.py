"""Points of the ePulsar studies: ``placement``, on our brokers or Pulsar's, and those in which nothing is offered."""

from msgspec.structs import replace

from core.errors import SpecError
from core.records import Json, Options
from harness.experiment import GroundOption, RunSpec
from paper_figs.epulsar import published as paper

OURS, PULSAR = "ours", "pulsar"
BROKER = GroundOption("broker", "whose brokers: ours, or Apache Pulsar's (pulsar; in virtual time a model of it)", OURS)
# Periods of the public code, with which scale small reacts, and what is on Pulsar.
PUBLIC_CODE: Json = {"report": f"{paper.CODE_REPORT_MS}ms", "place": f"{paper.CODE_PLACE_MS}ms"}
PUBLIC_CODE["locate"] = f"{paper.CODE_LOCATE_S}s"
# Four zones, a swarm of three for each, at a tenth of the paper's rate: what two cores carry beside four brokers.
SWARMS_ON_PULSAR: Json = {"zones": paper.SWARM_ZONES, "swarms": 4, "members": 3, "rate_rps": 20.0}


def is_on_pulsar(options: Options) -> bool:
    """Whether ``BROKER`` is Apache Pulsar; SpecError where it is nobody's."""
    broker = BROKER.of(options)
    if broker not in (OURS, PULSAR):
        raise SpecError(f"--{BROKER.name} {broker}", f"choose {OURS} or {PULSAR}")
    return bool(broker == PULSAR)


def on_pulsar(point: RunSpec, **study: object) -> RunSpec:
    """The same point of ``placement`` on Apache Pulsar, with options of study ``placement-on-pulsar``."""
    return replace(point, study="placement-on-pulsar", study_options={**point.study_options, **study})


def placed(
    system: str,
    workload: tuple[str, Options],
    topology: tuple[str, Options],
    study: Options,
    **system_options: object,
) -> RunSpec:
    """A point: who places the topics of which clients, where, for how long."""
    place: Json = {"topology": topology[0], "topology_options": dict(topology[1])}
    clients: Json = {"workload": workload[0], "workload_options": dict(workload[1]), "calibration": "bucket-only"}
    how_long: Json = {"study": "placement", "study_options": dict(study)}
    return RunSpec(system=system, system_options=system_options, **clients, **place, **how_long)


def idle(study: str, topology: str, topology_options: Options, options: Options) -> RunSpec:
    """A point at which nothing is offered, so that system and workload are idle; ``options`` are the study's."""
    place: Json = {"topology": topology, "topology_options": dict(topology_options)}
    return RunSpec(system="static-split", workload="requests", study=study, study_options=dict(options), **place)
