"""Damage to results, through the user's command: it is named, made anew, and all that is shown is as it was."""

from pathlib import Path

import pytest

from tests.damage import Kept, _without_live, make, redraw_mutations, targets_of, verify_mutations

pytest.importorskip("pyspark")


@pytest.mark.long
def test_nothing_that_is_done_to_results_is_read_as_if_it_had_not_happened(tmp_path: Path) -> None:
    out, packs = make(tmp_path)
    kinds, wrong = verify_mutations(Kept(out, packs), targets_of(out, packs), 500)
    assert not wrong and sum(number for kind, number in kinds.items() if kind.endswith("seen")) > 450
    assert not redraw_mutations(_without_live(out), 5)
