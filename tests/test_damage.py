"""Damage to finished runs, through the user's command: the run is named, made anew, and the figure is as it was."""

from pathlib import Path

import pytest

from harness.campaign import finished_runs
from tests.damage import draw_figure, redraw_mutations, verify_mutations

pytest.importorskip("pyspark")


@pytest.mark.long
def test_nothing_that_is_done_to_a_run_is_read_as_if_it_had_not_happened(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, said = draw_figure(out)
    assert code == 0, said
    kinds, wrong = verify_mutations(finished_runs(out), 500)
    assert not wrong and sum(number for kind, number in kinds.items() if kind.endswith("seen")) > 450
    assert not redraw_mutations(out, 3)
