"""What the searches of SRTM, Conc and Max-Min do next, round by round: what is measured is told, not computed.

A row is a history: each round says which publishers the search must put where, and then what that round measures,
as p99 in percent of the SLO, over the topic (pooled) and of each broker.  80 publishers of 10 messages a second make
ten groups of eight, so that halves, quarters and eighths of the topic are whole publishers of every group.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from core.records import Envelope, Int32, Population
from systems.api import Broker, BrokerMeasure, Distribution, Measured, Outcome, Problem, System
from systems.distribution import conc, max_min, srtm

SLO_NS = 100
OUT = Outcome.OUT_OF_BROKERS
P99 = int | None  # percent of the SLO; None: no message of the topic came

Round = tuple[int, tuple[int, ...], int, tuple[P99, ...]]  # iteration, publishers by broker; pooled p99, own p99s


@dataclass(frozen=True)
class Row:
    """One search: its brokers, its rounds, how it ends."""

    name: str
    rounds: tuple[Round, ...]
    final: tuple[int, ...]  # publishers by broker
    outcome: Outcome = Outcome.PLACED
    rcap_rps: tuple[float, ...] = (1000, 1000, 1000)
    options: dict[str, Any] = field(default_factory=dict)
    groups: int = 10


def problem_of(row: Row) -> Problem:
    population = Population(np.full(80, 10.0), np.repeat(np.arange(row.groups, dtype=np.int32), 80 // row.groups))
    brokers = tuple(Broker(f"b{i}", 2000.0, 2000.0 - rcap_rps) for i, rcap_rps in enumerate(row.rcap_rps))
    return Problem(population, Envelope(1.1 * population.total_rps, 100.0), brokers, SLO_NS, 60 * 10**9)


def on_brokers(assignment: Int32, brokers: int) -> tuple[int, ...]:
    return tuple(np.bincount(assignment[assignment >= 0], minlength=brokers).tolist())


def check(system: System, row: Row) -> None:
    """Tell the search what its rounds measure; it must try and answer what the row says."""
    problem = problem_of(row)
    brokers = len(problem.brokers)
    assert system.distribute is not None
    search = system.distribute(problem, system.config(**row.options), np.random.default_rng(1))
    told: Measured | None = None
    for number, (iteration, wanted, pooled, own) in enumerate(row.rounds, start=1):
        trial = next(search) if told is None else search.send(told)
        tried = on_brokers(trial.assignment, brokers)
        assert (trial.iteration, tried) == (iteration, wanted), f"round {number}"
        p99s = (*own, *(brokers - len(own)) * (None,))
        told = Measured(tuple(BrokerMeasure(p99, 0, 10.0 * n) for p99, n in zip(p99s, tried, strict=True)), pooled)
    with pytest.raises(StopIteration) as end:
        next(search) if told is None else search.send(told)
    answer: Distribution = end.value.value
    assert (answer.outcome, on_brokers(answer.assignment, brokers)) == (row.outcome, row.final)


def rows(*table: Row) -> Any:
    return pytest.mark.parametrize("row", table, ids=[row.name for row in table])


# --- SRTM: online fitting of one broker (IV-B, step 3) ----------------------------------------------

# A broker that searches is told apart from the others: no later one fetches publishers back.
ALONE = {"fill_vacancy": False}
ALL, HALF = (80, 0, 0), (40, 0, 0)
BAD: Round = (1, ALL, 120, (120,))  # how most searches begin: everybody on the largest broker, and that is too many


@rows(
    Row("a p99 at the SLO meets it", ((1, ALL, 100, (100,)),), final=ALL),
    Row(
        "capacities are estimates: where there seems to be none, it is tried",
        ((1, ALL, 100, (100,)),),
        final=ALL,
        rcap_rps=(0, 0, 0),
    ),
    Row(
        "quotas of later iterations keep to what is left, though the first broker has less of it now",
        (
            (1, (40, 40, 0), 130, (90, 130)),
            (1, (40, 20, 0), 110, (90, 110)),
            (1, (40, 10, 0), 90, (90, 90)),
            (2, (50, 10, 20), 90, (90, 90, 90)),
        ),
        final=(50, 10, 20),
        rcap_rps=(500, 500, 500),
        options=ALONE,
    ),
    Row("a broker above the SLO is left alone while the topic meets it", ((1, ALL, 100, (101,)),), final=ALL),
    Row(
        "by halves: down after a violation, up after a round with room, until the p99 is in the band",
        (
            BAD,
            (1, HALF, 110, (110,)),
            (1, (20, 0, 0), 70, (70,)),
            (1, (30, 0, 0), 80, (80,)),
            (2, (30, 50, 0), 90, (80, 90)),
        ),
        final=(30, 50, 0),
    ),
    Row(
        "room is left below the band only",
        (BAD, (1, HALF, 79, (79,)), (1, (60, 0, 0), 100, (100,)), (2, (60, 20, 0), 100, (100, 90))),
        final=(60, 20, 0),
    ),
    Row(
        "another band",
        (BAD, (1, HALF, 60, (60,)), (2, (40, 40, 0), 60, (60, 60))),
        final=(40, 40, 0),
        options={"band": 0.5},
    ),
    Row(
        "its own p99 is in the band, though the topic's is below",
        (BAD, (1, HALF, 60, (80,)), (2, (40, 40, 0), 90, (90, 90))),
        final=(40, 40, 0),
    ),
    Row(
        "the topic's p99 is in the band, though its own is below",
        (BAD, (1, HALF, 80, (60,)), (2, (40, 40, 0), 90, (90, 90))),
        final=(40, 40, 0),
    ),
    Row(
        "it has room and the topic is above the SLO: others are to blame, and it goes on",
        (BAD, (1, HALF, 101, (60,)), (1, (60, 0, 0), 90, (90,)), (2, (60, 20, 0), 90, (90, 90))),
        final=(60, 20, 0),
    ),
    Row(
        "it violates the SLO and the topic does not: so many it can keep",
        (BAD, (1, HALF, 100, (110,)), (2, (40, 40, 0), 90, (90, 90))),
        final=(40, 40, 0),
    ),
    Row(
        "none of its messages came: there is room",
        (BAD, (1, HALF, 70, (None,)), (1, (60, 0, 0), 90, (90,)), (2, (60, 20, 0), 90, (90, 90))),
        final=(60, 20, 0),
    ),
    Row(
        "what was good last is kept when more proves too many",
        (
            BAD,
            (1, HALF, 70, (70,)),
            (1, (60, 0, 0), 110, (110,)),
            (1, (50, 0, 0), 110, (110,)),
            (2, (40, 40, 0), 90, (70, 90)),
        ),
        final=(40, 40, 0),
    ),
    Row(
        "no publisher lies between the ends: nobody stays",
        (BAD, (1, HALF, 110, (110,)), (2, (0, 80, 0), 90, (None, 90))),
        final=(0, 80, 0),
        groups=40,
    ),
)
def test_srtm_fits_a_broker(row: Row) -> None:
    check(srtm.SYSTEM, replace(row, options=ALONE | row.options))


WORSE: Round = (1, HALF, 130, (130,))


@rows(
    Row("its p99 grew although its load fell", (BAD, WORSE, (2, (0, 80, 0), 90, (None, 90))), final=(0, 80, 0)),
    Row(
        "its p99 grew, but so did its load",
        (
            BAD,
            (1, HALF, 70, (70,)),
            (1, (60, 0, 0), 130, (130,)),
            (1, (50, 0, 0), 90, (90,)),
            (2, (50, 30, 0), 90, (90, 90)),
        ),
        final=(50, 30, 0),
    ),
    Row(
        "its p99 is as it was",
        (BAD, (1, HALF, 120, (120,)), (1, (20, 0, 0), 90, (90,)), (2, (20, 60, 0), 90, (90, 90))),
        final=(20, 60, 0),
    ),
    Row(
        "its p99 grew, but stays below the SLO",
        (
            BAD,
            (1, HALF, 110, (110,)),
            (1, (20, 0, 0), 110, (60,)),
            (1, (30, 0, 0), 100, (100,)),
            (2, (30, 50, 0), 90, (90, 90)),
        ),
        final=(30, 50, 0),
    ),
    Row(
        "not if it is told not to",
        (BAD, WORSE, (1, (20, 0, 0), 90, (90,)), (2, (20, 60, 0), 90, (90, 90))),
        final=(20, 60, 0),
        options={"give_up": False},
    ),
    Row(
        "what it could keep before counts no more",
        (
            BAD,
            (1, HALF, 70, (70,)),
            (1, (60, 0, 0), 120, (120,)),
            (1, (50, 0, 0), 125, (125,)),
            (2, (0, 80, 0), 90, (None, 90)),
        ),
        final=(0, 80, 0),
    ),
)
def test_srtm_gives_a_broker_up(row: Row) -> None:
    check(srtm.SYSTEM, replace(row, options=ALONE | row.options))


# --- SRTM: several brokers -------------------------------------------------------------------------

TWO = (500, 500, 500, 500)  # the topic takes two of these


@rows(
    Row(
        "brokers that violate the SLO search at the same time",
        (
            (1, (40, 40, 0, 0), 130, (120, 130)),
            (1, (20, 20, 0, 0), 110, (110, 70)),
            (1, (10, 30, 0, 0), 90, (90, 90)),
            (2, (10, 30, 40, 0), 90, (90, 90, 90)),
        ),
        final=(10, 30, 40, 0),
        rcap_rps=TWO,
    ),
    Row(
        "one that is done keeps its set while the other goes on",
        (
            (1, (40, 40, 0, 0), 130, (120, 130)),
            (1, (20, 20, 0, 0), 110, (85, 110)),
            (1, (20, 10, 0, 0), 90, (85, 90)),
            (2, (20, 10, 50, 0), 90, (85, 90, 90)),
        ),
        final=(20, 10, 50, 0),
        rcap_rps=TWO,
    ),
    Row(
        "one that does not violate the SLO keeps all, and takes more later as it is not full",
        (
            (1, (40, 40, 0, 0), 130, (90, 130)),
            (1, (40, 20, 0, 0), 90, (90, 90)),
            (2, (50, 20, 10, 0), 90, (90, 90, 90)),
        ),
        final=(50, 20, 10, 0),
        rcap_rps=TWO,
        options={"fill_vacancy": False},
    ),
    Row(
        "a last broker below its even share takes from those above theirs",
        (
            (1, (40, 40, 0, 0), 130, (90, 130)),
            (1, (40, 20, 0, 0), 90, (90, 90)),
            (2, (40, 20, 20, 0), 90, (90, 90, 90)),
        ),
        final=(40, 20, 20, 0),
        rcap_rps=TWO,
    ),
    Row(
        "a broker that was given up has no part in the even share",
        (
            (1, (40, 40, 0, 0), 130, (130, 90)),
            (1, (20, 40, 0, 0), 140, (140, 90)),
            (2, (0, 40, 40, 0), 90, (None, 90, 90)),
        ),
        final=(0, 40, 40, 0),
        rcap_rps=TWO,
    ),
    Row(
        "everybody is placed, no broker is to blame, and the SLO is violated: one broker more, each time",
        (
            (1, ALL, 101, (100,)),
            (2, (40, 40, 0), 101, (100, 100)),
            (3, (30, 30, 20), 90, (90, 90, 90)),
        ),
        final=(30, 30, 20),
    ),
    Row(
        "the largest broker comes first, whatever its name",
        ((1, (0, 80, 0), 90, (None, 90)),),
        final=(0, 80, 0),
        rcap_rps=(900, 1000, 900),
    ),
    Row(
        "as few as carry the rate by their capacity",
        ((1, (40, 0, 40), 90, (90, None, 90)),),
        final=(40, 0, 40),
        rcap_rps=(700, 50, 600),
    ),
    Row("a fixed number of brokers needs no round", (), final=(40, 40, 0), options={"brokers": 2}),
    Row("of no more than there are", (), final=(40, 40), rcap_rps=(1000, 1000), options={"brokers": 9}),
)
def test_srtm_spreads_over_brokers(row: Row) -> None:
    check(srtm.SYSTEM, row)


@rows(
    Row(
        "the only broker carries all", ((1, (80,), 120, (120,)), (1, (40,), 130, (130,))), final=(80,), rcap_rps=(1000,)
    ),
    Row("no broker is to blame, and there is no other", ((1, (80,), 120, (100,)),), final=(80,), rcap_rps=(1000,)),
    Row(
        "of all that carried everybody, the best one",
        (
            (1, (80, 0), 150, (150,)),
            (1, (40, 0), 160, (160,)),
            (2, (0, 80), 140, (None, 140)),
            (2, (0, 40), 150, (None, 150)),
        ),
        final=(0, 80),
        rcap_rps=(1000, 1000),
    ),
    Row(
        "of equals, the first",
        (
            (1, (80, 0), 140, (140,)),
            (1, (40, 0), 160, (160,)),
            (2, (0, 80), 140, (None, 140)),
            (2, (0, 40), 150, (None, 150)),
        ),
        final=(80, 0),
        rcap_rps=(1000, 1000),
    ),
    Row(
        "a round that left some out is no answer, however good",
        ((1, (80,), 120, (120,)), (1, (40,), 90, (90,))),
        final=(80,),
        rcap_rps=(1000,),
    ),
)
def test_srtm_runs_out_of_brokers(row: Row) -> None:
    check(srtm.SYSTEM, replace(row, outcome=OUT))


# --- Conc and Max-Min ------------------------------------------------------------------------------


@rows(
    Row("a p99 at the SLO meets it", ((1, ALL, 100, (100,)),), final=ALL),
    Row("only the topic's p99 counts", ((1, ALL, 100, (300,)),), final=ALL),
    Row(
        "one broker more after a violation", ((1, ALL, 101, (101,)), (2, (40, 40, 0), 90, (90, 90))), final=(40, 40, 0)
    ),
    Row(
        "it begins with as many as their capacities call for",
        ((1, (40, 40, 0, 0), 90, (90, 90)),),
        final=(40, 40, 0, 0),
        rcap_rps=TWO,
    ),
    Row(
        "the largest residual capacities first",
        ((1, (0, 0, 80), 90, (None, None, 90)),),
        final=(0, 0, 80),
        rcap_rps=(900, 800, 1000),
    ),
    Row(
        "no number of brokers is enough: the best one, not the last",
        ((1, ALL, 130, (130,)), (2, (40, 40, 0), 110, (110, 110)), (3, (27, 26, 27), 120, (120, 120, 120))),
        final=(40, 40, 0),
        outcome=OUT,
    ),
    Row(
        "of equals, the fewest",
        ((1, ALL, 110, (110,)), (2, (40, 40, 0), 110, (110, 110)), (3, (27, 26, 27), 110, (110, 110, 110))),
        final=ALL,
        outcome=OUT,
    ),
)
@pytest.mark.parametrize("system", [conc.SYSTEM, max_min.SYSTEM], ids=["conc", "max-min"])
def test_conc_and_max_min_try_one_broker_more_until_a_round_meets_the_slo(system: System, row: Row) -> None:
    check(system, row)


UNEQUAL = (700.0, 600.0, 100.0)  # residual capacities: loads of 1300, 1400 and 1900


@rows(
    Row("two, to equal total loads", ((1, (45, 35, 0), 90, (90, 90)),), final=(45, 35, 0), rcap_rps=UNEQUAL),
    Row(
        "a broker above the level gets nothing",
        ((1, (45, 35, 0), 101, (90, 90)), (2, (45, 35, 0), 90, (90, 90))),
        final=(45, 35, 0),
        rcap_rps=UNEQUAL,
    ),
)
def test_conc_makes_total_loads_equal(row: Row) -> None:
    check(conc.SYSTEM, row)


@rows(
    Row("two, half each", ((1, (40, 40, 0), 90, (90, 90)),), final=(40, 40, 0), rcap_rps=UNEQUAL),
    Row(
        "a small one as much as it can, the others alike",
        ((1, (40, 40, 0), 101, (90, 90)), (2, (35, 35, 10), 90, (90, 90, 90))),
        final=(35, 35, 10),
        rcap_rps=UNEQUAL,
    ),
    Row("a fixed number of brokers needs no round", (), final=(35, 35, 10), rcap_rps=UNEQUAL, options={"brokers": 3}),
    Row("of no more than there are", (), final=(35, 35, 10), rcap_rps=UNEQUAL, options={"brokers": 4}),
)
def test_max_min_makes_the_smallest_share_as_large_as_can_be(row: Row) -> None:
    check(max_min.SYSTEM, row)
