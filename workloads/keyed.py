"""keyed: Poisson or periodic groups whose correlation keys, as distributors are told them, are not all right (ours).

SRTM takes the keys of IV-C as given: an application says which publishers act together.  Here some of them are wrong,
missing or noisy.  What is sent is that of ``poisson`` or ``periodic`` with the same options and seed; only
``population.group``, all that a distributor knows of correlation, is another.  Who is mistaken is drawn once a topic,
named by the topic: more of a mistake adds publishers to those that it has already.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from core.records import Block, Int32, Int64, Population, Schedule
from core.seeds import generator
from workloads.api import Workload, require
from workloads.groups import GroupedConfig
from workloads.periodic import PeriodicSchedule
from workloads.poisson import PoissonSchedule

ARRIVALS: dict[str, Any] = {"poisson": PoissonSchedule, "periodic": PeriodicSchedule}


@dataclass(frozen=True)
class KeyedConfig(GroupedConfig):
    """Options of a topic with keys.  Raises SpecError when made."""

    arrivals: str = "poisson"  # SRTM VI-A; or periodic
    wrong: float = 0.0  # share of the publishers that have each other's keys, dealt at random; 1 = random keys
    missing: float = 0.0  # share without a key: each counts as a group of one
    noisy: float = 0.0  # share with the key of its group's neighbour (2j and 2j+1 are hard to tell apart); 0.5 = merged

    def validate(self) -> None:
        """SpecError that names the first impossible field."""
        super().validate()
        require(self.arrivals in ARRIVALS, "arrivals", self.arrivals, f"choose one of {', '.join(ARRIVALS)}")
        for name in ("wrong", "missing", "noisy"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "give a share from 0 to 1")


class KeyedSchedule:
    """The traffic of ``arrivals``, with keys as they are told."""

    def __init__(self, config: KeyedConfig, seed: int):
        self._sent: Schedule = ARRIVALS[config.arrivals](config, seed)
        true = self._sent.population
        self.population = Population(true.rate_rps, told_keys(config, true.group, seed))

    def block(self, start_ns: int, end_ns: int) -> Block:
        """See ``core.records.Schedule``."""
        return self._sent.block(start_ns, end_ns)


def told_keys(config: KeyedConfig, group: Int32, seed: int) -> Int32:
    """The keys that a distributor is told, int32 (publishers,); ``group``: the true ones, 0 to groups - 1.

    First some are taken for their neighbours', then some change hands, then some are lost.
    """
    keys = group.copy()
    close = _some(config.noisy, len(keys), seed, "noisy")
    neighbour = keys[close] ^ 1
    keys[close] = np.where(neighbour < config.group_count, neighbour, keys[close])  # the last may have none
    dealt = _some(config.wrong, len(keys), seed, "wrong")
    keys[np.sort(dealt)] = keys[dealt]
    lost = _some(config.missing, len(keys), seed, "missing")
    keys[lost] = config.group_count + np.arange(len(lost), dtype=np.int32)
    return keys


def _some(share: float, count: int, seed: int, name: str) -> Int64:
    """The first ``share`` of the publishers in an order of their own, int64."""
    return generator(seed, "keys", name).permutation(count)[: round(share * count)]


WORKLOAD = Workload(
    key="keyed",
    summary="Poisson or periodic groups whose correlation keys are in part wrong, missing or noisy",
    config=KeyedConfig,
    make=KeyedSchedule,
)
