"""One live campaign a machine: two at once would measure each other.

Who wants the machine says so by a listening socket with an abstract name.  All users see it (``/proc/net/unix``), the
kernel says whose it is, nobody else can take it away, and it is gone with its process.  There is no file that another
user could hold.  A campaign waits until it sees nobody, says that it is there, and looks again: where two have done so
at once, each sees the other, and both begin anew.

Protected is that campaigns do not meet by accident, whoever starts them.  Another user can still pretend to run one, as
they can load the cores; so only one's own campaigns and root's are waited for as long as they take.  Network namespaces
do not see each other.
"""

import os
import pwd
import random
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from secrets import token_hex

from collectors.procfs import read
from core.errors import MachineError

NAME = "ratebed-campaign"
LOOK_EVERY_S = 0.2
FOREIGN_S = 3_600.0  # ours: how long another user's campaign is waited for
BESIDE = "RATEBED_BESIDE"  # names of users, with commas, for whose campaigns nobody waits
_ROOT = 0
_PATIENCE_S = 2 * LOOK_EVERY_S  # with one that may be about to give way, before anything is said
_CREDENTIALS = struct.Struct("3i")  # pid, user, group
_LISTENING = "00010000"  # and not one of those that wait in its queue, which have its name
_SHOWN = 200  # characters of a command


@dataclass(frozen=True)
class Holder:
    """A campaign, or whoever says so.  ``pid`` 0: of another namespace, or not to be found out."""

    name: str  # of its socket
    pid: int
    user_id: int

    @property
    def user(self) -> str:
        """Its name, or number."""
        try:
            return pwd.getpwuid(self.user_id).pw_name
        except KeyError:
            return str(self.user_id)

    @property
    def is_foreign(self) -> bool:
        """Whether it is neither ours nor root's."""
        return self.user_id not in (os.getuid(), _ROOT)

    def __str__(self) -> str:
        words = read(f"/proc/{self.pid}/cmdline").replace("\0", " ").strip() or "?"
        command = "".join(letter if letter.isprintable() else "?" for letter in words[:_SHOWN])
        return f"process {self.pid} of user {self.user} ({command}), which holds this machine"


@contextmanager
def machine_lock(name: str = NAME) -> Iterator[None]:
    """Hold the machine.  While another campaign does, wait and say for whom.

    MachineError where that is another user's and takes longer than ``FOREIGN_S``.
    """
    while True:
        _wait(name)
        own = f"{name}.{token_hex(8)}"
        with socket.socket(socket.AF_UNIX) as sign:
            sign.bind(f"\0{own}")
            sign.listen(socket.SOMAXCONN)  # nobody is ever accepted
            if all(other.name == own for other in holders(name)):
                yield
                return
        time.sleep(random.uniform(0, LOOK_EVERY_S))


def holders(name: str = NAME) -> list[Holder]:
    """Who says that they hold the machine, but for users that are not to be waited for."""
    ignored = {user.strip() for user in os.environ.get(BESIDE, "").split(",")}
    # Number Count Protocol Flags Type State Inode @Name: the inode tells a socket from a later one of that name.
    lines = [line.split() for line in read("/proc/net/unix").splitlines() if f" @{name}." in line]
    signs = sorted((int(line[6]), line[7][1:]) for line in lines if _is_sign(line, name))
    there = [holder for inode, sign in signs if (holder := _holder_of(inode, sign)) is not None]
    return [holder for holder in there if not ignored & {holder.user, str(holder.user_id)}]


def _is_sign(line: list[str], name: str) -> bool:
    """Whether it is of that form; names of sockets are anybody's, and may hold lines of their own."""
    return len(line) == 8 and line[3] == _LISTENING and line[6].isdecimal() and line[7].startswith(f"@{name}.")


@cache  # each is asked once: whoever asks stays in its queue, which has an end
def _holder_of(inode: int, sign: str) -> Holder | None:
    """The kernel says who listens; None where nobody does any more."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.setblocking(False)
        try:
            asking.connect(f"\0{sign}")
        except BlockingIOError:  # too many have asked, and it lets nobody in
            return Holder(sign, 0, -1)
        except OSError:
            return None
        pid, user_id, _ = _CREDENTIALS.unpack(asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return Holder(sign, pid, user_id)


def _wait(name: str) -> None:
    since_s: dict[str, float] = {}
    said, foreign_s = set[str](), 0.0
    while there := holders(name):
        began_s = time.monotonic()
        for each in there:
            is_old = began_s - since_s.setdefault(each.name, began_s) > _PATIENCE_S
            if is_old and each.name not in said:
                print(f"ratebed: waiting for {each}", file=sys.stderr, flush=True)
                said.add(each.name)
        time.sleep(LOOK_EVERY_S)
        if any(each.is_foreign for each in there):
            foreign_s += time.monotonic() - began_s
        if foreign_s > FOREIGN_S:
            who = next(each for each in there if each.is_foreign)
            fix = f"ask {who.user} to end it, or go on beside it: {BESIDE}={who.user}"
            raise MachineError(f"waited {foreign_s / 60:.0f} minutes for {who}", fix)
