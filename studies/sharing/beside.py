"""Nodes of whoever shares a bucket, each a process beside its real broker: reports up, ``SetBucket`` down."""

from collections.abc import Sequence
from dataclasses import asdict

import msgspec

from core.records import Envelope
from studies.distribution.live import LiveDeployment
from studies.sharing.rules import Shared
from systems.api import System
from systems.limiting.granted import Config as GrantedConfig
from testbed.brokers.plane import ReportScript
from testbed.nodes.fleet import NodeFleet
from testbed.nodes.planes import ControlAt, Surroundings

HEARD = 10  # ours: times an interval that a limiter's node hears of its broker's messages, all that have come together


def nodes_beside(
    deployment: LiveDeployment, seed: int, system: System, names: Sequence[str], config: object, script: ReportScript
) -> NodeFleet:
    """Of ``system``, beside the brokers ``names``; they know their brokers and each other, and what ``script`` says."""
    assert system.nodes is not None
    fleet = NodeFleet(deployment.site, system, config, seed, list(system.nodes(list(names), config, seed)))
    brokers = deployment.brokers_up
    at = {broker.name: ControlAt(broker.control_port, brokers.token) for broker in brokers}
    fleet.surroundings = Surroundings(brokers=at, topic=deployment.topic)
    fleet.script = fleet.folder / "script.json"
    fleet.script.write_bytes(msgspec.json.encode(script))
    return fleet


def limiters_beside(
    deployment: LiveDeployment, seed: int, way: Shared, names: Sequence[str], whole: Envelope, interval_ns: int
) -> NodeFleet:
    """Of a limiter whose grants become sub-buckets of ``whole`` (``systems.limiting.granted``)."""
    assert way.sharing.beside is not None
    config = GrantedConfig(msgspec.to_builtins(way.config(whole)), deployment.topic, **asdict(whole))
    script = ReportScript(interval_ns // HEARD)
    return nodes_beside(deployment, seed, way.sharing.beside, names, config, script)
