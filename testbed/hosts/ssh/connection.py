"""A connection to a machine of the inventory: its host key is checked, everything has a time-out, errors are clear."""

import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from subprocess import CompletedProcess
from threading import Timer

import paramiko

from core.errors import HarnessError, MachineError
from testbed.hosts.ssh.inventory import Machine

CONNECT_S = 10.0
COMMAND_S = 30.0
KEEP_ALIVE_S = 5
SAID_BYTES = 4 << 20  # by a command (ours), unless a file is what it says
_PART = 1 << 16
_FULL = "No space left"

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # what goes wrong is raised, not printed


class _Check(paramiko.MissingHostKeyPolicy):
    """Of a host that no file of known hosts is asked for: its key must have the fingerprint of the inventory."""

    def __init__(self, machine: Machine):
        self._machine = machine

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """MachineError where the key is another, or where nobody has said which it is."""
        shown = f"{key.fingerprint} ({key.get_name()})"
        if not self._machine.fingerprint:
            fix = f"if it is {shown}, add it: ssh-keyscan -p {self._machine.port} {self._machine.host}"
            raise MachineError(f"its host key is not in {self._machine.known_hosts}", fix)
        if key.fingerprint != self._machine.fingerprint:
            fix = "somebody may sit in between: ask whoever runs it, then mend the inventory"
            raise MachineError(f"its host key is {shown}, and not {self._machine.fingerprint}", fix)


class SshConnection:
    """An SSH connection.  MachineError names the machine, says what is wrong, and comes within the time-out."""

    def __init__(self, machine: Machine, timeout_s: float = CONNECT_S):
        self.machine = machine
        self._client = paramiko.SSHClient()
        self._client.set_missing_host_key_policy(_Check(machine))
        try:
            if machine.known_hosts:
                with suppress(FileNotFoundError):  # then it knows nobody
                    self._client.load_host_keys(machine.known_hosts)
            self._client.connect(
                machine.host,
                machine.port,
                machine.user,
                key_filename=machine.key or None,
                allow_agent=not machine.key,
                look_for_keys=not machine.key,
                timeout=timeout_s,
                banner_timeout=timeout_s,
                auth_timeout=timeout_s,
                channel_timeout=timeout_s,
            )
        except BaseException as error:
            self._client.close()
            if not isinstance(error, Exception):
                raise
            raise self._not_connected(error, timeout_s) from None
        self._transport.set_keepalive(KEEP_ALIVE_S)

    @property
    def alive(self) -> bool:
        """Whether nothing has closed it."""
        transport = self._client.get_transport()
        return transport is not None and transport.is_active()

    @property
    def _transport(self) -> paramiko.Transport:
        transport = self._client.get_transport()
        if transport is None or not transport.is_active():
            raise self.wrong("the connection is gone", "is the machine up, and the network?")
        return transport

    def wrong(self, what: str, fix: str = "") -> MachineError:
        """An error with the machine's name in front."""
        return MachineError(f"{self.machine.name}: {what}", fix)

    def failed(self, what: str) -> MachineError:
        """The same, of something that failed there."""
        return self.wrong(what, f"free space in {self.machine.folder} there" if _FULL in what else "mend it there")

    def open(self, command: str, timeout_s: float = CONNECT_S) -> paramiko.Channel:
        """Begin a command; the channel is its input and its output."""
        try:
            channel = self._transport.open_session(timeout=timeout_s)
            channel.settimeout(timeout_s)
            late = Timer(timeout_s, channel.close)  # paramiko waits for the answer to a command for ever
            late.start()
            try:
                channel.exec_command(command)
            finally:
                late.cancel()
        except (OSError, EOFError, paramiko.SSHException) as error:
            fix = "it may allow too few sessions: MaxSessions in its sshd_config" if self.alive else "is it up?"
            raise self.wrong(f"no session: {str(error) or type(error).__name__}", fix) from None
        return channel

    def run(
        self, command: str, data: bytes = b"", timeout_s: float = COMMAND_S, most_bytes: int = SAID_BYTES
    ) -> "CompletedProcess[bytes]":
        """Run a command to its end, with ``data`` as its input.

        MachineError where it does not end in time, or says more than ``most_bytes``.
        """
        until_s = time.monotonic() + timeout_s
        channel = self.open(command, timeout_s)
        try:
            view = memoryview(data)
            with suppress(OSError):  # it may end before it has read all, and then says why
                while view:
                    channel.settimeout(max(0.001, until_s - time.monotonic()))
                    view = view[channel.send(view[:_PART]) :]
                channel.shutdown_write()
            receivers = channel.recv, channel.recv_stderr
            out, err = (self._read(receive, channel, until_s, most_bytes) for receive in receivers)
            if not channel.status_event.wait(max(0.0, until_s - time.monotonic())):
                raise TimeoutError
            if channel.exit_status < 0:
                raise self.wrong(f"the connection broke while it ran {_short(command)}", "is it up?")
            return CompletedProcess(command, channel.exit_status, out, err)
        except TimeoutError:
            raise self.wrong(f"{_short(command)} did not end within {timeout_s:.0f} s", "is it up?") from None
        finally:
            channel.close()

    def done(
        self, command: str, data: bytes = b"", timeout_s: float = COMMAND_S, most_bytes: int = SAID_BYTES
    ) -> bytes:
        """As ``run``; MachineError with what it said where it fails."""
        done = self.run(command, data, timeout_s, most_bytes)
        if done.returncode:
            lines = lines_of(done.stderr) or [f"code {done.returncode}"]
            last = next((line for line in lines if _FULL in line), lines[-1])[:300]
            raise self.failed(f"{_short(command)}: {last}")
        return done.stdout

    def reach(self, port: int, timeout_s: float = CONNECT_S) -> paramiko.Channel:
        """A connection to a port of the machine's loopback; as good as a socket."""
        try:
            channel = self._transport.open_channel(
                "direct-tcpip", ("127.0.0.1", port), ("127.0.0.1", 0), timeout=timeout_s
            )
        except (OSError, EOFError, paramiko.SSHException) as error:
            fix = "see the logs; its sshd_config must not forbid AllowTcpForwarding"
            raise self.wrong(f"nothing answers on its port {port}: {error}", fix) from None
        channel.settimeout(timeout_s)
        return channel

    def close(self) -> None:
        """Close it, with all that goes over it."""
        self._client.close()

    def _read(
        self, receive: Callable[[int], bytes], channel: paramiko.Channel, until_s: float, most_bytes: int
    ) -> bytes:
        said = bytearray()
        while len(said) <= most_bytes:
            channel.settimeout(max(0.001, until_s - time.monotonic()))
            part = receive(_PART)
            if not part:
                return bytes(said)
            said += part
        raise self.wrong(f"a command says more than {most_bytes >> 20} MiB", "is it the machine that you mean?")

    def _not_connected(self, error: Exception, timeout_s: float) -> Exception:
        """The same with the machine's name and what mends it; the error itself, if it is a bug of ours."""
        its = self.machine
        at = f"{its.host} port {its.port}"
        match error:
            case HarnessError():
                return self.wrong(error.args[0])
            case paramiko.BadHostKeyException():
                shown, known = error.key.fingerprint, error.expected_key.fingerprint
                fix = f"somebody may sit in between: ask whoever runs it, then mend {its.known_hosts}"
                return self.wrong(f"its host key is {shown}, and not {known} as in {its.known_hosts}", fix)
            case paramiko.PasswordRequiredException():
                return self.wrong(f"the key {its.key} wants a passphrase", "add it to an agent, and give no key")
            case paramiko.AuthenticationException():
                what = f"the key {its.key}" if its.key else "every key of your agent and of ~/.ssh"
                fix = "put the public key into that user's authorized_keys there"
                return self.wrong(f"{at} refuses {what} for user {its.user}", fix)
            case socket.gaierror():
                return self.wrong(f"nobody knows the name {its.host}", "give its address")
            case TimeoutError():
                return self.wrong(f"{at} does not answer within {timeout_s:.0f} s", "is it up?")
            case OSError(filename=str(path)):  # the key, or the file of known hosts
                return self.wrong(f"{path}: {error.strerror}", "mend the inventory")
            case OSError():
                parts = getattr(error, "errors", {}).values() or [error]
                why = next((part.strerror for part in parts if part.strerror), str(error))
                return self.wrong(f"{at}: {why}", "is sshd running there, and is there a route?")
            case paramiko.SSHException() | EOFError() | ValueError():
                return self.wrong(f"{at}: no SSH: {str(error) or 'it hung up'}", "is that sshd's port?")
        return error


def lines_of(said: bytes) -> list[str]:
    """What a command said, for people."""
    return said.decode(errors="replace").strip().splitlines()


def _short(command: str) -> str:
    return repr(command if len(command) < 80 else f"{command[:77]}…")
