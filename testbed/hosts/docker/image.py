"""The image of our own hosts, made of this very system: no registry, no download, no base image.

What goes in lies there at the path that it has here: the interpreter with its library, the packages that agents import,
the code of this checkout, the broker, the programs that agents start, and the shared libraries of all these.  So an
agent's command is the same inside and outside.  It is streamed to the daemon, once for each state of what goes in.

    python -m testbed.hosts.docker.image      # the state of the code, for a Dockerfile's label
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import cache_from_source
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING

from core.errors import MachineError
from testbed.brokers.brokerd.build import BINARY
from testbed.hosts.capabilities import CHECKOUT, tool
from testbed.servers import SERVERS
from testbed.servers.found import load_server

if TYPE_CHECKING:
    from docker import DockerClient

REPOSITORY = "ratebed/node"
CODE_LABEL = "ratebed.code"  # of images that agents may run in: the state of the code that is in them
FOLDERS = ("collectors", "core", "studies", "systems", "testbed", "workloads")
PACKAGES = ("ratebed", "numpy", "numba", "llvmlite", "msgspec", "hiredis", "httptools", "psutil", "kazoo")
PROGRAMS = ("sh", "env", "sleep", "setpriv")  # and those of the servers
WAITING = ["sleep", "infinity"]  # what a container does whose work is done by agents
_LEFT_OUT = {"test", "tests", "site-packages", "idlelib", "ensurepip", "tkinter", "turtledemo", "__pycache__"}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LIBRARY = re.compile(r"(/\S+) \(0x")
_ELF = b"\x7fELF"


def node_image(client: "DockerClient") -> str:
    """The tag of our image in a daemon (``client``: the SDK's), which is made there unless it has it."""
    import docker

    tag = f"{REPOSITORY}:{key()}"
    try:
        client.images.get(tag)
    except docker.errors.ImageNotFound:
        changes = [f"LABEL {CODE_LABEL}={code_key()}", f"CMD {json.dumps(WAITING)}", f"ENV PATH={_PATH}"]
        try:
            with _stream() as file:
                said = client.api.import_image_from_data(file, repository=REPOSITORY, tag=key(), changes=changes)
        except MachineError:  # the daemon takes what came before that for all of it
            with suppress(docker.errors.ImageNotFound):
                client.images.remove(tag, force=True)
            raise
        try:
            client.images.get(tag)
        except docker.errors.ImageNotFound:
            raise MachineError(f"Docker takes no image of this system: {said.strip()[-300:]}", "free space") from None
    return tag


@cache
def code_key() -> str:
    """A hash of the code, as it is."""
    digest = hashlib.sha256()
    for path in _code():
        digest.update(f"{path.relative_to(CHECKOUT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@cache
def key() -> str:
    """A hash of all that goes in; of what is no code of ours, names, sizes and times will do."""
    digest = hashlib.sha256(code_key().encode())
    code = set(_code())
    for path in contents():
        if path not in code and path.suffix != ".pyc":  # those follow from the others
            status = path.lstat()
            digest.update(f"{path}\0{status.st_size} {status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def _code() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in _files(CHECKOUT / folder) if path.suffix != ".go")


@cache
def contents() -> tuple[Path, ...]:
    """Every file and link that goes in, by its path."""
    library = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("platstdlib"))
    files = {*_code(), *(path for folder in set(library) for path in _files(folder) if path.suffix != ".a")}
    files |= _packages()
    programs = [*PROGRAMS, *(program for name in SERVERS for program in load_server(name).programs)]
    for program in [sys.executable, *filter(None, map(tool, programs))]:
        files |= _with_targets(Path(program))
    files |= set(filter(Path.is_file, [BINARY, Path(sys.prefix) / "pyvenv.cfg"]))
    files |= set(_libraries([path for path in files if _is_elf(path)]))
    # In a container, Python would have to compile every module anew every time.
    compiled = {Path(cache_from_source(str(path))) for path in files if path.suffix == ".py"}
    return tuple(sorted(files | set(filter(Path.is_file, compiled))))


def _files(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT and not name.startswith("config-"))
        yield from (Path(here, name) for name in names)


def _packages() -> set[Path]:
    paths = set()
    for name in PACKAGES:
        try:
            files = distribution(name).files or ()
        except PackageNotFoundError:
            raise MachineError(f"no Python package {name} is installed", "make setup") from None
        for file in files:
            path = Path(os.path.normpath(str(file.locate())))
            if not _LEFT_OUT & set(file.parts) and path.is_file():
                paths.add(path)
    return paths


def _with_targets(path: Path) -> set[Path]:
    """A program, and what it is a link to, step by step."""
    links = {path}
    while path.is_symlink():
        path = Path(os.path.normpath(path.parent / path.readlink()))
        links.add(path)
    return links


def _is_elf(path: Path) -> bool:
    if path.suffix in (".py", ".h", ".txt", ".toml", ".csv") or path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(4) == _ELF


def _libraries(paths: list[Path]) -> Iterator[Path]:
    """The shared libraries of programs and modules, by ``ldd``; those that are there already are no harm."""
    done = subprocess.run(["ldd", *map(str, paths)], capture_output=True, text=True, errors="replace")
    for name in sorted(set(_LIBRARY.findall(done.stdout))):
        yield Path(os.path.normpath(name))


@contextmanager
def _stream() -> Iterator[IO[bytes]]:
    """All that goes in, as a thread writes it; MachineError at the end where something of it cannot be read."""
    reading, writing = os.pipe()
    problems: list[Exception] = []

    def write() -> None:
        try:
            with (
                os.fdopen(writing, "wb") as pipe,
                tarfile.open(fileobj=pipe, mode="w|", format=tarfile.PAX_FORMAT) as tar,
            ):
                _write(tar)
        except BrokenPipeError:  # the daemon takes no more, and says why
            pass
        except Exception as error:
            problems.append(error)

    thread = threading.Thread(target=write, name="image", daemon=True)
    thread.start()
    with os.fdopen(reading, "rb") as file:
        yield file
    thread.join()
    if problems:
        raise MachineError(f"the image of this system is not whole: {problems[0]}", "try again")


def _write(tar: tarfile.TarFile) -> None:
    for name, mode in (("tmp", 0o1777), ("root", 0o700), ("run", 0o755)):
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        tar.addfile(entry)
    for name, text in (("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"), ("etc/group", "root:x:0:\n")):
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(text), 0o644
        tar.addfile(entry, BytesIO(text.encode()))
    for path in contents():
        is_library = path.suffix == ".so" or ".so." in path.name  # goes in by each of its names
        tar.add(path.resolve() if is_library else path, str(path), recursive=False, filter=_of_root)


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """As it is here, its time too, which Numba compares, but root's."""
    return entry.replace(uid=0, gid=0, uname="", gname="", deep=False)


if __name__ == "__main__":
    print(code_key())
