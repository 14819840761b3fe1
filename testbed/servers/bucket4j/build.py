"""``python -m testbed.servers.bucket4j.build``: bring the jars and compile the member, once for each state of these.

It lies in ``.bucket4j/`` of the checkout, in a folder named for the hash of all that goes into it: the jars that
``jars.sha256`` lists, byte for byte, brought by Maven as ``pom.xml`` says; ``Member.java``, compiled; and
``bucket4j-member``, a script that starts Java with these, ``java.options``, and whatever words it is given.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from core.errors import MachineError
from core.java import java_version
from testbed.hosts.capabilities import CHECKOUT, tool
from testbed.making import made_once
from testbed.maven import fetch_jars, pinned

SOURCES = Path(__file__).resolve().parent
FILES = ("Member.java", "jars.sha256", "pom.xml")
SETTINGS = ("java.options", "logging.properties")
CACHE = CHECKOUT / ".bucket4j"
NAME = "bucket4j-member"
RELEASE = 17  # of Java, at least
DEBIANS = Path("/usr/lib/jvm/default-java")  # there, whatever the PATH has first
COMPILE_TIMEOUT_S = 120  # 3 s on two cores
_JDK = f"apt-get install --no-install-recommends default-jdk-headless, or name a JDK of at least {RELEASE} by JAVA_HOME"
_SCRIPT = """#!/bin/sh
here=${{0%/*}}
[ "$*" != --version ] || exec echo "{versions}"
logging=-Djava.util.logging.config.file=$here/logging.properties
java={java}
[ -x "$java" ] || java=java # that one is gone since
exec "$java" "@$here/java.options" "$logging" -cp "$here:$here/lib/*" "$@"
"""


def find_jdk() -> Path | None:
    """The home of a Java that compiles and is new enough: ``JAVA_HOME``, the checkout's, the PATH's, Debian's."""
    for home in _homes():
        if os.access(home / "bin" / "javac", os.X_OK) and (java_version(home) or 0) >= RELEASE:
            return home
    return None


def _homes() -> Iterator[Path]:
    if named := os.environ.get("JAVA_HOME"):
        yield Path(named).resolve()
    yield (CHECKOUT / ".java").resolve()
    if compiler := tool("javac"):
        yield Path(compiler).resolve().parent.parent
    yield DEBIANS.resolve()


def built() -> Path:
    """The script; MachineError where it cannot be built."""
    return made_once(BINARY.parent, _make) / NAME


def _make(made: Path) -> None:
    jdk = find_jdk()
    if jdk is None:
        raise MachineError(f"no JDK: {NAME} cannot be compiled", _JDK)
    repository = f"-Dmaven.repo.local={CACHE / 'maven'}"
    fetch_jars(SOURCES, made / "lib", repository, environment={"JAVA_HOME": str(jdk)})
    _compile(jdk, made)
    for name in SETTINGS:
        shutil.copyfile(SOURCES / name, made / name)
    script = made / NAME
    versions = ",".join(name.removesuffix(".jar") for name in pinned(SOURCES))
    script.write_text(_SCRIPT.format(java=shlex.quote(str(jdk / "bin" / "java")), versions=versions))
    script.chmod(0o755)


def _folder() -> Path:
    digest = hashlib.sha256(f"{_SCRIPT}\0{RELEASE}\0".encode())
    for name in (*FILES, *SETTINGS):
        digest.update(f"{name}\0".encode() + (SOURCES / name).read_bytes() + b"\0")
    return CACHE / digest.hexdigest()[:16]


def _compile(jdk: Path, folder: Path) -> None:
    paths = "-cp", str(folder / "lib" / "*"), "-d", str(folder)
    words = [str(jdk / "bin" / "javac"), "--release", str(RELEASE), "-Xlint:all,-classfile", "-Werror", *paths]
    words.append(str(SOURCES / "Member.java"))
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise MachineError(f"javac was not through in {COMPILE_TIMEOUT_S} s", _JDK) from None
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())
        raise MachineError(f"javac failed: {said[-500:]}", _JDK)


BINARY = _folder() / NAME  # once it is built

if __name__ == "__main__":
    print(built())
