"""Code, broker and Python environment on a machine: brought once for each state of them, in folders named by hash."""

import hashlib
import io
import json
import shlex
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from testbed.hosts.capabilities import CHECKOUT
from testbed.hosts.ssh.connection import SshConnection

FOLDERS = ("core", "systems", "workloads", "testbed", "studies", "collectors")
SUFFIXES = (".py", ".toml", ".csv")
ENVIRONMENT = ("bootstrap.sh", "requirements-build.lock", "requirements.lock")
MODULES = ("numpy", "msgspec", "psutil")  # without which no agent starts
SHIP_S = 300.0
ENVIRONMENT_S = 1800.0  # packages are fetched, unpacked and compiled
OLDEST = (3, 11)
_ASK = """
import importlib.util, importlib.metadata, json, sys
found = {name: importlib.util.find_spec(name) and importlib.metadata.version(name) for name in sys.argv[1:]}
print(json.dumps({"version": sys.version_info[:3], "found": found}))
"""


@dataclass(frozen=True)
class Bundle:
    """Files as one ``.tar.gz``, and the name of the folder that they make."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Shipped:
    """Where things are on a machine; absolute paths."""

    folder: str
    code: str
    brokerd: str  # "" where none was brought
    python: str
    notes: tuple[str, ...] = ()


@cache
def code_bundle() -> Bundle:
    """What agents need of the project."""
    paths = [path for folder in FOLDERS for path in (CHECKOUT / folder).rglob("*") if path.suffix in SUFFIXES]
    return _bundle("code", ((path.relative_to(CHECKOUT).as_posix(), path) for path in sorted(paths)))


@cache
def environment_bundle() -> Bundle:
    """What makes the Python environment."""
    return _bundle("environment", ((name, CHECKOUT / name) for name in ENVIRONMENT))


@cache
def broker_bundle(program: Path) -> Bundle:
    """The broker's program."""
    return _bundle("brokerd", [(program.name, program)])


def _bundle(kind: str, files: Iterable[tuple[str, Path]]) -> Bundle:
    digest, buffer = hashlib.sha256(), io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as tar:
        for name, path in files:
            data = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), path.stat().st_mode & 0o777
            digest.update(f"{name}\0{entry.mode}\0{len(data)}\0".encode() + data)
            tar.addfile(entry, io.BytesIO(data))
    return Bundle(f"{kind}-{digest.hexdigest()[:16]}", buffer.getvalue())


def ship(connection: SshConnection, brokerd: Path | None, token: str) -> Shipped:
    """Bring what is not there yet; MachineError says what is wrong with the machine's disk or Python."""
    wanted = q(connection.machine.folder)
    home = connection.done(script(f"umask 077; mkdir -p {wanted}; cd {wanted}; pwd -P")).decode().strip()
    code = bring(connection, home, code_bundle(), token)
    program = "" if brokerd is None else f"{bring(connection, home, broker_bundle(brokerd), token)}/{brokerd.name}"
    python = connection.machine.python or _environment(connection, home, token)
    return Shipped(home, code, program, python, tuple(_check_python(connection, python)))


def bring(connection: SshConnection, folder: str, bundle: Bundle, token: str) -> str:
    """The bundle's folder, unpacked aside and renamed where it was not there."""
    path, part = f"{folder}/{bundle.name}", f"{folder}/.{bundle.name}.{token}"
    if connection.run(f"test -d {q(path)}").code:
        unpack = f"trap 'rm -rf {q(part)}' EXIT; umask 077; mkdir {q(part)}; tar -xzf - -C {q(part)}"
        there = f"mv -T {q(part)} {q(path)} || test -d {q(path)}"  # another run may have been faster
        connection.done(script(f"{unpack}; {there}"), bundle.data, SHIP_S)
    return path


def _environment(connection: SshConnection, folder: str, token: str) -> str:
    """The Python of an environment of the machine's own, made where it is not there."""
    path = bring(connection, folder, environment_bundle(), token)
    connection.done(f"{q(path)}/bootstrap.sh packages", timeout_s=ENVIRONMENT_S)
    return f"{path}/.venv/bin/python"


def _check_python(connection: SshConnection, python: str) -> list[str]:
    """MachineError where agents cannot run with it; what is merely different is returned."""
    said = connection.run(f"{q(python)} -c {q(_ASK)} {' '.join(MODULES)}")
    if said.code:
        fix = "name one that is there in the inventory, python = …, or none: then one is made"
        raise connection.wrong(f"no Python at {python}: {(said.err.splitlines() or [''])[-1]}", fix)
    told = json.loads(said.out)
    if tuple(told["version"][:2]) < OLDEST:
        raise connection.wrong(f"{python} is {'.'.join(map(str, told['version']))}", "name one of at least 3.11")
    missing = [name for name, release in told["found"].items() if not release]
    if missing:
        fix = f"install them there, as in: {python} -m pip install {' '.join(missing)}; or name no python"
        raise connection.wrong(f"{python} has no {', '.join(missing)}", fix)
    other = [
        f"{name} {release}, here {version(name)}" for name, release in told["found"].items() if release != version(name)
    ]
    return [f"{connection.machine.name} has {text}" for text in other]


def script(text: str) -> str:
    """A command that runs a script, whatever the user's shell is."""
    return f"sh -ec {q(text)}"


def q(text: str) -> str:
    """As one word of a shell."""
    return shlex.quote(text)
