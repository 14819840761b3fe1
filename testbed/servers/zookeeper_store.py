"""The coordination store as a node with I/O: the messages of ``systems.placement.store``, a real ZooKeeper behind them.

It runs on the server's host and holds one ZooKeeper session for each node that has opened one, so that entries are
ephemeral and notifications come as ZooKeeper makes them.  What differs from the model: entries and sessions outlive a
crash of the server, as long as it is back in time; several changes of an entry may be told as one, the last.
"""

from collections.abc import Callable
from queue import Empty, SimpleQueue

from core.errors import MachineError
from core.units import MILLISECOND_NS, SECOND_NS
from systems.api import Delivery, Effect, Event, Send, SetTimer, Start, Timer, UnexpectedEvent
from systems.placement.messages import Beat, Expired
from testbed.nodes.planes import ServerAt
from testbed.servers.zookeeper import kazoo_client
from testbed.servers.zookeeper_session import ROOT, Messages, Session

POLL_NS = 2 * MILLISECOND_NS  # ours: how long an answer may wait until the node looks
WIPE_S = 15.0


class ZooKeeperStore:
    """``at``: the server.  ``session_ns``: a session ends when its node is silent for so long."""

    def __init__(self, node_id: str, at: ServerAt, session_ns: int):
        self.node_id, self.session_ns, self._at = node_id, session_ns, at
        self._sessions: dict[str, Session] = {}
        self._came: SimpleQueue[tuple[str, Session, Callable[[], Messages]]] = SimpleQueue()

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``.  MachineError where ZooKeeper is not there at the start."""
        match event:
            case Start(None):
                self._wipe()
                return [SetTimer("sessions", now_ns + self.session_ns // 2), SetTimer("poll", now_ns + POLL_NS)]
            case Timer("poll", _):
                return [*self._drain(), SetTimer("poll", now_ns + POLL_NS)]
            case Timer("sessions", due_at_ns):
                for name, session in list(self._sessions.items()):
                    if now_ns - session.heard_at_ns >= self.session_ns:
                        self._end(name)
                return [SetTimer("sessions", due_at_ns + self.session_ns // 2)]
            case Delivery(source, Beat(opens=True)):
                self._end(source)
                self._open(source).heard_at_ns = now_ns
                return []
            case Delivery(source, message):
                return [Send(source, said) for said in self._hear(source, message, now_ns)]
        raise UnexpectedEvent(self.node_id, event)

    def idle(self) -> bool:
        """Whether nothing is under way."""
        return self._came.empty() and all(session.idle for session in self._sessions.values())

    def close(self) -> None:
        """End all sessions."""
        for name in list(self._sessions):
            self._end(name)

    def _hear(self, source: str, message: object, now_ns: int) -> Messages:
        """What is said to a node that has no session, or has had one."""
        session = self._sessions.get(source)
        if session is None or session.lost:
            self._end(source)
            return [Expired()]
        session.heard_at_ns = now_ns
        return session.hear(message)

    def _drain(self) -> list[Effect]:
        effects: list[Effect] = []
        while True:
            try:
                name, session, go_on = self._came.get_nowait()
            except Empty:
                return effects
            if self._sessions.get(name) is session:  # not of an earlier one
                effects += [Send(name, message) for message in go_on()]

    def _open(self, name: str) -> Session:
        def put(go_on: Callable[[], Messages]) -> None:
            self._came.put((name, session, go_on))

        session = Session(self._at, self.session_ns / SECOND_NS, put)
        self._sessions[name] = session
        session.open()  # from here on kazoo's threads call ``put``
        return session

    def _end(self, name: str) -> None:
        session = self._sessions.pop(name, None)
        if session is not None:
            session.close()

    def _wipe(self) -> None:
        """A store begins empty: sessions of an earlier life of this node may not have run out yet."""
        client = kazoo_client(self._at, self.session_ns / SECOND_NS)
        try:
            client.start(timeout=WIPE_S)
            client.delete(ROOT, recursive=True)
        except Exception as error:
            what = f"no ZooKeeper at {self._at.address}:{self._at.port}: {error or type(error).__name__}"
            raise MachineError(what, "see its log") from None
        finally:
            client.stop()
            client.close()
