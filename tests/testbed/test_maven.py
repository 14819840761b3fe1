"""What Maven fetches is what is pinned, or one line."""

import hashlib
from pathlib import Path

import pytest

from core.errors import MachineError
from testbed import maven
from testbed.maven import Artifact, fetch_jars

CONTENT = b"a jar\n"
PINNED = Artifact("org.nobody:thing:1.2", len(CONTENT), hashlib.sha512(CONTENT).hexdigest())


def doing(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """The folder that a Maven is told last, which does no more than this."""
    program, target = folder / "mvn", folder / "target"
    program.write_text(f'#!/bin/sh\nfor to in "$@"; do :; done; to=${{to#*=}}\n{script}\n')
    program.chmod(0o755)
    target.mkdir(exist_ok=True)
    monkeypatch.setattr(maven, "tool", lambda name: str(program))
    return target


def fetched(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """What comes of it."""
    return PINNED.fetched(doing(folder, monkeypatch, script))


def test_the_file_that_is_pinned_is_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = fetched(tmp_path, monkeypatch, "echo 'a jar' >$to/thing-1.2.jar")
    assert file.read_bytes() == CONTENT


@pytest.mark.parametrize("script", ["", "echo 'a jug' >$to/thing-1.2.jar", "echo 'a jar, and more' >$to/thing-1.2.jar"])
def test_other_bytes_than_those_that_are_pinned_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    with pytest.raises(MachineError, match=r"another file than the 6 bytes of thing 1\.2"):
        fetched(tmp_path, monkeypatch, script)
    assert list((tmp_path / "target").iterdir()) == []  # whoever looks there next takes none for the right one


def test_what_is_missing_is_said_with_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MachineError, match=r"mvn failed: \[ERROR\] Unknown host; the first time needs access"):
        fetched(tmp_path, monkeypatch, "echo '[ERROR] Unknown host'; exit 1")
    monkeypatch.setattr(maven, "tool", lambda name: None)
    with pytest.raises(MachineError, match=r"no Maven: org\.nobody:thing:1\.2 .*apt-get install .*maven"):
        PINNED.fetched(tmp_path)


@pytest.mark.parametrize("script", ["", "echo other >$to/a.jar", "echo 'a jar' >$to/a.jar; echo >$to/b.jar", "exit 1"])
def test_jars_of_other_bytes_or_names_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (tmp_path / "jars.sha256").write_text(f"{hashlib.sha256(CONTENT).hexdigest()}  a.jar\n")
    fetch_jars(tmp_path, doing(tmp_path, monkeypatch, "echo 'a jar' >$to/a.jar"))
    (tmp_path / "target" / "a.jar").unlink()
    with pytest.raises(MachineError, match=r"other jars than jars\.sha256 lists: [ab]\.jar|mvn failed"):
        fetch_jars(tmp_path, doing(tmp_path, monkeypatch, script))


def test_jars_that_do_not_come_in_time_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maven, "JARS_TIMEOUT_S", 0.2)
    with pytest.raises(MachineError, match=r"mvn was not through in 0\.2 s; the first time needs access"):
        fetch_jars(tmp_path, doing(tmp_path, monkeypatch, "exec sleep 20"))


def test_the_environments_proxies_are_told_to_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)

    def told() -> list[str]:
        fetched(tmp_path, monkeypatch, f"printf '%s\\n' \"$@\" >{tmp_path}/told; echo 'a jar' >$to/thing-1.2.jar")
        words = (tmp_path / "told").read_text().splitlines()
        return words[words.index("-B") + 1 : words.index("-ntp")]

    assert told() == []
    monkeypatch.setenv("https_proxy", "http://me:secret@proxy.lab:3128/")
    monkeypatch.setenv("no_proxy", "localhost, .lab")
    assert told() == [
        "-Dhttps.proxyHost=proxy.lab",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|*.localhost|lab|*.lab",
        "-Daether.connector.http.useSystemProperties=true",
    ]
    monkeypatch.setenv("http_proxy", "proxy.lab")
    assert told()[:2] == ["-Dhttp.proxyHost=proxy.lab", "-Dhttp.proxyPort=80"]
