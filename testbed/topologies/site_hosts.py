"""The hosts of the placement family, named as ``testbed/topologies/places.py`` says, and what its topologies share."""

from core.errors import SpecError
from core.units import duration_ns
from systems.placement.cast import AGENT
from testbed.topologies.topology import Host


def broker(number: int) -> Host:
    """A broker and its coordinate agent."""
    return _with_agent("broker", number)


def manager(number: int) -> Host:
    """Where the load manager may be elected, and its coordinate agent."""
    return _with_agent("manager", number)


def proxy(number: int) -> Host:
    """The coordinate agent of a site's gateway."""
    return Host(f"proxy{number}", role="proxy")


def store() -> Host:
    """The coordination store."""
    return Host("store", role="store")


def at_least(topology: str, option: str, count: int, least: int) -> None:
    """SpecError naming ``option`` where ``count`` is too small."""
    if count < least:
        raise SpecError(f"topology {topology}: {option} = {count}", f"give at least {least}")


def one_way(topology: str, option: str, text: str) -> int:
    """Nanoseconds of a topology's option; SpecError naming it."""
    try:
        return duration_ns(text)
    except ValueError as error:
        raise SpecError(f"topology {topology}: {option}: {error}", "") from None


def _with_agent(role: str, number: int) -> Host:
    name = f"{role}{number}"
    return Host(name, role=role, nodes=(name, name + AGENT))
