"""Redis: in memory only, behind a password; scripts on its keys as what nodes ask (``systems.parts.scripts``)."""

import re
from collections import deque
from collections.abc import Callable
from hashlib import sha1

import hiredis

from core.errors import MachineError
from core.reading import reading
from systems.parts.scripts import Evaluate, Evaluated
from testbed.hosts.loop import Loop
from testbed.nodes.planes import ServerAt, Surroundings
from testbed.servers.program import ServerProgram, Spot
from testbed.servers.wire_plane import WirePlane

_MANY = re.compile(rb"[*$%~>!=|]\+?[0-9]{7}")  # no script of ours answers more than a number


def packed(*words: str | bytes | int) -> bytes:
    """A command on the wire."""
    content: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]  # its stub knows commands of one word
    return content


def _settings(spot: Spot) -> str:
    settings = {
        "bind": " ".join(spot.addresses),
        "port": spot.port,
        "requirepass": spot.secret,
        "save": '""',
        "appendonly": "no",
        "daemonize": "no",
        "dir": f'"{spot.folder}"',
    }
    return "".join(f"{name} {value}\n" for name, value in settings.items())


SERVER = ServerProgram(
    "redis",
    "redis-server",
    "apt-get install redis-server",
    6379,
    words=lambda spot: [spot.settings],
    question=lambda spot: packed("AUTH", spot.secret) + packed("PING"),
    expected=b"+OK\r\n+PONG\r\n",
    settings=_settings,
)


class ScriptWire:
    """See ``testbed.servers.wire_plane.Wire``.  A script goes whole the first time, and then by its hash."""

    def __init__(self, at: ServerAt):
        self._at = at
        self._reader = hiredis.Reader()
        self._asked: deque[int | None] = deque()  # request ids, oldest first; None: the password
        self._hashes: dict[str, str] = {}  # of the scripts that the server knows
        self._is_ready = False

    def hello(self) -> bytes:
        """The password."""
        self._asked.append(None)
        return packed("AUTH", self._at.secret)

    def is_ready(self) -> bool:
        """Whether the password was taken."""
        return self._is_ready

    def ask(self, command: Evaluate) -> bytes:
        """A call of the script."""
        self._asked.append(command.request_id)
        words = ("EVALSHA", self._hashes.get(command.script, ""))
        if not words[1]:
            words = "EVAL", command.script
            self._hashes[command.script] = sha1(command.script.encode()).hexdigest()
        user = command.user.encode("utf-8", "surrogatepass")
        return packed(*words, 1, user, *command.arguments, self._at.begun_s)

    def take(self, content: bytes) -> list[Evaluated]:
        """Answers; an error of the server's is none: who asked waits in vain."""
        reports = []
        with reading(f"Redis answers {content[:60]!r}", "see its log", MachineError):
            if _MANY.search(content):  # its reader would make room for all of them at once
                raise ValueError("millions of elements")
            self._reader.feed(content)
            while (answer := self._reader.gets()) is not False:
                request_id = self._asked.popleft()
                if request_id is None:
                    self._is_ready = answer == b"OK"
                elif answer in (0, 1):
                    reports.append(Evaluated(request_id, answer == 1))
        return reports


def redis_plane(
    loop: Loop, around: Surroundings, report: Callable[[object], None], count_sent: Callable[[bytes], None]
) -> WirePlane:
    """See ``testbed.nodes.planes``: a node's connection to the run's Redis."""
    at = around.servers[SERVER.name]
    return WirePlane(loop, at, lambda: ScriptWire(at), report, count_sent)
