"""The placement study, topic by topic, out of ``systems.parts.topic_placement``."""

from itertools import product

from core.records import Int64
from studies.policies.asked import Setting
from studies.policies.virtual import Places, PolicyScenario
from systems.parts import topic_placement as tp
from systems.parts.coordinates import Coordinates, one_of
from systems.parts.vivaldi import Coordinate

Row = tuple[float, ...]


def results(
    places: Places, where: Coordinates, scenario: PolicyScenario, sites: Int64, hashed: Int64, setting: Setting
) -> dict[str, Row]:
    """Of one placement (clients,): policy -> its measures, in the kernel's order."""
    policy, bound_s = setting.policy, setting.bound_s
    brokers = [one_of(where, number) for number in range(places.brokers)]
    client_at = [one_of(where, places.brokers + int(site)) for site in sites]
    if setting.access_in_height:
        client_at = [_higher(one, 2 * setting.access_s) for one in client_at]
    truth = places.site_to_broker(places.delay_s)[sites] + setting.access_s
    estimates = [[tp.delay_s(one, broker, policy) for broker in brokers] for one in client_at]
    delays: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in ("pulsar", *CHOOSE)}
    feasible = dict.fromkeys(delays, 0)
    for topic, (of, to) in enumerate(zip(scenario.producers, scenario.consumers, strict=True)):
        pairs = list(product(of, to))
        summary = tp.summarised([client_at[p] for p in of], [client_at[c] for c in to], brokers[0], policy)
        assert summary.producers is not None and summary.consumers is not None
        for name in delays:
            broker = int(hashed[topic])
            if name != "pulsar":
                scores = {
                    "epulsar": lambda b, s=summary: _expected(s, brokers[b], policy),
                    "all-pairs": lambda b, ps=pairs: max(estimates[p][b] + estimates[c][b] for p, c in ps),
                    "optimal": lambda b, ps=pairs: max(truth[p][b] + truth[c][b] for p, c in ps),
                }
                best = min(range(len(brokers)), key=scores[name])
                feasible[name] += scores[name](best) < bound_s
                stays = setting.only_violated and scores["all-pairs"](broker) <= bound_s
                broker = broker if stays and name != "optimal" else best
            delays[name][0].extend(estimates[p][broker] + estimates[c][broker] for p, c in pairs)
            delays[name][1].extend(float(truth[p][broker] + truth[c][broker]) for p, c in pairs)
    return {
        name: (
            *_worst(estimated, bound_s),
            _worst(estimated, bound_s * policy.share)[1],
            *_worst(true, bound_s),
            feasible[name] / len(scenario.topics),
        )
        for name, (estimated, true) in delays.items()
    }


CHOOSE = ("all-pairs", "epulsar", "optimal")


def _higher(one: Coordinate, by_s: float) -> Coordinate:
    return Coordinate(one.vec, one.error, one.adjustment, one.height + by_s)


def _expected(summary: tp.Summary, broker: Coordinate, policy: tp.Policy) -> float:
    assert summary.producers is not None and summary.consumers is not None
    both = tp.delay_s(summary.producers, broker, policy) + tp.delay_s(summary.consumers, broker, policy)
    return both + summary.deviation_s


def _worst(delays: list[float], bound_s: float) -> tuple[float, float]:
    return max(delays), sum(delay > bound_s for delay in delays) / len(delays)
