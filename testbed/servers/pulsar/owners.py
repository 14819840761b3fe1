"""Who owns which bundle, as Pulsar keeps it in ZooKeeper: ``/service_unit_state/TENANT/NAMESPACE/BUNDLE``.

That is so with the table view of the metadata store (``settings.broker_settings``), which is how ePulsar has it too.
A bundle has an owner while its state is ``Owned``; on its way, and while nobody has asked for it, it has none.
"""

import json
import threading
from collections.abc import Callable, Mapping

from core.errors import MachineError
from testbed.nodes.planes import ServerAt
from testbed.servers.pulsar.admin import Topic
from testbed.servers.zookeeper import kazoo_client

ROOT = "/service_unit_state"
START_S = 15.0
Told = Callable[[str, bytes | None], None]  # name, and what its entry says now (``owner_in``); None: there is none


def entry_of(topic: Topic, bundle: str) -> str:
    """The path of a bundle's entry."""
    return f"{ROOT}/{topic.tenant}/{topic.namespace}/{bundle}"


def owner_in(content: bytes | None) -> str:
    """The id of the owner that an entry names; "": nobody, or there is no entry.  MachineError for other content."""
    if not content:
        return ""
    try:
        entry = json.loads(content)
        return str(entry["dstBroker"]) if entry["state"] == "Owned" else ""
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        what = f"an entry of {ROOT} that cannot be read: {content[:200]!r} ({type(error).__name__})"
        raise MachineError(what, "see whether Pulsar's version is the pinned one") from None


class OwnerWatch:
    """Tells what each entry says, now and at every change; ``told`` is called in a thread of kazoo's.

    ``entries``: what to call them -> their paths, which need not be there yet.  Several changes may be told as one.
    """

    def __init__(self, at: ServerAt, session_s: float, entries: Mapping[str, str], told: Told):
        self._client = kazoo_client(at, session_s)
        self._entries, self._told = dict(entries), told
        self._thread = threading.Thread(target=self._begin, daemon=True, name="owners")

    def start(self) -> None:
        """Connect, and begin to watch, in threads of its own; MachineError where there is no ZooKeeper."""
        try:
            self._client.start(timeout=START_S)
        except Exception as error:
            raise MachineError(f"no ZooKeeper: {str(error) or type(error).__name__}", "see its log") from None
        self._thread.start()

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()

    def _begin(self) -> None:
        from kazoo.recipe.watchers import DataWatch

        for name, path in self._entries.items():
            DataWatch(self._client, path, self._teller(name))

    def _teller(self, name: str) -> Callable[[bytes | None, object], None]:
        def tell(content: bytes | None, _: object) -> None:
            self._told(name, content)

        return tell
