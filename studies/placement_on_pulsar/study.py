"""The study ``placement-on-pulsar``: what ``placement`` asks, of a real Apache Pulsar, or of a model of one."""

from core.errors import SpecError
from studies.api import Journal, Point, Study, expected_s
from studies.placement.study import check_request, fits, settled_options
from studies.placement.tables import placement_tables
from studies.placement_on_pulsar.asked import NAME, ClientDowntime, Config, PulsarJournal, PulsarRequest, StepSpan
from studies.spec import RunSpec
from studies.tables import columns
from systems.placement.pulsar import Config as PulsarConfig
from workloads.api import Offer

MODEL_S = 0.5  # a run of the model
CLUSTER_S = 120.0  # ours: a cluster is started, its topics are made, clients come


def asked(point: Point, config: Config) -> PulsarRequest:
    """SpecError where there are too few sites, several topics a unit, or clients that no process can stand for."""
    if isinstance(point.system_config, PulsarConfig) and point.system_config.bundles:
        what = f"bundles = {point.system_config.bundles}: on Pulsar a topic lies alone in its bundle"
        raise SpecError(what, "give bundles = 0")
    options = settled_options(point, config.access)
    request = PulsarRequest(point.system, options, point.topology, point.schedule, point.spec.seed, config)
    check_request(point, request, request.faults)
    assert request.crews
    return request


def journal(point: Point, asked: PulsarRequest, shown: PulsarJournal) -> Journal:
    """The tables of a run."""
    tables = placement_tables(asked, shown, shown.latency_ns)
    tables["move_steps"] = columns(StepSpan._fields, shown.steps)
    tables["downtimes"] = columns(ClientDowntime._fields, shown.downtimes)
    return Journal(tables, evidence=shown.evidence)


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Its length, the warm-up, the cluster; the model takes no time."""
    if not real_time:
        return MODEL_S
    warm_up = float(spec.study_options.get("warm_up_rounds", Config.warm_up_rounds))
    return expected_s(spec, Config, "duration") + warm_up + CLUSTER_S


STUDY = Study(
    NAME,
    "topics placed on the brokers of an Apache Pulsar: a real one, or its model",
    Config,
    asked,
    journal,
    expected_seconds,
    fits,
    Offer.CLIENTS,
    virtual="studies.placement_on_pulsar.virtual",
    live="studies.placement_on_pulsar.live",
)
