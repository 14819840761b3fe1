"""How the benchmark of deployed limiters counts keys and climbs; and all of it, small, with a real Redis."""

from collections.abc import Sequence
from math import inf

import pytest

from benchmarks import deployed
from benchmarks.deployed import CASES, PEER, SAMPLED, driver_of, fill_ours, kept_share, keys_of, measure_memory
from benchmarks.hot_key import HIGHEST_RPS, LATE_SHARE, LOWEST_RPS, Knee, Rung, climb, knee, next_rate, waits_of
from systems import SYSTEMS
from systems.limiting.centralised import BUCKET_BYTES
from systems.limiting.deployed import quota_of
from tests.live import needs

US = 1_000.0
KEYS = 2_000


# --- where the wait doubles ------------------------------------------------------------------------------------------


def ladder(*waits_us: float, late_us: float = 1.0) -> list[Rung]:
    """Rates that double, with these waits."""
    return [Rung(LOWEST_RPS * 2**step, wait * US, late_us * US) for step, wait in enumerate(waits_us)]


LATE = Rung(1_600, 90 * US, 100 * LATE_SHARE * US + 1)


def test_rates_double_until_the_wait_has_and_then_one_between_is_tried() -> None:
    assert next_rate([]) == 200
    assert next_rate(ladder(100)) == 400
    assert next_rate(ladder(100, 60, 200)) == 1_600, "twice is not more than twice"
    doubled = ladder(100, 60, 201)
    between = next_rate(doubled)
    assert between == pytest.approx(400 * 2**0.5)
    assert next_rate([*doubled, Rung(between, 100 * US, US)]) is None


def test_it_ends_where_who_asks_is_late() -> None:
    history = [*ladder(100, 90, 80), LATE]
    assert next_rate(history) == pytest.approx(800 * 2**0.5)
    assert next_rate(ladder(100, late_us=100 * LATE_SHARE)) == 400
    assert next_rate(ladder(100, late_us=100 * LATE_SHARE + 1)) is None, "late at the lowest rate already"


def test_errors_are_no_short_waits_and_end_a_ladder() -> None:
    told = ["yes", "no", "failed", None]
    assert waits_of([1.0, 2.0, 3.0, inf], told, {"yes": True, "no": False}.get) == [1.0, 2.0, inf, inf]
    assert next_rate(ladder(inf)) is None, "nothing that could double"
    assert next_rate(ladder(100, inf)) == pytest.approx(200 * 2**0.5)


def test_every_ladder_ends() -> None:
    rungs: list[Rung] = []
    while (rate_rps := next_rate(rungs)) is not None:
        rungs.append(Rung(rate_rps, 100 * US, US))
    assert rungs[-1].rate_rps == HIGHEST_RPS and len(rungs) == 13


@pytest.mark.parametrize(
    ("rungs", "found"),
    [
        (ladder(100, 90, 201, 5_000), Knee(800, 400)),
        ([*ladder(100, 90, 201), Rung(566, 210 * US, US)], Knee(566, 400)),
        ([*ladder(100, 90, 201), Rung(566, 200 * US, US)], Knee(800, 566)),
        (ladder(100, 90, 200), Knee(None, 800)),
        ([*ladder(100, 90, 80), LATE._replace(wait_ns=9_000 * US)], Knee(None, 800)),  # perhaps it was who asks
        ([*ladder(100, 90, 80), LATE, Rung(1_131, 250 * US, US)], Knee(1_131, 800)),
        (ladder(100, float("inf")), Knee(400, 200)),  # most had no answer
        (ladder(100, late_us=51), Knee(None, 0)),
        (ladder(inf, inf), Knee(None, 0)),  # most had no verdict at the lowest rate already
    ],
)
def test_a_ladder_says_from_where_the_wait_is_twice_the_first(rungs: Sequence[Rung], found: Knee) -> None:
    assert knee(rungs) == found


# --- keys ------------------------------------------------------------------------------------------------------------


def test_keys_are_counted_where_some_are_asked_more_than_once() -> None:
    turns = {0: 20, 3: 20}  # 20 questions for key 0, one each for 1 and 2, 20 for key 3, then one each
    assert [keys_of(questions, turns) for questions in (20, 21, 22, 42, 50)] == [1, 2, 3, 4, 12]
    assert keys_of(7, {}) == 7


def test_a_key_is_kept_whose_limit_is_not_whole_again() -> None:
    forgotten, known, refilled, failed = b"\1\1\1", b"\0\0\0", b"\1\0\0", b"\2\2\2"
    assert kept_share(forgotten + known + refilled + failed, 4, 3) == 0.5
    assert kept_share(known + forgotten, 1, 3) == 1.0, "the second was never asked before"
    assert kept_share(b"", 0, 3) != kept_share(b"", 0, 3), "nobody knows"


def test_ours_are_fed_a_request_a_key_and_tell_each_other() -> None:
    assert fill_ours(CASES["centralised"], KEYS).model_bytes == KEYS * BUCKET_BYTES
    alone, both = (fill_ours(CASES[name], KEYS).model_bytes for name in ("crdt-counter", "crdt-counter, 2 nodes"))
    assert alone is not None and both == 2 * alone


# --- real servers ----------------------------------------------------------------------------------------------------


def test_all_cases_can_be_said() -> None:
    assert {case.system for case in CASES.values()} <= set(SYSTEMS)
    assert next(iter(CASES)) == PEER, "the others are told by it"


def test_what_is_missing_is_named_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(deployed, "tool", lambda name: None)
    deployed.report(["nginx"], keys=1, repeats=1)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.split(maxsplit=1) == ["nginx", "not measured: no nginx; apt-get install nginx-light"]


@needs("redis-gcra")
@pytest.mark.slow
def test_a_real_redis_keeps_all_keys_and_bears_a_hot_one() -> None:
    driver = driver_of(CASES[PEER])
    memory = measure_memory(CASES[PEER], driver, 10 * KEYS)  # beside those that are asked before
    assert (memory.asked, memory.errors) == (10 * KEYS, 0) and 0 < memory.before_bytes < memory.after_bytes
    assert not memory.kept < 1, "nan where a day ended"
    assert memory.took_s > 0 and KEYS > SAMPLED
    with deployed.running(CASES[PEER], driver, driver.config(capacity=20, rate="20")) as servers:
        rungs = climb(servers.reached_from("n1"), driver, driver.config(capacity=20, rate="20"), 1, most_rps=400)
    assert rungs[0].rate_rps == LOWEST_RPS and all(rung.wait_ns > 0 and rung.errors == 0 for rung in rungs)


@needs("nginx")
@pytest.mark.slow
def test_each_is_given_the_longest_limit_that_it_can_say() -> None:
    case = CASES["nginx"]
    driver = driver_of(case)
    assert quota_of(deployed.long_config(driver, case)).period == 400
    memory = measure_memory(case, driver, SAMPLED)
    assert (memory.asked, memory.errors) == (SAMPLED, 0) and memory.kept == 1
