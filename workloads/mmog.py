"""mmog: avatars of an online game in groups that change (ePulsar 5.1.2, 5.8.2; after Destiny 2).

An avatar has a topic of its own, on which its game server publishes its state; the servers of the other avatars of its
group subscribe to it.  After a while it joins another group, drawn at random.  A group's size varies.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from core.clients import Happening, Joined, Left, Role
from core.limits import SUBSCRIPTIONS, ByteCount, ClientCount, HostCount, Rps, check_product
from core.seeds import generator
from core.units import SECOND_NS
from workloads.api import Offer, Workload, require, span_of
from workloads.client_load import check_counts, check_topics, in_order, seconds_ns, topic

FOREVER = "forever"
_STAYS = "write uniform:30s:60s, exponential:45s (the mean), or forever"


@dataclass(frozen=True)
class MmogConfig:
    """Options of the game; the numbers are those of ePulsar, Fig. 9.  Raises SpecError when made."""

    avatars: ClientCount = 64
    groups: ClientCount = 8  # groups of 8 on average: 1024 clients, 128 groups in Section 5.5.2
    sites: HostCount = 5  # of all cities together; 5 cities, "several" edge sites in each
    stay: str = "uniform:30s:60s"  # in a group: Section 5.8.2; exponential in 5.1.2, without a mean
    rate_rps: Rps = 300.0  # of each avatar
    size_bytes: ByteCount = 998
    bound: str = "100ms"  # end to end

    def __post_init__(self) -> None:
        check_counts(avatars=self.avatars, groups=self.groups, sites=self.sites)
        check_product("workload mmog", SUBSCRIPTIONS, avatars=self.avatars, others=self.avatars // self.groups)
        stay_spans_ns(self.stay)
        check_topics(self.rate_rps, self.size_bytes, self.bound)


def stay_spans_ns(text: str) -> list[int]:
    """Those of a stay, written as ``uniform:FROM:TO`` or ``exponential:MEAN``; their mean is its mean.

    ``forever`` has none.
    """
    kind, *spans = text.split(":")
    if text == FOREVER:
        return []
    require((kind, len(spans)) in (("uniform", 2), ("exponential", 1)), "stay", text, _STAYS)
    spans_ns = [span_of("stay", span) for span in spans]
    require(0 < spans_ns[0] <= spans_ns[-1], "stay", text, "give spans above 0, the shorter one first")
    return spans_ns


def stay_of(text: str) -> Callable[[np.random.Generator], int] | None:
    """Draws a stay in ns; None for ``forever``."""
    match stay_spans_ns(text):
        case [low_ns, high_ns]:
            return lambda rng: int(rng.integers(low_ns, high_ns, endpoint=True))
        case [mean_ns]:
            return lambda rng: seconds_ns(rng.exponential(mean_ns / 1e9))
    return None


class Mmog:
    """The avatars of a config: client and topic ``avatar-A`` each, numbered from 1, at a site drawn uniformly."""

    def __init__(self, config: MmogConfig, seed: int):
        self.config, self._seed = config, seed
        self._draw = stay_of(config.stay)
        names = [f"avatar-{number}" for number in range(1, config.avatars + 1)]
        self.homes = {name: int(generator(seed, "mmog", "site", name).integers(config.sites)) for name in names}
        self.topics = tuple(topic(name, config.rate_rps, config.size_bytes, config.bound) for name in names)
        self.site_count = config.sites

    @property
    def change_rps(self) -> float:
        """Who changes groups leaves the others of one and joins those of the next; and they leave and join it."""
        config, spans_ns = self.config, stay_spans_ns(self.config.stay)
        if not spans_ns or config.groups == 1:
            return 0.0
        pairs = 1 + 4 * (config.avatars - 1) / config.groups
        return config.avatars * pairs * SECOND_NS * len(spans_ns) / sum(spans_ns)

    def groups(self, until_ns: int) -> dict[str, list[tuple[int, int]]]:
        """Avatar -> the groups that it joins by ``until_ns``, with the instants; the first at 0."""
        return {name: self._groups_of(name, until_ns) for name in self.homes}

    def happenings(self, until_ns: int) -> list[Happening]:
        """Everybody publishes from the start; whoever changes groups leaves the old members, and they leave it."""
        changes: dict[int, dict[str, int]] = {}
        for name, joins in self.groups(until_ns).items():
            for at_ns, group in joins:
                changes.setdefault(at_ns, {})[name] = group
        happenings: list[Happening] = [Joined(0, name, name, Role.PRODUCER) for name in self.homes]
        members: dict[int, set[str]] = {group: set() for group in range(self.config.groups)}
        group_of: dict[str, int] = {}
        for at_ns in sorted(changes):  # all that change in one nanosecond at once: two may go together
            old = {pair for name in changes[at_ns] for pair in _pairs(name, group_of, members)}
            for name, group in changes[at_ns].items():
                members[group_of.get(name, group)].discard(name)
                members[group].add(name)
                group_of[name] = group
            new = {pair for name in changes[at_ns] for pair in _pairs(name, group_of, members)}
            happenings += [Left(at_ns, client, topic, Role.CONSUMER) for client, topic in old - new]
            happenings += [Joined(at_ns, client, topic, Role.CONSUMER) for client, topic in new - old]
        return in_order(happenings, self.homes, self.topics, until_ns)

    def _groups_of(self, name: str, until_ns: int) -> list[tuple[int, int]]:
        rng = generator(self._seed, "mmog", "groups", name)
        count = self.config.groups
        joins = [(0, int(rng.integers(count)))]
        while self._draw is not None and count > 1:
            at_ns = joins[-1][0] + self._draw(rng)
            group = (joins[-1][1] + 1 + int(rng.integers(count - 1))) % count  # another one
            if at_ns > until_ns:
                break
            joins.append((at_ns, group))
        return joins


def _pairs(name: str, group_of: dict[str, int], members: dict[int, set[str]]) -> set[tuple[str, str]]:
    """(client, topic) of all subscriptions that ``name`` is part of."""
    others = members[group_of[name]] - {name} if name in group_of else set()
    return {pair for other in others for pair in ((name, other), (other, name))}


WORKLOAD = Workload("mmog", "avatars of an online game in groups that change", MmogConfig, Mmog, Offer.CLIENTS)
