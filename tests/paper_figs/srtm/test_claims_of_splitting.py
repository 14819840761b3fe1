"""Claims of Proposition 1, Eq. (1) and Figs. 4 to 6: published tables reproduce them, spoiled ones do not."""

from itertools import product
from typing import Any

import pandas as pd
import pytest

from analysis.verdicts import judge
from paper_figs import load_figure
from paper_figs.srtm import eq1, published
from paper_figs.srtm.concentration import PANELS
from paper_figs.srtm.prop1 import KINDS
from systems.parts.md1 import wait_probability
from tests.paper_figs.tables import (
    REPETITIONS,
    Case,
    Frames,
    check_published,
    check_spoiled,
    claim_called,
    parametrised,
    repeated,
    reversed_over,
    scaled,
    swapped,
)

SIZES = (2_000, 4_000, 6_000, 8_000, 10_000)
KS = range(1, 7)


def prop1() -> Frames:
    """Gaps that are never negative, outputs that are just within b + r D."""
    kinds: list[dict[str, Any]] = [
        {"kind": kind, "k": k, "repetition": n} for kind, k, n in product(("Poisson", "batches"), range(2, 7), range(5))
    ]
    gaps = pd.DataFrame([{**row, "least_s": 0.0, "last_s": row["k"] * (1 + 0.01 * row["repetition"])} for row in kinds])
    output = pd.DataFrame(
        [{**row, "of": "topic", "interval_ms": 10, "excess_count": -0.5 - 0.01 * row["repetition"]} for row in kinds]
    )
    return {"srtm-prop1/gaps": gaps, "srtm-prop1/output": output}


def negative_once(found: Frames) -> Frames:
    """At one k the split bucket was better in one repetition, by a fifth of a message second."""
    gaps = found["srtm-prop1/gaps"].copy()
    gaps.loc[(gaps.k == 3) & (gaps.kind == "Poisson") & (gaps.repetition == 2), "least_s"] = -0.2
    return {**found, "srtm-prop1/gaps": gaps}


def too_much(found: Frames) -> Frames:
    """One kind lets three messages too many through, once."""
    output = found["srtm-prop1/output"].copy()
    output.loc[(output.kind == "batches") & (output.repetition == 4), "excess_count"] += 4
    return {**found, "srtm-prop1/output": output}


def eq1_runs() -> Frames:
    """The exact model as if it had been simulated; odds of waiting that a split burst keeps."""
    independent = [_bucket(k, batch, 26.0 * batch) for batch in (1, 10) for k in KS]
    odds = {("srtm", 1): 0.01, ("srtm", 2): 0.0101, ("lb", 1): 0.01, ("lb", 2): 0.013}
    groups = [
        {**_bucket(k, 1, 1_500.0), "system": system, "group_size": eq1.GROUP, "wait_probability": share}
        for (system, k), share in odds.items()
    ]
    runs = eq1.add_models(pd.DataFrame(independent + groups))
    runs["delay_ms"] = runs["exact_ms"]
    return {"srtm-eq1/runs": repeated(runs.to_dict("records"), ("delay_ms", "wait_probability"), noise=0.005)}


def _bucket(k: int, batch: int, burst: float) -> dict[str, Any]:
    point = {"system": "lb", "k": k, "batch": batch, "group_size": 1, "margin": 1.0}
    bucket = {"publishers": 1_000, "rate_rps": 10.0, "bucket_rate_rps": 11_000.0, "bucket_burst_count": burst}
    return {**point, **bucket, "wait_probability": wait_probability(1e4 / k, 1.1e4 / k, burst / k, batch)}


def groups_swapped(found: Frames) -> Frames:
    """Bursts split blindly and bursts split like the bucket change names; independent publishers stay."""
    runs = found["srtm-eq1/runs"]
    together = runs.group_size == eq1.GROUP
    return {"srtm-eq1/runs": pd.concat([runs[~together], swapped(runs[together], "system", "srtm", "lb")])}


def fig4_runs() -> Frames:
    """Very large at k = 1, lowest at k = 2, rising from there."""
    values = dict(zip(KS, (3_000.0, 0.6, 0.9, 1.3, 1.7, 2.1), strict=True))
    return {"srtm-fig4/runs": repeated([{"system": "lb", "k": k, "p99_ms": value} for k, value in values.items()])}


def fig4_1000_runs() -> Frames:
    """Rising to the printed 14.7 ms at k = 6, of which almost all is access delay."""
    values = dict(zip(KS, (0.3, 2.4, 5.0, 8.0, 11.0, 14.7), strict=True))
    points = [
        {"system": "lb", "calibration": name, "k": k, "p99_ms": value}
        for name in ("any-model", "bucket-only")
        for k, value in values.items()
    ]
    return {"srtm-fig4-1000/runs": repeated(points)}


def fig5_runs() -> Frames:
    """Conc under 1 ms everywhere, LB above, falling with the number of publishers, ten times higher at batch 10."""
    points = [
        {"arrivals": kind, "batch": batch, "publishers": size, "system": system,
         "p99_ms": 0.6 if system == "conc" else 2.0 * batch * (10_000 / size) ** 0.8}
        for (kind, batch), size, system in product(PANELS, SIZES, ("lb", "conc"))
    ]  # fmt: skip
    return {"srtm-fig5/runs": repeated(points)}


def fig6_runs() -> Frames:
    """Equal up to 4,000 publishers, apart above; batch 10 lower; Conc lower at 10,000 than at 8,000 with batch 10."""
    conc = {1: (0.5, 0.55, 0.8, 1.3, 1.4), 10: (0.4, 0.45, 0.7, 0.9, 0.75)}
    other = {1: (0.5, 0.55, 0.6, 0.7, 0.75), 10: (0.4, 0.45, 0.5, 0.6, 0.65)}
    points = [
        {"arrivals": kind, "batch": batch, "publishers": size, "system": system, "p99_ms": p99}
        for (kind, batch) in PANELS
        for system, values in (("conc", conc), ("max-min", other))
        for size, p99 in zip(SIZES, values[batch], strict=True)
    ]
    brokers = [
        {"arrivals": kind, "batch": 1, "publishers": 8_000, "system": system, "broker": broker, "p99_ms": p99}
        for kind in ("poisson", "periodic")
        for system, p99 in published.BROKER_3_P99_MS.items()
        for broker in range(3)
    ]
    return {"srtm-fig6/runs": repeated(points), "srtm-fig6/brokers": repeated(brokers)}


def batches_beside_overloads(found: Frames) -> Frames:
    """Batch 10 is twice as slow, but for 10,000 publishers, where single messages overload every broker."""
    slow = scaled(found["srtm-fig6/runs"], "p99_ms", 2.0, batch=10)
    return {**found, "srtm-fig6/runs": scaled(slow, "p99_ms", 1_000.0, batch=1, publishers=10_000)}


def on(name: str, change: Any, *arguments: Any, **where: Any) -> Any:
    """A perturbation of the one table called ``name``."""
    return lambda found: {**found, name: change(found[name], *arguments, **where)}


CASES = [
    Case("R1", prop1, {
        "a split that helps": negative_once,
        "no difference": on("srtm-prop1/gaps", scaled, "last_s", 0.0),
    }),
    Case("R23", prop1, {"too much output": too_much}),
    Case("R2", eq1_runs, {
        "growth less than k-fold": on("srtm-eq1/runs", scaled, "delay_ms", 100.0, k=1, batch=1, group_size=1),
        "formula off by half": on("srtm-eq1/runs", scaled, "eq1_ms", 1.5, batch=1),
        "order reversed": on("srtm-eq1/runs", reversed_over, "k"),
    }),
    Case("R21", eq1_runs, {
        "odds double": on("srtm-eq1/runs", scaled, "wait_probability", 2.0, system="srtm", k=2),
        "series swapped": groups_swapped,
        "no different from others": on("srtm-eq1/runs", scaled, "wait_probability", 0.08, k=2, group_size=1),
    }),
    Case("R22", eq1_runs, {
        "no batches": on("srtm-eq1/runs", scaled, "delay_ms", 0.1, batch=10),
        "half as long": on("srtm-eq1/runs", scaled, "delay_ms", 0.5, batch=10),
    }),
    Case("R3", fig4_runs, {
        "order reversed": on("srtm-fig4/runs", reversed_over, "k"),
        "k = 2 not the lowest": on("srtm-fig4/runs", scaled, "p99_ms", 2.0, k=2),
        "k = 1 not large": on("srtm-fig4/runs", scaled, "p99_ms", 1e-3, k=1),
    }),
    Case("R4", fig4_1000_runs, {
        "half of it": on("srtm-fig4-1000/runs", scaled, "p99_ms", 0.5),
        "order reversed": on("srtm-fig4-1000/runs", reversed_over, "k"),
        "one step down": on("srtm-fig4-1000/runs", scaled, "p99_ms", 0.5, k=4),
    }),
    Case("R5", fig5_runs, {
        "series swapped": on("srtm-fig5/runs", swapped, "system", "lb", "conc"),
        "Conc above in one panel": on("srtm-fig5/runs", scaled, "p99_ms", 2.0, system="conc", arrivals="periodic"),
        "LB below at one point": on("srtm-fig5/runs", scaled, "p99_ms", 0.4, system="lb", batch=1, publishers=10_000),
    }),
    Case("R6", fig5_runs, {
        "order reversed": on("srtm-fig5/runs", reversed_over, "publishers"),
        "flat in one panel": on("srtm-fig5/runs", scaled, "p99_ms", 4.0, batch=1, publishers=10_000),
    }),
    Case("R7", fig5_runs, {
        "batches swapped": on("srtm-fig5/runs", swapped, "batch", 1, 10),
        "batch 10 scaled": on("srtm-fig5/runs", scaled, "p99_ms", 0.05, batch=10, arrivals="poisson"),
    }),
    Case("R8", fig6_runs, {
        "series swapped": on("srtm-fig6/runs", swapped, "system", "conc", "max-min"),
        "not apart at batch 10": on("srtm-fig6/runs", scaled, "p99_ms", 0.5, system="conc", batch=10, publishers=8_000),
        "apart at 2,000": on("srtm-fig6/runs", scaled, "p99_ms", 1.5, system="conc", publishers=2_000),
        "apart by an overload alone": on("srtm-fig6/runs", scaled, "p99_ms", 1_000.0, system="conc", publishers=10_000),
    }),
    Case("R9", fig6_runs, {
        "series swapped": on("srtm-fig6/brokers", swapped, "system", "conc", "max-min"),
        "Conc half as slow": on("srtm-fig6/brokers", scaled, "p99_ms", 0.5, system="conc", broker=2),
        "one panel off": on("srtm-fig6/brokers", scaled, "p99_ms", 1.5, arrivals="poisson", system="conc"),
    }),
    Case("R10", fig6_runs, {
        "batches swapped": on("srtm-fig6/runs", swapped, "batch", 1, 10),
        "batch 10 scaled": on("srtm-fig6/runs", scaled, "p99_ms", 2.0, batch=10),
        "batch 10 scaled, beside overloads": batches_beside_overloads,
        "batch 10 overloads": on("srtm-fig6/runs", scaled, "p99_ms", 1_000.0, batch=10, publishers=10_000),
    }),
    Case("R11", fig6_runs, {
        "sizes swapped": on("srtm-fig6/runs", swapped, "publishers", 8_000, 10_000),
        "10,000 scaled": on("srtm-fig6/runs", scaled, "p99_ms", 1.5, batch=10, publishers=10_000),
    }),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_published_tables_reproduce_the_claim(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_spoiled_tables_do_not(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


def test_an_overload_of_seconds_is_in_no_ratio() -> None:
    tables = batches_beside_overloads(fig6_runs())
    for name in ("R8", "R10"):
        result = judge(claim_called(name), tables)
        assert result.evidence is not None
        ratios = [check for check in (*result.evidence.exact, *result.evidence.direction) if "share" not in check.label]
        assert all(0.3 < abs(sample) < 3 or abs(sample) < 1 for check in ratios for sample in check.samples)
        overloaded = (check.samples for check in result.evidence.exact if "share" in check.label)
        assert any(samples and min(samples) > 0 for samples in overloaded) is (name == "R8"), "of single messages"


def test_every_claim_of_these_figures_has_a_case() -> None:
    keys = ("srtm-prop1", "srtm-eq1", "srtm-fig4", "srtm-fig4-1000", "srtm-fig5", "srtm-fig6")
    assert {claim.id for key in keys for claim in load_figure(key).claims} == {case.claim for case in CASES}
    assert all(frame.groupby("repetition").ngroups == REPETITIONS for case in CASES for frame in case.tables().values())


def test_sums_are_drawn_with_their_intervals_every_two_seconds() -> None:
    at = [(kind, k, n * 0.05) for kind in KINDS for k in (1, 2) for n in range(101)]
    sums = pd.DataFrame(at, columns=["kind", "k", "at_s"]).assign(delay_s=lambda rows: rows.k * 10.0, count=3)
    sums = sums.assign(low=sums.delay_s - 20, high=sums.delay_s + 5)
    for panel in load_figure("srtm-prop1").draw({"sums": sums}).axes:
        segments = [segment for one in panel.collections for segment in one.get_segments()]
        ends = [(round(float(low), 6), round(float(high), 6)) for (_, low), (_, high) in segments]
        assert ends == [(0.0, 15.0)] * 2 + [(0.0, 25.0)] * 2
