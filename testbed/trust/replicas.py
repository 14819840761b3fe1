"""Are all replicas equal at the end of a run?  Counted from the snapshots of the nodes, alike on every testbed."""

from collections.abc import Mapping

from systems.api import System


def replica_rows(
    system: System, config: object, states: Mapping[str, object], now_ns: int
) -> list[tuple[int, str, str, float]]:
    """Rows of ``samples``, of node "": how much the replicas hold, and how much of it not all of them.

    ``replica_count``, the states compared; ``replica_entry_count``, entries that any of them holds (a counter,
    an element: see ``System.shared``); ``replica_gap_count``, those that not all hold: 0 where all are equal.
    Nothing for systems without replicas.  ``now_ns``: not before any snapshot was taken.
    """
    if system.shared is None or not states:
        return []
    held = [system.shared(config, snapshot, now_ns) for snapshot in states.values()]
    anywhere, everywhere = frozenset[object]().union(*held), held[0].intersection(*held)
    counts = {"replica_count": len(held), "replica_entry_count": len(anywhere),
              "replica_gap_count": len(anywhere) - len(everywhere)}  # fmt: skip
    return [(now_ns, "", metric, float(count)) for metric, count in counts.items()]
