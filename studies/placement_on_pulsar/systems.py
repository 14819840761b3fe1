"""The systems of the placement family, deployed beside a real Pulsar: the same load manager, strategies and options.

A live run loads a system by its name in every node's process: hence a file, and classes of its own for their options.
"""

from dataclasses import dataclass, replace

from core.errors import SpecError
from studies.placement_on_pulsar.nodes import Served, Unloaded, nodes_on_pulsar
from systems.api import Node, StandIn, System
from systems.placement import all_pairs, epulsar, pulsar
from systems.placement.cast import cast_of
from systems.placement.messages import AtSite
from systems.placement.options import Options


@dataclass(frozen=True)
class EPulsarOnPulsar(epulsar.Config):
    """Options of ePulsar."""


@dataclass(frozen=True)
class AllPairsOnPulsar(epulsar.Config):
    """Options of AllPairs."""


@dataclass(frozen=True)
class PulsarOnPulsar(pulsar.Config):
    """Options of Pulsar's own control plane, as the paper describes it."""


def _on_pulsar(system: System, config: type[Options]) -> System:
    def nodes(names: list[str], options: Options, seed: int) -> dict[str, Node]:
        assert system.nodes is not None
        cast = cast_of(names)
        return nodes_on_pulsar(system.nodes(names, options, seed), cast.brokers, cast.clients, options, seed)

    return replace(
        system,
        config=config,
        nodes=nodes,
        inputs=(AtSite, Served, Unloaded),
        rehearsal=None,
        invariants=(),
        plane="studies.placement_on_pulsar.planes:pulsar_plane",
        stand_in=StandIn("studies.placement_on_pulsar.planes:stand_in", ("serf", "pulsar")),
    )


EPULSAR = _on_pulsar(epulsar.SYSTEM, EPulsarOnPulsar)
ALL_PAIRS = _on_pulsar(all_pairs.SYSTEM, AllPairsOnPulsar)
PULSAR = _on_pulsar(pulsar.SYSTEM, PulsarOnPulsar)
_BY_KEY = {system.key: system for system in (EPULSAR, ALL_PAIRS, PULSAR)}


def deployed(system: System) -> System:
    """The system as it is beside Pulsar; SpecError for one that is not of the family's three."""
    if system.key not in _BY_KEY:
        raise SpecError(f"system {system.key} was not made to drive Pulsar", f"use one of {', '.join(_BY_KEY)}")
    return _BY_KEY[system.key]
