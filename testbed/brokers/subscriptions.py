"""Who is subscribed to which topic: kept in the run's ZooKeeper, so that a subscription outlives a topic's move.

As Pulsar keeps its subscriptions in its metadata store.  Every broker holds a copy that ZooKeeper keeps up to date,
so that opening a topic waits for nobody; what was written a round trip ago may not have come yet.
"""

from core.errors import MachineError
from testbed.servers.zookeeper import kazoo_client

ROOT = "/ratebed-subscriptions"  # beside what the store's node keeps, which is wiped when that begins
_BETWEEN = ":"  # topic and channel: in no name of NSQ's
START_S = 15.0


class Subscriptions:
    """``at``: the ZooKeeper server.  MachineError where it is not there."""

    def __init__(self, at: tuple[str, int], session_s: float):
        self._names: list[str] = []
        self._client = kazoo_client(at, session_s)
        try:
            self._client.start(timeout=START_S)
            self._client.ensure_path(ROOT)
            self._client.ChildrenWatch(ROOT, self._changed)
        except Exception as error:
            self._client.stop()
            host, port = at
            what = f"no ZooKeeper at {host}:{port}: {error or type(error).__name__}"
            raise MachineError(what, "see its log") from None

    def channels(self, topic: str) -> list[str]:
        """Of a topic, as far as known here."""
        pairs = (name.split(_BETWEEN) for name in self._names)
        return sorted(channel for name, channel in pairs if name == topic)

    def add(self, topic: str, channel: str) -> None:
        """Have a subscription kept, without waiting."""
        self._client.create_async(_path(topic, channel), b"")  # it may be there, and just about to be removed

    def remove(self, topic: str, channel: str) -> None:
        """End it, without waiting."""
        self._client.delete_async(_path(topic, channel))

    def _changed(self, names: list[str]) -> None:
        """In a thread of kazoo's."""
        self._names = names


def _path(topic: str, channel: str) -> str:
    return f"{ROOT}/{topic}{_BETWEEN}{channel}"
