"""What both bodies of the counter share: events, rounds of gossip, users on the wire."""

from collections.abc import Sequence

from core.errors import SpecError
from systems.api import (
    Arrival,
    Decide,
    Delivery,
    Effect,
    Event,
    Message,
    Send,
    SetTimer,
    Start,
    Timer,
    UnexpectedEvent,
    Verdict,
)
from systems.limiting.counter_common import Config, Delta, TaggedDelta, message_bytes
from systems.parts.erlang_terms import node_words, weight_bytes
from systems.parts.gossip import Rounds
from systems.parts.limit import limit_of
from systems.parts.user_key import user_key

COUNT_MAXIMUM = 2**32 - 1  # tokens that one node may grant one user: what a counter holds on the wire
COUNTER_BYTES, LIMIT_BYTES = 16, 16  # the thesis' model (digest A18)


class CounterNode:
    """One node of the counter; a body keeps the buckets and the queues.

    A crash loses the node's buckets and what it had queued.  When it is back, empty:

    * it learns a user's bucket again when somebody sends it, that is when it next changes, or at once
      from the snapshot of a peer;
    * with ``slots = "node"`` it counts in its old slot, from 0.  Until it has learnt the slot's old value,
      its peers, who keep the larger one, do not see what it admits; what it admitted by then is forgotten
      for good, at most what one node may admit in that time.  (To add both would not do: an old value
      that comes back may be of this incarnation as well as of the last.)
    * with ``slots = "incarnation"`` each life counts in a slot of its own, named by the instant at which
      it began: nothing is hidden, and buckets grow by a counter for each restart.
    * what comes from a node that is no neighbour is passed on to all.
    """

    def __init__(self, node_id: str, names: Sequence[str], neighbours: tuple[str, ...], config: Config, seed: int):
        self.node_id, self.neighbours, self.config = node_id, neighbours, config
        self.own = list(names).index(node_id)
        self.places = {name: place for place, name in enumerate(neighbours)}
        self.limit = limit_of(config.capacity, config.rate)
        self.rounds = Rounds(node_id, config.gossip, seed, config.phase, config.choice, system="crdt-counter")
        self.alike: frozenset[int] = frozenset()  # places whose queues are one term: empty, until a message's news came
        self.gossips = config.push != "broadcast" and len(neighbours) > 0
        self.relays = config.overlay != "full-mesh"  # a broadcast reaches everyone only on a full mesh

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        match event:
            case Arrival(request):
                return self._arrive(request.id, user_key(request.user), request.cost, now_ns)
            case Delivery(source, Delta() | TaggedDelta() as message):
                return self._take(message, self.places.get(source, -1), now_ns)
            case Timer("gossip", due_at_ns):
                effects: list[Effect] = [SetTimer("gossip", self.rounds.next_at_ns(due_at_ns, now_ns))]
                place = self.rounds.choose(self.queued_counts())
                if place is not None:
                    self.alike -= {place}
                    effects.append(Send(self.neighbours[place], self.flush(place)))
                return effects
            case Start(snapshot):
                self.begin(now_ns)
                if snapshot is not None:
                    self.restore(snapshot)
                return [SetTimer("gossip", self.rounds.first_at_ns(now_ns))] if self.gossips else []
        raise UnexpectedEvent(self.node_id, event)

    def _arrive(self, request_id: int, user: bytes, cost: int, now_ns: int) -> list[Effect]:
        if not self.admit(user, cost, now_ns):
            return [Decide(request_id, Verdict.REJECT)]
        self.alike = frozenset()
        return [Decide(request_id, Verdict.ADMIT), *self.pushed(user, now_ns)]

    def _take(self, message: Delta | TaggedDelta, sender: int, now_ns: int) -> list[Effect]:
        if self.config.memory == "columns":
            return self.receive(message, sender, now_ns)
        before = self.queued_counts()
        effects = self.receive(message, sender, now_ns)
        if (after := self.queued_counts()) != before:
            self.alike = frozenset(place for place, count in enumerate(after) if count and not before[place])
        return effects

    def idle(self) -> bool:
        """Nothing is queued for anybody."""
        return not any(self.queued_counts())

    def message_bytes(self, message: Delta | TaggedDelta, encoded_bytes: int) -> int:
        """See ``systems.api.Node``."""
        return message_bytes(self.config.unit, message, encoded_bytes)

    # --- what a body does ------------------------------------------------------------------------

    def begin(self, now_ns: int) -> None:
        """The node's life begins."""

    def restore(self, snapshot: Message) -> None:
        """Take the buckets of a snapshot; nothing is queued."""
        raise NotImplementedError

    def admit(self, user: bytes, cost: int, now_ns: int) -> bool:
        """Refill the user's bucket and take ``cost`` tokens if they are there; a changed bucket is queued for all."""
        raise NotImplementedError

    def pushed(self, user: bytes, now_ns: int) -> list[Effect]:
        """What is sent at once because a request of ``user`` was admitted."""
        raise NotImplementedError

    def receive(self, message: Delta | TaggedDelta, sender: int, now_ns: int) -> list[Effect]:
        """Merge; changed buckets are queued for all neighbours but the ``sender`` (its place; -1: no neighbour)."""
        raise NotImplementedError

    def queued_counts(self) -> list[int]:
        """How many users' buckets are queued for each neighbour."""
        raise NotImplementedError

    def flush(self, place: int) -> Message:
        """All that is queued for a neighbour, which is then empty."""
        raise NotImplementedError

    def term_bytes(self, user_count: int, key_count: int, bucket_words: int) -> int:
        """What the state weighs as Erlang terms: users, texts of theirs, words of buckets, out of date or not."""
        counts = [0 if place in self.alike else count for place, count in enumerate(self.queued_counts())]
        counts += [self.queued_counts()[place] for place in list(self.alike)[:1]]
        words = node_words(len(self.neighbours), user_count, counts, key_count) + bucket_words
        return weight_bytes(self.config.memory, words)


def too_many(node_id: str) -> SpecError:
    """A counter overflows."""
    return SpecError(
        f"crdt-counter: {node_id} granted one user more than {COUNT_MAXIMUM} tokens", "count in larger tokens"
    )
