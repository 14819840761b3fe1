"""bucket4j-member: what it is built of, what it says where that cannot be had, and the one that is built."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import MachineError
from harness.code_version import files_of
from studies.spec import RunSpec
from testbed import maven
from testbed.hosts.capabilities import tool
from testbed.maven import pinned
from testbed.servers.bucket4j import build
from testbed.servers.found import load_server
from tests.live import needs


def test_the_jars_that_are_pinned_are_those_of_the_pom() -> None:
    pom = (build.SOURCES / "pom.xml").read_text()
    wanted = re.findall(r"<dependency>\s+<groupId>.*?<artifactId>(.*?)<.*?<version>(.*?)<", pom, re.DOTALL)
    assert len(wanted) == 2 and {f"{name}-{version}.jar" for name, version in wanted} <= set(pinned(build.SOURCES))
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in pinned(build.SOURCES).values())


def test_what_is_missing_is_said_with_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(build, "BINARY", tmp_path / "cache" / "key" / build.NAME)
    monkeypatch.setattr(build, "find_jdk", lambda: None)
    with pytest.raises(MachineError, match=r"no JDK: .*apt-get install .*default-jdk-headless"):
        build.built()
    monkeypatch.setattr(build, "find_jdk", lambda: tmp_path)
    monkeypatch.setattr(maven, "tool", lambda name: None)
    with pytest.raises(MachineError, match=r"no Maven: .*apt-get install .*maven"):
        build.built()
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_jdk_is_looked_for_where_it_is_named_first(
    java_home: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that compiles, and is new enough."""
    named, of_path, new = java_home("named", 17), java_home("path", 11), java_home("new", 21)
    for home in (named, of_path, new):
        (home / "bin" / "javac").touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(named))
    monkeypatch.setattr(build, "CHECKOUT", named.parent)
    monkeypatch.setattr(build, "tool", lambda name: str(of_path / "bin" / "javac"))
    monkeypatch.setattr(build, "DEBIANS", new)
    assert build.find_jdk() == named
    (named / "bin" / "javac").chmod(0o644)
    assert build.find_jdk() == new
    (new / "bin" / "java").unlink()
    assert build.find_jdk() is None


def test_another_main_is_another_run() -> None:
    """What the member is made of counts for the runs that need it, and for no others."""
    made_of = {Path("testbed/servers/bucket4j", name) for name in (*build.FILES, *build.SETTINGS)}
    specs = [
        RunSpec(study="limiting", system=name, workload="requests", topology="wan", testbed="local")
        for name in ("bucket4j", "redis-gcra")
    ]
    assert [made_of & set(files_of(spec)) for spec in specs] == [made_of, set()]


@needs("bucket4j")
def test_the_member_is_what_is_pinned() -> None:
    assert tool(build.NAME) == str(build.BINARY)
    assert load_server("bucket4j").versions == {build.NAME: "8.14.0,bucket4j_jdk17-hazelcast-8.14.0,hazelcast-5.5.0"}
