"""The agent that runs a real Redis server on a host: in memory only, behind a password.

    python -m testbed.servers.redis_host ADDRESS FOLDER

Commands: ``start`` (also after a crash, on the port that it had), ``crash``, ``info``.  The server dies with
this process.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import hiredis

from core.errors import MachineError
from testbed.hosts.agent import serve
from testbed.hosts.capabilities import require, tool
from testbed.servers.redis_plane import packed

START_S = 10.0
_TRIES = 5  # for a port that somebody else takes between the choice and the start
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class RedisHost:
    """The server's process, and where it listens."""

    def __init__(self, address: str, folder: str):
        self._address, self._folder, self._port = address, folder, 0
        self._password, self._server = "", None  # type: str, subprocess.Popen[bytes] | None

    def start(self, password: str) -> dict[str, Any]:
        """Start it empty; returns its port when it answers."""
        self._password = password
        for _ in range(_TRIES):
            port = self._port or _free_port(self._address)
            self._server = self._launch(port)
            until_s = time.monotonic() + START_S
            while self._server.poll() is None and time.monotonic() < until_s:
                with suppress(OSError):
                    if self._ask(port, "PING") == "PONG":
                        self._port = port
                        return {"port": port}
                time.sleep(0.005)
            self.crash()
        raise MachineError(f"redis-server does not start on {self._address}", "see its log")

    def crash(self) -> None:
        """Kill it."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    def info(self) -> dict[str, Any]:
        """What the server says of itself (INFO)."""
        lines = str(self._ask(self._port, "INFO")).splitlines()
        return {"info": dict(line.split(":", 1) for line in lines if ":" in line)}

    def _launch(self, port: int) -> "subprocess.Popen[bytes]":
        require("redis")
        program = str(tool("redis-server"))
        settings = {
            "bind": self._address,
            "port": port,
            "requirepass": self._password,
            "save": '""',
            "appendonly": "no",
            "daemonize": "no",
            "dir": f'"{self._folder}"',
        }

        def die_with_parent() -> None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

        # Settings go over its standard input: what is on a command line everybody can read.
        server = subprocess.Popen(
            [program, "-"], stdin=subprocess.PIPE, stdout=sys.stderr, preexec_fn=die_with_parent, cwd=self._folder
        )
        assert server.stdin is not None
        with server.stdin as stdin:
            stdin.write("".join(f"{name} {value}\n" for name, value in settings.items()).encode())
        return server

    def _ask(self, port: int, *command: str) -> object:
        reader = hiredis.Reader(encoding="utf-8")
        with socket.create_connection((self._address, port), timeout=1.0) as sock:
            sock.sendall(packed("AUTH", self._password) + packed(*command))
            answers: list[object] = []
            while len(answers) < 2:
                part = sock.recv(1 << 16)
                if not part:
                    raise ConnectionError("closed")
                reader.feed(part)
                while (answer := reader.gets()) is not False:
                    answers.append(answer)
        return answers[1]


def _free_port(address: str) -> int:
    with socket.socket() as sock:
        sock.bind((address, 0))
        port: int = sock.getsockname()[1]
        return port


def main() -> None:
    """Run until standard input ends."""
    host = RedisHost(sys.argv[1], os.path.abspath(sys.argv[2]))
    try:
        serve({"start": host.start, "crash": host.crash, "info": host.info})
    finally:
        host.crash()


if __name__ == "__main__":
    main()
