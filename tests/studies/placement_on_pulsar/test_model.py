"""The modelled Pulsar: the order of a move, what is shared, and that nothing is lost or owned twice."""

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from math import log
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import pulsar_model
from core.units import MILLISECOND_NS
from harness.run import asked_of, execute, resolve
from paper_figs.epulsar import fig7
from studies.placement_on_pulsar import virtual
from studies.placement_on_pulsar.asked import PulsarJournal, PulsarRequest
from studies.placement_on_pulsar.model import FITTED, MoveStep, PulsarCosts
from tests.command import ratebed

AWAY = "downtimes"
TRIP_MS = 20.0  # to the store and back, at 10 ms one way
WORKLESS = PulsarCosts(
    ask=MoveStep(1, 0),
    hand=MoveStep(4, 0),
    answer=MoveStep(2, 0),
    free=MoveStep(3, 0),
    find=MoveStep(5, 0),
    open=MoveStep(6, 0),
    flow=MoveStep(2, 0),
    busy_share=1.0,
)


def asked(system: str, executors: int = 1, wan_ms: int = 10, topics: int = 8, seed: int = 3) -> PulsarRequest:
    spec = msgspec.structs.replace(fig7._on_pulsar(system, topics, wan_ms, executors), seed=seed)
    return asked_of(resolve(spec))[1]


def by_metric(journal: PulsarJournal) -> dict[str, list[float]]:
    found = defaultdict[str, list[float]](list)
    for _, _, metric, value in journal.samples:
        found[metric].append(value / MILLISECOND_NS if metric.endswith("_ns") else value)
    found[AWAY] = [(one.end_ns - one.start_ns) / MILLISECOND_NS for one in journal.downtimes]
    for step in journal.steps:
        found[step.step].append((step.end_ns - step.start_ns) / MILLISECOND_NS)
    return found


def test_a_transfer_fences_owns_and_closes_in_this_order() -> None:
    found = by_metric(virtual.run(asked("epulsar"), WORKLESS))
    assert found[AWAY] == pytest.approx([6 * TRIP_MS] * 16)  # a producer and a consumer of each topic
    outage_ms, period_ms = 12 * TRIP_MS, 100.0
    assert all(outage_ms <= gap < outage_ms + period_ms for gap in found["delivery_gap_ns"])
    # Beside the steps, the load manager's question and answer, which go to the store's place as well.
    assert found["migration_ns"] == pytest.approx([8 * TRIP_MS] * 8)
    assert found["migration_count"] == [1.0] * 8
    assert found["unload"] == pytest.approx([5 * TRIP_MS] * 8) and found["request"] == pytest.approx([7 * TRIP_MS] * 8)


def test_a_plain_unload_closes_when_it_fences() -> None:
    found = by_metric(virtual.run(asked("pulsar"), WORKLESS))
    assert found[AWAY] == pytest.approx([11 * TRIP_MS] * 16)
    assert found["migration_ns"] == pytest.approx([5 * TRIP_MS] * 8)
    assert all(gap >= 13 * TRIP_MS for gap in found["delivery_gap_ns"])


@pytest.mark.parametrize(("system", "outage_ms"), [("epulsar", 12 * TRIP_MS), ("pulsar", 13 * TRIP_MS)])
def test_what_is_sent_to_a_topic_that_is_fenced_at_the_end_comes_when_it_flows(system: str, outage_ms: float) -> None:
    whole = virtual.run(asked(system), WORKLESS)
    fenced_ns = min(step.start_ns for step in whole.steps) + round(TRIP_MS * MILLISECOND_NS)
    spec = fig7._on_pulsar(system, 8, 10, 1)
    study = {**spec.study_options, "duration": f"{fenced_ns + 150 * MILLISECOND_NS}ns"}
    request = asked_of(resolve(msgspec.structs.replace(spec, seed=3, study_options=study)))[1]
    journal = virtual.run(request, WORKLESS)
    held = [
        (born_ns + latency_ns)
        for fate in journal.fates.values()
        for born_ns, latency_ns in zip(fate.born_ns, fate.latency_ns, strict=True)
        if latency_ns > 20 * MILLISECOND_NS
    ]
    assert held and {round((at_ns - fenced_ns) / MILLISECOND_NS) for at_ns in held} == {round(outage_ms)}
    assert journal.spells[-1].end_ns == request.duration_ns == max(at_ns for at_ns, *_ in journal.samples)


def test_moves_at_a_time_share_the_cores_and_are_done_sooner() -> None:
    busy = replace(WORKLESS, hand=MoveStep(4, 40.0))
    alone, together = (by_metric(virtual.run(asked("epulsar", executors), busy)) for executors in (1, 16))
    assert alone["migration_ns"] == pytest.approx([8 * TRIP_MS + 40.0] * 8)
    # Eight at once on two cores: the last two wait for three others each.
    assert sorted(together["migration_ns"])[::2] == pytest.approx([8 * TRIP_MS + 40.0 * n for n in (1, 2, 3, 4)])
    assert max(together["migration_with_wait_ns"]) < max(alone["migration_with_wait_ns"])


@settings(max_examples=20, deadline=None)
@given(
    system=st.sampled_from(["pulsar", "epulsar"]),
    executors=st.integers(1, 16),
    wan_ms=st.integers(0, 50),
    seed=st.integers(0, 99),
)
def test_a_topic_has_one_owner_at_a_time_and_nothing_is_lost(
    system: str, executors: int, wan_ms: int, seed: int
) -> None:
    request = asked(system, executors, wan_ms, seed=seed)
    journal = virtual.run(request)
    spells = defaultdict(list)
    for spell in journal.spells:
        spells[spell.topic].append(spell)
    for mine in spells.values():
        assert mine[0].start_ns == 0 and mine[-1].end_ns == request.duration_ns
        assert all(one.end_ns == other.start_ns for one, other in pairwise(mine))
    found = by_metric(journal)
    assert len(found["migration_ns"]) == 8 and len(spells) == 8
    if system == "epulsar":  # which says where to
        assert all(mine[0].broker != mine[-1].broker for mine in spells.values())
    topics, rate_rps = request.load.topics, request.load.topics[0].rate_rps
    assert len(journal.latency_ns) == pytest.approx(len(topics) * rate_rps * request.duration_ns / 1e9, abs=len(topics))
    assert (
        np.all(journal.latency_ns >= 0) and journal.latency_ns.max() <= max(found["delivery_gap_ns"]) * MILLISECOND_NS
    )
    again = virtual.run(request)
    assert (again.samples, again.steps, again.downtimes) == (journal.samples, journal.steps, journal.downtimes)


def test_without_its_load_manager_topics_stay_until_another_is_elected() -> None:
    crash = {"kind": "crash", "at": "20050ms", "node": "manager1"}  # 50 ms after it has begun to move topics
    spec = fig7._on_pulsar("epulsar", 8, 10, 1)
    spec = msgspec.structs.replace(
        spec,
        system_options={**spec.system_options, "periodic": "20s", "session": "6s"},
        topology_options={**spec.topology_options, "managers": 2},
        study_options={**spec.study_options, "duration": "60s", "faults": (crash,)},
    )
    journal = virtual.run(asked_of(resolve(spec))[1], WORKLESS)
    elected = [at_ns / 1e9 for at_ns, _, metric, _ in journal.samples if metric == "elected_count"]
    assert len(elected) == 2 and elected[0] < 1.0 and 24.0 < elected[1] < 32.0  # sessions are looked at every 3 s
    moved = [at_ns / 1e9 for at_ns, _, metric, _ in journal.samples if metric == "migration_count"]
    # What was asked for lands; all other topics stay until the next one's turn.
    assert [at_s < 21.0 for at_s in moved] == [True] + [False] * 8 and moved[1] > elected[1] + 19.0
    assert [type(fault).__name__ for _, fault in journal.faults] == ["Crash"]


def test_the_fitted_model_has_the_orders_that_were_seen_live() -> None:
    """Docs/pulsar.md: one at a time ePulsar's clients are away for less than half as long; together longer."""
    plain, one, many = (
        by_metric(virtual.run(asked(system, executors, wan_ms=40, topics=64)))
        for system, executors in (("pulsar", 1), ("epulsar", 1), ("epulsar", 16))
    )
    assert median(one[AWAY]) < 0.5 * median(plain[AWAY])
    assert median(many[AWAY]) > median(one[AWAY])
    assert median(many["migration_with_wait_ns"]) < 0.3 * median(one["migration_with_wait_ns"])


def test_a_fit_comes_nearer_to_what_it_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model itself in the place of a real Pulsar, with half of the costs that the fit begins with."""
    halved = {name: MoveStep(*(0.5 * amount for amount in getattr(FITTED, name))) for name in pulsar_model.PLAIN}
    monkeypatch.setattr(pulsar_model, "EVALUATIONS", 60)
    points = []
    for wan in pulsar_model.FITTED_AT:
        spec = fig7._on_pulsar("pulsar", 2, int(wan.removesuffix("ms")), 1)
        points.append(pulsar_model.LivePoint("static-topics", "pulsar", 1, wan, [spec], []))
    seen = {point.delay: pulsar_model.modelled(point.requests, replace(FITTED, **halved)) for point in points}
    monkeypatch.setattr(pulsar_model.LivePoint, "medians", property(lambda point: seen[point.delay]))

    def off(costs: PulsarCosts) -> float:
        said = {point.delay: pulsar_model.modelled(point.requests, costs) for point in points}
        return sum(abs(log(said[at][name] / seen[at][name])) for at in seen for name in pulsar_model.MEASURES)

    assert off(pulsar_model.fitted(points)) < 0.6 * off(FITTED)
    lines = pulsar_model.compared(points, FITTED)
    assert len(lines) == 1 + 2 * len(pulsar_model.MEASURES) and any(line.endswith("off") for line in lines)


def test_live_runs_are_found_and_those_of_the_model_are_not(tmp_path: Path) -> None:
    spec = msgspec.structs.replace(fig7._on_pulsar("epulsar", 4, 10, 16), seed=1)
    execute(spec, "0" * 16, tmp_path / "runs" / ("0" * 16))
    with pytest.raises(SystemExit, match="no live runs on Pulsar"):
        pulsar_model.live_runs(tmp_path)


def test_the_figure_is_drawn_of_the_model_and_judges_nothing(tmp_path: Path) -> None:
    done = ratebed("figures", "epulsar-fig7", "--broker", "pulsar", "--scale", "tiny", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "reproduced" not in done.stdout + done.stderr
    [drawing] = (tmp_path / "figures").glob("epulsar-fig7@virtual+pulsar*.png")
    assert drawing.stat().st_size > 10_000
