"""Who is where: the nodes of a run, their addresses, and the token that they know each other by."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

Address = tuple[str, int]  # IPv4, port


@dataclass(frozen=True)
class Directory:
    """Nodes by name, in the order of the topology.

    A node listens on one port number, for TCP and for UDP; a datagram is its sender's whose address it
    comes from.
    """

    token: str
    addresses: Mapping[str, Address]

    def name_at(self, address: Address) -> str | None:
        """The node that sends from ``address``; None for a stranger."""
        return self._names.get(address)

    def is_home(self, node: str, address: str) -> bool:
        """Whether ``node`` is one of the run's, and lives on the host with that address."""
        return node in self.addresses and self.addresses[node][0] == address

    def calls(self, node: str) -> list[str]:
        """Those whom ``node`` calls: of each pair the first calls the second."""
        names = list(self.addresses)
        return names[names.index(node) + 1 :]

    @cached_property
    def _names(self) -> dict[Address, str]:
        return {address: name for name, address in self.addresses.items()}
