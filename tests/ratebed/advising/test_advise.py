"""``ratebed advise`` as a user types it, and against answers that are derived without it."""

import json
import os
import random
import shlex
from datetime import UTC, datetime

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.advice import Choice
from core.errors import SpecError
from core.units import SECOND_NS
from ratebed.advising import words
from ratebed.advising.answer import advise
from ratebed.advising.question import LogAsked, question_of
from ratebed.advising.traces import TraceAsked, _at_slo, _rows, headline, pass_of, points_of, was_searched
from ratebed.options import make_request
from systems.api import Outcome as SearchOutcome
from tests.command import ratebed
from tests.ratebed.advising.first_principles import LOGS, NOBODY, derived, nobody_near

BEGIN_S = 1_700_000_000
SEEDS = range(int(os.environ.get("RATEBED_ADVICE_SEEDS", "0")))  # of each log: 20 take an hour


def rows(count, span_s, seed=3, users=40):
    """Users of very different rates."""
    rng = random.Random(seed)
    weights = [1 / (number + 1) for number in range(users)]
    return [(rng.uniform(0, span_s), rng.choices(range(users), weights)[0]) for _ in range(count)]


def jsonl(path, asked):
    lines = (
        json.dumps({"@timestamp": round(1000 * (BEGIN_S + at)), "client_ip": f"10.0.0.{user}"}) for at, user in asked
    )
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def iso(path, asked):
    lines = (f"{datetime.fromtimestamp(BEGIN_S + at, UTC):%Y-%m-%dT%H:%M:%S.%f}Z,k{user}" for at, user in asked)
    path.write_text("time,api_key,path\n" + "".join(f"{line},/a\n" for line in lines))
    return path


def combined(path, asked):
    path.write_text("".join(
        f'10.0.0.{user} - - [{datetime.fromtimestamp(BEGIN_S + at, UTC):%d/%b/%Y:%H:%M:%S} +0000] '
        f'"GET / HTTP/1.1" 200 17 "-" "curl/8"\n' for at, user in sorted(asked)
    ))  # fmt: skip
    return path


@pytest.mark.slow
def test_from_a_log_to_an_answer(tmp_path):
    log, out = jsonl(tmp_path / "a.jsonl", rows(600, 20)), tmp_path / "out"
    words = (
        "advise",
        "--log",
        str(log),
        "--limit",
        "30/2s",
        "--nodes",
        "3",
        "--repetitions",
        "2",
        "--jobs",
        "1",
        "--brief",
    )
    done = ratebed(*words, "--out", str(out), "--json")
    assert done.returncode in (0, 3), done.stderr
    found = json.loads(done.stdout)
    assert found["decided"] == (done.returncode == 0) and "at equal bytes" in found["objective"]
    ranked = [each for each in found["usual"]["limiters"] if each["ranked"]]
    assert {"centralised", "static-split", "counter"} <= {each["name"] for each in ranked}
    page = (out / "report" / "advise.html").read_text()
    assert found["answer"].replace("&", "&amp;") in page and "<svg" in page and "http" not in page.split("<svg")[0]
    # The command that it gives answers from finished runs.
    plan = ratebed("plan", *shlex.split(found["command"])[2:])
    assert plan.returncode == 0 and "0 of" in plan.stdout, plan.stdout + plan.stderr


def test_a_trace_that_one_broker_carries_cannot_decide_between_those_that_fill_brokers(tmp_path):
    """Twenty messages a second: who fills brokers one by one needs one of them, LB takes all that there are."""
    rng = random.Random(1)
    sent = sorted((rng.uniform(0, 100), f"p{number % 20}") for number in range(2_000))
    trace, out = tmp_path / "trace.csv", tmp_path / "out"
    trace.write_text("publisher,instant\n" + "".join(f"{who},{at:.6f}\n" for at, who in sent))
    done = ratebed("advise", "--trace", str(trace), "--slo", "5ms", "--repetitions", "2", "--out", str(out), "--json")
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    assert not found["decided"] and "conc, max-min and srtm put all of it on one broker" in found["answer"]
    plan = ratebed("plan", *shlex.split(found["command"])[2:])
    assert plan.returncode == 0 and "0 of" in plan.stdout, plan.stdout + plan.stderr
    assert [path.name for path in (out / "report").glob("advise*.html")] == ["advise-trace.html"]


def searches(brokers):
    """Of two that need as many brokers: the second one is the better, and both took three rounds."""
    same = {"outcome": SearchOutcome.PLACED.value, "p99_ms": 1.0, "round_count": 3}
    return {
        name: pd.DataFrame({"broker_count": brokers, "violation_s": violation_s, **same})
        for name, violation_s in (("conc", 2.0), ("srtm", 1.0))
    }


@pytest.mark.parametrize(("brokers", "answer"), [([1, 2, 1, 1, 1], Choice.DECIDED), ([1, 1, 1, 1, 1], Choice.TIE)])
def test_where_a_second_broker_is_needed_once_something_is_at_stake(brokers, answer):
    found = _at_slo("5ms", searches(brokers), 7_000 * SECOND_NS)
    assert found.ranking is not None and found.ranking.answer is answer
    said = "srtm: it meets 5ms" if answer is Choice.DECIDED else "conc and srtm put all of it on one broker"
    assert said in headline(found)


def test_nobody_is_best_by_messages_that_were_searched_on():
    found = _at_slo("5ms", searches([2, 2]), 100 * SECOND_NS)
    assert found.ranking is not None and found.ranking.answer is Choice.UNFIT and not found.ranking.best
    assert "cannot decide at 5ms: conc and srtm searched on" in headline(found)
    assert words.BEST not in {row[-1] for row in _rows(found)}


@given(st.integers(1, 7_000), st.integers(0, 100))
def test_what_judges_was_searched_on_where_a_second_of_the_trace_is_in_both(pass_s, round_count):
    judging = {(6_000 + second) % pass_s for second in range(60)}
    searched = {second % pass_s for second in range(60 * round_count)}
    assert was_searched(pass_s * SECOND_NS, round_count) == bool(judging & searched)


def test_what_is_said_of_a_trace_counts_more_than_its_looks(tmp_path):
    path = tmp_path / "trace.txt"
    path.write_text("".join(f"{1_163_438_041 + at} 20 1 {at % 3} 2 8 5\n" for at in range(31)))
    said = points_of(TraceAsked(str(path), "5ms", "publisher=3,instant=0", "s"))[0]
    assert (said.workload_options["speed"], said.workload_options["replicas"]) == (1.0, 1)
    assert pass_of(said) == 31 * SECOND_NS
    assert points_of(TraceAsked(str(path), "5ms"))[0].workload_options["format"] == "ulb-wsn"
    with pytest.raises(SpecError, match="looks like a log of ULB's sensors, whose instants are in ms"):
        points_of(TraceAsked(str(path), "5ms", instant_unit="s"))
    path.write_text("1163438041 20 1 7 2 8 5.5\n")
    with pytest.raises(SpecError) as error:
        pass_of(points_of(TraceAsked(str(path), "5ms"))[0])
    assert "--columns" in error.value.fix and "format" not in error.value.fix


@pytest.mark.slow
def test_of_too_few_requests_nobody_is_best(tmp_path):
    """The centralised limiter errs least for the fewest bytes, surely."""
    log = jsonl(tmp_path / "a.jsonl", rows(120, 20, users=3))
    request = make_request([], False, "quick", 2, 1, tmp_path / "out", [], repetitions=6, is_quiet=True)
    found = advise(question_of(LogAsked(str(log), limit="4/2s", nodes=2, arrivals="user")), request)
    assert "are too few to judge by" in words.headline(found) and not words.is_decided(found)
    said = words.document(found, "out")
    assert (said["usual"]["answer"], said["best"], said["others"], said["turns"]) == ("unfit", None, [], "")
    assert words.BEST not in "\n".join(words.lines(found, "out"))


def test_bad_input_is_one_line(tmp_path):
    log = str(jsonl(tmp_path / "a.jsonl", rows(600, 20)))
    for asked, text in (
        ((), "--log FILE"),
        (("--log", log, "--trace", log), "--log FILE"),
        (("--log", "nowhere"), "nowhere"),
        (("--log", log, "--limit", "30/1h"), "limits of 1h"),
        (("--log", log, "--wait", "soon"), "--wait 'soon'"),
        (("--trace", log, "--slo", "soon"), "--slo 'soon'"),
        (("--trace", log, "--start", "1h", "--skip-bad"), "--skip-bad belongs to --log"),
        (("--log", log, "--speed", "2"), "--speed belongs to --trace"),
    ):
        done = ratebed("advise", "--out", str(tmp_path / "out"), *asked)
        assert done.returncode == 2 and text in done.stderr, (asked, done.stderr)
        assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("write", [combined, iso, jsonl])
def test_a_log_of_each_kind_is_understood_without_an_option(tmp_path, write):
    found = question_of(LogAsked(str(write(tmp_path / "log", sorted(rows(5_000, 1_800))))))
    assert (found.log_requests, found.users, len(found.limits)) == (5_000, 40, 3)


@pytest.mark.night
@pytest.mark.long
def test_no_option_is_needed(tmp_path):
    log = iso(tmp_path / "log", rows(1_500, 600))  # not in order of time
    done = ratebed("advise", "--log", str(log), "--out", str(tmp_path / "out"), "--json")
    assert done.returncode in (0, 3), done.stderr
    found = json.loads(done.stdout)
    assert len(found["limits"]) == 3 and len(found["usual"]["limiters"]) >= 6 and found["command"]
    factors = {each["factor"] for each in found["others"]}
    assert factors >= {"limit", "distances", "loss between cities", "all speak every", "arrivals"}


def answered(folder, log, seed):
    """The answer at the log's own limit, without what turns it."""
    path = log.write(folder / "log.csv")
    request = make_request([], False, "quick", seed, 1, folder / "out", [], repetitions=5, is_quiet=True)
    return advise(question_of(LogAsked(str(path), limit=log.limit)), request, with_turns=False)


@pytest.mark.night
@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", LOGS)
def test_the_best_is_the_derived_one(tmp_path, name, seed):
    log = LOGS[name](seed)
    assert answered(tmp_path, log, seed).base.ranking.best == derived(log, seed)


@pytest.mark.night
@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS or [0])
def test_where_nobody_is_near_a_limit_nothing_is_decided(tmp_path, seed):
    log = nobody_near(seed)
    assert derived(log, seed) == NOBODY
    assert not answered(tmp_path, log, seed).base.ranking.best
