"""Replayed traces: wraps, replicas, speed, groups, sizes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from tests.workloads.common import SECOND, schedule
from workloads.trace import TraceConfig


def write(path, rows, header="publisher,instant"):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Publishers 0-2; instants in s, not in order."""
    return write(tmp_path_factory.mktemp("trace") / "small.csv", [(2, 10), (0, 13), (1, 11), (0, 14), (1, 18)])


def test_one_copy_is_the_trace_itself_round_and_round(small):
    asked = schedule("trace", path=small)
    assert asked.pass_ns == 10 * SECOND  # span 8 s and the mean gap of 2 s
    offset_ns = int(asked.block(0, asked.pass_ns).at_ns[asked.block(0, asked.pass_ns).publisher == 2][0])
    block = asked.block(offset_ns, offset_ns + 2 * asked.pass_ns)
    np.testing.assert_array_equal((block.at_ns - offset_ns) // SECOND, [0, 1, 3, 4, 8, 10, 11, 13, 14, 18])
    np.testing.assert_array_equal(block.publisher, [2, 1, 0, 0, 1] * 2)
    assert (block.count == 1).all() and block.size_bytes == 150


@given(start_ns=st.integers(-(10**12), 10**13), replicas=st.integers(1, 9), speed=st.sampled_from([0.3, 1, 7.7, 600]))
def test_a_pass_from_anywhere_holds_every_row_of_every_replica(small, start_ns, replicas, speed):
    asked = schedule("trace", path=small, replicas=replicas, speed=speed)
    block = asked.block(start_ns, start_ns + asked.pass_ns)
    assert block.message_count == replicas * 5
    np.testing.assert_array_equal(np.bincount(block.publisher), [2, 2, 1] * replicas)
    assert asked.wraps(start_ns, start_ns + asked.pass_ns) == replicas
    assert asked.wraps(start_ns, start_ns + 3 * asked.pass_ns) == 3 * replicas


def test_wraps_count_the_copies_that_start_over(small):
    asked = schedule("trace", path=small, replicas=4)
    starts = np.concatenate([asked._offset_ns + turn * asked.pass_ns for turn in range(-1, 5)])
    for start_ns, end_ns in ((0, 1), (3 * SECOND, 17 * SECOND), (int(starts[0]), int(starts[0]) + 1)):
        assert asked.wraps(start_ns, end_ns) == ((starts >= start_ns) & (starts < end_ns)).sum()


def test_rate_is_rows_a_pass(small):
    asked = schedule("trace", path=small, replicas=6, speed=100)
    assert asked.population.total_rps == pytest.approx(6 * 5 / 0.1)
    np.testing.assert_allclose(asked.population.rate_rps[:3], [20, 20, 10])
    assert asked.block(0, 60 * SECOND).message_count == pytest.approx(60 * 300, abs=30)


def test_a_replica_is_one_group_and_has_its_own_offset(small):
    asked = schedule("trace", path=small, replicas=3)
    np.testing.assert_array_equal(asked.population.group, [0, 0, 0, 1, 1, 1, 2, 2, 2])
    assert len(set(asked._offset_ns)) == 3
    fewer = schedule("trace", path=small, replicas=2)
    np.testing.assert_array_equal(asked._offset_ns[:2], fewer._offset_ns)  # adding one moves no other
    np.testing.assert_array_equal(schedule("trace", path=small).population.group, [0, 1, 2])


def test_groups_and_sizes_of_the_file(tmp_path):
    rows = [(5, 1, "b", 10), (3, 2, "a", 20), (9, 3, "b", 30), (3, 4, "a", 40)]
    path = write(tmp_path / "t.csv", rows, "publisher,instant,group,size")
    asked = schedule("trace", path=path, replicas=2)
    assert asked.names == ("3", "5", "9")
    np.testing.assert_array_equal(asked.population.group, [0, 1, 1, 2, 3, 3])
    block = asked.block(0, asked.pass_ns)
    sizes = {(int(p), int(s)) for p, s in zip(block.publisher, block.size_bytes, strict=True)}
    assert sizes == {(p + 3 * r, s) for r in (0, 1) for p, s in ((0, 20), (0, 40), (1, 10), (2, 30))}
    _, publisher, size_bytes = block.messages()
    assert size_bytes.dtype == np.int32 and len(size_bytes) == len(publisher) == 8


def test_speed_makes_ties_and_order_stays_canonical(tmp_path):
    path = write(tmp_path / "t.csv", [(9, 0), (4, 1), (7, 2), (1, 3), (2, 1000)])
    asked = schedule("trace", path=path, instant_unit="ns", speed=100)
    block = asked.block(asked._offset_ns[0], asked._offset_ns[0] + asked.pass_ns)
    np.testing.assert_array_equal(block.publisher, [0, 2, 3, 4, 1])  # names 1, 4, 7, 9 at one instant, then 2
    assert [asked.names[i] for i in block.publisher] == ["1", "4", "7", "9", "2"]


def test_row_limit_takes_the_first_rows_of_the_file(small):
    asked = schedule("trace", path=small, row_limit=3)
    assert asked.row_count == 3 and asked.pass_ns == int(3 * SECOND * 3 / 2)


@pytest.mark.parametrize("rows", [[], [(1, 5)], [(1, 5), (2, 5)]])
def test_trace_without_a_span_is_refused(tmp_path, rows):
    with pytest.raises(SpecError, match=r"t\.csv.*(no messages|one instant)"):
        schedule("trace", path=write(tmp_path / "t.csv", rows))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("path", ""),
        ("format", "xml"),
        ("columns", {"sender": "x"}),
        ("columns", "publisher"),
        ("instant_unit", "days"),
        ("separator", ""),
        ("separator", "||"),
        ("decimal", ";"),
        ("decimal", ","),
        ("replicas", 0),
        ("speed", 0.0),
        ("speed", float("inf")),
        ("row_limit", 1),
        ("size_bytes", -1),
    ],
)
def test_impossible_field_is_named(field, value):
    with pytest.raises(SpecError, match=field):
        TraceConfig(**{"path": "x.csv", field: value})


def test_a_speed_that_leaves_64_bits_is_named(tmp_path):
    path = write(tmp_path / "t.csv", [(1, 0), (1, 100)])
    with pytest.raises(SpecError, match=r"speed=1e-09.*64 bits"):
        schedule("trace", path=path, speed=1e-9)


def test_columns_are_written_as_map_or_as_text():
    as_map = TraceConfig(path="x", columns={"publisher": "node", "instant": 0})
    as_text = TraceConfig(path="x", columns="publisher=node, instant=0")
    assert as_map.column_map() == {"publisher": "node", "instant": 0}
    assert as_text.column_map() == {"publisher": "node", "instant": "0"}


def test_copies_of_many_publishers_are_refused_before_they_are_made(tmp_path):
    path = write(tmp_path / "wide.csv", [(number, number) for number in range(1_000)])
    with pytest.raises(SpecError, match="replicas = 100,000 times publishers = 1,000; give at most 10,000,000 in all"):
        schedule("trace", path=path, replicas=100_000)
