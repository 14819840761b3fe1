"""Paths on any file system that Hadoop's client knows (HDFS, S3A, …), with the few methods of pathlib's that we need.

Java does the work: a small process beside ours with the jars that PySpark brings, and those of ``HADOOP_CLASSPATH``
(S3A has some of its own), started when a path is first asked for something (a second), and ended with ours.  Its
settings are those of ``HADOOP_CONF_DIR`` and of the path.

Nothing here renames, appends or replaces: a file is created where there is none, else not at all.  So it asks no more
than object stores give.  Errors are OSErrors: FileNotFoundError, FileExistsError, EBADMSG where the file system itself
finds that it has not what was written, and EIO for all else; ``ScratchFull`` where it is our own disk that is full.
"""

import errno
import hashlib
import io
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, overload

from collectors.scratch import FULL, ScratchFull, writing_scratch
from core.errors import SpecError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from py4j.java_gateway import JavaGateway

CHUNK_BYTES = 1 << 20  # that Java copies at a time
# Of S3A: creation is a conditional put.  Others have it anyway, and pass this over.
_CONDITIONAL = "fs.option.create.conditional.overwrite"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?([^/]*)(.*)", re.DOTALL)
_ERRORS = {
    "FileNotFoundException": errno.ENOENT,
    "NoSuchFileException": errno.ENOENT,
    "FileAlreadyExistsException": errno.EEXIST,
    "AlreadyBeingCreatedException": errno.EEXIST,  # somebody writes it, or did when that was killed
    "RecoveryInProgressException": errno.EEXIST,
    "ChecksumException": errno.EBADMSG,
    "BlockMissingException": errno.EIO,  # a data node may be down, and come back
    "AccessControlException": errno.EACCES,
}
GONE = {errno.ENOENT, errno.EBADMSG}  # the file system answers, and has not what was written
_SAID_WHERE_FULL = {os.strerror(code) for code in FULL}  # Java's words, too
# S3A's word for a conditional put that somebody else's was ahead of; of a file that is read it means damage.
_WHERE_CREATED = {"RemoteFileChangedException": errno.EEXIST}


class FileStatus(NamedTuple):
    """Of a file or folder, named as in ``os.stat_result``."""

    st_size: int
    st_mtime: float
    st_mtime_ns: int
    st_ino: int = 0


@dataclass(frozen=True, order=True)
class HadoopPath:
    """``url``: ``scheme://authority/path``, without a slash at its end.  ``settings``: of Hadoop's, as pairs."""

    url: str
    settings: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> "HadoopPath":
        return HadoopPath(f"{self.url}/{name}", self.settings)

    @property
    def name(self) -> str:
        """As pathlib has it; so are the others."""
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> "HadoopPath":
        """The folder that it is in."""
        return HadoopPath(self.url.rpartition("/")[0], self.settings)

    def exists(self) -> bool:
        """Whether there is a file or folder."""
        with self._asked() as (system, path):
            return bool(system.exists(path))

    def is_dir(self) -> bool:
        """Whether there is a folder."""
        with self._asked() as (system, path):
            return bool(system.exists(path) and system.getFileStatus(path).isDirectory())

    def stat(self) -> FileStatus:
        """Size and instant of writing."""
        with self._asked() as (system, path):
            status = system.getFileStatus(path)
            written_ms = int(status.getModificationTime())
            return FileStatus(int(status.getLen()), written_ms / 1e3, written_ms * 10**6)

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Make the folder, and those that it is in; one that is there is no error."""
        with self._asked() as (system, path):
            system.mkdirs(path)

    def rmdir(self) -> None:
        """Remove a folder that is empty."""
        self.unlink()

    def unlink(self) -> None:
        """Remove a file, or a folder that is empty."""
        with self._asked() as (system, path):
            if not system.delete(path, False):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url)

    def iterdir(self) -> Iterator["HadoopPath"]:
        """What is in the folder."""
        with self._asked() as (system, path):
            names = [status.getPath().getName() for status in system.listStatus(path)]
        return (self / name for name in sorted(names))

    def glob(self, pattern: str) -> Iterator["HadoopPath"]:
        """What is in the folder under such names; nothing where there is no folder."""
        try:
            return (path for path in self.iterdir() if fnmatchcase(path.name, pattern))
        except FileNotFoundError:
            return iter(())

    def read_bytes(self) -> bytes:
        """The whole file."""
        with self.open("rb") as file:
            return file.read()

    def sha256(self) -> str:
        """Of the file, in hexadecimal; Java reads it, and Python does not."""
        with self._asked() as (system, path), closing(system.open(path)) as stream:
            return str(_gateway().jvm.org.apache.commons.codec.digest.DigestUtils.sha256Hex(stream))

    @overload
    def open(self, mode: Literal["rb"]) -> io.BufferedReader: ...
    @overload
    def open(self, mode: Literal["xb"]) -> "_Writer": ...
    def open(self, mode: str) -> "io.BufferedReader | _Writer":
        """``xb``: a file that is not there yet, whole when it is closed.  ``rb``: one that is there."""
        assert mode in ("xb", "rb"), mode
        with self._asked() as (system, path):
            if mode == "rb":
                return _copied(system.open(path))
            builder = system.createFile(path).overwrite(False).recursive().opt(_CONDITIONAL, "true")
            return _Writer(self, builder.build())

    @contextmanager
    def _asked(self) -> Iterator[tuple[Any, Any]]:
        """Its file system, and the path as Java has it."""
        with _answered(self):
            yield (
                _file_system(os.getpid(), self.url.partition("/")[0], self._authority(), self.settings),
                _java_path(self.url),
            )

    def _authority(self) -> str:
        return self.url.split("/")[2]


Place = Path | HadoopPath


def place_of(text: str, settings: Mapping[str, str] | None = None) -> Place:
    """A path, or a URL of a Hadoop file system with these settings of Hadoop's; SpecError for what is neither.

    What begins with a scheme is no path, so that a slip fills no folder ``./hdfs:``.  ``hdfs:///path`` is on the host
    that Hadoop's ``fs.defaultFS`` names; the root of that must be asked for with its host.
    """
    match = _URL.fullmatch(text)
    if match is None:
        return Path(text).absolute()
    scheme, slashes, authority, path = match.groups()
    path = path.rstrip("/")
    with_host = f"{scheme}://HOST/PATH, or {scheme}:///PATH for the host of fs.defaultFS"
    url = "file:///PATH" if scheme == "file" else with_host
    if not slashes:
        raise SpecError(f"{text}: no // after {scheme}:", f"write {url}; a folder here is ./{text}")
    if not authority and not path:
        raise SpecError(f"{text}: names no folder", f"write {url}")
    return HadoopPath(f"{scheme}://{authority}{path}", tuple(sorted((settings or {}).items())))


def sha256_of(path: Place) -> str:
    """Of a file, in hexadecimal."""
    if isinstance(path, HadoopPath):
        return path.sha256()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_durable(file: IO[bytes]) -> None:
    """What was written to a new file is there after a crash of this machine, at the latest when it is closed."""
    if not isinstance(file, _Writer):
        file.flush()
        os.fsync(file.fileno())


class _Writer(io.FileIO):
    """A new file: what is written to it is kept here until it is closed, then goes there at once."""

    def __init__(self, path: HadoopPath, stream: Any):
        with writing_scratch():
            handle, self.kept_in = tempfile.mkstemp(prefix="ratebed-")
        super().__init__(handle, "wb")
        self.path, self.stream = path, stream

    def write(self, data: "ReadableBuffer", /) -> int:
        """All of it: a raw file writes what there is room for, and says so to callers who do not look."""
        view = memoryview(data).cast("B")
        done = 0
        with writing_scratch():
            while done < len(view):
                done += super().write(view[done:])
        return done

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        java = _gateway().jvm
        try:
            with _answered(self.path, _WHERE_CREATED), closing(java.java.io.FileInputStream(self.kept_in)) as source:
                java.org.apache.hadoop.io.IOUtils.copyBytes(source, self.stream, CHUNK_BYTES, False)
                self.stream.close()
        finally:
            os.unlink(self.kept_in)


# --- Java --------------------------------------------------------------------------------------------

_starting = threading.Lock()


def _gateway() -> "JavaGateway":
    with _starting:
        return _started(os.getpid())


@cache
def _started(pid: int) -> "JavaGateway":
    """The Java of the process ``pid``, which is this one: a forked one has its own."""
    from collectors.store.gateway import start_gateway

    return start_gateway()


@cache
def _file_system(pid: int, scheme: str, authority: str, settings: tuple[tuple[str, str], ...]) -> Any:
    jvm = _gateway().jvm
    conf = jvm.org.apache.hadoop.conf.Configuration()
    for name, value in settings:
        conf.set(name, value)
    return jvm.org.apache.hadoop.fs.FileSystem.newInstance(_java_path(f"{scheme}//{authority}/").toUri(), conf)


def _copied(stream: Any) -> io.BufferedReader:
    """All that Java reads there, as a file here without a name: sent as an answer it takes seconds a megabyte."""
    from py4j.protocol import Py4JJavaError

    java = _gateway().jvm
    with closing(stream), writing_scratch(), tempfile.NamedTemporaryFile(prefix="ratebed-") as named:
        try:
            with closing(java.java.io.FileOutputStream(named.name)) as sink:
                java.org.apache.hadoop.io.IOUtils.copyBytes(stream, sink, CHUNK_BYTES, False)
        except Py4JJavaError as error:
            said = _first_line(error.java_exception)
            if said not in _SAID_WHERE_FULL:
                raise
            raise ScratchFull(errno.ENOSPC, said, tempfile.gettempdir()) from None
        return open(named.name, "rb")


def _java_path(url: str) -> Any:
    return _gateway().jvm.org.apache.hadoop.fs.Path(url)


@contextmanager
def _answered(path: HadoopPath, more: Mapping[str, int] = MappingProxyType({})) -> Iterator[None]:
    """Errors of Java's as OSErrors: ``_ERRORS`` and ``more`` of them have names of their own."""
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        java = error.java_exception
        name = str(java.getClass().getSimpleName())
        if name == "RemoteException":  # that of the server, which HDFS's client does not always take out
            name = str(java.getClassName()).rpartition(".")[2]
        code = {**_ERRORS, **more}.get(name, errno.EIO)
        said = os.strerror(code) if code in (errno.ENOENT, errno.EEXIST) else f"{name}: {_first_line(java)}"
        raise OSError(code, said, path.url) from None
    except (Py4JError, ConnectionError, EOFError) as error:
        complaint = str(error).partition("Trace:\n")[2].partition("\n")[0]  # of a Java that lives
        what = f": {complaint}" if complaint else f" has ended ({type(error).__name__})"
        raise OSError(errno.EIO, f"Hadoop's Java{what}", path.url) from None


def _first_line(java: Any) -> str:
    lines = str(java.getMessage() or java.toString()).splitlines()
    return lines[0] if lines else ""
