"""Staleness: what is swept, twins judged beside their servers, drawings of either kind alone."""

from collections import Counter
from collections.abc import Iterator

import pandas as pd
import pytest
from msgspec.structs import replace

from analysis.verdicts import Judgement, judge
from core.units import duration_ns
from harness.estimate import campaign_seconds
from harness.experiment import SCALES
from harness.run import asked_of, execute, resolve
from paper_figs.beyond import contenders, deployed_staleness, grants
from paper_figs.beyond.contenders import CONTENDERS, TWIN_OF
from paper_figs.beyond.deployed_staleness import (
    ALIGNED,
    CHAOTIC,
    CHECKED,
    DELAY,
    EXCESS,
    GRANTED,
    LINES,
    LONG,
    MEETING,
    MET,
    MET_LONG,
    REGIME,
    SERVERS,
    SPAN,
    WAIT,
    WAN_PLACE,
)
from paper_figs.beyond.wan import LIVE, VIRTUAL
from tests.paper_figs.beyond.deployed_tables import staleness_tables
from tests.paper_figs.beyond.test_deployed import on, put
from tests.paper_figs.tables import Case, check_published, check_spoiled, parametrised, scaled, verdict

POINTS = "deployed-staleness/points"
EXPERIMENT = deployed_staleness.EXPERIMENT


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """Of runs in virtual time: two twins at three delays, with three repetitions, and once what else there is."""
    from analysis.spark import session
    from analysis.tables import load

    one, folder = SCALES["quick"], tmp_path_factory.mktemp("runs")
    thrice = [contenders.oracle(REGIME, one)]
    for name in ("overwrite", "overwrite, all"):
        thrice += [contenders.point(name, REGIME, one, {"delay": delay}, VIRTUAL) for delay in ("0ms", "50ms", "110ms")]
    specs = [replace(spec, seed=seed + 1, repetition=seed) for spec in thrice for seed in range(3)]
    once = [
        contenders.point("counter", REGIME, one, {"delay": "10ms"}, VIRTUAL, "800ms"),
        contenders.point("counter", REGIME, one, {"delay": "10ms"}, VIRTUAL),
        contenders.point("overwrite", REGIME, one, testbed=VIRTUAL),
        contenders.point("overwrite, all", LONG, one, testbed=VIRTUAL),
        contenders.oracle(LONG, one),
        contenders.point("overwrite", REGIME, one, {"delay": MEETING["50ms"]}, VIRTUAL),
        contenders.point("fixed-window, cache", REGIME, one, testbed=VIRTUAL),
    ]
    for number, spec in enumerate([*specs, *(replace(spec, seed=1) for spec in once)]):
        execute(spec, f"run{number}", folder / f"run{number}")
    return deployed_staleness.tables(load(session(), sorted(folder.iterdir())))["points"]


# --- the grid ------------------------------------------------------------------------------------


def test_a_server_and_its_twin_meet_at_three_places_on_the_same_requests():
    specs = EXPERIMENT.points(SCALES["quick"], {})
    for server, twin in TWIN_OF.items():
        who, model = CONTENDERS[server], CONTENDERS[twin]

        def of(whose, testbed, delay, length=REGIME.duration):
            (spec,) = (each for each in specs if each.system == whose.system and each.testbed == testbed
                       and whose.options.items() <= each.system_options.items()
                       and len(each.system_options) == len(whose.options) + 2
                       and each.topology_options.get("delay") == delay
                       and each.workload_options["duration"] == length)  # fmt: skip
            return spec

        pairs = [(of(who, LIVE, links), of(model, VIRTUAL, lag)) for links, lag in (*MEETING.items(), (None, None))]
        if server in CHAOTIC:
            pairs.append((of(who, LIVE, None, LONG.duration), of(model, VIRTUAL, None, LONG.duration)))
        for one, other in pairs:
            assert one.workload_options == other.workload_options and one.study_options == other.study_options
            assert one.topology == other.topology
            assert one.topology_options["nodes"] == other.topology_options["nodes"] == contenders.NODES


def test_a_twin_s_messages_take_longer_than_the_links_by_what_passes_between_processes():
    lags = {duration_ns(with_lag) - duration_ns(links) for links, with_lag in MEETING.items()}
    assert lags == {duration_ns(deployed_staleness.LAG)}


def test_servers_meet_their_twins_in_an_hour_and_a_half():
    runs = EXPERIMENT.runs(SCALES["quick"], {}, 1)
    live = [spec for spec in runs if spec.testbed == LIVE]
    assert len(live) == 3 * (3 * len(SERVERS) + len(CHAOTIC)) + 9 + 9 and campaign_seconds(live, 2) < 90 * 60


def test_who_is_run_more_often_is_so_with_its_twin_and_its_oracle():
    runs = EXPERIMENT.runs(SCALES["quick"], {}, 1)
    often = [spec for spec in runs if spec.repetition == 11]
    who = Counter((spec.system, spec.testbed, str(spec.workload_options["duration"])) for spec in often)
    for length in (REGIME.duration, LONG.duration):
        assert who["haproxy", LIVE, length] == who["centralised", VIRTUAL, length] == 1
        assert who["overwrite", VIRTUAL, length] >= 1
    places = {spec.topology_options.get("delay") for spec in often if spec.system in ("haproxy", "overwrite")}
    assert places == {"0ms", deployed_staleness.LAG, None}


def test_every_point_is_one_that_the_study_takes_and_none_is_there_twice():
    for scale in ("tiny", "quick"):
        specs = EXPERIMENT.points(SCALES[scale], {})
        assert len({spec.to_json() for spec in specs}) == len(specs)
        for spec in specs:
            asked_of(resolve(spec))


def test_nobody_is_given_up_on_for_being_far():
    for spec in EXPERIMENT.points(SCALES["quick"], {}):
        if spec.testbed == VIRTUAL and spec.system in ("centralised", "fixed-window") and spec.topology == "full-mesh":
            trip_s = deployed_staleness.round_trip_s(str(spec.topology_options["delay"]))
            assert 2 * trip_s <= float(str(spec.system_options.get("timeout", "1s")).removesuffix("s")), spec


def test_the_five_cities_are_as_far_apart_as_their_pairs_on_average():
    assert deployed_staleness.round_trip_s("50ms") == pytest.approx(0.1)
    assert 0.19 < deployed_staleness.round_trip_s(WAN_PLACE) < 0.26
    assert deployed_staleness.round_trip_s(WAN_PLACE, to_store=True) == pytest.approx(0.173, abs=0.001)


# --- claims --------------------------------------------------------------------------------------


def cases():
    for name, (server, _) in CHECKED.items():
        twin = TWIN_OF[server]
        more = {
            "the server grants 8 % more": on(POINTS, scaled, GRANTED, 1.08, name=server),
            "it does without delay": on(POINTS, scaled, GRANTED, 1.08, name=server, place="0ms"),
            "the twin exceeds by a bucket and a half": on(POINTS, worse, 1.5, name=twin),
            "the twin never exceeds": on(POINTS, put, EXCESS, -1.0, name=twin),
            "it was not run over the cities": lambda found, twin=twin: {POINTS: found[POINTS][
                (found[POINTS].name != twin) | (found[POINTS].place != WAN_PLACE)]},
        }  # fmt: skip
        if server in CHAOTIC:
            more["it does over five cities, for long"] = on(POINTS, scaled, GRANTED, 1.08, name=server, sweep=MET_LONG)
        if CONTENDERS[server].is_windowed:
            more["a split is as good"] = on(POINTS, put, ALIGNED, 1.75, name=twin)
            more["the twin asks where the server does not"] = on(POINTS, put, WAIT, 230.0, name=twin, place="0ms")
        yield Case(name, staleness_tables, more)


def worse(frame, by_c, **where):
    """More excess, by so many buckets or a quarter, whatever is more."""
    found = frame.copy()
    rows = (found[list(where)] == pd.Series(where)).all(axis=1)
    assert rows.any()
    found.loc[rows, EXCESS] += (0.25 * found.loc[rows, EXCESS]).clip(lower=by_c)
    return found


CASES = list(cases())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_twins_like_their_servers_are_confirmed(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_twins_unlike_them_are_not(case: Case, perturbation: str) -> None:
    if perturbation == "it was not run over the cities":
        claim = next(claim for claim in deployed_staleness.CLAIMS if claim.id == case.claim)
        assert judge(claim, case.perturbations[perturbation](case.tables())).judgement is Judgement.UNDECIDED
        return
    check_spoiled(case, perturbation)


def test_keys_of_one_run_are_one_sample():
    points = staleness_tables()[POINTS]
    points = points[points.repetition < 3]
    once = points[points.repetition == 0]
    four = pd.concat([once, once.assign(key=once.key + " again")])
    assert set(four[four.name == "haproxy"].groupby(["place", "sweep", "factor"]).size()) == {4}
    for claim, (server, _) in CHECKED.items():
        assert verdict(claim, {POINTS: four}) is Judgement.UNDECIDED
        off = points.assign(
            **{GRANTED: points[GRANTED] * (1 + 0.03 * (points.repetition - 1) * (points.name == server))}
        )
        found = deployed_staleness.measure_twin(server, TWIN_OF[server], {POINTS: off})
        assert {check.interval.count for check in found.exact} == {3}
        assert verdict(claim, {POINTS: off}) is Judgement.UNDECIDED, "whole runs are off, with all of their keys"


def test_every_claim_has_a_case_and_waits_for_its_figure():
    assert [claim.id for claim in deployed_staleness.CLAIMS] == [case.claim for case in CASES]
    assert {judge(claim, {"srtm-fig4/runs": None}).judgement for claim in deployed_staleness.CLAIMS} == {
        Judgement.NOT_RUN
    }


@pytest.mark.long
def test_another_limiter_in_the_server_s_place_contradicts_its_twin(points):
    """Runs in virtual time stand for servers: the twin itself, on the same requests, and one that does otherwise."""
    points = points[points.name.isin(["overwrite", "overwrite, all", "centralised"]) & (points.sweep == DELAY)].copy()
    points["place"] = points.place.replace("110ms", WAN_PLACE)
    assert len(points) == 3 * 2 * 7 * 4
    points["sweep"] = MET
    points = pd.concat([points, points[points.place == WAN_PLACE].assign(sweep=MET_LONG)])
    oracle = points[points.name == "centralised"]
    assert (oracle[GRANTED] == 1).all() and (oracle[EXCESS] == 0).all()

    def judged(stand_in: str) -> Judgement:
        there = points[points.name == stand_in].assign(name="haproxy", testbed=LIVE)
        mine = points[points.name == "overwrite"]
        return verdict("D12", {POINTS: pd.concat([mine, there])})

    assert judged("overwrite") is Judgement.REPRODUCED
    assert judged("overwrite, all") is Judgement.CONTRADICTED


# --- tables and drawings -------------------------------------------------------------------------


@pytest.mark.long
def test_tables_know_how_stale_each_run_is(points):
    points = points[points.repetition == 0]
    long, points = points[points.sweep == MET_LONG], points[points.sweep != MET_LONG]
    assert dict(long.groupby(["name", "place"]).size()) == {("overwrite, all", WAN_PLACE): 6, ("centralised", "0ms"): 6}
    assert set(points.groupby(["name", "place", "sweep", "factor"]).size()) == {4}, "keys"
    found = points[points.key == "even-5x-2"].set_index(["name", "sweep", "place"])
    assert found.staleness["counter", SPAN, "10ms"] == pytest.approx(0.82)
    assert found.staleness["counter", DELAY, "10ms"] == pytest.approx(0.12)
    assert found.staleness["overwrite", MET, WAN_PLACE] == deployed_staleness.round_trip_s(WAN_PLACE)
    assert found.staleness["overwrite", MET, "50ms"] == pytest.approx(0.1), "that of the links"
    assert found.staleness["centralised", DELAY, "0ms"] == 0
    cached = "fixed-window, cache", MET, WAN_PLACE
    assert found.staleness[cached] == deployed_staleness.round_trip_s(WAN_PLACE, to_store=True)
    assert found[WAIT][cached] < 1 and found[ALIGNED][cached] == pytest.approx(1, abs=0.1)
    asked = points[(points.name == "fixed-window, cache") & (points.factor == 2)]
    assert (asked[WAIT] > 50).any(), "at twice the limit half of the requests ask the store"


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [(VIRTUAL, LIVE), (VIRTUAL,), (LIVE,)])
def test_it_draws_what_there_is(kinds, tmp_path):
    points = staleness_tables()[POINTS]
    drawing = deployed_staleness.draw({"points": points[points.testbed.isin(kinds)]})
    assert len(drawing.axes) == 4
    (legend,) = drawing.legends
    shown = {text.get_text() for text in legend.get_texts()}
    assert {CONTENDERS[name].look.label for name in LINES} <= shown or VIRTUAL not in kinds
    assert {CONTENDERS[name].look.label for name in SERVERS} <= shown or LIVE not in kinds
    drawing.savefig(tmp_path / "drawn.png")


def test_a_line_s_name_is_of_its_grid():
    assert set(LINES) | set(SERVERS) <= set(CONTENDERS) and set(SERVERS) <= set(grants.NAMES)
