"""Programs of others: where they are looked for, which version they are, and one that is built here."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from core.errors import MachineError
from harness.code_version import files_of
from studies.spec import RunSpec
from testbed import golang
from testbed.golang import CHECKOUT, GoModule
from testbed.hosts.capabilities import tool
from testbed.servers import BUILT
from testbed.servers.found import load_server
from testbed.servers.ratelimit import build
from testbed.servers.versions import version_of
from tests.live import needs


def program(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("echo nginx version: nginx/1.22.1 >&2", "1.22.1"),
        ("echo HAProxy version 2.6.12-1+deb12u4 2025/11/07", "2.6.12-1+deb12u4"),
        ("echo Redis server v=7.0.15 sha=00000000:0 bits=64; exit 1", "7.0.15"),
        ("true", ""),
    ],
)
def test_a_program_says_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, version: str) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program(tmp_path, "limiter", f"#!/bin/sh\n[ $1 = --version ] && {said}\n")
    version_of.cache_clear()
    assert version_of("limiter", "--version") == version
    assert version_of("no-such-limiter", "-v") == ""


def test_one_in_go_has_it_written_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program(
        tmp_path, "gone", "\0path\tx\ndep\texample.org/other\tv2.0.0\nmod\texample.org/limiter\tv1.4.1-0.2026\th1:=\n"
    )
    version_of.cache_clear()
    assert version_of("gone", "example.org/limiter") == "v1.4.1-0.2026"
    assert version_of("gone", "example.org/limit") == ""


def test_what_is_built_here_comes_before_what_is_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(BUILT) == {"ratelimit", "bucket4j-member"}
    program(tmp_path, "ratelimit", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(build, "BINARY", tmp_path / "absent")
    assert tool("ratelimit") == str(tmp_path / "ratelimit")
    program(tmp_path, "built", "#!/bin/sh\n")
    monkeypatch.setattr(build, "BINARY", tmp_path / "built")
    assert tool("ratelimit") == str(tmp_path / "built")


def test_a_new_version_is_another_run() -> None:
    """What is pinned counts for the runs that need it, and for no others."""
    pinned = Path("testbed/servers/ratelimit/go.mod")
    specs = {
        name: RunSpec(study="limiting", system=name, workload="requests", topology="wan", testbed="local")
        for name in ("ratelimit", "nginx")
    }
    assert pinned in files_of(specs["ratelimit"]) and pinned not in files_of(specs["nginx"])


@needs("go")
def test_where_modules_cannot_be_fetched_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOPROXY", "off")
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    module = GoModule(build.MODULE.file, tmp_path)
    with pytest.raises(MachineError, match=r"go build of ratelimit failed: .*the modules of testbed/servers/ratelimit"):
        module.built("ratelimit", build.PACKAGE)
    assert not module.program("ratelimit").exists()


def test_an_older_go_than_a_module_wants_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "go", "#!/bin/sh\necho go1.25.5\n")
    monkeypatch.setattr(golang, "_candidates", lambda: iter([tmp_path / "go"]))
    with pytest.raises(MachineError, match=r"1\.25\.5; install Go 1\.25\.6 or newer"):
        build.MODULE.find_go()
    assert golang.find_go() == tmp_path / "go"


@needs("ratelimit")
def test_ratelimit_is_what_is_pinned() -> None:
    pinned = next(line for line in build.MODULE.file.read_text().splitlines() if line.startswith("require github"))
    assert load_server("ratelimit").versions["ratelimit"] == pinned.split()[2]
    assert stat.S_IMODE(Path(tool("ratelimit") or "").stat().st_mode) & stat.S_IXUSR
    assert shutil.which("ratelimit") or str(tool("ratelimit")).startswith(str(CHECKOUT / ".ratelimit"))
