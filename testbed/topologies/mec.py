"""The topology ``city-mec``: edge sites of one city, and a cloud (ePulsar 5.1.1; multi-access edge computing)."""

from core.errors import SpecError
from core.limits import HostCount
from testbed.topologies.places import STORE, actor, joined
from testbed.topologies.topology import Link, Topology, at_least, one_way

NAME = "city-mec"
CITY, CLOUD = "city", "cloud"


def city_mec(
    sites: HostCount = 4,
    site_rtt: str = "30ms",
    cloud_delay: str = "40ms",
    brokers: int | str | list[int] = "",
    managers: HostCount = 1,
    cloud_brokers: HostCount = 0,
) -> Topology:
    """Edge sites of one city, each with a broker and a coordinate proxy; managers and store in a cloud (ePulsar 5.1.1).

    Sites are joined by a city switch, ``site_rtt`` (both ways) from each other, and the cloud is ``cloud_delay``
    (one way) from each.  Site N has ``brokerN`` and ``proxyN``; ``brokers`` names the sites that have a broker
    ("1,3"), by default all.  ``cloud_brokers`` more are in the cloud, numbered on from the last site.
    """
    for option, count, least in (("sites", sites, 1), ("managers", managers, 1), ("cloud_brokers", cloud_brokers, 0)):
        at_least(NAME, option, count, least)
    to_city_ns = round(one_way(NAME, "site_rtt", site_rtt) / 4)
    to_cloud_ns = one_way(NAME, "cloud_delay", cloud_delay) - to_city_ns
    if to_cloud_ns < 0:
        what = f"topology {NAME}: cloud_delay = {cloud_delay} is less than the way to the city switch"
        raise SpecError(what, f"give at least a quarter of site_rtt = {site_rtt}")
    sites_named = [f"site{n}" for n in range(1, sites + 1)]
    placed = [(actor("broker", n), f"site{n}") for n in _numbers(brokers, sites)]
    placed += [(actor("broker", sites + n), CLOUD) for n in range(1, cloud_brokers + 1)]
    placed += [(actor("proxy", n), site) for n, site in enumerate(sites_named, 1)]
    placed += [*((actor("manager", n), CLOUD) for n in range(1, managers + 1)), (STORE, CLOUD)]
    links = [*(Link(site, CITY, to_city_ns) for site in sites_named), Link(CITY, CLOUD, to_cloud_ns)]
    return joined(NAME, placed, [*sites_named, CITY, CLOUD], links)


def _numbers(brokers: int | str | list[int], sites: int) -> list[int]:
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
