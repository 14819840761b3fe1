"""What ``compare`` finds: virtual and emulated runs of one spec and seed, paired, and claims judged on both."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from analysis.fidelity import VIRTUAL, Pair, pairs_of
from analysis.spark import Starter
from analysis.verdicts import Result, t_interval
from collectors.store.keeping import Store
from core.records import Json, Row
from harness.experiment import RunSpec
from ratebed.behind import readable_runs
from ratebed.settings import moved
from ratebed.validity import Standing, worst
from studies.api import point_slo_ns
from testbed.trust.evidence import INVALID

if TYPE_CHECKING:
    import pandas as pd

# Ours: percentiles agree within 15 %, or 5 % of the SLO where a run has one, whichever is more.
AGREES_SHARE, AGREES_SLO_SHARE = 0.15, 0.05
APART = 0.5  # Kolmogorov's distance from which on two distributions hardly overlap
AXES = ("testbed", "system", "workload", "topology")


def found_pairs(out: Path, keep_invalid: bool = False) -> tuple[list[Pair], list[Pair]]:
    """All pairs in ``out``, and those that are left out because the emulated run is invalid."""
    pairs = pairs_of(readable_runs(out))
    kept = [pair for pair in pairs if keep_invalid or pair.validity != INVALID]
    return kept, [pair for pair in pairs if pair not in kept]


def standings_of(pairs: Sequence[Pair]) -> dict[str, Standing]:
    """By live run id."""
    return {pair.live_run_id: Standing(pair.validity, tuple(pair.validity_reasons)) for pair in pairs}


def compared(out: Path, pairs: Sequence[Pair], left_out: Sequence[Pair], on: Starter) -> dict[str, list[Row]]:
    """``latencies`` and ``decisions``: one row a point of the grid, over its repetitions, each with its validity.

    ``one_sided``: a row a metric that one run of a pair has alone.  ``on``: starts Spark.
    """
    from analysis import fidelity
    from analysis.tables import collect, load

    ids = {name for pair in pairs for name in (pair.virtual_run_id, pair.live_run_id)}
    with Store.of(out).in_use() as store:
        spark = on()
        try:
            data = load(spark, [out / "runs" / run_id for run_id in sorted(ids)], store)
            frame = fidelity.pair_frame(spark, pairs)
            latencies = collect(fidelity.distances(data.latency_histogram, frame), ["live_run_id", "metric"])
            decisions = collect(fidelity.flips(data.requests, frame), ["live_run_id"])
            alone = fidelity.one_sided(data.latency_histogram, data.requests, pairs)
        finally:
            spark.stop()
    points = points_of([*pairs, *left_out])  # what names a point does not hang on validity
    standings = standings_of(pairs)
    slack_ns = {pair.live_run_id: AGREES_SLO_SHARE * slo_ns(pair.spec) for pair in pairs}

    def trusted(row: Row, group: "pd.DataFrame") -> Row:
        standing = worst(standings[run_id] for run_id in group["live_run_id"])
        assert standing is not None
        return row | standing.row()

    return {
        "latencies": [
            trusted(_latency_row(points[key[0]], key[1], group, slack_ns[key[0]]), group)
            for key, group in _groups(latencies, points, True)
        ],
        "decisions": [
            trusted(_decision_row(points[key[0]], group), group) for key, group in _groups(decisions, points, False)
        ],
        "one_sided": [{"metric": metric, "only": side, "pair_count": count} for (metric, side), count in alone.items()],
    }


def slo_ns(spec: Json) -> int:
    """What a run's latencies are held to, in ns; 0 where nothing of that kind is asked of them."""
    return point_slo_ns(msgspec.convert(spec, RunSpec)) if spec["study"] == "distribution" else 0


def points_of(pairs: Sequence[Pair]) -> dict[str, Row]:
    """Live run id -> what names its point: testbed, system, workload, topology, and the options that vary for these."""
    specs = {pair.live_run_id: _flat(pair.spec) for pair in pairs}
    points = {}
    for run_id, spec in specs.items():
        alike = [other for other in specs.values() if all(other[axis] == spec[axis] for axis in AXES)]
        varying = [name for name in sorted(spec) if len({str(other.get(name)) for other in alike}) > 1]
        points[run_id] = {name: spec[name] for name in (*AXES, *varying)}
    return points


def _flat(spec: Json) -> Row:
    """A spec's axes and options in one level; without seed and repetition, over which rows are taken together."""
    flat: Row = {}
    for name, value in spec.items():
        if name.endswith("_options"):
            flat |= {f"{name.removesuffix('_options')}.{option}": each for option, each in value.items()}
        elif name not in ("seed", "repetition", "keep", "inputs"):
            flat[name] = value
    return flat


def _groups(
    frame: "pd.DataFrame", points: Mapping[str, Row], by_metric: bool
) -> "list[tuple[tuple[str, ...], pd.DataFrame]]":
    """Rows of one point (and metric), with a run id that stands for it; in the order of points."""
    if frame.empty:
        return []
    names = {run_id: " ".join(f"{key}={value}" for key, value in point.items()) for run_id, point in points.items()}
    there = sorted(set(frame["live_run_id"]), reverse=True)  # not those that are left out
    stands = {names[run_id]: run_id for run_id in there}
    frame = frame.assign(point=[stands[names[run_id]] for run_id in frame["live_run_id"]])
    groups = list(frame.groupby(["point", "metric"] if by_metric else ["point"], sort=False))
    return sorted(groups, key=lambda item: (names[item[0][0]], item[0][1:]))


def _latency_row(point: Row, metric: str, group: "pd.DataFrame", slack_ns: float) -> Row:
    row: Row = {**point, "metric": metric, "pair_count": len(group), "slack_ns": slack_ns}
    agrees = True
    for name in ("p50_ns", "p95_ns", "p99_ns"):
        virtual, live = median(group[f"virtual_{name}"]), median(group[f"live_{name}"])
        row |= {f"virtual_{name}": int(virtual), f"live_{name}": int(live), f"difference_{name}": int(live - virtual)}
        agrees &= bool(abs(live - virtual) <= max(AGREES_SHARE * virtual, slack_ns))
    for name in ("kolmogorov_distance", "wasserstein_ns"):
        row |= _with_interval(name, group[name])
    return {**row, "agrees": agrees}


def _decision_row(point: Row, group: "pd.DataFrame") -> Row:
    """Counts and flipped_share of all pairs together; mean_flipped_share: of the pairs' shares, with its interval."""
    row: Row = {**point, "pair_count": len(group)}
    counts = [name for name in group.columns if name.endswith("_count")]
    row |= {name: int(group[name].sum()) for name in counts}
    row["flipped_share"] = row["flipped_count"] / row["decided_count"] if row["decided_count"] else None
    decided = group[group["decided_count"] > 0]  # pairs that have a share
    row |= _with_interval("mean_flipped_share", decided["flipped_share"])
    if len(decided) == 1:  # no spread over repetitions to go by: that of independent decisions
        row |= {
            "mean_flipped_share_low": float(decided.flipped_low.iloc[0]),
            "mean_flipped_share_high": float(decided.flipped_high.iloc[0]),
        }
    admitted = row["virtual_admitted_count"]
    row["admitted_ratio"] = row["live_admitted_count"] / admitted if admitted else None
    return row


def _with_interval(name: str, values: "pd.Series") -> Row:
    """The mean and its 95 % t-interval; None where one repetition has none, or there is none."""
    interval = t_interval([float(value) for value in values])
    several = interval.count > 1
    return {
        name: interval.mean if interval.count else None,
        f"{name}_low": interval.low if several else None,
        f"{name}_high": interval.high if several else None,
    }


def flipped_claims(verdicts_by_setting: Mapping[str, Sequence[Result]]) -> list[Row]:
    """Claims that were judged on a live testbed and, of the same scale and ground, in virtual time, and otherwise."""
    judged = [result for result in chain(*verdicts_by_setting.values()) if result.evidence is not None]
    result_of = {(result.claim.id, result.claim.testbed): result for result in judged}
    rows = []
    for result in judged:
        testbed = result.claim.testbed
        other = result_of.get((result.claim.id, moved(testbed, VIRTUAL)))
        if other and other.judgement is not result.judgement:
            verdicts = {"virtual_verdict": other.judgement.value, "live_verdict": result.judgement.value}
            claim = {"claim": result.claim.id, "sentence": result.claim.sentence}
            doubts = {"validity": result.validity or None, "validity_reasons": list(result.validity_reasons)}
            rows.append({**claim, "testbed": testbed, **verdicts, **doubts})
    return rows
