"""The topology ``city-mec``: edge sites of one city, and a cloud (ePulsar 5.1.1; multi-access edge computing)."""

from core.errors import SpecError
from testbed.topologies.site_hosts import at_least, broker, manager, one_way, proxy, store
from testbed.topologies.topology import SWITCH, Host, Link, Topology

NAME = "city-mec"
CITY, CLOUD = "city", "cloud"


def city_mec(
    sites: int = 4,
    site_rtt: str = "30ms",
    cloud_delay: str = "40ms",
    brokers: int | str | list[int] = "",
    managers: int = 1,
    cloud_brokers: int = 0,
) -> Topology:
    """Edge sites of one city, each with a broker and a coordinate proxy; managers and store in a cloud (ePulsar 5.1.1).

    Sites are joined by a city switch, ``site_rtt`` (both ways) from each other, and the cloud is ``cloud_delay``
    (one way) from each.  Site N has ``brokerN`` and ``proxyN``; ``brokers`` names the sites that have a broker
    ("1,3"), by default all.  ``cloud_brokers`` more are in the cloud, numbered on from the last site.
    """
    at_least(NAME, "sites", sites, 1)
    at_least(NAME, "managers", managers, 1)
    at_least(NAME, "cloud_brokers", cloud_brokers, 0)
    to_city_ns = round(one_way(NAME, "site_rtt", site_rtt) / 4)
    to_cloud_ns = one_way(NAME, "cloud_delay", cloud_delay) - to_city_ns
    if to_cloud_ns < 0:
        what = f"topology {NAME}: cloud_delay = {cloud_delay} is less than the way to the city switch"
        raise SpecError(what, f"give at least a quarter of site_rtt = {site_rtt}")
    with_broker = _numbers(brokers, sites)
    numbers = range(1, sites + 1)
    placed = [(broker(n), f"site{n}") for n in with_broker]
    placed += [(broker(sites + n), CLOUD) for n in range(1, cloud_brokers + 1)]
    placed += [(proxy(n), f"site{n}") for n in numbers]
    placed += [(manager(n), CLOUD) for n in range(1, managers + 1)]
    placed.append((store(), CLOUD))
    switches = [f"site{n}" for n in numbers] + [CITY, CLOUD]
    links = [Link(host.name, switch) for host, switch in placed]
    links += [Link(f"site{n}", CITY, to_city_ns) for n in numbers]
    links.append(Link(CITY, CLOUD, to_cloud_ns))
    hosts = [host for host, _ in placed] + [Host(name, role=SWITCH) for name in switches]
    return Topology(NAME, tuple(hosts), tuple(links))


def _numbers(brokers: int | str | list[int], sites: int) -> list[int]:
    """The sites that have a broker, in order."""
    wrong = SpecError(f"topology {NAME}: brokers = {brokers!r}", f"name some of the sites 1 to {sites}, each once")
    if brokers == "":
        return list(range(1, sites + 1))
    listed = brokers if isinstance(brokers, list) else str(brokers).split(",")
    try:
        numbers = [int(number) for number in listed]
    except ValueError:
        raise wrong from None
    if not numbers or len(set(numbers)) < len(numbers) or not set(numbers) <= set(range(1, sites + 1)):
        raise wrong
    return sorted(numbers)
