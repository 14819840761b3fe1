"""Real Serf agents: what one costs, and whether they err as their model does; claims, grids, one small run of each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.verdicts import Judgement, judge
from core.seeds import generator
from harness.estimate import campaign_seconds
from harness.experiment import SCALES
from harness.run import check_all, execute
from paper_figs.beyond import serf_model
from paper_figs.epulsar import overhead
from tests.live import needs
from tests.paper_figs.tables import (
    Case,
    Frames,
    check_published,
    check_spoiled,
    claim_called,
    parametrised,
    repeated,
    scaled,
    verdict,
)

PAIRS = [f"n{i} n{j}" for i in range(1, 9) for j in range(i + 1, 9)]


def overhead_tables() -> Frames:
    """Agents as the paper has them: a third of a per cent, 14 MB."""
    points = [{"nodes": nodes, "cpu_percent": 0.33, "memory_mb": 14.0, "most_mb": 14.5, "anonymous_mb": 7.0,
               "sent_bytes": 400.0, "received_bytes": 400.0} for nodes in overhead.COUNTS]  # fmt: skip
    return {"epulsar-overhead/runs": repeated(points, ("cpu_percent", "memory_mb"))}


def errors(real: Callable[[np.ndarray], np.ndarray] = lambda drawn: drawn) -> pd.DataFrame:
    """Errors of 100 modelled runs and 5 real ones, all normal; ``real`` spoils those of the real ones."""
    rng = generator(1, "errors of pairs")
    rows = []
    for testbed, count in (("virtual", 100), ("mininet", 5)):
        for repetition in range(count):
            for at_s in (90.0, 180.0):
                drawn = rng.normal(0.5, 2.0, len(PAIRS))
                found = drawn if testbed == "virtual" else real(drawn)
                rows += [
                    {"testbed": testbed, "repetition": repetition, "at_s": at_s, "pair": pair, "rtt_ms": 100.0 + place,
                     "estimated_ms": 100.0 + place + error, "error_ms": error}
                    for place, (pair, error) in enumerate(zip(PAIRS, found, strict=True))
                ]  # fmt: skip
    return pd.DataFrame(rows)


def model_tables() -> Frames:
    """Real errors a little smaller than the model's: of runs just like them, five decide little."""
    return named(serf_model.compared(errors(lambda drawn: 0.8 * drawn)))


def named(found: Frames) -> Frames:
    return {f"serf-model/{name}": frame for name, frame in found.items()}


def spoiled(real: Callable[[np.ndarray], np.ndarray]) -> Callable[[Frames], Frames]:
    """Other real runs, through all that makes tables of them."""
    return lambda _: named(serf_model.compared(errors(real)))


def on(name: str, change: Callable[..., pd.DataFrame], *arguments: Any, **where: Any) -> Callable[[Frames], Frames]:
    return lambda found: {**found, name: change(found[name], *arguments, **where)}


CASES = [
    Case("E3", overhead_tables, {
        "four times the processor": on("epulsar-overhead/runs", scaled, "cpu_percent", 4.0),
        "more memory where there are many": on("epulsar-overhead/runs", scaled, "memory_mb", 1.2, nodes=32),
    }),
    Case("W6", model_tables, {
        "real estimates are too long": spoiled(lambda drawn: drawn + 4.0),
        "real errors are twice as large": spoiled(lambda drawn: 2.0 * drawn),
        "half of the pairs are far off": spoiled(lambda drawn: drawn + 20.0 * (np.arange(len(drawn)) % 2)),
    }),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_tables_as_hoped_for_reproduce_the_claim(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_perturbed_tables_do_not(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


def test_what_the_spoiled_tables_say() -> None:
    for case in CASES:
        for perturbation in case.perturbations.values():
            assert verdict(case.claim, perturbation(case.tables())) is Judgement.CONTRADICTED


def test_memory_between_the_two_readings_of_a_megabyte_is_direction_only() -> None:
    found = overhead_tables()
    more = on("epulsar-overhead/runs", scaled, "memory_mb", 1.09, nodes=32)(found)
    assert verdict("E3", more) is Judgement.DIRECTION_ONLY


def test_without_live_runs_the_claims_are_not_run_and_without_the_model_undecided() -> None:
    for case in CASES:
        found = judge(claim_called(case.claim), {"srtm-fig4/runs": pd.DataFrame()})
        assert found.judgement is Judgement.NOT_RUN and found.problem == "needs mininet"
    for testbed in ("virtual", "mininet"):
        found = errors()
        alone = named(serf_model.compared(found[found.testbed == testbed]))
        assert judge(claim_called("W6"), alone).judgement is Judgement.UNDECIDED
        serf_model.draw({name.partition("/")[2]: frame for name, frame in alone.items()})


def test_the_band_holds_what_it_says_and_the_last_read_counts() -> None:
    found = serf_model.compared(errors())
    assert len(found["bands"]) == len(PAIRS) and len(found["pairs"]) == 5 * len(PAIRS)
    assert found["shares"].inside_share.mean() == pytest.approx(0.88, abs=0.05), "runs like the model's"
    assert set(found["times"].at_s) == {90.0, 180.0}
    assert len(serf_model.draw(found).axes) == 3


@pytest.mark.parametrize("figure", [overhead, serf_model])
@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_grids_are_sound_and_take_less_than_twenty_minutes(figure: Any, scale: Any) -> None:
    runs = figure.EXPERIMENT.runs(scale, {}, 1)
    check_all(runs)
    assert len({run.to_json() for run in runs}) == len(runs)
    if scale.name != "paper":
        assert campaign_seconds(runs, 1) < 1_200


def test_the_model_has_many_runs_and_real_agents_few() -> None:
    runs = serf_model.EXPERIMENT.runs(SCALES["small"], {}, 1)
    counts = {testbed: sum(run.testbed == testbed for run in runs) for testbed in ("virtual", "mininet")}
    assert counts == {"virtual": serf_model.MODEL_RUNS, "mininet": 5}
    assert len({run.seed for run in runs}) == serf_model.MODEL_RUNS, "a real run has the seed of a modelled one"


@needs("serf", "root", "namespaces", "mininet", "mnexec", "brctl", "ip")
@pytest.mark.slow
@pytest.mark.long
def test_one_small_run_of_each_for_real(spark: Any, tmp_path: Path) -> None:
    from analysis.tables import load

    found = {}
    for figure in (overhead, serf_model):
        folder = tmp_path / figure.EXPERIMENT.key
        for number, spec in enumerate(figure.EXPERIMENT.runs(SCALES["tiny"], {}, 1)):
            execute(spec, f"run{number}", folder / f"run{number}")
        found[figure] = figure.tables(load(spark, sorted(folder.iterdir())))
        figure.draw(found[figure]).savefig(tmp_path / "drawn.png")
    agents = found[overhead]["agents"]
    assert list(agents.agent) == ["n1", "n2"] and set(agents.nodes) == {2}
    assert (agents.cpu_percent < 20).all() and agents.memory_mb.between(5, 50).all()
    assert (agents.anonymous_mb < agents.memory_mb).all() and (agents.memory_mb <= agents.most_mb).all()
    assert (agents.sent_bytes > 0).all() and (agents.received_bytes > 0).all()
    pairs = found[serf_model]["pairs"]
    assert list(pairs.pair) == ["n1 n2", "n1 n3", "n2 n3"]
    asked_ms = found[serf_model]["bands"].set_index("pair").rtt_ms
    measured_ms = pairs.set_index("pair").rtt_ms
    assert (measured_ms - asked_ms).between(0, 5).all() and (measured_ms != asked_ms).all(), "measured, not asked for"
    assert set(found[serf_model]["times"].testbed) == {"virtual", "mininet"}
