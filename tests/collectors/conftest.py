"""Places where packs and the table store are kept (a folder, by Hadoop's client too, HDFS, S3), and full disks."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collectors.store.hadoop import Place, place_of
from tests.collectors.hdfs import Hdfs, hdfs, needs_hdfs
from tests.collectors.s3.server import S3, needs_s3, s3

PLACES = [
    "a folder",
    pytest.param("Hadoop", marks=pytest.mark.slow),
    pytest.param("HDFS", marks=[pytest.mark.slow, needs_hdfs()]),
    pytest.param("S3", marks=[pytest.mark.slow, needs_s3()]),
]


@pytest.fixture(scope="module")
def running_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        yield running


@pytest.fixture(scope="module")
def running_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "HDFS":
        return place_of(f"{request.getfixturevalue('running_hdfs').url}/{tmp_path.name}")
    if request.param == "S3":
        running: S3 = request.getfixturevalue("running_s3")
        return place_of(f"{running.url}/{tmp_path.name}", running.settings)
    return place_of(f"{'file://' * (request.param == 'Hadoop')}{tmp_path / 'there'}")


@pytest.fixture
def no_file_beyond() -> Iterator[Callable[[int], None]]:
    """Until the test ends no file of this process grows beyond so many bytes: a write of more takes those, no error."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
