"""Claims of the thesis on data sets A and B: published tables confirm them, spoiled ones do not."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd
import pytest

from analysis.verdicts import Judgement, judge
from paper_figs.crdt import data_set_a, fig5_2, nodes, one_user
from paper_figs.crdt.usage import BANDWIDTH, MEMORY
from paper_figs.crdt.variants import CENTRAL_COUNTER, CENTRAL_QUEUE, COUNTER, FL, ORACLE, QUEUE, F, L
from tests.paper_figs.tables import (
    Case,
    Frames,
    check_published,
    check_spoiled,
    claim_called,
    parametrised,
    repeated,
    scaled,
    swapped,
)

DECIDED = ("rejected_ratio", "area_ratio", "gap_peak_count", "gap_end_count", "excess_tokens", "late_admitted_count")
USED = (MEMORY, BANDWIDTH, "last_sent_s", "load_end_s", "rest_s", "memory_kept")
FRUGAL = Judgement.DIRECTION_ONLY  # what a substitute can earn
WORSE = frozenset({Judgement.CONTRADICTED, Judgement.UNDECIDED})


def decided(points: Mapping[str, Mapping[str, float]], noise: float = 0.002) -> pd.DataFrame:
    """A table ``runs`` of precision: variant -> what differs from the centralised limiter."""
    exact = {"rejected_ratio": 1.0, "area_ratio": 1.0, "gap_peak_count": 0.0, "gap_end_count": 0.0,
             "excess_tokens": 0.0, "late_admitted_count": 9.0, "rejected_count": 0.0}  # fmt: skip
    rows = [{"variant": variant, **exact, **values} for variant, values in {ORACLE: {}, **points}.items()]
    return repeated(rows, DECIDED, noise)


def used(points: Mapping[str, Mapping[str, float]], noise: float = 0.002) -> pd.DataFrame:
    """A table ``runs`` of usage: variant -> what differs from one unit of everything, a minute long."""
    unit = {MEMORY: 1.0, BANDWIDTH: 1.0, "last_sent_s": 60.0, "load_end_s": 60.0, "rest_s": 60.0, "memory_kept": 1.0}
    unit["converged"] = 1.0
    return repeated([{"variant": variant, **unit, **values} for variant, values in points.items()], USED, noise)


def shares(counter: float, queue: float) -> pd.DataFrame:
    """Both readings equal; gaps that shrink, a counter in debt."""
    debt = {"gap_end_count": 60.0, "excess_tokens": 90.0, "late_admitted_count": 0.0}
    return decided({
        COUNTER: {"rejected_ratio": counter, "area_ratio": counter, "gap_peak_count": 80.0, **debt},
        FL: {"rejected_ratio": queue, "area_ratio": queue, "gap_peak_count": 9.0, "gap_end_count": 5.0},
    })  # fmt: skip


def fig5_1_tables() -> Frames:
    return {"crdt-fig5.1/runs": decided({COUNTER: {"rejected_ratio": 0.957, "area_ratio": 0.95}})}


def fig5_2_tables() -> Frames:
    """Nothing differs on any data set."""
    rows = [
        {"data_set": name, "variant": variant, "differing_count": 0.0}
        for name in ("A", "B-barely", "D")
        for variant in (CENTRAL_COUNTER, CENTRAL_QUEUE, fig5_2.PRINTED)
    ]
    return {"crdt-fig5.2/decisions": repeated(rows, ("differing_count",))}


def one_differs(found: Frames) -> Frames:
    """One request of one run is decided otherwise."""
    decisions = found["crdt-fig5.2/decisions"].copy()
    decisions.loc[(decisions.variant == CENTRAL_QUEUE) & (decisions.data_set == "D"), "differing_count"] = 1.0
    return {"crdt-fig5.2/decisions": decisions}


def fig5_3_tables() -> Frames:
    """F reacts within 100 requests, the others within 1,000; L costs F some precision."""
    gaps = {COUNTER: (1_000.0, 0.07), QUEUE: (900.0, 0.06), L: (890.0, 0.061), F: (100.0, 0.01), FL: (150.0, 0.02)}
    return {"crdt-fig5.3/runs": decided({
        variant: {"gap_peak_count": gap, "gap_end_count": 0.6 * gap, "area_ratio": 1 - area, "rejected_ratio": 1 - area}
        for variant, (gap, area) in gaps.items()
    })}  # fmt: skip


def fig5_4_tables() -> Frames:
    """The printed ratios; the counter at rest at 5 minutes, the queues a minute and a half later."""
    late = {"rest_s": 390.0, "last_sent_s": 390.0}
    points = {
        COUNTER: {"rest_s": 302.0},
        QUEUE: {MEMORY: 5.0, BANDWIDTH: 1.31, **late},
        L: {MEMORY: 5.0 * (1 - 0.183), BANDWIDTH: 1.31, **late},
        F: {MEMORY: 6.0, BANDWIDTH: 3.43, **late},
        FL: {MEMORY: 6.0 * (1 - 0.24), BANDWIDTH: 3.43, **late},
    }
    return {"crdt-fig5.4/runs": used({name: {"load_end_s": 300.0, **values} for name, values in points.items()})}


def precision_of(key: str, counter: float, queue: float) -> Callable[[], Frames]:
    return lambda: {f"{key}/runs": shares(counter, queue)}


def data_set_b() -> Frames:
    """All tables of data set B, as printed; the queue's convergence spreads, the counter's does not."""
    printed = {"crdt-fig5.6": (7.98, 8.83, FL), "crdt-fig5.8": (5.13, 4.95, FL), "crdt-fig5.10": (4.27, 2.15, FL),
               "crdt-fig5.12": (0.90, 0.23, F)}  # fmt: skip
    found = {"crdt-fig5.5/runs": shares(0.969, 0.997), "crdt-fig5.7/runs": shares(0.964, 0.986)}
    for key, (memory, bandwidth, queue) in printed.items():
        runs = used({
            COUNTER: {"last_sent_s": 9.0},
            queue: {MEMORY: memory, BANDWIDTH: bandwidth, "last_sent_s": 90.0, "rest_s": 90.0, "memory_kept": 0.8},
        })  # fmt: skip
        runs["rest_s"] += (runs.variant == queue) * 8.0 * runs.repetition
        found[f"{key}/runs"] = runs
    found["crdt-fig5.11/runs"] = decided({COUNTER: {}, F: {}})
    return found


def of(*keys: str) -> Callable[[], Frames]:
    """The tables of these figures of data set B."""
    return lambda: {name: frame for name, frame in data_set_b().items() if name.partition("/")[0] in keys}


def nodes_tables() -> Frames:
    rows = [
        {"variant": variant, "nodes": count, "excess_tokens": tokens * (1.0 if variant == COUNTER else 0.2)}
        for variant in (COUNTER, FL)
        for count, tokens in ((3, 20.0), (10, 60.0), (30, 150.0))
    ]
    return {"crdt-nodes/runs": repeated(rows, ("excess_tokens",))}


def on(name: str, change: Any, *arguments: Any, **where: Any) -> Callable[[Frames], Frames]:
    """A perturbation of the one table ``runs`` of the figure called ``name``."""
    table = f"{name}/runs"
    return lambda found: {**found, table: change(found[table], *arguments, **where)}


def one_spread(found: Frames) -> Frames:
    """The queue converges at one instant in all repetitions, the counter does not."""
    runs = found["crdt-fig5.8/runs"].copy()
    runs["rest_s"] = 60.0 + (runs.variant == COUNTER) * 8.0 * runs.repetition
    return {**found, "crdt-fig5.8/runs": runs}


def admits_late(found: Frames) -> Frames:
    """A counter that goes on admitting in the second half of the minute."""
    runs = found["crdt-fig5.7/runs"].copy()
    runs.loc[runs.variant == COUNTER, "late_admitted_count"] = 4.0
    return {**found, "crdt-fig5.7/runs": runs}


def rejects_some(found: Frames) -> Frames:
    """A queue that rejects a request of a user below the limit."""
    runs = found["crdt-fig5.11/runs"].copy()
    runs.loc[runs.variant == F, "rejected_count"] = 1.0
    return {**found, "crdt-fig5.11/runs": runs}


def substitute(claim: str, tables: Callable[[], Frames], spoil: Mapping[str, Callable[[Frames], Frames]]) -> Case:
    """A claim on secret input: as published it earns "direction only", and spoiled not even that."""
    return Case(claim, tables, spoil, FRUGAL, WORSE)


CASES = [
    substitute("T1", fig5_1_tables, {
        "rejects more": on("crdt-fig5.1", scaled, "rejected_ratio", 1.1, variant=COUNTER),
        "more in the other reading": on("crdt-fig5.1", scaled, "area_ratio", 1.1, variant=COUNTER),
    }),
    Case("T2", fig5_2_tables, {"one request": one_differs}),
    substitute("T3", fig5_3_tables, {
        "F no faster": on("crdt-fig5.3", scaled, "gap_peak_count", 20.0, variant=F),
        "counter and F swapped": on("crdt-fig5.3", swapped, "variant", COUNTER, F),
        "a gap that does not shrink": on("crdt-fig5.3", scaled, "gap_end_count", 2.0, variant=L),
    }),
    substitute("T4", fig5_3_tables, {"F and F+L swapped": on("crdt-fig5.3", swapped, "variant", F, FL)}),
    substitute("T5", fig5_4_tables, {
        "the counter later": on("crdt-fig5.4", scaled, "rest_s", 2.0, variant=COUNTER),
        "one queue earlier": on("crdt-fig5.4", scaled, "rest_s", 0.6, variant=FL),
    }),
    substitute("T6", fig5_4_tables, {
        "LINF takes more": on("crdt-fig5.4", scaled, MEMORY, 1.5, variant=FL),
        "queue and queue+L swapped": on("crdt-fig5.4", swapped, "variant", QUEUE, L),
    }),
    substitute("T7", fig5_4_tables, {
        "L takes less than the counter": on("crdt-fig5.4", scaled, BANDWIDTH, 0.5, variant=L),
        "F and L swapped": on("crdt-fig5.4", swapped, "variant", F, L),
    }),
    substitute("T8", precision_of("crdt-fig5.5", 0.969, 0.997), {
        "swapped": on("crdt-fig5.5", swapped, "variant", COUNTER, FL),
        "the queue rejects too much": on("crdt-fig5.5", scaled, "rejected_ratio", 1.1, variant=FL),
    }),
    substitute("T11", precision_of("crdt-fig5.7", 0.964, 0.986), {
        "swapped": on("crdt-fig5.7", swapped, "variant", COUNTER, FL),
        "no approach": on("crdt-fig5.7", scaled, "gap_end_count", 3.0, variant=FL),
    }),
    substitute("T13", precision_of("crdt-fig5.9", 0.10, 0.80), {
        "swapped": on("crdt-fig5.9", swapped, "variant", COUNTER, FL),
        "the queue rejects twice too much": on("crdt-fig5.9", scaled, "rejected_ratio", 3.0, variant=FL),
        "the counter limits nothing": on("crdt-fig5.9", scaled, "rejected_ratio", 0.0, variant=COUNTER),
    }),
    substitute("T9", of("crdt-fig5.6"), {
        "swapped": on("crdt-fig5.6", swapped, "variant", COUNTER, FL),
        "little memory": on("crdt-fig5.6", scaled, MEMORY, 0.1, variant=FL),
        "little bandwidth": on("crdt-fig5.6", scaled, BANDWIDTH, 0.1, variant=FL),
    }),
    substitute("T10", of("crdt-fig5.6"), {
        "the counter goes on": on("crdt-fig5.6", scaled, "last_sent_s", 10.0, variant=COUNTER),
        "the queue stops": on("crdt-fig5.6", scaled, "last_sent_s", 0.5, variant=FL),
    }),
    substitute("T12", of("crdt-fig5.8"), {
        "little memory": on("crdt-fig5.8", scaled, MEMORY, 0.1, variant=FL),
        "the counter goes on": on("crdt-fig5.8", scaled, "last_sent_s", 10.0, variant=COUNTER),
    }),
    substitute("T14", of("crdt-fig5.10"), {
        "little memory": on("crdt-fig5.10", scaled, MEMORY, 0.2, variant=FL),
        "little bandwidth": on("crdt-fig5.10", scaled, BANDWIDTH, 0.2, variant=FL),
    }),
    Case("T15", of("crdt-fig5.11", "crdt-fig5.12"), {
        "a rejection": rejects_some,
        "more memory": on("crdt-fig5.12", scaled, MEMORY, 2.0, variant=F),
        "three times the bandwidth": on("crdt-fig5.12", scaled, BANDWIDTH, 3.0, variant=F),
        "converges earlier": on("crdt-fig5.12", scaled, "rest_s", 0.5, variant=F),
    }),
    substitute("T16", data_set_b, {
        "extreme and substantial alike": on("crdt-fig5.6", scaled, MEMORY, 5.13 / 7.98, variant=FL),
        "not limited the most": on("crdt-fig5.12", scaled, BANDWIDTH, 20.0, variant=F),
    }),
    substitute("T17", data_set_b, {
        "no debt": admits_late,
        "no excess": on("crdt-fig5.5", scaled, "excess_tokens", 0.0, variant=COUNTER),
        "convergence": one_spread,
        "the counter's memory falls": on("crdt-fig5.8", scaled, "memory_kept", 0.5, variant=COUNTER),
        "the queue's memory rises": on("crdt-fig5.10", scaled, "memory_kept", 2.0, variant=FL),
    }),
    Case("T25", nodes_tables, {
        "no more at 30": on("crdt-nodes", scaled, "excess_tokens", 0.3, variant=COUNTER, nodes=30),
        "nodes swapped": on("crdt-nodes", swapped, "nodes", 3, 10),
    }),
]  # fmt: skip


def keys_of(cases: Iterable[Case]) -> set[str]:
    return {case.claim for case in cases}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_published_tables_confirm_the_claim(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_spoiled_tables_do_not(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


@pytest.mark.parametrize("claim", ["T5", "T15", "T17"])
def test_of_runs_that_never_come_to_rest_nobody_says_when(claim: str) -> None:
    found = next(case for case in CASES if case.claim == claim).tables()
    restless = {name: frame.assign(converged=0.0) if "converged" in frame else frame for name, frame in found.items()}
    result = judge(claim_called(claim), restless)
    assert result.judgement is Judgement.UNDECIDED and "comes to rest" in result.problem


def test_every_claim_of_these_figures_has_a_case() -> None:
    modules = (data_set_a, fig5_2, one_user, nodes)
    named = {claim.id for module in modules for claim in module.CLAIMS}
    assert keys_of(CASES) == named
