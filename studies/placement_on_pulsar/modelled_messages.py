"""What became of the messages of modelled topics: each is late by its ways, and by what its topic was fenced.

A message goes to the broker that has its topic when the topic is open, and from there to every consumer; ways are those
of the sites where clients are when it is sent.  Nothing is lost, of topics that are not persistent either: the model
says nothing of what a real Pulsar drops of these when it moves one.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from core.records import Int64
from studies.placement.asked import Spell
from studies.placement_on_pulsar.asked import ClientCrew, PulsarRequest
from studies.placement_on_pulsar.load import due_of
from testbed.trust.accounts import ABSENT, Fate, Receipt, Sent, fate, of_topic, within


class Fenced(NamedTuple):
    """Nobody got anything of a topic in between."""

    start_ns: int
    end_ns: int


class TopicPast(NamedTuple):
    """Who had a topic, in order, and when it was fenced."""

    spells: Sequence[Spell]
    fenced: Sequence[Fenced]

    def open_ns(self, at_ns: Int64) -> Int64:
        """When what comes at these instants goes on."""
        open_ns = at_ns.copy()
        for span in self.fenced:
            open_ns[within(at_ns, span)] = span.end_ns
        return open_ns

    def broker_at(self, at_ns: Int64, numbers: Mapping[str, int]) -> Int64:
        """The number of who has it at these instants."""
        starts = np.array([spell.start_ns for spell in self.spells])
        brokers = np.array([numbers[spell.broker] for spell in self.spells])
        owner: Int64 = brokers[np.maximum(0, np.searchsorted(starts, at_ns, "right") - 1)]
        return owner


class ClientWays:
    """One way between hosts of clients and ``brokers``, from where these hosts are."""

    def __init__(self, asked: PulsarRequest, brokers: Sequence[str]):
        self._asked, self.brokers = asked, {name: number for number, name in enumerate(brokers)}
        self._access_ns = asked.access_ns
        self._ways_ns = cache(self._ways_of)

    def ns(self, node: str, at_ns: Int64, broker: Int64) -> Int64:
        """At these instants, to brokers by number."""
        since_ns, ways_ns = self._ways_ns(node)
        way_ns: Int64 = ways_ns[np.searchsorted(since_ns, at_ns, "right") - 1, broker]
        return way_ns

    def _ways_of(self, node: str) -> tuple[Int64, Int64]:
        """Of a clients' host: since when it is where, int64 (places,); its ways to all brokers, (places, brokers)."""
        whereabouts = self._asked.whereabouts[node]
        since_ns = np.array([at_ns for at_ns, _ in whereabouts])
        topology, site_of = self._asked.topology, {place.proxy: place.name for place in self._asked.places}
        ways_ns = [
            [self._access_ns + topology.path(site_of[proxy], name).one_way_delay_ns for name in self.brokers]
            for _, proxy in whereabouts
        ]
        return since_ns, np.array(ways_ns, np.int64)


class ModelledMessages:
    """Of a run: ``pasts`` of its topics."""

    def __init__(self, asked: PulsarRequest, ways: ClientWays, pasts: Mapping[str, TopicPast]):
        self._asked, self._ways, self._pasts = asked, ways, pasts

    def told(self) -> tuple[dict[str, Fate], Int64]:
        """The fates of each topic's messages, and the latencies of all deliveries."""
        fates, latencies = dict[str, Fate](), [np.zeros(0, np.int64)]
        for load in self._asked.load.topics:
            parts = []
            for number, crew in enumerate(self._asked.crews):
                if load.name in crew.produced:
                    sent, receipts = self._of_producer(crew, number, load.name)
                    parts.append(fate(sent, receipts, load.bound_ns)[0])
                    latencies += [(one.received_ns - sent.born_ns)[one.is_owed] for one in receipts]
            fates[load.name] = of_topic(parts)
        return fates, np.concatenate(latencies)

    def _of_producer(self, crew: ClientCrew, number: int, topic: str) -> tuple[Sent, list[Receipt]]:
        due, past = due_of(self._asked, crew, number), self._pasts[topic]
        born_ns = due["intended_at_ns"][due["topic"] == crew.topics.index(topic)]
        open_ns = past.open_ns(born_ns)
        broker = past.broker_at(open_ns, self._ways.brokers)
        there_ns = open_ns + self._ways.ns(crew.node, open_ns, broker)
        never = np.zeros_like(born_ns)
        sent = Sent(born_ns, born_ns, born_ns, there_ns, never, never)
        receipts = []
        for consumer in self._asked.crews:
            if topic in consumer.topics:
                is_owed = np.zeros(len(born_ns), bool)
                for span_ns in consumer.spans_ns(consumer.topics.index(topic), self._asked.duration_ns):
                    is_owed |= within(born_ns, span_ns)
                came_ns = there_ns + self._ways.ns(consumer.node, open_ns, broker)
                receipts.append(Receipt(np.where(is_owed, came_ns, ABSENT), is_owed, is_owed.astype(np.int64), 0))
        return sent, receipts
