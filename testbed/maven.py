"""Pinned files that Maven fetches: into its own repository on this machine, where they stay for the next checkout."""

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from core.errors import MachineError
from testbed.hosts.capabilities import tool

FETCH_TIMEOUT_S = 1200  # 24 s for 245 MB where the line is good
JARS_TIMEOUT_S = 600  # 36 s for 17 MB and Maven's own; a limiter may take a quarter of an hour with all that it wants
_MAVEN = "apt-get install --no-install-recommends maven"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_OFFLINE = "the first time needs access to Maven's packages"


@dataclass(frozen=True)
class Artifact:
    """What Maven calls ``group:name:version[:type[:classifier]]``, and of which bytes it is."""

    coordinates: str
    size_bytes: int
    sha512: str

    def fetched(self, folder: Path) -> Path:
        """The file, in ``folder``, where nothing else is left.

        MachineError where Maven brings none, or another than the one that is pinned.
        """
        _, name, version, *_ = self.coordinates.split(":")
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            copy = ["dependency:copy", f"-Dartifact={self.coordinates}", f"-DoutputDirectory={aside}"]
            _maven(["-ntp", *copy], self.coordinates, FETCH_TIMEOUT_S, cwd=Path(aside))  # no project is meant
            file = next(Path(aside).glob(f"{name}-{version}*"), None)
            if file is None or file.stat().st_size != self.size_bytes or _sha512(file) != self.sha512:
                what = f"Maven brought another file than the {self.size_bytes} bytes of {name} {version} that are"
                fix = "remove its copy from Maven's repository (~/.m2), and ask who changed it"
                raise MachineError(f"{what} pinned", fix)
            return file.replace(folder / file.name)


def pinned(sources: Path) -> dict[str, str]:
    """Name of a jar -> its SHA-256, as ``jars.sha256`` in ``sources`` says."""
    lines = (sources / "jars.sha256").read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def fetch_jars(sources: Path, folder: Path, *words: str, environment: Mapping[str, str] | None = None) -> None:
    """Into ``folder`` the jars that ``pom.xml`` in ``sources`` wants, those of ``pinned`` and no others.

    ``words``: for Maven.  MachineError where it brings other bytes, or nothing in time.
    """
    goal = ["-f", str(sources / "pom.xml"), "dependency:copy-dependencies"]
    words = (*words, f"-DoutputDirectory={folder}")
    _maven([*goal, *words], f"jars of {sources.name}", JARS_TIMEOUT_S, environment=environment)
    came = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*")}
    if others := sorted({name for name, _ in came.items() ^ pinned(sources).items()}):
        what = f"Maven brought other jars than jars.sha256 lists: {', '.join(others)}"
        raise MachineError(what, "remove their copies from Maven's repository, and ask who changed them")


def _maven(
    words: list[str],
    what: str,
    timeout_s: float,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run it; MachineError, that says ``what`` is missing, where it is not here, or fails."""
    maven = tool("mvn")
    if maven is None:
        raise MachineError(f"no Maven: {what} cannot be fetched", _MAVEN)
    try:
        done = subprocess.run(
            [maven, "-q", "-B", *_proxies(), *words],
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        raise MachineError(f"mvn was not through in {timeout_s} s", _OFFLINE) from None
    if done.returncode:
        said = " ".join(_COLOUR.sub("", done.stdout + done.stderr).split())
        raise MachineError(f"mvn failed: {said[-500:]}", _OFFLINE)


def _proxies() -> list[str]:
    """Words that name the proxies of ``http_proxy``, ``https_proxy`` and ``no_proxy``, which Maven does not look at.

    Without a user and a password: a command line is no secret.
    """
    named = getproxies()
    words = []
    for kind in ("http", "https"):
        at = urlsplit("//" + named.get(kind, "").rpartition("://")[2])
        if at.hostname:
            words += [f"-D{kind}.proxyHost={at.hostname}", f"-D{kind}.proxyPort={at.port or 80}"]
    if words:
        hosts = [host.strip().lstrip(".") for host in named.get("no", "").split(",")]
        words.append("-Dhttp.nonProxyHosts=" + "|".join(f"{host}|*.{host}" for host in hosts if host))
        words.append("-Daether.connector.http.useSystemProperties=true")  # since 3.9 it wants to be asked
    return words


def _sha512(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha512").hexdigest()
