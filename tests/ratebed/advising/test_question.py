"""What is run of a log, and under which limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.units import SECOND_NS
from harness.run import check_all
from ratebed.advising.grid import conditions, oracle_of, settings, spec_of, usual
from ratebed.advising.question import LogAsked, busiest, question_of, swept, typical_count
from studies.inputs import inputs_of


def csv(folder, rows, node=False):
    path = folder / "log.csv"
    head = "time,user,node\n" if node else "time,user\n"
    path.write_text(head + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return str(path)


def steady(count, per_s, users=4, begin=1_700_000_000):
    return [(f"{begin + at / per_s:.3f}", f"u{at % users}") for at in range(count)]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 3)), min_size=1, max_size=60), st.integers(1, 20))
def test_the_typical_count_by_its_definition(rows, period_s):
    rows.sort()
    at, user = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    peak = {
        who: max(sum(1 for other, its in rows if its == who and end - period_s < other <= end) for end, _ in rows)
        for who in {who for _, who in rows}
    }
    wanted = sorted(peak[who] for _, who in rows)[(len(rows) - 1) // 2]
    assert typical_count(at * SECOND_NS, user.astype(np.int32), period_s * SECOND_NS) == wanted


def test_limits_are_swept_around_it(tmp_path):
    assert swept(10) == [5, 10, 20] and swept(1) == [1, 2]
    # Each of four users asks once a second: ten times in ten seconds, of which there are enough.
    found = question_of(LogAsked(csv(tmp_path, steady(400, 4))))
    assert found.typical == 10 and {limit.text for limit in found.limits} == {"5/10s", "10/10s", "20/10s"}
    assert found.limits[0].count == 10 or abs(found.limits[0].rejected_share - 0.05) <= min(
        abs(limit.rejected_share - 0.05) for limit in found.limits
    )
    assert question_of(LogAsked(csv(tmp_path, steady(400, 4)), limit="7/5s")).limits[0].text == "7/5s"


def test_the_halves_are_of_the_busiest_part(tmp_path):
    quiet = [(1_700_000_000 + at, "q") for at in range(0, 5_000, 10)]
    busy = [(1_700_002_000 + at / 10, "b") for at in range(1_000)]
    found = question_of(LogAsked(csv(tmp_path, [*quiet, *busy]), limit="20/2s"))
    assert found.start_ns // SECOND_NS in range(1_990, 2_021) and 2 * found.half_ns == 80 * SECOND_NS
    assert any("sorted by their stamps" in note for note in found.notes)
    tuning, judging = (found.load(found.limits[0], judges).options for judges in (False, True))
    assert tuning["duration"] == judging["duration"] and tuning["start"] != judging["start"]
    assert busiest(np.array([0, 5, 6, 7, 20]) * SECOND_NS, 3 * SECOND_NS) == 5 * SECOND_NS


def test_of_a_busy_log_as_much_is_run_as_its_limit_needs(tmp_path):
    path = csv(tmp_path, steady(60_000, 50))  # twenty minutes; 20,000 requests are less than seven of them
    assert 2 * question_of(LogAsked(path, limit="100/minute")).half_ns == 480 * SECOND_NS
    assert 2 * question_of(LogAsked(path, limit="100/10s")).half_ns == 400 * SECOND_NS
    whole = question_of(LogAsked(path, limit="100/minute", duration="1h"))
    assert 2 * whole.half_ns == pytest.approx(1200 * SECOND_NS, abs=SECOND_NS) and whole.judging > 29_000


def test_what_was_before_the_start_does_not_say_how_long_the_part_is(tmp_path, monkeypatch):
    monkeypatch.setattr("ratebed.advising.question.REQUESTS", 200)
    later = [(1_700_000_010 + at, f"u{at % 4}") for at in range(1_000)]  # one a second, after ten seconds of forty
    found = question_of(LogAsked(csv(tmp_path, [*steady(400, 40), *later]), start="100s"))
    assert (found.start_ns, 2 * found.half_ns) == (100 * SECOND_NS, 200 * SECOND_NS)
    assert {limit.period_ns for limit in found.limits} == {10 * SECOND_NS} and found.judging == 100


def test_a_half_without_requests_is_told_before_anything_is_run(tmp_path):
    early = [*steady(500, 10), (1_700_003_660, "a")]
    late = [(1_700_000_000, "a"), *steady(500, 10, begin=1_700_000_400)]
    for rows, start in ((early, ""), (late, "100s")):
        with pytest.raises(SpecError, match=r"all \d+ requests of the part are in one half of it"):
            question_of(LogAsked(csv(tmp_path, rows), start=start))


def test_nothing_is_tuned_on_what_judges(tmp_path):
    thresholds = []
    for gap_s in (0.25, 3.0):
        later = [(1_700_000_040 + at * gap_s, f"u{at % 2}") for at in range(13)]
        path = csv(tmp_path, [*steady(160, 4, users=2), *later, (1_700_000_080, "u0")])
        found = question_of(LogAsked(path, limit="20/4s", start="0s", duration="80s", nodes=2))
        thresholds.append(found.load(found.limits[0], judges=False).threshold)
    assert thresholds[0] == thresholds[1]


def test_nodes_as_the_log_names_them(tmp_path):
    rows = [(*row, f"edge{number % 3}") for number, row in enumerate(steady(400, 4))]
    found = question_of(LogAsked(csv(tmp_path, rows, node=True)))
    assert (found.nodes, found.arrivals) == (3, "node")
    assert question_of(LogAsked(csv(tmp_path, steady(400, 4)))).arrivals == "random"


def test_every_point_can_be_run(tmp_path):
    table = tmp_path / "rtt.csv"
    table.write_text(",Paris,Rome,Oslo\nParis,,21,30\nRome,21,,\nOslo,30,55,\n")
    asked = LogAsked(csv(tmp_path, steady(400, 4)), nodes=3, latency_table=str(table))
    assert asked.places == "Paris,Rome,Oslo" or set(asked.places.split(",")) == {"Paris", "Rome", "Oslo"}
    found = question_of(asked)
    usually = usual(found.limits[0])
    specs = [spec_of(found, setting, usually, False) for setting in settings(found.limits[0])]
    wanted = [spec for spec in specs if spec is not None]
    assert {spec.system for spec in wanted} >= {"centralised", "static-split", "crdt-counter", "crdt-queue"}
    others = [spec_of(found, settings(each.limit)[0], each, True) for each in conditions(found)]
    check_all([*wanted, *filter(None, others), oracle_of(found, usually, True)])
    assert all(str(table) in inputs_of(spec) for spec in wanted)


def test_what_cannot_be_asked(tmp_path):
    path = csv(tmp_path, steady(40, 4))
    for asked, what in (
        ({"limit": "5/1h"}, "limits of 1h"),
        ({"limit": "lots"}, "lots"),
        ({"duration": "soon"}, "--duration"),
        ({"start": "1h"}, "--start 1h: the log has"),
        ({"arrivals": "node"}, "one node"),
        ({"arrivals": "nowhere"}, "--arrivals"),
        ({"nodes": 1}, "--nodes"),
    ):
        with pytest.raises(SpecError, match=what):
            question_of(LogAsked(path, **asked))
