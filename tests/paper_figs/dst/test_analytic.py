"""The DST paper's analytic figures: computed tables give the verdicts, spoiled ones others."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.tables import Data
from analysis.verdicts import Judgement
from harness.experiment import SCALES
from paper_figs import FIGURES, load_figure
from paper_figs.dst import iterated, law, measures, table4
from paper_figs.dst.topologies import extreme
from tests.paper_figs.tables import Case, Frames, check_published, check_spoiled, parametrised, scaled, swapped

KEYS = (
    "dst-fig1-4",
    "dst-table2",
    "dst-table3",
    "dst-table4",
    "dst-topologies",
    "dst-weights",
    "dst-law",
    "dst-measures",
)


@cache
def _computed(key: str) -> Frames:
    """A figure's tables, computed once: they are functions of nothing."""
    return load_figure(key).tables(Data(None, ()))


@pytest.fixture(autouse=True, scope="module")
def _short_simulation() -> Any:
    """A tenth of the simulated runs, and fewer starts: the verdicts are the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table4, "RUNS", 200)
        patch.setattr(table4, "CYCLES", 4_000)
        patch.setattr(law, "STARTS", 3)
        patch.setattr(measures, "DRAWS", 4)
        patch.setattr(measures, "SPEEDS", (0.02, 0.2))
        yield


def of(key: str) -> Callable[[], Frames]:
    """The tables of ``key``, as claims read them."""
    return lambda: {f"{key}/{name}": frame for name, frame in _computed(key).items()}


def on(name: str, change: Callable[..., pd.DataFrame], *arguments: Any, **where: Any) -> Callable[[Frames], Frames]:
    """A perturbation of the one table called ``name``."""
    return lambda found: {**found, name: change(found[name], *arguments, **where)}


def kept_everywhere() -> Frames:
    """What the paper says of directed graphs, as it would look if it were so."""
    return {"dst-law/directed": of("dst-law")()["dst-law/directed"].assign(drift=1e-16)}


LAW, MEASURES, WEIGHTS = "dst-law", "dst-table4/measures", "dst-weights/optima"
CASES = [
    Case("S1", of(LAW), {"one measure loses a limit": on("dst-law/sums", scaled, "drift", 1e9, measure="log-ratio")}),
    Case("S2", of(LAW), {
        "short and long cycles swapped": on("dst-law/contraction", swapped, "share", 0.3, 1.1),
        "slower than Phi_cr": on("dst-law/contraction", scaled, "measured", 1.001, graph="dst-1", share=0.5),
        "stable beyond": on("dst-law/contraction", scaled, "measured", 0.9, graph="dst-2", share=1.02),
    }),
    Case("S3", of("dst-table4"), {
        "Eq. (20) a tenth too large": on(MEASURES, scaled, "phi_ss", 1.1, graph="dst-2"),
        "graphs swapped": on("dst-table4/simulated", swapped, "graph", "dst-1", "dst-2"),
        "Lyapunov differs": on(MEASURES, scaled, "lyapunov_phi_ss", 1.001, noise="correlated"),
    }),
    Case("S4", of("dst-table3"), {
        "graphs swapped": on("dst-table3/cycles", swapped, "graph", "dst-1", "dst-2"),
        "fourth digit off": on("dst-table3/cycles", scaled, "optimal_cycle", 1.0005, graph="dst-2"),
    }),
    Case("S5", of("dst-table4"), {
        "graphs swapped": on(MEASURES, swapped, "graph", "dst-1", "dst-2"),
        "Cov(v) = g I": on(MEASURES, scaled, "phi_ss", 0.02),
        "last digit off": on(MEASURES, scaled, "phi_ss", 1 + 3e-7, graph="dst-1"),
    }),
    Case("S7", of("dst-table2"), {
        "networks swapped": on("dst-table2/weights", swapped, "graph", "complete-5", "star-5"),
        "weights not alike": on("dst-table2/weights", scaled, "least_weight", 0.9, graph="star-5"),
    }),
    Case("S8", of("dst-topologies"), {
        "path and star swapped": on("dst-topologies/trees", swapped, "kind", "path", "star"),
        "complete graph not the best": on("dst-topologies/small", scaled, "phi_ss", 3.0, kind="complete", nodes=6),
        "a worse graph in the sample": on("dst-topologies/sampled", scaled, "phi_ss", 60.0, links=20),
    }),
    Case("S9", of("dst-weights"), {
        "slower than one weight": on(WEIGHTS, scaled, "best_phi_cr", 1.3, graph="dst-2"),
        "faster on a ring": on(WEIGHTS, scaled, "best_phi_cr", 0.9, graph="ring-8"),
    }),
    Case("S10", of("dst-weights"), {
        "worse than one weight": on(WEIGHTS, scaled, "best_phi_ss", 1.1, graph="dst-1"),
        "the printed constant": lambda found: {**found, "dst-weights/constants": found[
            "dst-weights/constants"].assign(value=found["dst-weights/constants"].printed_value)},
    }),
    Case("S11", of(LAW), {
        "the load does not matter": on(
            "dst-law/contraction", scaled, "measured", 0.9, measure="throttled-ratio", requests=160.0
        ),
    }),
    Case("S12", of(LAW), {
        "the freeze as printed": on("dst-law/frozen", swapped, "rule", "freeze", "freeze as printed"),
        "bounded without it": on("dst-law/frozen", scaled, "beyond", 0.0, rule="no freeze"),
        "never at rest": lambda found: {**found, "dst-law/frozen": found["dst-law/frozen"].assign(last_change=0.01)},
        "below 0 with the clamp": lambda found: {**found, "dst-law/frozen": found["dst-law/frozen"].assign(below=0.01)},
        "the sum drifts": lambda found: {**found, "dst-law/frozen": found["dst-law/frozen"].assign(drift=0.01)},
    }),
    Case("S15", of("dst-table4"), {
        "Eq. (23) half of it": on(MEASURES, scaled, "weighted_variance", 0.5, noise="unequal"),
        "one server counts less": on("dst-table4/servers", scaled, "c_ii", 0.99, graph="dst-2", server=4),
    }),
    Case("S16", of("dst-table4"), {"without dt": on(MEASURES, scaled, "mismatch", 50.0)}),
    Case("S17", of("dst-fig1-4"), {
        "another limit": on("dst-fig1-4/short_cycles", scaled, "resistance_phi_ss", 2.0, graph="star-5"),
        "shrinks more slowly": on("dst-fig1-4/short_cycles", scaled, "phi_ss", 1.00005, graph="dst-1", g=1e-5),
    }),
    Case("S18", of(LAW), {
        "not Eq. (47)": lambda found: {**found, "dst-law/logs": found["dst-law/logs"].assign(gap=1e-3)},
        "no agreement": lambda found: {**found, "dst-law/logs": found["dst-law/logs"].assign(spread=0.2)},
    }),
    Case("S20a", of(LAW), {"not Eq. (10)": on("dst-law/directed", scaled, "gap", 1e9, graph="chain of followers")}),
    Case("S20b", kept_everywhere, {"as it is": lambda found: of(LAW)()},
         spoiled=frozenset({Judgement.CONTRADICTED})),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.claim)
def test_the_claim_holds(case: Case) -> None:
    check_published(case)


@pytest.mark.parametrize(("case", "perturbation"), parametrised(CASES))
def test_spoiled_tables_do_not(case: Case, perturbation: str) -> None:
    check_spoiled(case, perturbation)


def test_every_claim_of_these_figures_has_a_case() -> None:
    claims = {claim.id for key in KEYS for claim in load_figure(key).claims}
    assert claims == {case.claim for case in CASES}


@pytest.mark.parametrize("key", KEYS)
def test_no_runs_and_yet_not_skipped(key: str) -> None:
    experiment = load_figure(key).experiment
    assert experiment.key == key and key in FIGURES
    assert experiment.analytic
    assert experiment.runs(SCALES["quick"], {}, 1) == []


@pytest.mark.parametrize("key", ["dst-topologies", "dst-weights"])  # samples; a solver
def test_computed_again_the_tables_are_the_same(key: str) -> None:
    again = load_figure(key).tables(Data(None, ()))
    for name, frame in _computed(key).items():
        pd.testing.assert_frame_equal(again[name], frame, check_exact=True)


TEXTS = {
    "dst-fig1-4": ("graph #1 (recovered)", "six servers (drawing ours)", "0.1561", "7.636"),
    "dst-table2": ("0.2000", "0.3333", "0.6667"),
    "dst-table3": ("0.4226", "0.4225832", "0.2222222"),
    "dst-table4": ("0.9969", "0.9968782", "334.7965", "334.796453", "69.307504", "6.2 %", "dst-fig5"),
    "dst-topologies": ("all 106 trees", "all 853 connected graphs of 7 nodes", "star", "complete"),
    "dst-weights": ("0.50", "0.697", "0.584"),
    "dst-law": ("no freeze", "chain"),
    "dst-measures": ("Case IV, frozen", "graph #2", "steady spread"),
}


@pytest.mark.parametrize("key", KEYS)
def test_the_drawing_names_its_numbers(key: str) -> None:
    from matplotlib import pyplot
    from matplotlib.text import Text

    drawing = load_figure(key).draw(_computed(key))
    drawing.canvas.draw()
    shown = "\n".join(text.get_text() for text in drawing.findobj(Text))
    pyplot.close(drawing)
    for text in TEXTS[key]:
        assert text in shown, text


def test_measures_of_the_same_speed_throttle_alike_and_the_frozen_one_not_at_all() -> None:
    frame = _computed("dst-measures")["measures"]
    over = frame.groupby(["load", "measure", "graph", "speed"]).overthrottling_percent.mean()
    for load in measures.KINDS:
        demands = iterated.loads(measures.SEED, 4, kind=load)
        alone = iterated.overthrottling_percent(demands, iterated.limits_of("none", demands)).mean()
        for graph in measures.LABELS:
            one, ratio, log, frozen = (over[load, measure, graph] for measure in measures.CASES)
            assert ratio[0.02] == pytest.approx(one[0.02], rel=0.1) and log[0.02] == pytest.approx(one[0.02], rel=0.1)
            assert log[0.2] > 2 * one[0.2]
            assert frozen[0.02] == pytest.approx(alone)
        assert over[load, "throttled", "dst-2", 0.02] < over[load, "throttled", "dst-1", 0.02]


def test_the_spread_is_of_what_servers_throttle() -> None:
    demands = np.zeros((measures.SETTLED + 2, 1, 4))
    demands[-1] = [1.0, 1.0, 3.0, 3.0]  # a variance of 1 in one of two settled cycles
    demands[0] = 1e6  # not settled
    assert measures.spread(demands, 0.0 * demands) == pytest.approx([0.5**0.5])


def test_the_sizes_of_the_exhaustive_lists() -> None:
    found = _computed("dst-topologies")
    assert len(found["trees"]) == 106
    assert found["small"].groupby("nodes").size().to_dict() == {3: 2, 4: 6, 5: 21, 6: 112, 7: 853}
    assert (found["trees"].kind == "path").sum() == (found["trees"].kind == "star").sum() == 1


def test_the_lead_of_a_graph_is_the_least_over_sizes() -> None:
    rows = [(4, "star", 2.0), (4, "", 3.0), (4, "path", 8.0), (5, "star", 4.0), (5, "", 5.0), (5, "path", 5.5)]
    graphs = pd.DataFrame(rows, columns=["nodes", "kind", "phi_ss"])
    assert extreme(graphs, "star", "phi_ss", best=True) == pytest.approx(1 / 4)
    assert extreme(graphs, "path", "phi_ss", best=False) == pytest.approx(0.5 / 5.5)
    with pytest.raises(KeyError, match="complete of 4 nodes"):
        extreme(graphs, "complete", "phi_ss", best=True)
