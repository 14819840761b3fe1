"""One run of a figure's point, and its row in the tables that claims are judged on."""

from collections.abc import Iterable
from itertools import pairwise

import msgspec
import numpy as np

from collectors.histogram import quantile
from core.records import Json, Row
from core.units import MILLISECOND_NS
from harness.run import asked_of, resolve
from paper_figs.light import Frame
from paper_figs.srtm import readings
from paper_figs.srtm.groups import chosen
from studies.distribution.asked import Round, Searched, Searching
from studies.spec import RunSpec
from testbed.brokers.model import BrokerModel

SINGLE_BROKER_RPS = 20_000.0  # topics up to here find room on any idle broker, whatever its mcap


def canonical(spec: RunSpec) -> RunSpec:
    """The spec without an mcap that changes nothing: of LB, and of topics that any idle broker has room for."""
    workload = spec.workload_options
    rate_rps = float(workload["publishers"]) * float(workload.get("rate_rps", 10.0))
    loaded = bool(spec.study_options.get("initial_loads_rps"))
    if spec.system != "lb" and (loaded or rate_rps > SINGLE_BROKER_RPS):
        return spec
    study = {name: value for name, value in spec.study_options.items() if name not in ("mcap_batch", "mcap_rps")}
    return msgspec.structs.replace(spec, study_options=study)


def carried_out(spec: RunSpec, model: BrokerModel | None = None) -> Searched:
    """A run in virtual time, in which nobody counts the neighbours; ``model``: costs that no file has yet."""
    from studies.distribution.deployment import Deployment
    from studies.distribution.search import searched
    from studies.distribution.virtual import deployment_of

    _, asked = asked_of(resolve(spec))
    assert isinstance(asked, Searching)
    deployment = deployment_of(asked) if model is None else Deployment(asked, model, 0)
    deployment.counts_residents = False
    return searched(asked, deployment)


def row_of(spec: RunSpec, search: Searched) -> Row:
    """What claims are about: a run's point, its judged minute and its search, as JSON has it."""
    workload, fresh = spec.workload_options, search.fresh
    spread, rates = str(workload.get("spread", "0ms")), fresh.rates_rps
    row: Json = {
        "arrivals": spec.workload,
        "system": spec.system,
        "repetition": spec.repetition,
        "outcome": search.answer.outcome.value,
        "envelope": readings.NAMES[spec.study_options.get("envelope", "profiled")],
        "publishers": workload["publishers"],
        "batch": workload.get("batch", 1),
        "group_size": workload.get("group_size", 1),
        "spread_ms": float(spread.removesuffix("ms")),
        "loaded": bool(spec.study_options.get("initial_loads_rps")),
        "k": spec.topology_options.get("brokers"),
        "forced_count": spec.system_options.get("brokers"),
        "calibration": spec.calibration,
        "slo_ms": 1.0,
        "p99_ms": quantile(_judged(spec, fresh).sum(axis=0), 0.99) / MILLISECOND_NS,
        "broker_count": int(np.count_nonzero(rates)),
        "brokers_p99_ms": [quantile(one, 0.99) / MILLISECOND_NS if one.any() else None for one in fresh.latency],
    }
    return {**row, **_iterations(search)}


def _judged(spec: RunSpec, fresh: Round) -> np.ndarray:
    return fresh.access_delay if spec.calibration == "bucket-only" else fresh.latency


def _iterations(search: Searched) -> Json:
    """As ``table1.searches`` counts them by Spark."""
    if not search.rounds:
        return {"round_count": 0}
    groups: dict[int, list[Round]] = {}
    for shown, iteration in zip(search.rounds, search.iterations, strict=True):
        groups.setdefault(iteration, []).append(shown)
    ordered = [groups[iteration] for iteration in sorted(groups)]
    reach = [_last_used(rounds[0]) for rounds in ordered]
    return {
        "round_count": len(search.rounds),
        "iteration_count": len(ordered),
        "last_round_count": len(ordered[-1]),
        "first_reach": reach[0],
        "reach_step": max(np.diff(reach, prepend=0).tolist()),
        "moved_back_count": sum(
            _moved_back(before[-1], after[0], max(_last_used(shown) for rounds in ordered[:number] for shown in rounds))
            for number, (before, after) in enumerate(pairwise(ordered), start=1)
        ),
    }


def _last_used(shown: Round) -> int:
    """The last broker in use, from 1."""
    return int(shown.assignment.max()) + 1


def _moved_back(before: Round, after: Round, reach: int) -> int:
    """Publishers that came to one of the brokers up to ``reach``."""
    count = len(before.rates_rps)
    ends, begins = (np.bincount(one.assignment[one.assignment >= 0], minlength=count) for one in (before, after))
    return int(np.maximum(0, begins - ends)[:reach].sum())


# --- tables ----------------------------------------------------------------------------------------


def tables_of(rows: Iterable[Row]) -> dict[str, Frame]:
    """The figures' tables that claims read, of rows of one cell."""
    import pandas as pd

    every = pd.DataFrame(list(rows))
    split = every.k.notna()
    publishers, idle, groups = every.publishers, ~every.loaded & ~split, every.group_size > 1
    plain, forced = every.forced_count.isna(), every.forced_count.notna()
    letter = (every.arrivals == "poisson") & (every.envelope == readings.LITERAL)
    fig7 = groups & (every.spread_ms == 0) & ~letter
    spreads = groups & (every.group_size == 25) & plain & ~letter
    frames = {
        "srtm-fig4/runs": every[split & (publishers == 6_000)],
        "srtm-fig4-1000/runs": every[split & (publishers == 1_000)],
        "srtm-fig5/runs": every[idle & ~groups],
        "srtm-fig6/runs": every[every.loaded],
        "srtm-fig6/brokers": _by_broker(every[every.loaded]),
        "srtm-fig7/runs": every[fig7 & plain],
        "srtm-fig7/literal_runs": every[groups & letter],
        "srtm-fig8/runs": chosen(every[fig7]) if (fig7 & forced).any() else every[:0],
        "srtm-fig9/runs": every[spreads],
        "srtm-table1/searches": every[fig7 & plain & (every.system == "srtm")],
    }
    return {name: frame.reset_index(drop=True) for name, frame in frames.items() if len(frame)}


def _by_broker(runs: Frame) -> Frame:
    long = runs.explode("brokers_p99_ms")
    long["broker"] = long.groupby(level=0).cumcount()
    return long.assign(p99_ms=long.brokers_p99_ms.astype(float)).dropna(subset="p99_ms")
