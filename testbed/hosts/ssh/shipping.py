"""Code, broker and Python environment on a machine: brought once for each state of them, in folders named by hash."""

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from shlex import quote

from core.errors import MachineError
from core.reading import reading
from testbed.hosts.capabilities import CHECKOUT
from testbed.hosts.ssh.connection import SshConnection, lines_of

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
    notes: list[str]  # what is different there, and no harm


@cache
def code_bundle() -> Bundle:
    """What agents need of the project."""
    paths = [path for folder in FOLDERS for path in (CHECKOUT / folder).rglob("*") if path.suffix in SUFFIXES]
    return bundle("code", CHECKOUT, *sorted(paths))


@cache
def bundle(kind: str, root: Path, *paths: Path) -> Bundle:
    """Files by their names below a folder."""
    digest, buffer = hashlib.sha256(), io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as tar:
        for path in paths:
            name, data = path.relative_to(root).as_posix(), path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), path.stat().st_mode & 0o777
            digest.update(f"{name}\0{entry.mode}\0{len(data)}\0".encode() + data)
            tar.addfile(entry, io.BytesIO(data))
    return Bundle(f"{kind}-{digest.hexdigest()[:16]}", buffer.getvalue())


def ship(connection: SshConnection, brokerd: Path | None, token: str) -> Shipped:
    """Bring what is not there yet; MachineError says what is wrong with the machine's disk or Python."""
    wanted = quote(connection.machine.folder)
    told = connection.done(script(f"umask 077; pwd -P; mkdir -p {wanted}; cd {wanted}; pwd -P"))
    with reading(
        f"{connection.machine.name} says of its folder {told[:60]!r}", "name another: folder = …", MachineError
    ):
        users, home = told.decode().splitlines()

    def bring(what: Bundle) -> str:
        """The bundle's folder, unpacked aside and renamed where it was not there."""
        path, part = f"{home}/{what.name}", quote(f"{home}/.{what.name}.{token}")
        if connection.run(f"test -d {quote(path)}").returncode:
            unpack = f"trap 'rm -rf {part}' EXIT; umask 077; mkdir {part}; tar -xzf - -C {part}"
            there = f"mv -T {part} {quote(path)} || test -d {quote(path)}"  # another run may have been faster
            connection.done(script(f"{unpack}; {there}"), what.data, SHIP_S)
        return path

    code, program, python = bring(code_bundle()), "", connection.machine.python
    if brokerd is not None:
        program = f"{bring(bundle('brokerd', brokerd.parent, brokerd))}/{brokerd.name}"
    if "/" in python:  # agents run with it in folders of their own
        python = str(PurePosixPath(users, python))
    if not python:  # that of an environment of the machine's own, made where it is not there
        path = bring(bundle("environment", CHECKOUT, *(CHECKOUT / name for name in ENVIRONMENT)))
        connection.done(f"{quote(path)}/bootstrap.sh packages", timeout_s=ENVIRONMENT_S)
        python = f"{path}/.venv/bin/python"
    return Shipped(home, code, program, python, _check_python(connection, python))


def _check_python(connection: SshConnection, python: str) -> list[str]:
    """MachineError where agents cannot run with it; what is merely different is returned."""
    said = connection.run(f"{quote(python)} -c {quote(_ASK)} {' '.join(MODULES)}")
    if said.returncode:
        fix = "name one that is there in the inventory, python = …, or none: then one is made"
        raise connection.wrong(f"no Python at {python}: {(lines_of(said.stderr) or [''])[-1]}", fix)
    with reading(f"{python} answers {said.stdout[:60]!r}", "name another in the inventory", MachineError):
        told = json.loads(said.stdout)
        there = tuple(told["version"][:2])
    if there < OLDEST:
        raise connection.wrong(f"{python} is {'.'.join(map(str, told['version']))}", "name one of at least 3.11")
    missing = [name for name, release in told["found"].items() if not release]
    if missing:
        fix = f"install them there, as in: {python} -m pip install {' '.join(missing)}; or name no python"
        raise connection.wrong(f"{python} has no {', '.join(missing)}", fix)
    return [
        f"{connection.machine.name} has {name} {release}, here {version(name)}"
        for name, release in told["found"].items()
        if release != version(name)
    ]


def script(text: str) -> str:
    """A command that runs a script, whatever the user's shell is."""
    return f"sh -ec {quote(text)}"
