"""The distribution of Pulsar: what is fetched is what is pinned, and what is missing is said with what brings it."""

import tarfile
from pathlib import Path

import pytest

from testbed.hosts.capabilities import find_capability, fix_of
from testbed.maven import Artifact
from testbed.servers.found import load_server
from testbed.servers.pulsar import build
from tests.live import needs


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(build, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(build, "HOME", tmp_path / "cache" / build.HOME.name)
    return tmp_path / "cache"


def test_an_archive_is_unpacked_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / build.HOME.name).mkdir()
    (tmp_path / build.HOME.name / "README").write_text("of Pulsar")

    def fetched(artifact: Artifact, folder: Path) -> Path:
        with tarfile.open(folder / "archive", "w:gz") as archive:
            archive.add(tmp_path / build.HOME.name, build.HOME.name)
        return folder / "archive"

    monkeypatch.setattr(Artifact, "fetched", fetched)
    assert (build.unpacked() / "README").read_text() == "of Pulsar"
    monkeypatch.setattr(Artifact, "fetched", lambda artifact, folder: pytest.fail("it is fetched again"))
    assert build.unpacked() == build.HOME
    assert list(cache.iterdir()) == [build.HOME], "the archive is Maven's to keep"


def test_without_it_a_machine_is_told_what_brings_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_capability.cache_clear()
    assert find_capability("pulsar") is None
    if find_capability("java"):
        assert fix_of("pulsar") == "make live PULSAR=yes"
    find_capability.cache_clear()


@needs("pulsar")
def test_the_distribution_and_the_client_are_here() -> None:
    assert (build.HOME / "lib" / f"org.apache.pulsar-pulsar-broker-{build.VERSION}.jar").is_file()
    assert (build.CLIENT / "pulsar" / "__init__.py").is_file()
    assert load_server("pulsar").versions == {"pulsar": build.VERSION}
