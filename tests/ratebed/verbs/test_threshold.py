"""``ratebed threshold`` as a user types it."""

import json
from subprocess import CompletedProcess

from tests.command import ratebed


def threshold(*words: str) -> "CompletedProcess[str]":
    return ratebed("threshold", *words)


def log_file(folder, lines) -> str:
    path = folder / "log.csv"
    path.write_text("who,at\n" + "".join(f"{who},{at}\n" for who, at in lines))
    return str(path)


def test_the_threshold_of_a_log(tmp_path):
    path = log_file(tmp_path, [("a", 2.5 * n) for n in range(9)] + [("b", "later"), ("a", 22.5)])
    done = threshold(path, "--columns", "user=who,instant=at", "--capacity", "4", "--rate", "1", "--nodes", "2",
                     "--skip-bad")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "frequency threshold 1300ms" in done.stdout and "windows of 2 requests by 1 users" in done.stdout
    assert "skipped 1 lines: instant" in done.stdout


def test_json_and_the_automatic_limit(tmp_path):
    path = log_file(tmp_path, [(f"u{n % 20}" if n % 4 else "busy", n / 100) for n in range(2000)])
    words = (path, "--columns", "user=who,instant=at", "--capacity", "auto", "--nodes", "100", "--json")
    found = json.loads(threshold(*words).stdout)
    assert found["capacity"] // 100 == found["window"] and found["limited_count"] == 1
    assert found["requests"] == 2000 and found["rate"] == f"{found['capacity'] / 1000:.3f}".rstrip("0")


def test_a_data_set_of_the_thesis():
    found = json.loads(threshold("B-not-limited", "--json").stdout)
    assert found["threshold_ns"] == 3_200_000_000, "10 requests, 9 gaps of 3.5 s: 3.15 s"
    assert found["user_count"] == 1 and found["limited_count"] == 0


def test_bad_input_is_one_line(tmp_path):
    path = log_file(tmp_path, [("a", 2), ("a", 1)])
    for words, text in (
        ([path, "--columns", "user=who,instant=at"], "line 3"),
        ([path], "no column 'user'"),
        (["nowhere.log"], "nowhere.log"),
        (["D", "--capacity", "lots"], "--capacity"),
        (["D", "--capacity", "1" * 5_000], "give a whole number of tokens, of at most 18 digits, or auto"),
        (["D", "--capacity", "9" * 18], "capacity"),
        (["D", "--nodes", "0"], "--nodes"),
        (["D", "--start", "6h", "--duration", "1h"], "--start, --duration: data set D is taken whole"),
        (["D", "--columns", "user=who", "--instant-unit", "ms"], "--columns, --instant-unit: data set D"),
        (["D", "--speed", "2", "--skip-bad"], "--speed, --skip-bad: data set D"),
        (["D", "--capacity", "5", "--rate", "1"], "windows of 0"),
    ):
        done = threshold(*words)
        assert done.returncode == 2 and text in done.stderr, (words, done.stderr)
        assert len(done.stderr.strip().splitlines()) == 1
