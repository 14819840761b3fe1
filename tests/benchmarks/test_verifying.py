"""What the verification of runs adds is measured where all are whole, and of the same files as the peer's."""

from pathlib import Path

import pytest

from benchmarks.verifying import added, digests_of, peer
from collectors.integrity import forget
from tests.runs import write_small_run


def test_what_is_measured_is_the_verification(tmp_path: Path) -> None:
    folders = [write_small_run(tmp_path, seed) for seed in range(9)]
    run_ids, digests = [folder.name for folder in folders], digests_of(folders)
    assert len(digests) == 9 * 3 and added(tmp_path, run_ids) > 0 and peer(digests) > 0
    path = folders[4] / "samples.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(AssertionError, match="1 of 9 runs are not as they were written"):
        added(tmp_path, run_ids)
    with pytest.raises(AssertionError, match="the digests differ"):
        peer(digests)
    forget()
