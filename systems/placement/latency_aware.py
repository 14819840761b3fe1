"""What ePulsar and AllPairs have in common: one topic a unit, moved by Algorithm 1 (ePulsar, 3.3, 3.4)."""

from collections.abc import Mapping, Sequence

import numpy as np

from core.records import Float64, Int64
from core.units import SECOND_NS
from systems.parts.consistent_hash import name_hash, range_of
from systems.parts.coordinates import Coordinates, stacked
from systems.parts.topic_placement import Policy, Topics, delay_s, marks_rps, place
from systems.parts.vivaldi import Coordinate
from systems.placement.monitoring import Rates, UnitRecord, View
from systems.placement.options import Options


class LatencyAware:
    """A topic is a unit; ``expected_s`` of a subclass says what each broker would offer each topic."""

    def __init__(self, brokers: Sequence[str], options: Options, policy: Policy):
        self.brokers, self.options, self.policy = brokers, options, policy

    def unit_of(self, topic: str) -> str:
        """See ``Strategy``."""
        return topic

    def expected_s(self, records: Sequence[UnitRecord], places: Coordinates) -> Float64:
        """The worst delay that each broker is expected to offer each topic: float64 (topics, brokers)."""
        raise NotImplementedError

    def worst_s(self, records: Sequence[UnitRecord], expected: Float64, here: Int64) -> Float64:
        """E(t), the worst delay over the present broker: float64 (topics,); ``here``: its number, int64 (topics,)."""
        raise NotImplementedError

    def first(self, unit: str, view: View, client: Coordinate | None) -> str:
        """See ``Strategy``: near the client that asks, or where the name's hash falls."""
        alive = [name for name in self.brokers if name in view.brokers]
        located = [(view.brokers[name].coordinate, name) for name in alive]
        near = [
            (delay_s(client, at, self.policy), name) for at, name in located if client is not None and at is not None
        ]
        if near and self.options.first == "near":
            return min(near, key=lambda pair: pair[0])[1]
        return alive[range_of(name_hash(unit), len(alive))] if alive else ""

    def moves(self, view: View) -> Mapping[str, str]:
        """See ``Strategy``: Algorithm 1 over the topics whose present broker has reported where their clients are."""
        located = {name: report for name, report in view.brokers.items() if report.coordinate is not None}
        names = [name for name in self.brokers if name in located]
        number = {name: i for i, name in enumerate(names)}
        records = {
            unit: record for unit, record in view.owned().items() if view.owners[unit] in number and _is_known(record)
        }
        if not records:
            return {}
        units, reports = list(records), list(records.values())
        places = stacked([at for name in names if (at := located[name].coordinate) is not None])
        here = np.array([number[view.owners[unit]] for unit in units])
        expected = self.expected_s(reports, places)
        bound_s = np.array([self.options.bound_ns(unit) for unit in units]) / SECOND_NS
        known = Topics(here, bound_s, self.worst_s(reports, expected, here), *_rates(view, units))
        others = [unit for unit, broker in view.owners.items() if broker in number and unit not in records]
        topics = _joined(known, _burdens(view, others, number))
        expected = np.vstack([expected, np.zeros((len(others), len(names)))])
        held = np.array([unit in view.held for unit in units] + [True] * len(others))
        load_rps = np.array([located[name].out_rps for name in names])
        utilisation = np.array([located[name].utilisation for name in names])
        marks = marks_rps(load_rps, self.options.out_maximum_rps, utilisation)
        targets = place(topics, expected, marks, self.policy, held)[: len(units)]
        return {unit: names[to] for unit, to, at in zip(units, targets, here, strict=True) if to != at}


def _burdens(view: View, units: Sequence[str], number: Mapping[str, int]) -> Topics:
    """Units that are to stay where they are, as nobody has said yet where their clients are; but they are a load.

    Without them a broker to which topics have just been moved would look empty, and be given too many.
    """
    here = np.array([number[view.owners[unit]] for unit in units], np.int64)
    return Topics(here, np.full(len(units), np.inf), np.zeros(len(units)), *_rates(view, units))


def _rates(view: View, units: Sequence[str]) -> tuple[Float64, Float64]:
    """In and out, float64 (units,)."""
    rates = [view.rates.get(unit, Rates()) for unit in units]
    return np.array([rate.in_rps for rate in rates], float), np.array([rate.out_rps for rate in rates], float)


def _joined(one: Topics, other: Topics) -> Topics:
    return Topics(*(np.concatenate(columns) for columns in zip(one, other, strict=True)))


def _is_known(record: UnitRecord) -> bool:
    """Whether anybody's place is in it."""
    summary = record.summary
    return bool(record.producers or record.consumers or (summary and (summary.producers or summary.consumers)))
