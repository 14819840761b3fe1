"""The study ``placement-on-pulsar``: what ``placement`` asks, of a real Apache Pulsar, or of a model of one."""

from dataclasses import replace

from core.clients import ClientLoad
from core.errors import SpecError
from core.units import duration_ns, duration_text
from studies.api import Journal, Point, Study, expected_s
from studies.placement.asked import Spell
from studies.placement.tables import client_rows, latency_rows, window_rows
from studies.placement_on_pulsar.asked import NAME, Config, PulsarJournal, PulsarRequest
from studies.spec import RunSpec
from studies.tables import columns, fault_rows, histogram_of, sample_rows
from systems.api import System
from systems.placement.options import Options
from systems.placement.pulsar import Config as PulsarConfig
from testbed.faults import check_faults
from workloads.api import Offer

MODEL_S = 0.5  # a run of the model
CLUSTER_S = 120.0  # ours: a cluster is started, its topics are made, clients come


def asked(point: Point, config: Config) -> PulsarRequest:
    """SpecError where there are too few sites, several topics a unit, or clients that no process can stand for."""
    load: ClientLoad = point.schedule
    if isinstance(point.system_config, PulsarConfig) and point.system_config.bundles:
        what = f"bundles = {point.system_config.bundles}: on Pulsar a topic lies alone in its bundle"
        raise SpecError(what, "give bundles = 0")
    bounds = {topic.name: duration_text(topic.bound_ns) for topic in load.topics}
    options = replace(point.system_config, access=config.access, bounds={**bounds, **point.system_config.bounds})
    request = PulsarRequest(point.system, options, point.topology, load, point.spec.seed, config)
    if len(request.places) < load.site_count:
        what = f"clients at {load.site_count} sites, but topology {point.topology.name} has {len(request.places)}"
        raise SpecError(what, "give both the same number")
    check_faults(request.faults, request.topology)
    assert point.system.nodes is not None and request.crews
    point.system.nodes(request.topology.node_names(), point.system_config, 0)  # a role that is missing: now
    return request


def journal(point: Point, asked: PulsarRequest, shown: PulsarJournal) -> Journal:
    """The tables of a run."""
    window_ns = duration_ns(asked.rule.window)
    tables = {
        "samples": sample_rows(shown.samples),
        "latency_histogram": histogram_of("end_to_end_latency", shown.latency_ns),
        "topic_windows": window_rows(shown.fates, window_ns),
        "topic_latency": latency_rows(shown.fates, window_ns),
        "ownership": columns(Spell._fields, shown.spells),
        "clients": client_rows(asked.happenings),
        "faults": fault_rows(shown.faults),
    }
    return Journal(tables, evidence=shown.evidence)


def fits(system: System) -> bool:
    """Whether it places topics."""
    return issubclass(system.config, Options)


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
