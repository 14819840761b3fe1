"""The unit of bandwidth: a reading of the figures that report bytes, told to the systems that the thesis measured."""

import pytest

from harness.experiment import SCALES
from harness.run import check_point, resolve
from paper_figs import load_figure
from paper_figs.crdt.grids import limited
from paper_figs.crdt.readings import UNIT
from paper_figs.crdt.variants import FL, LOG, ORACLE
from systems.parts.erlang_terms import UNITS

MEASURED = ("crdt-counter", "crdt-queue")
OF_BYTES = [f"crdt-fig5.{number}" for number in (4, 6, 8, 10, 12, 13, 14)] + ["crdt-sensitivity"]


def test_it_has_the_systems_units() -> None:
    assert UNIT.values == UNITS and UNIT.default == UNITS[0]


@pytest.mark.parametrize("key", OF_BYTES)
def test_it_changes_what_the_nodes_are_told_and_nothing_else(key: str) -> None:
    experiment = load_figure(key).experiment
    assert UNIT in experiment.options
    plain = experiment.points(SCALES["quick"], {})
    assert experiment.points(SCALES["quick"], {"unit": UNIT.default}) == plain
    for spec, other in zip(plain, experiment.points(SCALES["quick"], {"unit": "words"}), strict=True):
        check_point(resolve(other))
        assert "unit" not in spec.system_options
        assert other.system_options.pop("unit", None) == ("words" if spec.system in MEASURED else None)
        assert other == spec


def test_others_have_none() -> None:
    for variant, nodes in ((ORACLE, 30), (LOG, 30), (FL, 1)):
        assert "unit" not in limited(variant, "B-barely", {"unit": "words"}, nodes=nodes).system_options
