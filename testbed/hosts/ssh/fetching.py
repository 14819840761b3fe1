"""Finished runs of another machine, brought here: what ran there is drawn and compared here."""

import re
import shutil
import tarfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import IO, cast

from collectors.integrity import Damage, check_identity, check_run, is_whole
from collectors.partials import own_mark
from collectors.schema import MANIFEST
from collectors.writer import set_aside
from testbed.hosts.ssh.connection import SshConnection
from testbed.hosts.ssh.inventory import Machine
from testbed.hosts.ssh.shipping import script

SILENT_S = 60.0  # between two parts of what it sends
RUN_BYTES, RUN_FILES = 4 << 30, 1_000  # of one run at most (ours): more is not sent by a machine that means well
HEADERS_BYTES = 16 << 10  # of one file's headers at most (ours): a long name, instants
_PART = 1 << 16
_RUN = re.compile(r"[0-9a-f]{16}")


def fetch_runs(machine: Machine, folder: str, out: Path) -> list[str]:
    """Bring the runs in ``folder`` (of results, there) that are not whole in ``out``; returns their ids.

    Each is brought whole, as it was written and under the id that its spec, inputs and code make, or not at all.  One
    that is damaged in ``out`` is set aside for it.
    MachineError names the machine and what went wrong.
    """
    with closing(SshConnection(machine)) as connection:
        listing = f'cd {quote(folder)}/runs; for its in */{MANIFEST}; do echo "${{its%/*}}"; done'
        there = connection.done(script(listing)).decode(errors="replace").split()
        wanted = [name for name in there if _RUN.fullmatch(name) and not is_whole(out / "runs" / name)]
        if wanted:
            _bring(connection, f"{folder}/runs", wanted, out / "runs")
        return wanted


def _bring(connection: SshConnection, folder: str, names: list[str], runs: Path) -> None:
    """They come as one tar, are unpacked aside, and renamed when all have come."""
    runs.mkdir(parents=True, exist_ok=True)
    aside = runs / f"fetched{own_mark()}"
    shutil.rmtree(aside, ignore_errors=True)
    channel = connection.open(script(f"cd {quote(folder)}; exec tar -cf - {' '.join(names)}"), SILENT_S)
    try:
        with channel.makefile("rb") as file:
            _unpack_all(_Stream(file), names, aside)
        if not channel.status_event.wait(SILENT_S):
            raise TimeoutError
        if channel.exit_status:
            raise tarfile.TarError(channel.recv_stderr(1000).decode(errors="replace").strip())
        for name in names:
            check_identity(check_run(aside / name))
        for name in names:
            if (runs / name).exists() and not is_whole(runs / name):
                set_aside(runs / name)
            try:
                (aside / name).rename(runs / name)
            except OSError:
                if not is_whole(runs / name):  # else another command has just brought it
                    raise
    except Damage as damage:
        raise connection.wrong(f"run {damage.folder.name}: {damage.reason}", "`ratebed verify` there") from None
    except (tarfile.TarError, EOFError, TimeoutError) as error:
        raise connection.wrong(f"its runs did not come whole: {error or 'it fell silent'}", "try again") from None
    finally:
        channel.close()
        shutil.rmtree(aside, ignore_errors=True)


class _Stream:
    """What a machine sends, as ``tarfile`` reads it: onward, and no more than may be read."""

    def __init__(self, file: IO[bytes]):
        self._file, self._at = file, 0
        self.left = HEADERS_BYTES  # that may still be read

    def tell(self) -> int:
        """Bytes that came."""
        return self._at

    def read(self, size: int) -> bytes:
        """So many bytes, fewer at the end only; TarError where they are more than may be read."""
        if not 0 <= size <= self.left:
            raise tarfile.TarError(f"the headers of a file have more than {HEADERS_BYTES >> 10} KiB")
        part = self._file.read(size)
        self._at, self.left = self._at + len(part), self.left - len(part)
        return part

    def seek(self, at: int) -> None:
        """Leave out what comes before."""
        if at < self._at:
            raise tarfile.TarError("a size below 0")
        while part := self._file.read(min(at - self._at, _PART)):
            self._at += len(part)


def _unpack_all(stream: _Stream, names: Iterable[str], aside: Path) -> None:
    """``tarfile`` reads headers whole, and keeps them: those of a file are limited, and then forgotten."""
    left = dict.fromkeys(names, (RUN_BYTES, RUN_FILES))
    try:
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r:") as tar:
            for member in tar:
                stream.left = member.size
                _unpack(tar, member, left, aside)
                stream.left, member.pax_headers, tar.pax_headers = HEADERS_BYTES, {}, {}
    except ValueError as error:  # of numbers and letters in headers
        raise tarfile.TarError(str(error)) from None


def _unpack(tar: tarfile.TarFile, member: tarfile.TarInfo, left: dict[str, tuple[int, int]], aside: Path) -> None:
    """Files of the runs that were asked for; anything else is an error, for the machine need not be ours.

    ``left``: run -> how many bytes and files it may still have.
    """
    parts = PurePosixPath(member.name).parts
    if parts[:1] == () or parts[0] not in left or ".." in parts or not _is_plain(member):
        raise tarfile.TarError(f"{member.name} is no file of a run")
    bytes_left, files_left = left[parts[0]] = (left[parts[0]][0] - member.size, left[parts[0]][1] - 1)
    if min(bytes_left, files_left, member.size) < 0:
        raise tarfile.TarError(f"run {parts[0]} has more than {RUN_BYTES >> 30} GiB or {RUN_FILES} files")
    path = aside.joinpath(*parts)
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        shutil.copyfileobj(cast(IO[bytes], tar.extractfile(member)), file)


def _is_plain(member: tarfile.TarInfo) -> bool:
    return (member.isreg() or member.isdir()) and not member.issparse()
