"""``python -m testbed.servers.bucket4j.build``: bring the jars and compile the member, once for each state of these.

It lies in ``.bucket4j/`` of the checkout, in a folder named for the hash of all that goes into it: the jars that
``jars.sha256`` lists, byte for byte, brought by Maven as ``pom.xml`` says; ``Member.java``, compiled; and
``bucket4j-member``, a script that starts Java with these, ``java.options``, and whatever words it is given.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from core.errors import MachineError
from testbed.hosts.capabilities import CHECKOUT, tool

SOURCES = Path(__file__).resolve().parent
FILES = ("Member.java", "jars.sha256", "pom.xml")
SETTINGS = ("java.options", "logging.properties")
CACHE = CHECKOUT / ".bucket4j"
NAME = "bucket4j-member"
RELEASE = "17"  # of Java, at least
FETCH_TIMEOUT_S, COMPILE_TIMEOUT_S = 300, 120  # 36 s and 3 s on two cores; 17 MB of jars, and Maven's own
_JDK = "apt-get install --no-install-recommends default-jdk-headless, or name a JDK of at least 17 by JAVA_HOME"
_MAVEN = "apt-get install --no-install-recommends maven"
_OFFLINE = "the first build needs access to Maven's packages; see testbed/servers/bucket4j/README.md"
_SCRIPT = """#!/bin/sh
here=${{0%/*}}
[ "$*" != --version ] || exec echo "{versions}"
logging=-Djava.util.logging.config.file=$here/logging.properties
exec {java} "@$here/java.options" "$logging" -cp "$here:$here/lib/*" "$@"
"""


def find_jdk() -> Path | None:
    """The home of a Java that compiles: ``JAVA_HOME``, the checkout's, the PATH's."""
    for home in _homes():
        if os.access(home / "bin" / "javac", os.X_OK):
            return home
    return None


def _homes() -> Iterator[Path]:
    if named := os.environ.get("JAVA_HOME"):
        yield Path(named).resolve()
    yield (CHECKOUT / ".java").resolve()
    if compiler := tool("javac"):
        yield Path(compiler).resolve().parent.parent


def built() -> Path:
    """The script; MachineError where it cannot be built."""
    if not BINARY.is_file():
        jdk, maven = find_jdk(), tool("mvn")
        if jdk is None:
            raise MachineError(f"no JDK: {NAME} cannot be compiled", _JDK)
        if maven is None:
            raise MachineError(f"no Maven: {NAME} has no jars", _MAVEN)
        CACHE.mkdir(parents=True, exist_ok=True)
        # Made aside and renamed: of two that build at once one is first, and both are right.
        with tempfile.TemporaryDirectory(dir=CACHE, prefix=".making-") as aside:
            made = Path(aside, "made")
            _fetch(maven, jdk, made / "lib")
            _compile(jdk, made)
            for name in SETTINGS:
                shutil.copyfile(SOURCES / name, made / name)
            script = made / NAME
            versions = ",".join(name.removesuffix(".jar") for name in pinned())
            script.write_text(_SCRIPT.format(java=shlex.quote(str(jdk / "bin" / "java")), versions=versions))
            script.chmod(0o755)
            try:
                made.rename(BINARY.parent)
            except OSError:
                if not BINARY.is_file():
                    raise
    return BINARY


def pinned() -> dict[str, str]:
    """Name of a jar -> its SHA-256."""
    lines = (SOURCES / "jars.sha256").read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def _folder() -> Path:
    digest = hashlib.sha256(f"{_SCRIPT}\0{RELEASE}\0".encode())
    for name in (*FILES, *SETTINGS):
        digest.update(f"{name}\0".encode() + (SOURCES / name).read_bytes() + b"\0")
    return CACHE / digest.hexdigest()[:16]


def _fetch(maven: str, jdk: Path, lib: Path) -> None:
    """The jars, and no others; MachineError where one has other bytes than those that are pinned."""
    goal = ["-f", str(SOURCES / "pom.xml"), "dependency:copy-dependencies"]
    places = [f"-Dmaven.repo.local={CACHE / 'maven'}", f"-DoutputDirectory={lib}"]
    _run([maven, "-q", "-B", *goal, *places], jdk, FETCH_TIMEOUT_S, _OFFLINE)
    came = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in lib.glob("*")}
    if others := sorted({name for name, _ in came.items() ^ pinned().items()}):
        what = f"Maven brought other jars than jars.sha256 lists: {', '.join(others)}"
        raise MachineError(what, f"remove {CACHE}, and ask who changed them")


def _compile(jdk: Path, folder: Path) -> None:
    paths = "-cp", str(folder / "lib" / "*"), "-d", str(folder)
    words = [str(jdk / "bin" / "javac"), "--release", RELEASE, "-Xlint:all,-classfile", "-Werror", *paths]
    _run([*words, str(SOURCES / "Member.java")], jdk, COMPILE_TIMEOUT_S, _JDK)


def _run(command: list[str], jdk: Path, timeout_s: int, fix: str) -> None:
    environment = {**os.environ, "JAVA_HOME": str(jdk)}
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise MachineError(f"{name} was not through in {timeout_s} s", fix) from None
    if done.returncode:
        raise MachineError(f"{name} failed: {_plain(done.stdout + done.stderr)[-500:]}", fix)


def _plain(text: str) -> str:
    """Without colours, on one line."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())


BINARY = _folder() / NAME  # once it is built

if __name__ == "__main__":
    print(built())
