"""Sockets in other processes' network namespaces: a socket stays where it was made."""

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from core.errors import MachineError

CLONE_NEWNET = 0x40000000


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _enter(handle: int) -> None:
    if _libc().setns(handle, CLONE_NEWNET):  # os.setns is there from Python 3.12 on
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@contextmanager
def network_of(pid: int) -> Iterator[None]:
    """This thread is in the network namespace of a process; other threads are where they were."""
    try:
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            other = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            try:
                _enter(other)
            finally:
                os.close(other)
            try:
                yield
            finally:
                _enter(own)
        finally:
            os.close(own)
    except PermissionError:
        raise MachineError("may not enter a network namespace", "run as root") from None


def connect_in(pid: int, address: tuple[str, int], timeout_s: float) -> socket.socket:
    """A TCP connection to an address of another namespace; OSError as ``socket.connect`` raises it."""
    with network_of(pid):
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection
