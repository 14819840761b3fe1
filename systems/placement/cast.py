"""Who is who: the roles of a deployment's nodes, told by their names (see ``testbed.topologies.places``)."""

from collections.abc import Iterable
from dataclasses import dataclass

AGENT = "-agent"  # a broker's or manager's coordinate agent is named after it
STORE = "store"


@dataclass(frozen=True)
class Cast:
    """The nodes by role, in the order of the deployment."""

    managers: tuple[str, ...]
    brokers: tuple[str, ...]
    agents: tuple[str, ...]  # coordinate agents: of brokers, of managers, and of gateways (proxies)
    stores: tuple[str, ...]
    clients: tuple[str, ...]


def cast_of(names: Iterable[str]) -> Cast:
    """Sort names into roles: managerN, brokerN, proxyN and *-agent, store; all others are clients."""
    by_role: dict[str, list[str]] = {role: [] for role in ("manager", "broker", "agent", "store", "client")}
    for name in names:
        by_role[_role(name)].append(name)
    return Cast(*(tuple(by_role[role]) for role in ("manager", "broker", "agent", "store", "client")))


def _role(name: str) -> str:
    if name.endswith(AGENT):
        return "agent"
    stem = name.rstrip("0123456789")
    return {"manager": "manager", "broker": "broker", "proxy": "agent", STORE: "store"}.get(stem, "client")
