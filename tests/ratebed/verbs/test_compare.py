"""``compare``: pairs of runs on two testbeds, their distances, flipped decisions and claims."""

import json
from dataclasses import replace

import msgspec
import pandas as pd
import pytest

from analysis.fidelity import Pair
from analysis.verdicts import Claim, Evidence, Judgement, above, within
from core.registry import lookup
from harness.campaign import Campaign
from harness.executors.local import LocalExecutor
from harness.experiment import RunSpec
from harness.run import execute
from paper_figs import load_figure
from ratebed import judging, reporting
from ratebed.comparing import (
    AGREES_SLO_SHARE,
    _decision_row,
    _groups,
    _latency_row,
    flipped_claims,
    points_of,
    slo_ns,
)
from ratebed.options import make_request
from ratebed.pipeline import make_plan, sections
from ratebed.produce import summarise
from ratebed.studio import Studio
from ratebed.verbs.compare import _decision_line, _latency_lines, _lines, _point
from studies import STUDIES
from testbed import TESTBEDS
from tests.command import ratebed
from tests.harness.common import small
from tests.ratebed import elsewhere

pytest.importorskip("pyspark")


def limited(repetition=0, **changes):
    return RunSpec(
        system="crdt-counter", workload="data-set", workload_options={"set": "B-barely"}, topology="full-mesh",
        topology_options={"nodes": 4, "delay": "100ms"}, study="limiting", seed=3 + repetition,
        system_options={"capacity": 20, "body": "literal"}, repetition=repetition, **changes,
    )  # fmt: skip


@pytest.fixture
def moved(monkeypatch, tmp_path_factory):
    """The testbed of ``elsewhere`` is one of the testbeds."""
    monkeypatch.setitem(TESTBEDS, "elsewhere", "tests.ratebed.elsewhere:ELSEWHERE")
    elsewhere.stand(monkeypatch, tmp_path_factory.mktemp("elsewhere"))


@pytest.mark.slow
def test_pairs_are_compared_point_by_point(tmp_path, moved):
    campaign = Campaign(tmp_path / "runs")
    specs = [small(n, testbed=where) for n in (0, 1) for where in ("virtual", "elsewhere")]
    specs += [limited(n, testbed=where) for n in (0, 1) for where in ("virtual", "elsewhere")]
    for run_id, spec in zip(campaign.add(specs), specs, strict=True):
        execute(spec, run_id, campaign.runs / run_id)
    done = ratebed("compare", "--json", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["pairs"]) == 4 and found["invalid_count"] == 0 and not found["left_out"]
    slower = next(row for row in found["latencies"] if row["metric"] == "end_to_end_latency")
    assert slower["pair_count"] == 2 and slower["testbed"] == "elsewhere" and slower["system"] == "conc"
    assert slower["difference_p50_ns"] >= 0.9 * elsewhere.PUMP_NS
    assert slower["wasserstein_ns"] >= 0.9 * elsewhere.PUMP_NS and 0 < slower["kolmogorov_distance"] <= 1
    assert slower["wasserstein_ns_low"] <= slower["wasserstein_ns"] <= slower["wasserstein_ns_high"]
    (decisions,) = found["decisions"]
    assert 0 < decisions["flipped_share"] < 1 and decisions["offered_count"] > 100
    assert decisions["flipped_count"] >= abs(decisions["virtual_admitted_count"] - decisions["live_admitted_count"])
    text = "\n".join(_lines(found))
    assert "4 pairs" in text and "Kolmogorov" in text and "flipped" in text


@pytest.mark.slow
def test_latencies_of_runs_that_count_in_windows_are_compared_and_told(tmp_path, moved):
    adapting = RunSpec(
        system="tb-adaptor", workload="shifting", topology_options={"brokers": 2}, calibration="edge", study="control",
        workload_options={"publishers": 40, "rate_rps": 20.0, "shift_at": "3s", "share_after": 0.9}, seed=5,
        study_options={"envelope": "conformant", "margin": 2.0, "duration": "10s", "window": "5s"},
    )  # fmt: skip
    campaign = Campaign(tmp_path / "runs")
    specs = [msgspec.structs.replace(adapting, testbed=where) for where in ("virtual", "elsewhere")]
    ids = campaign.add(specs)
    for run_id, spec in zip(ids, specs, strict=True):
        execute(spec, run_id, campaign.runs / run_id)
    compared = json.loads(ratebed("compare", "--json", "--out", str(tmp_path)).stdout)["latencies"]
    told = summarise(ids[:1], make_request((), False, "tiny", 1, 1, tmp_path, ()))
    for rows in (compared, told):
        assert {row["metric"] for row in rows} == {"access_delay", "end_to_end_latency"}


def latency(virtual_ms, live_ms, slo_ms=1.0, distance=0.1):
    """A row of ``compare``'s from its p50 and p99 on both sides."""
    names = ("virtual_p50_ns", "virtual_p95_ns", "virtual_p99_ns", "live_p50_ns", "live_p95_ns", "live_p99_ns")
    values = [1e6 * value for low, high in (virtual_ms, live_ms) for value in (low, low, high)]
    group = pd.DataFrame([dict(zip(names, values, strict=True), kolmogorov_distance=distance, wasserstein_ns=1)])
    return _latency_row({}, "end_to_end_latency", group, AGREES_SLO_SHARE * 1e6 * slo_ms)


@pytest.mark.parametrize(
    ("virtual_ms", "live_ms", "slo_ms", "agrees"),
    [
        ((0.2, 0.37), (0.2, 1.12), 1.0, False),  # the case that a fixed millisecond let pass
        ((0.2, 0.37), (0.24, 0.41), 1.0, True),  # within 5 % of the SLO
        ((0.2, 0.37), (0.24, 0.43), 1.0, False),
        ((20.0, 37.0), (22.9, 42.5), 1.0, True),  # within 15 %
        ((20.0, 37.0), (23.1, 42.5), 1.0, False),
        ((0.2, 0.37), (0.24, 0.41), 0.0, False),  # no SLO, no slack
    ],
)
def test_percentiles_agree_within_15_per_cent_or_a_twentieth_of_the_slo(virtual_ms, live_ms, slo_ms, agrees):
    assert latency(virtual_ms, live_ms, slo_ms)["agrees"] is agrees


def test_the_rule_is_named_and_so_is_what_differs_where_distributions_hardly_overlap():
    agreeing = "\n".join(_latency_lines(latency((20, 37), (21, 38))))
    assert "agrees within 15% or 5% of the SLO, 0.05 ms" in agreeing and "hardly overlap" not in agreeing
    moved = "\n".join(_latency_lines(latency((0.2, 0.37), (0.6, 1.12), distance=0.967)))
    assert "DIFFERS by more than 15% and 5% of the SLO, 0.05 ms" in moved
    assert "they hardly overlap: all latencies moved alike, +0.400 ms at the median and +0.750 ms at the p99" in moved
    tail = "\n".join(_latency_lines(latency((0.2, 0.37), (0.25, 1.12), distance=0.5)))
    assert "the tail moved otherwise than the middle, +0.050 ms" in tail


def decisions(*pairs):
    """A row of ``compare``'s from what both decided in each pair, and how much of it otherwise."""
    others = [f"{side}_{what}_count" for side in ("virtual", "live") for what in ("admitted", "lost")]
    rows = [
        {"decided_count": decided, "flipped_count": flipped, "flipped_share": flipped / decided if decided else None,
         "flipped_low": 0.01 if decided else None, "flipped_high": 0.2 if decided else None,
         **dict.fromkeys(others, 400)}
        for decided, flipped in pairs
    ]  # fmt: skip
    return _decision_row({}, pd.DataFrame(rows))


def test_what_flipped_is_a_share_of_all_decisions_together():
    row = decisions((100, 10), (300, 0))
    assert row["flipped_share"] == 0.025 and row["mean_flipped_share"] == pytest.approx(0.05)
    assert row["mean_flipped_share_low"] < 0.05 < row["mean_flipped_share_high"]
    assert "flipped 2.50% of 400 (mean of the pairs' shares 5.00% [" in _decision_line(row)


def test_a_pair_that_decided_nothing_has_no_share():
    line = "flipped 10.00% of 100 (mean of the pairs' shares 10.00% [1.00%, 20.00%]); admitted"
    assert line in _decision_line(decisions((100, 10))) and line in _decision_line(decisions((100, 10), (0, 0)))
    nothing = decisions((0, 0), (0, 0))
    assert nothing["flipped_share"] is None is nothing["mean_flipped_share"]
    assert "nothing that both decided; admitted 800 -> 800" in _decision_line(nothing)
    json.dumps(nothing, allow_nan=False)


def pair(name, spec, validity="valid"):
    return Pair(f"virtual {name}", name, "elsewhere", validity, msgspec.to_builtins(spec))


def test_a_point_is_named_by_a_run_that_is_compared():
    pairs = [pair("a", limited(0), "invalid"), pair("b", limited(1)), pair("c", limited(2))]
    frame = pd.DataFrame({"live_run_id": ["c", "b"], "metric": "decision_latency"})
    ((key, group),) = _groups(frame, points_of(pairs), True)
    assert key == ("b", "decision_latency") and set(group.live_run_id) == {"b", "c"}


def test_a_heading_names_all_that_tells_points_apart():
    specs = [small(slo=slo, calibration=costs) for slo in ("1ms", "2ms") for costs in ("srtm-paper", "edge")]
    points = points_of([pair(str(n), spec) for n, spec in enumerate(specs)])
    headings = [_point({**point, "metric": "end_to_end_latency"}) for point in points.values()]
    assert len(set(headings)) == 4 and headings[3].endswith("srtm-lan calibration=edge slo=2ms")
    (alone,) = points_of([pair("0", specs[0])]).values()
    assert _point(alone).endswith("srtm-lan")


def test_only_runs_that_are_held_to_an_slo_have_one():
    assert slo_ns(msgspec.to_builtins(small(slo="2ms"))) == 2_000_000
    assert slo_ns(msgspec.to_builtins(limited())) == 0


def test_nothing_to_compare_is_one_line_with_the_fix(tmp_path):
    done = ratebed("compare", "--out", str(tmp_path))
    assert done.returncode == 2 and "--testbed" in done.stderr and len(done.stderr.strip().splitlines()) == 1


@pytest.mark.slow
def test_a_figure_on_another_testbed_stands_beside_the_first(tmp_path, moved, monkeypatch):
    """Fig. 4 twice at tiny scale; of the second testbed's runs one is degraded, and another invalid, thus not drawn."""
    reasons = iter([("degraded", "it was hot"), ("invalid", "nobody was there")])
    study = lookup("study", STUDIES, "distribution")

    def tables(point, asked, searched):
        journal = study.journal(point, asked, searched)
        if point.spec.testbed == "virtual":
            return journal
        validity, *why = next(reasons, ("valid",))
        return elsewhere.doubtful(journal, *why, validity=validity)

    monkeypatch.setattr("studies.distribution.study.STUDY", replace(study, journal=tables))
    for where, more in (("", False), ("elsewhere", False), ("elsewhere", True)):
        request = make_request(["srtm-fig4"], False, "tiny", 1, 1, tmp_path, [], testbed=where, plot_invalid=more)
        plan = make_plan(request)
        assert not plan.campaign.run(LocalExecutor(1), lambda finished: None)
        with Studio(plan, request) as atelier:
            assert not atelier.finish()
        found = sections(tmp_path)
        if where and not more:
            other = found["srtm-fig4@elsewhere"]
            assert len(other["run_ids"]) == len(found["srtm-fig4"]["run_ids"]) - 1
            assert sorted(why[0] for why in other["doubtful"].values()) == ["degraded", "invalid"]
    assert set(found) == {"srtm-fig4", "srtm-fig4@elsewhere"}
    assert len(found["srtm-fig4@elsewhere"]["run_ids"]) == len(found["srtm-fig4"]["run_ids"])
    assert "--plot-invalid" in found["srtm-fig4@elsewhere"]["command"]
    drawn = {name: (tmp_path / "figures" / f"{name}.svg").read_text() for name in found}
    assert "testbed elsewhere" in drawn["srtm-fig4@elsewhere"] and "testbed" not in drawn["srtm-fig4"]
    written = reporting.report(tmp_path)
    assert not written.damaged
    assert "it was hot" in (written.page.parent / "figure-srtm-fig4@elsewhere.html").read_text()
    assert "figure-srtm-fig4%40elsewhere.html" in written.page.read_text()
    assert [result.claim.testbed for result in written.results if result.claim.id == "R3"] == ["virtual", "elsewhere"]


def test_at_scale_small_published_numbers_do_not_count():
    exact = within("p99", (30.0,) * 5, 14.7)
    direction = above("grows", (1.0, 2.0, 1.5, 1.2, 1.1))
    claim = Claim("R0", "", "", ("srtm-fig4",), lambda tables: Evidence((exact, direction), (direction,)))
    assert judging.judge(claim, {}).judgement is Judgement.DIRECTION_ONLY
    small_one = judging.judge(judging._at(claim, "mininet-small"), {})
    assert small_one.judgement is Judgement.DIRECTION_ONLY and len(small_one.evidence.exact) == 1
    only_numbers = Claim("R0", "", "", ("srtm-fig4",), lambda tables: Evidence((exact,)))
    assert judging.judge(only_numbers, {}).judgement is Judgement.CONTRADICTED
    moved = judging.judge(judging._at(only_numbers, "mininet-small"), {})
    assert moved.judgement is Judgement.UNDECIDED and not judging.counts(moved)
    assert judging.judge(judging._at(only_numbers, "mininet"), {}).judgement is Judgement.CONTRADICTED


def test_a_live_figure_is_left_out_of_all_and_says_how_to_get_it(tmp_path, monkeypatch, moved):
    figure = load_figure("srtm-fig4")
    points = figure.experiment.points
    experiment = replace(
        figure.experiment,
        points=lambda scale, options: [
            msgspec.structs.replace(spec, testbed="elsewhere") for spec in points(scale, options)
        ],
    )
    monkeypatch.setattr("paper_figs.srtm.fig4.FIGURE", replace(figure, experiment=experiment))
    request = make_request([], True, "tiny", 1, 1, tmp_path, [])
    monkeypatch.setattr("ratebed.pipeline.check_all", lambda specs: None)
    plan = make_plan(replace(request, keys=("srtm-fig4", "srtm-fig5")))
    assert "ratebed run srtm-fig4" in plan.skipped["srtm-fig4"] and not plan.run_ids["srtm-fig4"]
    assert plan.run_ids["srtm-fig5"] and "srtm-fig5" not in plan.skipped
    named = make_plan(replace(request, keys=("srtm-fig4",), every=False))
    assert named.run_ids["srtm-fig4"] and named.settings["srtm-fig4"].name("srtm-fig4") == "srtm-fig4"


NO_CHECKS = Evidence(())


def result(verdict, where, evidence=NO_CHECKS):
    return judging.Result(Claim("R3", "", "it grows", ("srtm-fig4",), testbed=where), verdict, evidence)


@pytest.mark.parametrize(
    ("base", "live"),
    [
        (result(Judgement.UNDECIDED, "virtual", None), "local"),  # no figure was made in virtual time
        (result(Judgement.UNDECIDED, "mininet"), "local"),  # the claim's own testbed is a live one
        (result(Judgement.UNDECIDED, "virtual"), "mininet+pulsar"),  # our brokers
        (result(Judgement.UNDECIDED, "virtual"), "mininet-small"),
        (result(Judgement.UNDECIDED, "virtual+pulsar"), "mininet+pulsar-small"),
    ],
)
def test_what_was_not_judged_in_virtual_time_does_not_flip(base, live):
    assert not flipped_claims({"": [base], f"@{live}": [result(Judgement.REPRODUCED, live)]})


@pytest.mark.parametrize("where", ["virtual", "virtual-small", "virtual+pulsar", "virtual+pulsar-small"])
def test_claims_flip_at_the_same_scale_on_the_same_ground(where):
    live = where.replace("virtual", "mininet")
    verdicts = {f"@{name}": result(Judgement.REPRODUCED, name) for name in (where, live)}
    assert not flipped_claims({suffix: [each] for suffix, each in verdicts.items()})
    verdicts[f"@{live}"] = result(Judgement.CONTRADICTED, live)
    (row,) = flipped_claims({suffix: [each] for suffix, each in verdicts.items()})
    assert (row["testbed"], row["virtual_verdict"], row["live_verdict"]) == (live, "reproduced", "contradicted")


def test_claims_that_flip_are_found_at_equal_scale():
    verdicts = {
        "": [result(Judgement.REPRODUCED, "virtual")],
        "@mininet-small": [result(Judgement.CONTRADICTED, "mininet-small")],
        "@local-small": [result(Judgement.DIRECTION_ONLY, "local-small")],
        "@virtual-small": [result(Judgement.DIRECTION_ONLY, "virtual-small")],
        "@mininet": [result(Judgement.UNDECIDED, "mininet")],
    }
    rows = flipped_claims(verdicts)
    assert [(row["testbed"], row["virtual_verdict"], row["live_verdict"]) for row in rows] == [
        ("mininet-small", "direction only", "contradicted"),
        ("mininet", "reproduced", "undecided"),
    ]
    (note,) = reporting._flips_note(verdicts)
    assert "R3 (direction only; on mininet-small contradicted)" in note
