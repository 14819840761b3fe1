"""How long runs take: for the order of a campaign, its progress, and ``ratebed plan``.

A study says how its runs grow with what is asked (``expected_seconds``); how fast a machine is at a kind of run is a
*pace*, measured: by the runs of that kind that are there already, on this machine, else in ``harness.paces``.
"""

import platform
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import msgspec

from collectors.integrity import read_manifest
from core.errors import HarnessError
from harness.experiment import RunSpec
from harness.paces import Kind, shipped_pace
from studies import load_study
from testbed import load_testbed

MEGABYTES_PER_WORKER = 400
KILOBYTES_PER_RUN = 53  # of disk: its folder 40, its rows in the store 13 (of 100,000 shorter ones 32 and 9)
SECONDS_PER_RUN = 0.03  # set-up and files
SECONDS_PER_LIVE_RUN = 8.0  # hosts, processes, paths measured before the load, drain, tear-down
LEAST_RUNS = 8  # of a kind, for a pace: the first compiles

Paces = Mapping[Kind, float]
_NONE: Paces = MappingProxyType({})


def kind_of(spec: RunSpec) -> Kind:
    """What runs have in common that take alike per unit of work."""
    return Kind(spec.testbed, spec.study, spec.system, spec.workload, spec.round)


def expected_seconds(spec: RunSpec, learned: Paces = _NONE) -> float:
    """Seconds of one core; where the testbed works in real time, of the clock."""
    kind = kind_of(spec)
    shipped = 1.0 if load_testbed(spec.testbed).real_time else shipped_pace(kind)
    return _of_the_study(spec) * learned.get(kind, shipped)


def campaign_seconds(specs: Iterable[RunSpec], jobs: int, learned: Paces = _NONE) -> float:
    """Seconds of the clock for all of them: runs in real time are alone, the others ``jobs`` at a time."""
    seconds = {True: 0.0, False: 0.0}  # in real time, or not
    for spec in specs:
        seconds[load_testbed(spec.testbed).real_time] += expected_seconds(spec, learned)
    return seconds[True] + seconds[False] / jobs


def paces(folders: Iterable[Path], least: int = LEAST_RUNS) -> dict[Kind, float]:
    """What finished runs of this machine say of their kinds, of each that has ``least`` of them.

    The seconds that they took over those that the study says.  Their tables are not read; a manifest that is not as
    it was written, or that of another run, or of other code, says nothing.
    """
    took: defaultdict[Kind, list[tuple[float, float]]] = defaultdict(list)
    for folder in folders:
        try:
            manifest = read_manifest(folder)
            if manifest["host"] == platform.node() and manifest["run_id"] == folder.name:
                spec = msgspec.convert(manifest["spec"], RunSpec)
                took[kind_of(spec)].append((float(manifest["wall_seconds"]), _of_the_study(spec)))
        except (ValueError, KeyError, TypeError, HarnessError):
            continue
    return {
        kind: sum(a for a, _ in each) / sum(b for _, b in each) for kind, each in took.items() if len(each) >= least
    }


def _of_the_study(spec: RunSpec) -> float:
    point = msgspec.structs.replace(spec, seed=0, repetition=0)
    return _of_the_point(point.to_json(), load_testbed(spec.testbed).real_time)


@lru_cache(maxsize=1 << 17)
def _of_the_point(spec_json: bytes, real_time: bool) -> float:
    spec = msgspec.json.decode(spec_json, type=RunSpec)
    beside = SECONDS_PER_LIVE_RUN if real_time else SECONDS_PER_RUN
    return beside + load_study(spec.study).expected_seconds(spec, real_time)
