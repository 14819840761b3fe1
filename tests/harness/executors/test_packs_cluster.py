"""A campaign on workers that share no folder with whoever gave the command: runs come home by HDFS or S3, in packs."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.standalone import WAIT_S
from collectors.packs import RunPacks
from collectors.store.hadoop import place_of
from harness.campaign import finished_runs
from harness.executors.local import LocalExecutor
from ratebed.options import SEED, make_request
from ratebed.pipeline import make_plan
from tests.collectors.hdfs import Hdfs, hdfs, needs_hdfs
from tests.collectors.s3.server import S3, needs_s3, s3
from tests.harness.common import parquet_hashes
from tests.harness.executors.cluster import Cluster, cluster, ratebed, why_not

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]
SYSTEMS = [
    pytest.param("HDFS", marks=needs_hdfs()),
    pytest.param("S3", marks=[needs_s3(), pytest.mark.night]),
]
FIGURE = "srtm-fig5"


class Place(NamedTuple):
    """A cluster, a file system, and a folder of which the cluster's workers see nothing."""

    cluster: Cluster
    system: Hdfs | S3
    own: Path

    def run(self, name: str) -> tuple[int, str, Path]:
        """Exit code, words and run folder of the campaign."""
        conf = {f"spark.hadoop.{key}": value for key, value in self.system.settings.items()}
        if self.system.jars:
            conf |= {f"spark.{process}.extraClassPath": self.system.jars for process in ("driver", "executor")}
        words = [*self.cluster.words, "--packs", self.url]
        words += [word for pair in conf.items() for word in ("--spark-conf", "=".join(pair))]
        command = ratebed(self.own / name, "run", FIGURE, "--scale", "tiny", *words)
        said, _ = command.communicate(timeout=2 * WAIT_S)
        return command.returncode, said, self.own / name

    @property
    def url(self) -> str:
        """Of the packs."""
        return f"{self.system.url}/ratebed"


@pytest.fixture(scope="module", params=SYSTEMS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    own, folder = tmp_path_factory.mktemp("own"), tmp_path_factory.mktemp("there")
    with (
        hdfs(folder) if request.param == "HDFS" else s3(folder) as system,
        cluster(tmp_path_factory.mktemp("cluster"), own) as made,
    ):
        yield Place(made, system, own)


def test_runs_come_home_as_the_same_bytes_and_are_not_made_twice(place: Place) -> None:
    code, said, out = place.run("first")
    assert code == 0, said
    plan = make_plan(make_request([FIGURE], False, "tiny", SEED, 2, place.own / "here", []))
    assert not plan.campaign.run(LocalExecutor(2), lambda finished: None)
    here = parquet_hashes(plan.campaign.runs)
    assert parquet_hashes(out / "runs") == here
    assert {Path(name).parts[0] for name in here} == set(plan.campaign.wanted)

    packs = RunPacks(place_of(place.url, place.system.settings))
    before = packs.state()
    assert before.of_run.keys() == set(plan.campaign.wanted)
    if isinstance(place.system, Hdfs):
        counted = place.system.counted()
        assert counted["FilesRenamed"] == counted["FilesAppended"] == 0
    code, said, again = place.run("second")
    assert code == 0, said
    assert parquet_hashes(again / "runs") == here
    assert packs.state().number == before.number, "a run was made twice"
    assert not list(place.cluster.folder.glob("worker-*/app-*/*/runs/*")), "it was brought, and stays nowhere else"


def test_where_packs_cannot_be_reached_the_command_ends_with_one_line(place: Place) -> None:
    place.system.stop()
    code, said, out = place.run("third")
    assert code == 1 and place.system.url in said.splitlines()[-1] and "can be reached" in said, said
    assert "Traceback" not in said and not finished_runs(out)
