"""The distribution of Pulsar: what is fetched is what is pinned, and what is missing is said with what brings it."""

import tarfile
from pathlib import Path

import pytest

from core.errors import MachineError
from testbed.hosts.capabilities import find_capability, fix_of
from testbed.servers.found import load_server
from testbed.servers.pulsar import build
from tests.live import needs


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(build, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(build, "HOME", tmp_path / "cache" / build.HOME.name)
    return tmp_path / "cache"


def maven(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A Maven that does no more than this; it is told the folder for the archive last."""
    file = folder / "mvn"
    file.write_text(f'#!/bin/sh\nfor to in "$@"; do :; done; to=${{to#*=}}\n{script}\n')
    file.chmod(0o755)
    monkeypatch.setattr(build, "tool", lambda name: str(file))


@pytest.mark.parametrize("script", ["", 'echo other >"$to/pulsar.tar.gz"'])
def test_other_bytes_than_those_that_are_pinned_are_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    maven(tmp_path, monkeypatch, script)
    with pytest.raises(MachineError, match=r"another archive than the 245494718 bytes of Pulsar 4\.0\.8"):
        build.unpacked()
    assert list(cache.iterdir()) == []


def test_what_is_missing_is_said_with_what_brings_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven(tmp_path, monkeypatch, "echo '[ERROR] Unknown host'; exit 1")
    with pytest.raises(MachineError, match=r"mvn failed: \[ERROR\] Unknown host; the first time needs access"):
        build.unpacked()
    monkeypatch.setattr(build, "tool", lambda name: None)
    with pytest.raises(MachineError, match=r"no Maven: .*apt-get install .*maven"):
        build.unpacked()


def test_an_archive_of_the_right_bytes_is_unpacked_once(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / build.HOME.name).mkdir()
    (tmp_path / build.HOME.name / "README").write_text("of Pulsar")
    with tarfile.open(tmp_path / "archive", "w:gz") as archive:
        archive.add(tmp_path / build.HOME.name, build.HOME.name)
    monkeypatch.setattr(build, "SIZE_BYTES", (tmp_path / "archive").stat().st_size)
    monkeypatch.setattr(build, "SHA512", build._sha512(tmp_path / "archive"))
    maven(tmp_path, monkeypatch, f'cp {tmp_path}/archive "$to/pulsar.tar.gz"')
    assert (build.unpacked() / "README").read_text() == "of Pulsar"
    maven(tmp_path, monkeypatch, "exit 1")
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
