"""What a machine sends that does not mean well: a clear error, and little memory."""

import io
import tarfile
import tracemalloc
from collections.abc import Iterable, Iterator
from threading import Event
from typing import Any, cast

import paramiko
import pytest

from core.errors import MachineError
from testbed.hosts.ssh import fetching
from testbed.hosts.ssh.connection import SshConnection
from testbed.hosts.ssh.inventory import Machine

RUN = "0123456789abcdef"
LITTLE_BYTES = 10_000_000
MUCH = [bytes(1 << 16)] * 1024  # 64 MiB of them: a test that fails must not fill this machine, either


class Channel(io.RawIOBase):
    """Says these parts, whatever it is asked."""

    exit_status, status_event = 0, Event()

    def __init__(self, parts: Iterable[bytes]):
        self._parts, self._part = iter(parts), b""
        self.status_event.set()

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        self._part = self._part or next(self._parts, b"")
        part, self._part = self._part[: len(into)], self._part[len(into) :]
        into[: len(part)] = part
        return len(part)

    def recv(self, size: int) -> bytes:
        return self.read(size) or b""

    def recv_stderr(self, size: int) -> bytes:
        return b""

    def settimeout(self, timeout_s: float) -> None: ...
    def shutdown_write(self) -> None: ...
    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)


class Foreign(SshConnection):
    """Answers one command after the other with these parts."""

    answers: Iterator[Iterable[bytes]]

    def __init__(self, machine: Machine):
        self.machine = machine

    def open(self, command: str, timeout_s: float = 0.0) -> paramiko.Channel:
        return cast(paramiko.Channel, Channel(next(self.answers)))

    def close(self) -> None: ...


@pytest.fixture
def fetched(monkeypatch, tmp_path):
    """Fetches from a machine that answers so; returns what is said."""
    monkeypatch.setattr(fetching, "SshConnection", Foreign)

    def fetch(*answers: Iterable[bytes]) -> str:
        Foreign.answers = iter(answers)
        tracemalloc.start()
        try:
            with pytest.raises(MachineError) as caught:
                fetching.fetch_runs(Machine("h1", name="h1"), "there", tmp_path)
            assert tracemalloc.get_traced_memory()[1] < LITTLE_BYTES
        finally:
            tracemalloc.stop()
        assert not list(tmp_path.glob("runs/*"))
        return str(caught.value)

    return fetch


def header(kind: bytes = tarfile.REGTYPE, size: int = 0, name: str = f"{RUN}/file") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def extended(text: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    return header(kind, len(text)) + text.ljust(-(-len(text) // 512) * 512, b"\0")


ENDLESS_MAP = b"9" * 18 + b"\n" + b"1\n" * 1_000_000


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_is_as_long_as_a_disk(fetched, kind):
    assert "headers" in fetched([RUN.encode()], [header(kind, 4 << 30), *MUCH])
    assert "headers" in fetched([RUN.encode()], [header(), header(kind, 4 << 30), *MUCH])


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ([extended(b"x", tarfile.GNUTYPE_LONGNAME)] * 1_000, "headers"),
        ([extended(b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"), header(), ENDLESS_MAP], "headers"),
        ([extended(b"20 GNU.sparse.map=x\n"), header()], "invalid literal"),
        ([extended(b"22 GNU.sparse.map=0,1\n"), header()], "no file of a run"),
        ([header(tarfile.DIRTYPE, -(1 << 40), RUN)], "more than 4 GiB"),
    ],
)
def test_headers_that_nobody_means(fetched, sent, says):
    assert says in fetched([RUN.encode()], sent)


def test_a_listing_without_an_end(fetched):
    assert "more than 4 MiB" in fetched(MUCH)
