"""The study of the placement study: its rows, its seeds, and what does not fit is refused."""

from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow.parquet as pq
import pytest

from core.errors import SpecError
from harness.experiment import RunSpec
from harness.run import check_all, execute
from studies.policies.study import MEASURES, POLICIES
from tests.harness.common import parquet_hashes

OPTIONS: dict[str, Any] = {"groups": 6, "members": 4, "permutations": 7, "rounds": 100}


def spec(**changes: Any) -> RunSpec:
    base = RunSpec(
        system="static-split", workload="requests", topology="us-cities", topology_options={"cities": 4},
        study="policies", study_options=OPTIONS, seed=5,
    )  # fmt: skip
    return msgspec.structs.replace(base, **changes)


def table(folder: Path, name: str = "policies") -> pd.DataFrame:
    return pq.read_table(folder / f"{name}.parquet").to_pandas()


def test_a_row_a_placement_and_policy(tmp_path: Path) -> None:
    execute(spec(), "run", tmp_path / "a")
    found = table(tmp_path / "a")
    assert list(found.columns) == ["run_id", "permutation", "policy", *MEASURES]
    assert len(found) == 7 * len(POLICIES)
    wide = found.set_index(["permutation", "policy"])
    assert set(wide.index) == set(product(range(7), POLICIES))
    assert wide.true_worst_ns.between(10e6, 110e6).all()  # 2 x 5 ms, and at most twice across the country
    assert wide.true_violation_ratio.between(0, 1).all()
    best = wide.true_worst_ns.unstack()
    assert (best.optimal <= best[["pulsar", "all-pairs", "epulsar"]].min(axis=1)).all()
    pairs = table(tmp_path / "a", "coordinates")
    count = len({*pairs.a, *pairs.b})
    assert len(pairs) <= count * (count - 1) / 2 and not (pairs.a == pairs.b).any()
    off_ns = (pairs.estimated_rtt_ns - pairs.true_rtt_ns).abs()
    assert (pairs.true_rtt_ns > 0).all() and 0 < off_ns.median() < off_ns.max() < 100e6
    execute(spec(), "run", tmp_path / "b")
    assert parquet_hashes(tmp_path / "a") == parquet_hashes(tmp_path / "b")


def test_more_placements_are_the_same_and_some_more(tmp_path: Path) -> None:
    execute(spec(), "run", tmp_path / "a")
    execute(spec(study_options={**OPTIONS, "permutations": 9}), "run", tmp_path / "b")
    fewer, more = table(tmp_path / "a"), table(tmp_path / "b")
    assert more[more.permutation < 7].reset_index(drop=True).equals(fewer.reset_index(drop=True))


@pytest.mark.parametrize(
    ("topology", "options", "more"),
    [
        ("city-mec", {"sites": 3}, {"scenario": "swarms", "bound": "40ms", "access": "8ms"}),
        ("city-mec", {"sites": 1}, {"scenario": "swarms", "literal": True}),
        ("matrix-sites", {"sites": 5}, {"shuffled": True, "only_violated": True}),
    ],
)
def test_other_topologies(topology: str, options: dict[str, Any], more: dict[str, Any], tmp_path: Path) -> None:
    there = spec(topology=topology, topology_options=options)
    execute(msgspec.structs.replace(there, study_options=OPTIONS | more), "run", tmp_path / "a")
    execute(there, "run", tmp_path / "b")
    found, without = (table(tmp_path / name)[list(MEASURES)] for name in "ab")
    assert (found >= 0).all(axis=None) and len(found) == 7 * len(POLICIES)
    assert not found.equals(without)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"study_options": {"scenario": "chess"}}, "scenario = 'chess'"),
        ({"study_options": {"members": 1}}, "members = 1"),
        ({"study_options": {"permutations": 0}}, "permutations = 0"),
        ({"study_options": {"bound": "soon"}}, "bound"),
        ({"study_options": {"bund": "40ms"}}, "no option 'bund'"),
        ({"topology": "wan", "topology_options": {}}, "has no sites"),
        ({"testbed": "local"}, "does not run on testbed local"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as found:
        check_all([spec(**changes)])
    assert said in str(found.value)
