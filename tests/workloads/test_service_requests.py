"""service-log: any format gives the same requests, out of order or not, at the nodes that the log names."""

import json
import random

import pytest

from core.errors import SpecError
from core.units import SECOND_NS
from tests.workloads.common import schedule

ROWS = [(1_700_000_000 + at / 4, f"u{at % 3}", f"n{at % 2}") for at in range(40)]


def jsonl(folder, rows, name="a.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps({"ts": at, "user": user, "node": node}) + "\n" for at, user, node in rows))
    return str(path)


def columns(made):
    its = made.columns()
    return list(zip(its.at_ns.tolist(), [its.names[user] for user in its.user], strict=True))


def test_lines_out_of_order_are_sorted(tmp_path):
    mixed = random.Random(1).sample(ROWS, len(ROWS))
    ordered, found = (
        schedule("service-log", path=jsonl(tmp_path, rows, name)) for name, rows in (("a", ROWS), ("b", mixed))
    )
    assert (
        columns(found) == columns(ordered) == [(round((at - 1_700_000_000) * SECOND_NS), user) for at, user, _ in ROWS]
    )
    assert "sorted by their stamps" in found.log.notes[0] and not ordered.log.notes


def test_a_part_of_it(tmp_path):
    found = schedule("service-log", path=jsonl(tmp_path, ROWS), start="2s", duration="3s", speed=2.0)
    whole = columns(schedule("service-log", path=jsonl(tmp_path, ROWS)))
    assert columns(found) == [
        ((at - 2 * SECOND_NS) // 2, user) for at, user in whole if 2 * SECOND_NS <= at < 5 * SECOND_NS
    ]
    assert found.duration_ns == 1_500_000_000


def test_requests_come_where_the_log_says(tmp_path):
    found = schedule("service-log", path=jsonl(tmp_path, ROWS), placement="node", start="1s")
    placed = found.requests(["a", "b"], found.duration_ns)
    for number, node in enumerate(("a", "b")):
        assert [request.at_ns for request in placed[node]] == [
            round((at - 1_700_000_001) * SECOND_NS) for at, _, its in ROWS[4:] if its == f"n{number}"
        ]
    spread = schedule("service-log", path=jsonl(tmp_path, ROWS)).requests(["a", "b", "c"], 100 * SECOND_NS)
    assert sum(map(len, spread.values())) == len(ROWS)


def test_whole_seconds_are_spread_by_seed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("time,user\n" + "".join(f"2024-01-01T00:00:{at // 4:02d},u{at % 3}\n" for at in range(40)))
    one, same, other = (schedule("service-log", seed, path=str(path)) for seed in (1, 1, 2))
    assert one.was_spread and columns(one) == columns(same) != columns(other)
    assert [at // SECOND_NS for at, _ in columns(one)] == [at // 4 for at in range(40)]


def test_whole_seconds_of_one_node_are_spread_and_another_s_stamps_stay(tmp_path):
    fine = [(1_700_000_000.125 + at, "fine", "n2") for at in range(10)]
    coarse = [(1_700_000_000 + at // 4, f"u{at % 3}", "n1") for at in range(40)]
    made = schedule("service-log", path=jsonl(tmp_path, [*coarse, *fine]), placement="node")
    alone = schedule("service-log", path=jsonl(tmp_path, coarse, "n1"), placement="node")
    placed = made.requests(["a", "b"], made.duration_ns)
    assert made.was_spread and [request.at_ns % SECOND_NS for request in placed["b"]] == [125_000_000] * 10
    assert {request.user for request in placed["b"]} == {"fine"}
    assert [row for row in columns(made) if row[1] != "fine"] == columns(alone)


def test_what_is_wrong_is_named(tmp_path):
    path = jsonl(tmp_path, ROWS)
    for options, found in (
        ({"placement": "somewhere"}, "placement"),
        ({"columns": "who=user"}, "who"),
        ({"columns": "user=nobody"}, "nobody"),
        ({"start": "99s"}, "no requests"),
        ({"duration": "0s"}, "duration"),
    ):
        with pytest.raises(SpecError, match=found):
            schedule("service-log", path=path, **options)
