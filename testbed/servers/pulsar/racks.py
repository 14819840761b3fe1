"""``python -m testbed.servers.pulsar.racks ZOOKEEPER BOOKIE…``: a rack a bookie, written down before brokers start.

BookKeeper chooses the first bookie of a ledger from the rack of who writes it, and a broker's rack is that of the
bookie at its own address.  It asks once, at its start.  So where a topic moves, its next ledger is beside its broker:
that is what ePulsar wants of bookies (3.5), and no load manager has a part in it.
"""

import json
import sys
from collections.abc import Iterable

PATH = "/bookies"  # of Pulsar's entry: group -> bookie -> rack


def racks_text(bookies: Iterable[str]) -> str:
    """The entry: ``"address:port"`` of bookies, each alone in a rack that is called after its address."""
    racks = {bookie: {"rack": f"/{bookie.rpartition(':')[0]}", "hostname": bookie} for bookie in bookies}
    return json.dumps({"default": racks})


def main() -> None:
    """Write the entry."""
    from kazoo.client import KazooClient

    zookeeper, *bookies = sys.argv[1:]
    client = KazooClient(zookeeper)
    client.start()
    client.ensure_path(PATH)
    client.set(PATH, racks_text(bookies).encode())
    client.stop()


if __name__ == "__main__":
    main()
