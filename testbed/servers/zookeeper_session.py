"""One session with ZooKeeper, on behalf of one node: operations without waiting, and watches that renew themselves.

kazoo's threads only put what has come into the store's queue; everything else happens in the thread of the store.
Operations are generators that yield a request and are sent its reply.  Those on one path are carried out one after
the other, others at once, in the order in which they were asked for; a request that was lost with a connection is
made again.  Watches of this ZooKeeper client are one-shot: each is set again with the read that it causes.
"""

import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from core.errors import MachineError
from systems.api import Message, UnexpectedEvent
from systems.placement.messages import Beat, Changed, Create, Delete, Done, WatchEntries, Write
from testbed.nodes.planes import ServerAt
from testbed.servers.zookeeper import kazoo_client

if TYPE_CHECKING:
    from kazoo.client import KazooClient
    from kazoo.interfaces import IAsyncResult
    from kazoo.protocol.states import WatchedEvent

ROOT = "/ratebed"
_PLAIN = "_"  # the folder of paths that name none


class _Reply(NamedTuple):
    """What came of a request: ``error`` is kazoo's; ``repeated``: an earlier try may have been carried out."""

    value: Any
    error: Exception | None
    repeated: bool


_Request = Callable[[], "IAsyncResult"]  # makes a request
Messages = list[Message]  # for the node
Operation = Generator[_Request, _Reply, Messages]


@dataclass
class _Watching:
    """One prefix: the entries of a folder whose names begin with ``stem``."""

    folder: str
    stem: str
    on_children: "Callable[[WatchedEvent], None]"
    on_entry: "dict[str, Callable[[WatchedEvent], None]]" = field(default_factory=dict)  # by name, of what is there


class Session:
    """``put``: takes what is to be done next in the store's thread, a function that returns messages for the node."""

    def __init__(self, at: ServerAt, session_s: float, put: Callable[[Callable[[], Messages]], None]):
        self.heard_at_ns = 0
        self.lost = False  # ZooKeeper knows the session no more
        self._put, self._was_connected = put, False
        self._has_begun = False  # before there is a connection, operations wait
        self._mine: set[str] = set()  # paths of entries that this session has made
        self._lines: dict[str, deque[Operation]] = {}  # path or prefix -> what waits, the first is under way
        self._watchings: list[_Watching] = []
        self._client = kazoo_client(at, session_s)
        self._client.add_listener(self._turned)

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self._lines

    def open(self) -> None:
        """Begin to connect, without waiting."""
        self._client.start_async()

    # --- operations of the node ------------------------------------------------------------------------

    def hear(self, message: object) -> Messages:
        """Begin what a node asks; what there is to say to it at once."""
        match message:
            case Beat():
                return []
            case Create(ticket, path, value):
                return self._ask(path, self._create(ticket, path, value.encode()))
            case Write(path, value):
                return self._ask(path, self._write(path, value.encode()))
            case Delete(ticket, path):
                return self._ask(path, self._delete(ticket, path))
            case WatchEntries(prefix):
                return self._watch(prefix)
        raise UnexpectedEvent("a ZooKeeper session", message)

    def _watch(self, prefix: str) -> Messages:
        """Tell of all entries below a prefix, now and from now on."""
        folder, stem = _parts(prefix)
        line = _line(folder)

        def on_children(event: "WatchedEvent") -> None:
            if event.type == "CHILD":
                self._put(lambda: self._ask(line, self._look(watching)))

        watching = _Watching(folder, stem, on_children)
        self._watchings.append(watching)
        return self._ask(line, self._look(watching))

    def close(self) -> None:
        """End the session: its entries go at once, if ZooKeeper can be reached, and else when it misses us."""
        self._client.remove_listener(self._turned)
        if self._client.connected:
            _close(self._client)
        else:  # that may take long
            threading.Thread(target=_close, args=(self._client,), daemon=True).start()

    # --- the same, step by step --------------------------------------------------------------------------

    def _create(self, ticket: int, path: str, value: bytes) -> Operation:
        reply = yield partial(self._client.create_async, znode_of(path), value, ephemeral=True, makepath=True)
        worked = reply.error is None
        if reply.error is not None and reply.repeated:
            there = yield partial(self._client.exists_async, znode_of(path))
            worked = there.value is not None and there.value.ephemeralOwner == self._client.client_id[0]
        if worked:
            self._mine.add(path)
        return [Done(ticket, worked)]

    def _write(self, path: str, value: bytes) -> Operation:
        while True:
            if path not in self._mine:
                reply = yield partial(self._client.create_async, znode_of(path), value, ephemeral=True, makepath=True)
                if reply.error is None:
                    self._mine.add(path)
                    return []
            reply = yield partial(self._client.set_async, znode_of(path), value)
            if reply.error is None:
                return []
            self._mine.discard(path)

    def _delete(self, ticket: int, path: str) -> Operation:
        if path not in self._mine:
            return [Done(ticket, False)]
        self._mine.discard(path)
        reply = yield partial(self._client.delete_async, znode_of(path))
        return [Done(ticket, reply.error is None or reply.repeated)]

    def _look(self, watching: _Watching) -> Operation:
        """Which entries there are; those that are new are read, and watched."""
        request = partial(self._client.get_children_async, f"{ROOT}/{watching.folder}", watching.on_children)
        reply = yield request
        if reply.error is not None:  # no such folder yet
            yield partial(self._client.ensure_path_async, f"{ROOT}/{watching.folder}")
            reply = yield request
        messages: Messages = []
        for name in sorted(map(unquote, reply.value or ())):
            if name.startswith(watching.stem) and name not in watching.on_entry:
                messages += yield from self._read(watching, name)
        return messages

    def _read(self, watching: _Watching, name: str) -> Operation:
        path = _path(watching.folder, name)

        def on_entry(event: "WatchedEvent") -> None:
            if event.type == "CHANGED":
                self._put(lambda: self._ask(_line(watching.folder), self._read(watching, name)))
            elif event.type == "DELETED":
                self._put(lambda: self._ask(_line(watching.folder), self._miss(watching, name)))

        watch = watching.on_entry.setdefault(name, on_entry)
        reply = yield partial(self._client.get_async, znode_of(path), watch)
        if reply.error is not None:
            return self._gone(watching, name)
        value, _ = reply.value
        return [Changed(path, value.decode())]

    def _miss(self, watching: _Watching, name: str) -> Operation:
        """An entry went; another may be there by now, which a look shows."""
        messages = self._gone(watching, name)
        return [*messages, *(yield from self._look(watching))]

    def _gone(self, watching: _Watching, name: str) -> Messages:
        return [] if watching.on_entry.pop(name, None) is None else [Changed(_path(watching.folder, name), None)]

    def _catch_up(self, watching: _Watching) -> Operation:
        """After a lost connection: its watches are lost with it, and what they would have told."""
        messages: Messages = []
        for name in list(watching.on_entry):
            messages += yield from self._read(watching, name)
        return [*messages, *(yield from self._look(watching))]

    # --- requests and replies ----------------------------------------------------------------------------

    def _ask(self, line: str, operation: Operation) -> Messages:
        """Begin an operation as soon as no other is under way on the same path."""
        waiting = self._lines.setdefault(line, deque())
        waiting.append(operation)
        return self._go_on(line) if self._has_begun and len(waiting) == 1 else []

    def _go_on(self, line: str, reply: _Reply | None = None) -> Messages:
        """Give the operation at work its reply; whatever can begin then, begins."""
        messages: Messages = []
        waiting = self._lines[line]
        while waiting:
            try:
                self._make(line, next(waiting[0]) if reply is None else waiting[0].send(reply))
                return messages
            except StopIteration as done:
                messages += done.value
                waiting.popleft()
                reply = None
        del self._lines[line]
        return messages

    def _make(self, line: str, request: _Request, repeated: bool = False) -> None:
        request().rawlink(lambda result: self._put(lambda: self._came(line, request, result, repeated)))

    def _came(self, line: str, request: _Request, result: "IAsyncResult", repeated: bool) -> Messages:
        from kazoo import exceptions

        error = result.exception
        if self.lost or isinstance(error, exceptions.SessionExpiredError | exceptions.ConnectionClosedError):
            return []  # the end of the session ends all that was under way
        if isinstance(error, exceptions.ConnectionLoss):
            self._make(line, request, repeated=True)
            return []
        if error is not None and not isinstance(error, exceptions.NodeExistsError | exceptions.NoNodeError):
            raise MachineError(f"ZooKeeper: {type(error).__name__}: {error}", "see its log")
        return self._go_on(line, _Reply(None if error else result.value, error, repeated))

    def _turned(self, state: str) -> None:
        """In a thread of kazoo's: the connection was made, lost, or lost for good."""
        if state == "LOST" and self._was_connected:
            self._put(self._end)
        elif state == "CONNECTED":
            self._put(self._begin_again if self._was_connected else self._begin)
            self._was_connected = True

    def _begin(self) -> Messages:
        self._has_begun = True
        return [message for line in list(self._lines) for message in self._go_on(line)]

    def _end(self) -> Messages:
        self.lost = True
        return []

    def _begin_again(self) -> Messages:
        return [
            message
            for watching in self._watchings
            for message in self._ask(_line(watching.folder), self._catch_up(watching))
        ]


def znode_of(path: str) -> str:
    """Where an entry is in ZooKeeper: a folder of its path's first part, and one name for the rest.

    What is ephemeral has no children there.
    """
    folder, name = _parts(path)
    return f"{ROOT}/{folder}/{quote(name, safe='')}"


def _parts(path: str) -> tuple[str, str]:
    """Folder and name of a path (or of a prefix: the beginning of names)."""
    folder, slash, name = path.removeprefix("/").partition("/")
    return (quote(folder, safe=""), name) if slash else (_PLAIN, folder)


def _line(folder: str) -> str:
    """Where operations of watches wait: no path begins so."""
    return f"watch {folder}"


def _path(folder: str, name: str) -> str:
    return f"/{name}" if folder == _PLAIN else f"/{unquote(folder)}/{name}"


def _close(client: "KazooClient") -> None:
    with suppress(Exception):  # a client that cannot say good-bye is gone all the same
        client.stop()
        client.close()
