"""Finds the Java that Spark runs on."""

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from shutil import which

from core.errors import MachineError

JAVA_MINIMUM = 17  # Spark 4
CHECKOUT = Path(__file__).parents[1]
JAVA_FIX = f"install Java {JAVA_MINIMUM} or newer and set JAVA_HOME, or run `make setup`, which brings one"


def find_java() -> Path:
    """A Java home that Spark can run on: ``JAVA_HOME``, ``.java`` in the checkout, or ``java`` on the PATH."""
    rejected = []
    for home in _java_homes():
        version = java_version(home)
        if version is not None and version >= JAVA_MINIMUM:
            return home
        rejected.append(f"{home} is Java {version}" if version else f"{home} has no working bin/java")
    raise MachineError(f"Spark needs Java {JAVA_MINIMUM}: {', '.join(rejected) or 'none found'}", JAVA_FIX)


def _java_homes() -> Iterable[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    if (CHECKOUT / ".java").exists():
        yield CHECKOUT / ".java"
    on_path = which("java")
    if on_path:
        yield Path(on_path).resolve().parents[1]


def java_version(home: Path) -> int | None:
    """The major version of a Java home, 17; None where it has no Java that runs."""
    command = [str(home / "bin" / "java"), "-XshowSettings:properties", "-version"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"java\.specification\.version = (?:1\.)?([0-9]+)", said)
    return int(match[1]) if match else None
