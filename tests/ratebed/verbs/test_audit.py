"""``ratebed audit`` as a user types it."""

import json

import pytest

from tests.command import ratebed

SECOND_NS = 1_000_000_000


def audit(tmp_path, *words):
    return ratebed("audit", "--out", str(tmp_path / "out"), *words)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """20 in a second are right for ``fair``; ``greedy`` got 50 at once, ``poor`` is rejected every other time."""
    folder = tmp_path_factory.mktemp("logs")
    rows = [(1000 + at / 10, "fair", 200) for at in range(100)]
    rows += [(1000 + at / 10, "poor", 429 if at % 2 else 200) for at in range(100)]
    rows += [(1005.1 + at / 1000, "greedy", 200) for at in range(50)]
    rows += [(1005.3 + at / 1000, "greedy", 429) for at in range(5)]
    for name, ours in (("right", [row for row in rows if row[1] == "fair"]), ("wrong", rows)):
        (folder / name).write_text("ts,user,status\n" + "".join(f"{at:.3f},{user},{code}\n" for at, user, code in ours))
    return folder


def test_a_log_that_keeps_its_promise(tmp_path, logs):
    done = audit(tmp_path, "--log", str(logs / "right"), "--limit", "20/second")
    assert done.returncode == 0, done.stderr
    assert "Nobody is proven to have got more" in done.stdout and "there is no rejection in it" in done.stdout
    assert (tmp_path / "out" / "audit" / "audit.svg").read_text().startswith("<?xml")


def test_users_and_instants_are_named(tmp_path, logs):
    done = audit(tmp_path, "--log", str(logs / "wrong"), "--limit", "20/1s", "--skew", "1ms", "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    (greedy,) = found["excess"]
    assert greedy["user"] == "greedy" and greedy["from_ns"] == 1_005_100_000_000 and greedy["admitted"] == 50
    # 50 within 49 ms, which clocks and stamps of a millisecond make 52.5 at most.
    assert greedy["least_excess"] == pytest.approx(50 - 20 - 20 * 0.0525, abs=0.01)
    assert greedy["explained_by_skew_ns"] == pytest.approx((50 - 20 - 0.98) / 20 / 2 * SECOND_NS, rel=0.01)
    (poor,) = found["withheld"]
    assert poor["user"] == "poor" and poor["rejected"] == 50 and 35 <= poor["wrongly_rejected"] < 50
    text = audit(tmp_path, "--log", str(logs / "wrong"), "--limit", "20/1s").stdout
    assert "MORE THAN PROMISED: 1 user," in text and "WRONGLY REJECTED: at least" in text
    assert "1970-01-01 00:16:45.100" in text and "until that is paid back all are right" in text
    # Clocks that far off explain it.
    skew = f"{greedy['explained_by_skew_ns']}ns"
    within = json.loads(
        audit(tmp_path, "--log", str(logs / "wrong"), "--limit", "20/1s", "--skew", skew, "--json").stdout
    )
    assert within["excess"] == []


def test_other_promises_and_bursts(tmp_path, logs):
    words = ("--log", str(logs / "wrong"), "--limit", "20/second", "--json")
    for promise in ("fixed-window", "sliding-window"):
        found = json.loads(audit(tmp_path, *words, "--promise", promise).stdout)
        assert [(row["user"], row["least_excess"]) for row in found["excess"]] == [("greedy", 30.0)]
    assert json.loads(audit(tmp_path, *words, "--burst", "50").stdout)["excess"] == []


def test_nobody_is_blamed_for_what_a_log_that_ends_earlier_does_not_say(tmp_path):
    for name, rows in (("a", ((1000, "x", 200), (1300, "x", 200))), ("b", ((1000, "x", 200), (1300, "u", 429)))):
        lines = [f"{at},{user},{code}\n" for at, user, code in (*rows, *[(1600, "y", 200)] * (name == "b"))]
        (tmp_path / name).write_text("ts,user,status\n" + "".join(lines))
    words = ("--log", str(tmp_path / "a"), "--log", str(tmp_path / "b"), "--limit", "2/10s")
    done = audit(tmp_path, *words, "--promise", "sliding-window")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rejection that may have been after the first of the files ends" in done.stdout


def test_nobody_is_blamed_for_what_a_node_with_finer_stamps_does_not_say_of_another(tmp_path):
    """One in a second, admitted 1.05 s apart, at a node that cuts its stamps to seconds and at one that does not."""
    rows = [
        (node, at if node == "n2" else at // 1) for at, node in ((1000 + 1.05 * n, f"n{1 + n % 2}") for n in range(60))
    ]
    logs = {"all": rows, "n1": rows[::2], "n2": rows[1::2]}
    for name, its in logs.items():
        lines = (json.dumps({"ts": round(at, 3), "user": "x", "node": node, "status": 200}) for node, at in its)
        (tmp_path / name).write_text("\n".join(lines))
    words = ("--limit", "1/1s", "--promise", "sliding-window", "--json")
    merged, split = (
        audit(tmp_path, *(word for name in names for word in ("--log", str(tmp_path / name))), *words)
        for names in (["all"], ["n1", "n2"])
    )
    assert merged.returncode == split.returncode == 0, merged.stdout + merged.stderr + split.stderr
    merged, split = (json.loads(done.stdout) for done in (merged, split))
    assert merged["cannot_show"] == split["cannot_show"], "the same blur"


def written(folder, name, rows):
    (folder / name).write_text("ts,user,status\n" + "".join(f"{at:.3f},{user},{code}\n" for at, user, code in rows))
    return "--log", str(folder / name)


def rejecting(begin, end, offset):
    """Ten in 10 s are promised: ``poor`` has one in 10 s, and two rejections beside it; the end is never whole."""
    return [
        row
        for at in range(begin, end, 10)
        for row in ((at + offset, "poor", 200), (at + offset + 3, "poor", 429), (at + offset + 6.001, "poor", 429))
    ]


def test_parts_of_several_nodes_logs_are_one_log_a_node(tmp_path):
    words = ("--limit", "10/10s", "--promise", "sliding-window", "--json")
    parts, whole = [], []
    for node, offset in (("n1", 0.0), ("n2", 1.25)):
        older, newer = rejecting(1000, 1100, offset), rejecting(1100, 1200, offset)
        parts += [*written(tmp_path, f"{node}.log", newer), *written(tmp_path, f"{node}.log.1", older)]
        whole += written(tmp_path, f"{node}.whole", older + newer)
    found, wanted = (json.loads(audit(tmp_path, *logs, *words).stdout) for logs in (parts, whole))
    assert found["nodes"] == ["n1.log", "n2.log"] and found["withheld"] == wanted["withheld"] != []
    assert found["cannot_show"] == wanted["cannot_show"]
    apart = [
        word
        for node, begin in (("a", 1000), ("b", 1050), ("c", 1200))
        for word in written(tmp_path, node, rejecting(begin, begin + 100, 0.0))
    ]
    done = audit(tmp_path, *apart, *words[:-1])
    assert done.returncode == 0 and "No rejection is judged: there is no span" in done.stdout, done.stdout
    assert "rejected wrongly" not in done.stdout


def test_rejections_before_a_node_s_log_is_known_for_a_period_are_counted(tmp_path):
    logs = (*written(tmp_path, "n1", rejecting(1000, 1200, 0.0)), *written(tmp_path, "n2", rejecting(1100, 1200, 1.25)))
    done = audit(tmp_path, *logs, "--limit", "10/10s", "--promise", "sliding-window")
    assert "  24 rejections of the first 1.854 min: what was admitted before the log, or" in done.stdout, done.stdout


def test_bad_input_is_one_line(tmp_path, logs):
    log = ("--log", str(logs / "right"))
    for words, text in (
        ((*log, "--limit", "lots"), "limit 'lots'"),
        ((*log, "--limit", "20/1s", "--promise", "word"), "--promise 'word'"),
        (
            (*log, "--limit", "20/1s", "--promise", "fixed-window", "--burst", "3"),
            "--burst belongs to --promise bucket; leave it out",
        ),
        ((*log, "--limit", "20/1s", "--burst", "-3"), "--burst -3; give a bucket's size"),
        ((*log, "--limit", "20/1s", "--skew", "soon"), "--skew 'soon'"),
        (("--log", "nowhere.log", "--limit", "20/1s"), "nowhere.log"),
        ((*log, "--limit", "20/1s", "--columns", "who=user"), "columns"),
        ((*log, *log, "--limit", "20/1s"), "right: the same requests as"),
    ):
        done = audit(tmp_path, *words)
        assert done.returncode == 2 and text in done.stderr, (words, done.stderr)
        assert len(done.stderr.strip().splitlines()) == 1
