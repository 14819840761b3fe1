"""``python -m benchmarks.pulsar_model [OUT] [--fit]``: the modelled Pulsar beside the real one's live runs in OUT.

A line a point and measure: medians over all moves of its runs, live and in virtual time with the same seeds.  With
``--fit`` first the costs of ``studies.placement_on_pulsar.model`` anew, by runs at ``FITTED_AT`` alone: others judge.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow.parquet as pq
from scipy.optimize import minimize

from collectors.integrity import verified
from core.records import Float64, Json
from core.units import MILLISECOND_NS
from harness.campaign import finished_runs
from harness.experiment import RunSpec
from harness.run import asked_of, resolve
from paper_figs.epulsar.fig7 import ANSWERED_NS, DOWNTIME
from paper_figs.epulsar.published import EXECUTORS
from studies.placement_on_pulsar.asked import NAME, ClientDowntime, PulsarRequest, StepSpan
from studies.placement_on_pulsar.model import FITTED, MoveStep, PulsarCosts
from studies.placement_on_pulsar.virtual import run
from testbed.trust.evidence import INVALID

MEASURES = (DOWNTIME, "delivery_gap_ns", "migration_ns")
FITTED_OF, FITTED_AT = "static-topics", ("10ms", "40ms")  # the workload of Fig. 7; one way to the store
NEAR_MS, NEAR = 10.0, 0.25  # what a median may be off
TRANSFER, PLAIN = ("ask", "hand", "answer", "open", "flow"), ("free", "find")
EVALUATIONS = 500

Medians = dict[str, float]  # by measure, ms


def main() -> None:
    """Print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pulsar_model", description=__doc__)
    parser.add_argument("out", nargs="?", default="out", type=Path, help="the folder of results (default out)")
    parser.add_argument("--fit", action="store_true", help="fit the costs anew")
    words = parser.parse_args()
    points = live_runs(words.out)
    costs = fitted(points) if words.fit else FITTED
    if words.fit:
        print(costs)
    for line in compared(points, costs):
        print(line)


class Told(NamedTuple):
    """What a run told of its moves; ``values``: metric and value of its samples."""

    values: Sequence[tuple[str, float]]
    steps: Sequence[StepSpan]
    downtimes: Sequence[ClientDowntime]

    @classmethod
    def read(cls, folder: Path) -> "Told":
        """From a run's folder."""

        def rows(table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
            path = folder / f"{table}.parquet"  # of what never happened there is none
            frame = pq.read_table(path, columns=list(columns)).to_pydict() if path.exists() else {}
            return zip(*(frame[name] for name in columns), strict=True) if frame else iter(())

        steps, downtimes = (
            rows(*table) for table in (("move_steps", *StepSpan._fields), ("downtimes", *ClientDowntime._fields))
        )
        return cls(
            list(rows("samples", "metric", "value")),
            [StepSpan(*row) for row in steps],
            [ClientDowntime(*row) for row in downtimes],
        )


class LivePoint(msgspec.Struct):
    """The runs of one point; ``delay``: one way to the store, "" where the topology says."""

    workload: str
    system: str
    executors: int
    delay: str
    specs: list[RunSpec]
    folders: list[Path]

    @property
    def name(self) -> str:
        """For people."""
        return ", ".join(map(str, filter(None, (self.workload, self.system, self.executors, self.delay))))

    @property
    def medians(self) -> Medians:
        """Over all moves of all runs."""
        return _medians(Told.read(folder) for folder in self.folders)

    @property
    def requests(self) -> list[PulsarRequest]:
        """The same, of the model."""
        all_asked = [asked_of(resolve(msgspec.structs.replace(spec, testbed="virtual")))[1] for spec in self.specs]
        return [asked for asked in all_asked if isinstance(asked, PulsarRequest)]


def live_runs(out: Path) -> list[LivePoint]:
    """Those that are not invalid, by workload, system, executors and delay."""
    points: dict[tuple[str, str, int, str], LivePoint] = {}
    for folder in finished_runs(out):
        manifest = verified(folder)
        spec = msgspec.convert(manifest["spec"], RunSpec)
        if spec.study == NAME and spec.testbed != "virtual" and manifest["validity"] != INVALID:
            executors = int(spec.system_options.get("executors", EXECUTORS if spec.system == "epulsar" else 1))
            key = spec.workload, spec.system, executors, str(spec.topology_options.get("cloud_delay", ""))
            point = points.setdefault(key, LivePoint(*key, [], []))
            point.specs.append(spec)
            point.folders.append(folder)
    if not points:
        raise SystemExit(f"{out}: no live runs on Pulsar; ratebed run epulsar-fig7 --broker pulsar --testbed mininet")
    return [points[key] for key in sorted(points, key=lambda key: (*key[:3], int(key[3].removesuffix("ms") or 0)))]


def modelled(requests: Sequence[PulsarRequest], costs: PulsarCosts) -> Medians:
    """What the model says."""
    journals = (run(asked, costs) for asked in requests)
    return _medians(
        Told([(metric, value) for _, _, metric, value in shown.samples], shown.steps, shown.downtimes)
        for shown in journals
    )


def _medians(runs: Iterable[Told]) -> Medians:
    """Of what runs told."""
    rows = defaultdict[str, list[float]](list)
    for told in runs:
        for metric, value in told.values:
            rows[metric].append(value)
        rows[DOWNTIME] += _downtimes(told)
    return {metric: float(np.median(rows[metric])) / MILLISECOND_NS for metric in MEASURES if rows[metric]}


def _downtimes(told: Told) -> Iterable[float]:
    """Of each move and client the longest around it, as Fig. 7 has them."""
    longest: dict[tuple[str, str, str, int], float] = {}
    requests = [step for step in told.steps if step.step == "request"]
    for client, topic, role, start_ns, end_ns in told.downtimes:
        for move in requests:
            if move.topic == topic and start_ns <= move.end_ns + ANSWERED_NS and end_ns >= move.start_ns:
                key = client, topic, role, move.start_ns
                longest[key] = max(float(end_ns - start_ns), longest.get(key, 0.0))
    return longest.values()


def fitted(points: Sequence[LivePoint]) -> PulsarCosts:
    """Least squares of logarithms: first what transfers take and how busy cores are, then what plain unload takes."""
    costs = FITTED
    for names, system in ((TRANSFER, "epulsar"), (PLAIN, "pulsar")):
        mine = [
            (point.medians, point.requests[:1])
            for point in points
            if (point.workload, point.system) == (FITTED_OF, system) and point.delay in FITTED_AT
        ]
        costs = _fitted(costs, names, mine, with_share=system == "epulsar")
    return costs


def _fitted(
    costs: PulsarCosts, names: Sequence[str], points: Sequence[tuple[Medians, list[PulsarRequest]]], with_share: bool
) -> PulsarCosts:
    def of(amounts: Float64) -> PulsarCosts:
        positive = np.abs(amounts).tolist()
        steps: Json = {name: MoveStep(*positive[2 * n : 2 * n + 2]) for n, name in enumerate(names)}
        busy_share = min(positive[-1], 1.0) if with_share else costs.busy_share
        return replace(costs, **steps, busy_share=busy_share)

    def off(amounts: Float64) -> float:
        squares = 0.0
        for medians, requests in points:
            said = modelled(requests, of(amounts))
            squares += sum(float(np.log(said[name] / medians[name])) ** 2 for name in MEASURES)
        return squares

    begin = np.array([amount for name in names for amount in getattr(costs, name)] + [costs.busy_share] * with_share)
    fit = minimize(off, begin, method="Nelder-Mead", options={"maxfev": EVALUATIONS, "xatol": 0.05, "fatol": 1e-4})
    return of(fit.x.round(2))


def compared(points: Sequence[LivePoint], costs: PulsarCosts) -> list[str]:
    """Lines; those of measures that are off end in ``off``."""
    lines = [f"{'point':<36}{'runs':>5}  {'measure':<20}{'live, ms':>9}{'model':>8}{'ratio':>7}"]
    for point in points:
        live, said = point.medians, modelled(point.requests, costs)
        for name in (measure for measure in MEASURES if measure in live and measure in said):
            near = abs(said[name] - live[name]) <= max(NEAR_MS, NEAR * live[name])
            told = f"{live[name]:>9.0f}{said[name]:>8.0f}{said[name] / live[name]:>7.2f}{'' if near else '  off'}"
            lines.append(f"{point.name:<36}{len(point.specs):>5}  {name:<20}{told}")
    return lines


if __name__ == "__main__":
    main()
