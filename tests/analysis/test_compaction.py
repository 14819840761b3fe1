"""What a worker of Spark writes of the store; Spark itself is in ``test_spark.py``."""

import os
from pathlib import Path

from analysis.compaction import _written
from collectors.store import claims
from collectors.store.log import StoredPart
from collectors.store.parts import damage_of
from tests.runs import write_small_run


def test_a_task_that_is_tried_again_does_not_meet_its_own_half_written_file(tmp_path: Path) -> None:
    root, folders = tmp_path / "store", [str(write_small_run(tmp_path / "runs", seed)) for seed in range(2)]
    first = _written((str(root), "a", folders))
    assert isinstance(first, StoredPart)
    with claims.writing(root, "a"):
        half = first.files[0].path
        os.truncate(root / half, 7)
        for file in first.files[1:]:
            (root / file.path).unlink()
        again = _written((str(root), "a", folders))
        assert isinstance(again, StoredPart), again
        assert not claims.remove_garbage(root), "the driver has committed nothing yet"
    assert not any(damage_of(root, file) for file in again.files)
    assert [file._replace(path="") for file in again.files] == [file._replace(path="") for file in first.files]
    assert {*claims.files_there(root)} == {half, *(file.path for file in again.files)}
    assert claims.remove_garbage(root) == 1 + len(again.files) and not claims.files_there(root)
