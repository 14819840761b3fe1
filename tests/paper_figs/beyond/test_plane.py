"""The plane: its grid can be run, its tables follow from runs, its words from what was offered."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.verdicts import t_interval
from core.errors import SpecError
from core.units import duration_ns, rational
from harness.experiment import SCALES, RunSpec
from harness.run import check_all, execute
from paper_figs import load_figure
from paper_figs.beyond import partition, plane
from paper_figs.beyond.envelope import MEASURES as ENVELOPE_MEASURES
from paper_figs.beyond.envelope import chosen, envelopes
from paper_figs.beyond.faults import NO_FAULT
from paper_figs.beyond.limiters import LIMITERS, NEAR, ORACLE, name_of, point
from paper_figs.beyond.load import LIMITS
from paper_figs.beyond.plane_drawing import offered, values_in_order
from paper_figs.beyond.sweeps import MEASURES, SHOWN, SWEEPS, sweep_means
from ratebed.pipeline import joined
from tests.paper_figs.beyond.test_load import HEADER, load_of, options, written
from tests.paper_figs.tables import ends_of


def of_names(specs: list[RunSpec]) -> list[str]:
    return [name_of(spec.system, spec.factors(), spec.topology) for spec in specs]


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_every_point_can_be_run_and_none_is_there_twice(scale: Any) -> None:
    specs = plane.points(scale, options())
    assert len({spec.to_json() for spec in specs}) == len(specs)
    shown = set(SHOWN) if scale.name == "paper" else set(SHOWN) - set(NEAR)
    assert set(of_names(specs)) == {*shown, ORACLE}
    check_all(specs)


@pytest.mark.parametrize("nodes", [2, 5, 9])
def test_other_numbers_of_nodes_and_other_cities(nodes: int) -> None:
    specs = plane.points(SCALES["tiny"], options(nodes=nodes, cities="Tokyo, London"))
    assert {spec.topology_options["nodes"] for spec in specs} == {nodes, nodes // 2}
    check_all(specs)


def test_one_node_is_no_network() -> None:
    with pytest.raises(SpecError, match="--nodes 1"):
        plane.points(SCALES["tiny"], options(nodes=1))


def test_every_run_has_an_oracle_of_its_size_and_limit() -> None:
    specs = plane.points(SCALES["paper"], options())
    kinds: dict[bool, set[Any]] = {True: set(), False: set()}
    for spec, name in zip(specs, of_names(specs), strict=True):
        limit = spec.system_options["capacity"], spec.system_options["rate"]
        kinds[name == ORACLE].add((spec.topology_options["nodes"], limit))
    assert kinds[True] == kinds[False]


def test_no_limiter_stands_in_the_plane_with_settings_under_which_it_cannot_work() -> None:
    """Restated here from the options alone; in each load buckets are refilled three times or more."""
    for more in ({}, {"limit": "6,0.5"}, {"limit": "9,9"}):
        for spec in plane.points(SCALES["paper"], options(**more)):
            given, nodes = spec.system_options, spec.topology_options["nodes"]
            run_s, refill_s = duration_ns(spec.study_options["duration"]) / 1e9, given["capacity"] / rate_of(spec)
            assert run_s / refill_s >= 3
            rates = [spec.workload_options[key] / rate_of(spec) for key in ("rate_rps", "highest_rps")]
            assert rates == pytest.approx([0.8, 2.0]) or rates == pytest.approx([1.4, 1.4])
            if spec.system in ("static-split", "leases", "throttler", "centralised-throttler"):
                assert given["capacity"] >= nodes, "each node has a token"
            told = ("refresh", "lease", "cycle", "average", "gossip")
            spans = {key: duration_ns(given[key]) / 1e9 for key in told if key in given}
            assert all(3 * span <= run_s for span in spans.values()), "leases and averages end well before the run"
            if spec.system == "leases":
                assert 3 * duration_ns(given["window"]) / 1e9 <= run_s and spans["lease"] >= 2 * spans["refresh"]
            if spec.system.startswith("crdt-") or spec.system == "sliding-log":
                assert spans["gossip"] * (nodes - 1) <= refill_s, "news arrives while it is still news"


def rate_of(spec: RunSpec) -> float:
    return float(rational(spec.system_options["rate"]))


def test_a_small_limit_has_no_shares_and_a_short_log_no_long_leases(tmp_path: Path) -> None:
    few = plane.points(SCALES["quick"], options(limit="6,0.5"))
    among_eight = {spec.system for spec in few if spec.topology_options["nodes"] == 8}
    assert "crdt-counter" in among_eight and not {"static-split", "leases", "throttler"} & among_eight
    lines = "".join(f"u{i % 5},{i // 3}\n" for i in range(90))
    short = plane.points(SCALES["quick"], options(log=written(tmp_path, HEADER + lines)))
    assert "leases" not in {spec.system for spec in short} and "static-split" in {spec.system for spec in short}


def test_a_sweep_changes_one_thing() -> None:
    specs = plane.points(SCALES["quick"], options())
    names, usual = of_names(specs), load_of(options(), 8)
    bases = {name: point(name, usual, 8, plane.CITIES) for name in set(names) - {ORACLE}}
    for spec, name in zip(specs, names, strict=True):
        if name == ORACLE or spec.system_options["capacity"] != usual.capacity:
            continue
        base = bases[name].factors() | spec.factors()
        differs = {key for key in base if bases[name].factors().get(key) != spec.factors().get(key)}
        if spec.topology_options != bases[name].topology_options or spec.study_options != bases[name].study_options:
            assert len(differs - {"system.window"}) <= 1, (
                name,
                differs,
            )  # a node's share of the bucket follows the nodes


def test_another_limiter_joins_wherever_the_network_is_varied() -> None:
    specs = plane.points(SCALES["quick"], options())
    more = joined(specs, "static-split")
    assert {tuple(spec.system_options.values()) for spec in more} == set(LIMITS)

    def networks(found: list[RunSpec]) -> set[str]:
        return {str(sorted(spec.topology_options.items())) for spec in found if spec.topology == "wan"}

    assert networks(more) == networks(specs)


# --- tables ----------------------------------------------------------------------------------------


def means_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    base = {
        "load": "usual",
        "setting": "",
        "repetition": 0,
        "period": "1s",
        "overlay": "full-mesh",
        "nodes": 8,
        "loss": 0.0,
        "delay": 1.0,
        "skew": "0ms",
    }
    full = [{**base, **dict.fromkeys(MEASURES, 0.0), **row, "run_id": str(n)} for n, row in enumerate(rows)]
    return sweep_means(pd.DataFrame(full))


def test_means_are_of_runs_at_the_base_of_all_other_sweeps() -> None:
    rows = [
        {"name": "counter", "over_admission_share": 0.1}, {"name": "counter", "over_admission_share": 0.3},
        {"name": "counter", "over_admission_share": 0.9, "loss": 0.1},
        {"name": "counter", "over_admission_share": 0.8, "loss": 0.1, "nodes": 4},
        {"name": "static-split", "over_admission_share": 0.5, "period": "", "overlay": ""},
        {"name": ORACLE, "over_admission_share": 0.0},
    ]  # fmt: skip
    found = means_of(rows)
    error = found[found.measure == "over_admission_share"].set_index(["sweep", "name", "value"])["mean"]
    for sweep in SWEEPS:
        assert error[sweep.column, "counter", str(sweep.base)] == pytest.approx(0.2)
    assert error["loss", "counter", "0.1"] == pytest.approx(0.9)
    assert ("nodes", "counter", "4") not in error.index, "lost messages besides"
    assert error["nodes", "static-split", "8"] == 0.5
    assert ORACLE not in set(found.name)
    at_base = found[found.is_base]
    assert set(at_base[at_base.sweep == "loss"].value) == {"0.0"}


def envelopes_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    base = {"load": "usual", "period": "", "overlay": "", "setting": "", "nodes": 8, "loss": 0.0, "delay": 1.0}
    columns = {"skew": "0ms", "repetition": 0, **dict.fromkeys(ENVELOPE_MEASURES, 0.0)}
    return envelopes(pd.DataFrame([{**base, **columns, **row, "run_id": str(n)} for n, row in enumerate(rows)]))


def tried(period: str, sent: float, over: float, under: float, repetition: int, **more: Any) -> dict[str, Any]:
    errors = {"over_admission_share": over, "false_rejection_share": under, "bytes_per_request": sent}
    return {"name": "counter", "period": period, "repetition": repetition, "overlay": "full-mesh", **errors, **more}


def test_settings_are_chosen_on_one_repetition_and_judged_on_the_others() -> None:
    rows = [
        tried("3s", 10, 0.3, 0.1, 0), tried("3s", 11, 0.5, 0.2, 1), tried("3s", 11, 0.7, 0.2, 2),
        tried("1s", 20, 0.2, 0.4, 0), tried("1s", 20, 0.0, 0.0, 1), tried("1s", 20, 0.0, 0.0, 2),  # lucky afterwards
        tried("300ms", 30, 0.1, 0.2, 0), tried("300ms", 31, 0.9, 0.9, 1), tried("300ms", 31, 0.9, 0.9, 2),
        tried("100ms", 90, 0.2, 0.0, 0), tried("100ms", 90, 0.0, 0.0, 1),  # no better for more bytes
        tried("1s", 5, 0.0, 0.0, 0, overlay="star"), tried("1s", 5, 0.0, 0.0, 0, loss=0.1),
        tried("1s", 5, 0.0, 0.0, 0, nodes=4),
    ]  # fmt: skip
    kept = envelopes_of(rows)
    assert list(kept.drop_duplicates("step").period) == ["3s", "300ms"], "the larger error decides, at rising bytes"
    over = kept[kept.measure == "over_admission_share"].set_index("period")
    assert over.loc["3s", ["mean", "count"]].tolist() == [0.6, 2] and over.loc["300ms", "mean"] == 0.9


def test_of_settings_that_do_alike_the_same_one_is_taken_whatever_their_ids() -> None:
    pair = pd.DataFrame([tried(period, 10, 0.1, 0.1, 0, load="usual", setting="") for period in ("1s", "3s")])
    taken = [list(chosen(pair.assign(run_id=ids)).period) for ids in (["a", "b"], ["b", "a"])]
    assert taken[0] == taken[1] and len(taken[0]) == 1


def test_a_single_repetition_judges_nothing_and_the_sheet_says_so() -> None:
    once = [tried("3s", 10, 0.3, 0.1, 0), tried("1s", 20, 0.2, 0.1, 0)]
    for rows, is_judged in ((once, False), ([*once, *(row | {"repetition": 1} for row in once)], True)):
        tuned = envelopes_of(rows)
        assert set(tuned.is_judged) == {is_judged}
        tables = {"sweeps": means_of([{"name": ORACLE}]), "envelopes": tuned, "facts": pd.DataFrame([WHAT])}
        said = plane.FIGURE.draw(tables).subfigs[0].get_suptitle()
        assert ("NOT JUDGED" in said) != is_judged and "SYNTHETIC" in said


def test_values_are_in_order() -> None:
    def order(values: list[str]) -> list[str]:
        return values_in_order(pd.DataFrame({"value": values}))

    assert order(["10s", "300ms", "", "1s"]) == ["300ms", "1s", "10s"]
    assert order(["16", "4", "8"]) == ["4", "8", "16"]
    assert order(["star", "ring", "full-mesh"]) == ["full-mesh", "star", "ring"]


WHAT = {
    "load": "usual", "is_usual": True, "span_s": 100.0, "refills": 4.0,
    "log": "", "requests": 1000, "users": 40, "capacity": "30", "rate": "0.03", "threshold": "2000ms",
    "rejected_share": 0.2, "start": "", "duration": "", "speed": 1.0, "spread": False, "skip_bad": False,
    "skipped": 0, "skipped_reasons": "",
}  # fmt: skip


def test_a_figure_of_no_runs_can_be_drawn() -> None:
    none = {"sweeps": means_of([{"name": ORACLE}]), "envelopes": envelopes_of([{"name": ORACLE}])}
    drawing = plane.FIGURE.draw({**none, "facts": pd.DataFrame([WHAT])})
    titles = [panel.get_title(loc="left") for panel in drawing.axes if panel.get_title(loc="left")]
    assert [title[:3] for title in titles] == [f"({letter})" for letter in "abcdef"]


def words(**changed: Any) -> str:
    return offered(pd.DataFrame([{**WHAT, **changed}]))


def test_the_figure_says_what_was_offered() -> None:
    assert "SYNTHETIC" in words() and "1,000 of 40 users" in words() and "rejects 20 %" in words()
    assert "one aggregate: c = 30, r = 0.03/s" in words(users=1) and "refilled 4 times" in words()
    assert "c = 30 tokens, r = 0.03/s, refilled 0.6 times (r T / c: mostly" in words(log="a", refills=0.6)
    log = words(log="a.tsv", start="33561s", duration="10min", speed=10.0, spread=True)
    assert "SYNTHETIC" not in log and "a.tsv" in log and "10min from 9:19:21 after its first" in log
    assert "compressed 10 times" in log and "spread" in log and "skipped" not in log
    assert "3 bad lines skipped (instant 2, no user 1)" in words(
        log="a", skip_bad=True, skipped=3, skipped_reasons="instant 2, no user 1"
    )
    assert "0 bad lines skipped" in words(log="a", skip_bad=True)


# --- from runs -------------------------------------------------------------------------------------


def data_of(folder: Path, specs: list[RunSpec]) -> Any:
    from analysis.spark import session
    from analysis.tables import load

    folders = []
    for number, spec in enumerate(specs):
        folders.append(folder / "runs" / f"{len(specs) - number:02d}")  # ids say nothing of who was first
        execute(spec, folders[-1].name, folders[-1])
    return load(session(), folders)


@pytest.mark.slow
def test_tables_and_drawing_from_runs_of_a_log_with_bad_lines(tmp_path: Path) -> None:
    lines = [f"u{i % 5},{i // 3}\n" for i in range(300)]
    log = written(tmp_path, HEADER + "".join([*lines[:150], "nobody\n", "u1,never\n", *lines[150:]]))
    with pytest.raises(SpecError, match="line 152"):
        plane.points(SCALES["tiny"], options(log=log))
    specs = plane.points(SCALES["tiny"], options(log=log, skip_bad=True, nodes=4))[
        : 1 + len(SHOWN) - len(NEAR)
    ]  # the base
    kept = {"centralised", "static-split", "counter", "queue+F+L", ORACLE}
    names = of_names(specs)
    found = plane.tables(data_of(tmp_path, [spec for spec, name in zip(specs, names, strict=True) if name in kept]))
    facts, runs = found["facts"].iloc[0], found["runs"]
    assert (facts.requests, facts.users, facts.skipped, facts.spread) == (300, 5, 2, True)
    assert "2 bad lines skipped (instant 1, number of fields 1)" in offered(found["facts"])
    assert set(runs.name) == kept and (runs.lost_count == 0).all()
    assert (runs[runs.name == ORACLE][["over_admission_share", "false_rejection_share"]] == 0).all(axis=None)
    split = runs[runs.name == "static-split"]
    assert (split.bytes_per_request == 0).all() and (split.p99_ms < 0.1).all() and (split.excess_share == 0).all()
    base = runs.set_index("name")
    assert base.loc["centralised", "p99_ms"] > 50 and base.loc["counter", "bytes_per_request"] > 0
    assert (runs[runs.name == "static-split"].over_admission_share == 0).all()
    drawing = plane.FIGURE.draw(found)
    assert "2 bad lines skipped" in "".join(text.get_text() for text in drawing.subfigs[0].texts)


@pytest.mark.long
def test_tuned_leases_beat_the_static_split_on_other_seeds(tmp_path: Path) -> None:
    scale = SCALES["tiny"]
    specs = [spec for spec in plane.EXPERIMENT.runs(scale, options(), 5)
             if spec.topology_options["nodes"] == 8 and "loss_probability" not in spec.topology_options
             and (spec.topology != "wan" or spec.system in ("leases", "static-split"))]  # fmt: skip
    tables = plane.tables(data_of(tmp_path, specs))
    loads = [f"c = {capacity}, r = {rate}/s" for capacity, rate in LIMITS]
    means = tables["envelopes"].groupby(["load", "name", "measure"])["mean"].min()
    for load in loads:
        assert (
            means[load, "leases", "false_rejection_share"] < 0.7 * means[load, "static-split", "false_rejection_share"]
        )
        assert means[load, "leases", "over_admission_share"] < 0.03, "at no great price"
    assert (tables["facts"].refills > 3).all() and tables["facts"].rejected_share.between(0.05, 0.4).all()
    runs = tables["runs"]
    first = runs[runs.repetition == 0].groupby("load").offered_count.first().to_dict()
    assert tables["facts"].set_index("load").requests.to_dict() == first, "of the first repetition, whatever ids say"


@pytest.mark.slow
def test_tables_of_faults_from_runs(tmp_path: Path) -> None:
    specs = [
        spec
        for spec in partition.points(SCALES["quick"], {})
        if name_of(spec.system, spec.factors(), spec.topology) in ("static-split", "centralised", ORACLE)
    ]
    found = partition.tables(data_of(tmp_path, specs))
    curves, back = found["curves"], found["recovery"].set_index(["name", "scenario"])
    assert (curves.groupby(["name", "scenario"]).offered.sum() == 2049).all()
    assert back.loc[("static-split", "partition"), ["recovery_s", "lost", "more_surplus", "more_deficit"]].tolist() == [
        0.0, 0.0, 0.0, 0.0,
    ], "nodes that do not talk notice no partition"  # fmt: skip
    assert back.loc[("centralised", "partition"), "more_surplus"] > 10, "it fails open"
    assert back.loc[("centralised", "empty"), "lost"] > 0
    assert abs(back.loc[("centralised", "empty"), "more_surplus"]) < 5, "what is lost counts on neither side"
    assert load_figure("limiters-partition").draw(found).axes


def test_errors_have_the_intervals_of_their_share_over_runs() -> None:
    rows = [
        {"run_id": f"{n}", "name": "leases", "scenario": scenario, "t_s": t_s, "surplus": surplus, "deficit": 1,
         "lost": 0, "offered": 10}
        for scenario in (NO_FAULT, "partition") for t_s in (80, 90) for n, surplus in enumerate((2, 3, 7))
    ]  # fmt: skip
    curves = partition.over_repetitions(pd.DataFrame(rows))
    wanted = t_interval([0.2, 0.3, 0.7])
    assert curves.surplus_half.tolist() == pytest.approx([(wanted.high - wanted.low) / 2] * 4)
    assert (curves.deficit_half == 0).all() and (curves.surplus == 12).all() and (curves.runs == 3).all()
    panel, *_ = load_figure("limiters-partition").draw({"curves": curves, "recovery": partition.recovery(curves)}).axes
    above, below = ends_of(panel)
    assert above == pytest.approx((0, 100 * wanted.high)) and below == pytest.approx((-10, -10)), "never below 0"
    assert panel.get_ylim()[1] > above[1] and panel.get_ylim()[0] < -above[1], "nothing leaves the panel"


def test_the_points_of_faults_can_be_run() -> None:
    for scale in SCALES.values():
        specs = partition.points(scale, {})
        assert len({spec.to_json() for spec in specs}) == len(specs)
        check_all(specs)
    assert set(of_names(specs)) == {*LIMITERS, ORACLE}
