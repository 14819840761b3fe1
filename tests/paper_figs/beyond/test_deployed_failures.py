"""Deployed limiters that are partly gone: faults, claims, tables of a run by hand, drawings."""

from collections import Counter
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from analysis.verdicts import Judgement, judge, t_interval
from harness.estimate import campaign_seconds
from harness.experiment import SCALES
from harness.run import asked_of, execute, resolve
from paper_figs.beyond import contenders, deployed_failures, deployed_faults
from paper_figs.beyond.contenders import CONTENDERS, HASTY, PRODUCTS, REPLICA, SHORT_LEASES
from paper_figs.beyond.deployed_failures import CUT, KILLED, LOSSY, NAMES, OUTCOMES, REGIME
from paper_figs.beyond.wan import VIRTUAL
from tests.paper_figs.beyond.deployed_tables import failures_tables
from tests.paper_figs.beyond.test_deployed import of_figure, on, put
from tests.paper_figs.tables import Case, check_published, check_spoiled, chosen, parametrised

EXPERIMENT = deployed_failures.EXPERIMENT
RUNS, CITIES, SECONDS, GROUPS = (f"deployed-failures/{name}" for name in ("runs", "cities", "seconds", "groups"))


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


# --- the grid ------------------------------------------------------------------------------------


def test_faults_begin_and_end_with_whole_seconds_inside_the_run():
    for scale, from_s, until_s in (("tiny", 1, 4), ("quick", 4, 16)):  # a cut lasts longer
        for spec in EXPERIMENT.points(SCALES[scale], {})[1:]:
            faults = spec.study_options["faults"]
            instants = sorted(int(fault["at"].removesuffix("s")) for fault in faults)
            assert instants in ([from_s], [from_s, until_s], [from_s, 19])
            asked_of(resolve(spec))


def test_servers_are_killed_beside_their_callers_and_ours_with_theirs():
    for name in NAMES:
        (fault,) = deployed_faults.faults_of(KILLED, name, 20)
        assert (fault["kind"], fault["node"]) == ("server-crash" if name in PRODUCTS else "crash", "n1")
    (cut,) = deployed_faults.faults_of(CUT, "ratelimit", 20)
    begin, end = deployed_faults.faults_of(CUT, "counter", 20)
    assert cut == begin and begin["side"] == end["side"] == ["n5"]
    assert (begin["kind"], end["kind"], end["at"]) == ("partition", "heal", "19s")
    begin, end = deployed_faults.faults_of(LOSSY, "ratelimit", 20)
    assert (begin["loss_probability"], end["loss_probability"]) == (0.01, 0.0)


def test_a_run_knows_its_scenario():
    for name, scenarios in NAMES.items():
        for scenario in scenarios:
            faults = deployed_faults.faults_of(scenario, name, 20)
            assert deployed_faults.scenario_of(name, faults, 20) == scenario


def test_whom_votes_decide_is_run_more_often_and_paired_with_the_oracle():
    runs = EXPERIMENT.runs(SCALES["small"], {}, 1)
    counts = Counter((spec.system, bool(spec.system_options.get("failover_timeout"))) for spec in runs)
    assert counts[("centralised", False)] == counts[("ratelimit-sentinel", True)] == 21
    assert counts[("ratelimit-sentinel", False)] == 3 and counts[("crdt-counter", False)] == 2 * 3 * 3
    seeds = {spec.seed for spec in runs if spec.system == "centralised"}
    assert {spec.seed for spec in runs} == seeds and len(seeds) == 21


def test_it_takes_less_than_an_hour():
    assert campaign_seconds(EXPERIMENT.runs(SCALES["quick"], {}, 1), 2) < 60 * 60


# --- claims --------------------------------------------------------------------------------------


def waited_before(frame, **where):
    """As before the fault, in the rows with these values."""
    found = frame.copy()
    found.loc[chosen(frame, where), "p99_ms"] = found.p99_before_ms
    return found


CASES = [
    Case("D20", failures_tables, {
        "answers go on": on(RUNS, put, "error", 0.0, name="redis-gcra", scenario=KILLED),
        "half is answered": on(RUNS, put, "timeout", 0.4, name="ratelimit", scenario=KILLED),
    }),
    Case("D21", failures_tables, {
        "peers wait for the dead one": on(CITIES, put, "answered", 0.9, name="haproxy", scenario=KILLED,
                                          city="London"),
        "the dead one answers": on(CITIES, put, "error", 0.0, name="nginx", scenario=KILLED, city="New York"),
    }),
    Case("D22", failures_tables, {
        "it fails closed": on(GROUPS, put, "granted_ratio", 0.02, name="ratelimit", scenario=KILLED),
        "leases end at once": on(GROUPS, put, "granted_ratio", 0.05, name=SHORT_LEASES, scenario=KILLED),
        "leases are lent twice": on(GROUPS, put, "granted_ratio", 1.4, name=SHORT_LEASES, scenario=KILLED),
        "nobody counts any more": on(GROUPS, put, "granted_ratio", 1.6, name="counter", scenario=KILLED),
    }),
    Case("D23", failures_tables, {
        "others suffer, too": on(CITIES, put, "answered", 0.8, name="redis-gcra", scenario=CUT, city="London"),
        "Sydney hears all the same": on(CITIES, put, "timeout", 0.1, name="ratelimit", scenario=CUT, city="Sydney"),
        "peers stop": on(RUNS, put, "answered", 0.8, name="haproxy", scenario=CUT),
        "the counter is strict": on(GROUPS, put, "granted_ratio", 1.0, name="counter", scenario=CUT),
        "leases never end": on(GROUPS, put, "granted_ratio", 1.4, name=SHORT_LEASES, scenario=CUT),
        "leases reject everybody": on(GROUPS, put, "granted_ratio", 0.0, name=SHORT_LEASES, scenario=CUT),
    }),
    Case("D24", failures_tables, {
        "a tenth times out": on(RUNS, put, "answered", 0.9, name="redis-gcra", scenario=LOSSY),
        "the wait hides it": on(RUNS, waited_before, name="ratelimit", scenario=LOSSY),
        "it was as long before": on(RUNS, put, "p99_before_ms", 600.0, name="redis-gcra", scenario=LOSSY),
    }),
    Case("D25", failures_tables, {
        "tokens are made": on(GROUPS, put, "decided_excess_share", 2.5, name="counter", scenario=KILLED, factor=2.0),
        "survivors are rejected": on(GROUPS, put, "granted_ratio", 0.5, name=SHORT_LEASES, scenario=KILLED,
                                     factor=0.5),
        "a survivor in eight is rejected": on(GROUPS, put, "granted_ratio", 0.7, name="counter", scenario=KILLED,
                                              factor=0.5),
        "nobody is dead": on(GROUPS, put, "granted_ratio", 1.0, name="counter", scenario=KILLED, factor=0.5),
    }),
    Case("D26", failures_tables, {
        "nobody is promoted": on(SECONDS, put, "answered", 0.0, name=REPLICA, scenario=KILLED),
        "Redis comes back by itself": on(SECONDS, put, "answered", 0.9, name="ratelimit", scenario=KILLED),
    }),
    Case("D27", failures_tables, {
        "votes are split again": on(SECONDS, put, "answered", 0.0, name=HASTY, scenario=KILLED),
    }),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_tables_as_hoped_for_reproduce_the_claim(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_perturbed_tables_do_not(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


def test_every_claim_has_a_case_and_waits_for_its_figure():
    assert [claim.id for claim in deployed_failures.CLAIMS] == [case.claim for case in CASES]
    assert {judge(claim, {"srtm-fig4/runs": None}).judgement for claim in deployed_failures.CLAIMS} == {
        Judgement.NOT_RUN
    }


# --- tables and drawings -------------------------------------------------------------------------


@pytest.mark.slow
def test_tables_of_runs_in_virtual_time(spark, tmp_path):
    """Ours: a dead node loses its fifth, a cut loses nothing; a store that is dead limits nothing."""
    from analysis.tables import load

    scale = SCALES["quick"]
    specs = [contenders.oracle(REGIME, scale)]
    for name, scenario in (("counter", KILLED), ("counter", CUT), ("centralised", KILLED)):
        faults = deployed_faults.faults_of(scenario, name, 20)
        specs.append(contenders.point(name, REGIME, scale, testbed=VIRTUAL, faults=faults))
    for number, spec in enumerate(specs):
        execute(replace(spec, seed=1), f"run{number}", tmp_path / f"run{number}")
    found = deployed_failures.tables(load(spark, sorted(tmp_path.iterdir())))
    runs = found["runs"].set_index(["name", "scenario"])
    assert sorted(runs.index) == [("centralised", KILLED), ("counter", CUT), ("counter", KILLED)]
    assert runs.loc[("counter", KILLED)].lost == pytest.approx(0.2, abs=0.03)
    assert runs.loc[("counter", CUT)].lost == 0 and runs.loc[("centralised", KILLED)].p99_ms == pytest.approx(1000)
    assert 100 < runs.loc[("centralised", KILLED)].p99_before_ms < 400, "a round trip, no time-out"
    cities = found["cities"].set_index(["name", "scenario", "city"])
    assert cities.loc[("counter", KILLED, "New York")].lost == 1 and cities.loc[("counter", KILLED, "London")].lost == 0
    seconds = found["seconds"]
    line = seconds[(seconds.name == "counter") & (seconds.scenario == KILLED)].set_index("since_s").lost
    assert (line[line.index < 0] == 0).all() and (line[(line.index >= 0) & (line.index < 15)] > 0).all()
    groups = found["groups"].set_index(["name", "scenario", "factor"])
    assert groups.loc[("centralised", KILLED, 2.0)].granted_ratio > 1.4, "open to all but New York's"
    assert groups.loc[("counter", KILLED, 0.5)].granted_ratio == pytest.approx(0.8, abs=0.05)
    assert groups.loc[("centralised", KILLED, 2.0)].decided_excess_share > 3


@pytest.mark.slow
def test_it_draws_what_there_is(tmp_path):
    found = of_figure(failures_tables(), "deployed-failures")
    few = {name: frame[frame.name.isin(("redis-gcra", "counter"))] for name, frame in found.items()}
    for tables in (found, few):
        drawing = deployed_failures.draw(tables)
        rows = [name for name in NAMES if name in set(tables["runs"].name)]
        labels = [text.get_text() for text in drawing.axes[0].get_yticklabels()]
        assert labels == [CONTENDERS[name].look.label for name in rows]
        whole = {
            round(sum(bar.get_width() for bar in drawing.axes[0].patches if _in(bar, row))) for row in range(len(rows))
        }
        assert whole == {100}, "shares of all that was asked"
        drawing.savefig(tmp_path / "drawn.png")
    assert set(OUTCOMES) <= set(found["runs"])


def spread_tables():
    """Redis after the kill: in two of five repetitions a tenth is answered, and of the rest errors vary."""
    found = of_figure(failures_tables(), "deployed-failures")
    for name in ("runs", "seconds"):
        frame = found[name]
        frame = frame[(frame.name == "redis-gcra") & (frame.scenario == KILLED)]
        answered = frame.repetition.map({0: 0.1, 1: 0.1}).fillna(0.0)
        found[name] = frame.assign(answered=answered, error=0.6 - answered, timeout=0.4, lost=0.0)
    return found


def test_shares_of_the_outcomes_have_intervals_that_end_with_the_panel():
    drawing = deployed_failures.draw(spread_tables())
    segments = [segment for bars in drawing.axes[0].collections for segment in bars.get_segments()]
    ends = [(float(low), float(high)) for (low, _), (high, _) in segments]
    answered = t_interval([10, 10, 0, 0, 0])
    assert answered.low < 0 < answered.high
    assert ends == [pytest.approx((0, answered.high)), pytest.approx((60, 60)), pytest.approx((100, 100))]
    (band,) = drawing.axes[3].collections
    box = band.get_datalim(drawing.axes[3].transData)
    assert (box.y0, box.y1) == pytest.approx((0, answered.high))


def test_a_single_repetition_has_no_interval():
    tables = {name: frame[frame.repetition == 0] for name, frame in spread_tables().items()}
    drawing = deployed_failures.draw(tables)
    segments = [segment for bars in drawing.axes[0].collections for segment in bars.get_segments()]
    assert not [segment for segment in segments if len(segment)]
    assert not [path for band in drawing.axes[3].collections for path in band.get_paths()]


def _in(bar, row):
    return abs(bar.get_y() + bar.get_height() / 2 - row) < 0.1
