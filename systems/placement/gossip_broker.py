"""A broker of ``gossip-placer``: it votes on owners, gossips, and moves the topics that it owns."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

import msgspec
from msgspec.structs import replace

from core.errors import SpecError
from core.seeds import generator
from core.units import NEVER_NS
from systems.api import Delivery, Effect, Event, Message, Sample, Send, SetTimer, Start, Timer
from systems.parts.gossip import Rounds
from systems.parts.majority_lease import NOBODY, Voter, held_ns, majority, runs_out_ns
from systems.parts.overlay import overlay
from systems.parts.steady_clock import SteadyClock
from systems.parts.vivaldi import Coordinate
from systems.placement import epulsar
from systems.placement.broker import BrokerNode
from systems.placement.gossip_messages import (
    BrokerNews,
    Contested,
    GiveBack,
    Lapsed,
    Renew,
    Renewed,
    Reports,
    RequestVote,
    Vote,
)
from systems.placement.messages import Create, Delete, Done, Found, Lookup, Release, Released, Write
from systems.placement.monitoring import OWNERS, BrokerReport, Rates, Strategy, View

_REST = "all else at "  # the one unit that stands for what another broker has
_OF_THE_STORE = ("monitoring_bytes",)  # there is none to write to


@dataclass(frozen=True)
class Config(epulsar.Config):
    """Options; ``session`` is the lease, and ``place`` each broker's own loop.  All others are ePulsar's."""

    gossip: str = "1s"  # ours: each broker tells one other what is new
    overlay: str = "full-mesh"  # ours: whom it may tell
    hysteresis_s: float = 0.005  # ours: places are known late, and nobody knows all loads

    def __post_init__(self) -> None:
        """SpecError for what makes no sense."""
        super().__post_init__()
        if self.periodic:
            raise SpecError(f"gossip-placer: periodic = {self.periodic!r}", "leave it out: there is no load manager")


@dataclass
class _Peer:
    """Another broker, as a voter: the session with it, known to it once ``open``, and until when its votes count."""

    session: int = -NEVER_NS
    open: bool = False
    valid_until_ns: int = -NEVER_NS
    told_ns: dict[str, int] = field(default_factory=dict)  # broker -> the newest that it has been told of it


@dataclass
class _Claim:
    """A unit that this broker owns, or wants to own."""

    ticket: int
    ballot: int
    until_ns: int  # when it is given up
    again_ns: int = NEVER_NS  # when to ask again, after a vote that nobody won
    attempts: int = 0
    votes: dict[str, str] = field(default_factory=dict)  # voter -> whom it voted for
    owned_ns: int | None = None  # since when

    @property
    def owns(self) -> bool:
        """Whether a majority has voted for it."""
        return self.owned_ns is not None


class PlacerNode:
    """A broker: ``BrokerNode`` as it is, whose requests to a store are taken here, and the voter and placer beside."""

    def __init__(self, node_id: str, brokers: Sequence[str], strategy: Strategy, options: Config, seed: int):
        self.node_id, self.brokers, self.strategy, self.options = node_id, brokers, strategy, options
        self._broker = BrokerNode(node_id, node_id, strategy, options, seed)
        self.lease_ns, self.place_ns = options.span("session"), options.span("place")
        self.answer_ns, self.retry_ns = options.span("answer"), options.span("retry")
        self.guard_ns = options.span("guard", "0")
        self._rounds = Rounds(node_id, options.gossip, seed, system="gossip-placer")
        self._rng, self._clock = generator(seed, "placer", node_id), SteadyClock()
        self._neighbours = overlay(options.overlay, brokers)[node_id]
        self._voter = Voter(node_id, self.lease_ns)
        self._peers = {name: _Peer() for name in brokers if name != node_id}
        self._claims: dict[str, _Claim] = {}
        self._ballot = 0
        self._mine = View()  # of this broker alone
        self._news: dict[str, BrokerNews] = {}
        self._moving: dict[str, tuple[str, int]] = {}  # unit -> to whom, since when

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        return self._clock.handled(self._handle, event, now_ns)

    def _handle(self, event: Event, now_ns: int) -> list[Effect]:
        match event:
            case Start(None):
                return self._begin(event, now_ns)
            case Timer("renew", due_at_ns):
                renewals = [effect for name in self._peers for effect in self._renew(name, now_ns)]
                return [*renewals, SetTimer("renew", due_at_ns + self.lease_ns // 3)]
            case Timer("gossip", due_at_ns):
                return [*self._gossip(), SetTimer("gossip", self._rounds.next_at_ns(due_at_ns, now_ns))]
            case Timer("place", due_at_ns):
                return [*self._place(now_ns), SetTimer("place", due_at_ns + self.place_ns)]
            case Timer("claims", _):
                return [*self._try_again(now_ns), *self._claims_timer(now_ns)]
            case Timer("lapse", _):
                return [*self._lapse(now_ns), *self._lapse_timer(now_ns)]
            case Delivery(source, message):
                return self._heard(source, message, now_ns)
        return self._carried_out(self._broker.handle(event, now_ns), now_ns)

    def _begin(self, event: Event, now_ns: int) -> list[Effect]:
        self._voter.begin(now_ns)
        for peer in self._peers.values():
            peer.session = now_ns
        first_ns = now_ns + int(self._rng.integers(1, self.place_ns, endpoint=True))
        return [
            *self._carried_out(self._broker.handle(event, now_ns), now_ns),
            *(effect for name in self._peers for effect in self._renew(name, now_ns)),
            SetTimer("renew", now_ns + self.lease_ns // 3),
            SetTimer("gossip", self._rounds.first_at_ns(now_ns)),
            SetTimer("place", first_ns),
        ]

    def _heard(self, source: str, message: Message, now_ns: int) -> list[Effect]:
        match message:
            case Renew(session, sent_at_ns, opens):
                lives = self._voter.renew(source, session, opens, now_ns)
                return [Send(source, Renewed(session, sent_at_ns) if lives else Lapsed(session))]
            case Renewed(session, sent_at_ns):
                return self._renewed(source, session, sent_at_ns, now_ns)
            case Lapsed(session):
                return self._lapsed(source, session, now_ns)
            case RequestVote(session, ballot, unit):
                if not self._voter.is_in(source, session, now_ns):
                    return [Send(source, Lapsed(session))]
                return self._asked(source, session, ballot, unit, now_ns)
            case Vote(session, ballot, unit, holder):
                claim = self._claims.get(unit)
                if claim is None or claim.ballot != ballot or self._peers[source].session != session:
                    return []
                claim.votes[source] = holder
                return self._count(unit, claim, now_ns)
            case Contested(unit):
                unwanted = unit not in self._claims
                return [Send(source, GiveBack(self._peers[source].session, unit, NOBODY))] if unwanted else []
            case GiveBack(session, unit, successor):
                if self._voter.is_in(source, session, now_ns):
                    self._voter.give_back(unit, source, successor, now_ns)
                return []
            case Reports(news):
                for told in news:
                    self._hear(source, told)
                return []
            case Lookup(topic, coordinate):
                return [Send(source, Found(topic, self._owner_of(topic, coordinate, now_ns)))]
        return self._carried_out(self._broker.handle(Delivery(source, message), now_ns), now_ns)

    def _carried_out(self, effects: Sequence[Effect], now_ns: int) -> list[Effect]:
        """What the broker wants done, with what it asks the store, which it takes this node for, done here."""
        done: list[Effect] = []
        for effect in effects:
            match effect:
                case Send(target, Create(ticket, path, _)) if target == self.node_id:
                    done += self._claim(path.removeprefix(OWNERS), ticket, now_ns)
                case Send(target, Delete(ticket, path)) if target == self.node_id:
                    done += self._give_up(path.removeprefix(OWNERS), now_ns)
                    done += self._tell_broker(Done(ticket, True), now_ns)
                case Send(target, Write(_, value)) if target == self.node_id:
                    self._report(msgspec.json.decode(value, type=BrokerReport), now_ns)
                case Send(target, Released(unit)) if target == self.node_id and unit in self._moving:
                    done.append(Sample("migration_ns", now_ns - self._moving.pop(unit)[1]))
                case Send(target, _) if target == self.node_id:
                    pass  # signs of life
                case Sample(metric, _) if metric in _OF_THE_STORE:
                    pass
                case _:
                    done.append(effect)
        return done

    def _tell_broker(self, message: Message, now_ns: int) -> list[Effect]:
        return self._carried_out(self._broker.handle(Delivery(self.node_id, message), now_ns), now_ns)

    # --- sessions with voters ----------------------------------------------------------------------------

    def _renew(self, name: str, now_ns: int) -> list[Effect]:
        """A sign of life to a voter, and what it has not been asked, or has not voted for."""
        peer = self._peers[name]
        effects: list[Effect] = [Send(name, Renew(peer.session, now_ns, not peer.open))]
        if peer.open:
            lacking = [(unit, claim) for unit, claim in self._claims.items() if claim.votes.get(name) != self.node_id]
            effects += [
                Send(name, RequestVote(peer.session, claim.ballot, unit)) for unit, claim in lacking if claim.owns
            ]
        return effects

    def _renewed(self, name: str, session: int, sent_at_ns: int, now_ns: int) -> list[Effect]:
        peer = self._peers[name]
        if session != peer.session:
            return []
        first, peer.open = not peer.open, True
        peer.valid_until_ns = max(peer.valid_until_ns, sent_at_ns + held_ns(self.lease_ns))
        effects: list[Effect] = []
        for unit, claim in list(self._claims.items()):
            if first:
                effects.append(Send(name, RequestVote(session, claim.ballot, unit)))
            if not claim.owns:
                effects += self._count(unit, claim, now_ns)
        return [*effects, *self._lapse_timer(now_ns)]

    def _lapsed(self, name: str, session: int, now_ns: int) -> list[Effect]:
        """A session is over, and what was voted in it."""
        peer = self._peers[name]
        if session != peer.session:
            return []
        peer.session, peer.open, peer.valid_until_ns = max(now_ns, peer.session + 1), False, -NEVER_NS
        for claim in self._claims.values():
            claim.votes.pop(name, None)
        return [*self._renew(name, now_ns), *self._lapse(now_ns), *self._lapse_timer(now_ns)]

    def _valid_until_ns(self, claim: _Claim) -> int:
        """Until when a majority is for it."""
        mine = [name for name, holder in claim.votes.items() if holder == self.node_id]
        valid_ns = (NEVER_NS if name == self.node_id else self._peers[name].valid_until_ns for name in mine)
        return runs_out_ns(valid_ns, majority(len(self.brokers)))

    def _lapse(self, now_ns: int) -> list[Effect]:
        """Give up what no majority is for any more: at once, as another may own it soon."""
        lost = [unit for unit, claim in self._claims.items() if claim.owns and self._valid_until_ns(claim) <= now_ns]
        effects: list[Effect] = []
        for unit in lost:
            del self._claims[unit]
            effects += [*self._return_votes(unit, NOBODY, now_ns), *self._tell_broker(Release(unit, NOBODY), now_ns)]
        return effects

    def _lapse_timer(self, now_ns: int) -> list[Effect]:
        owned = [self._valid_until_ns(claim) for claim in self._claims.values() if claim.owns]
        next_ns = min(owned, default=NEVER_NS)
        return [SetTimer("lapse", max(next_ns, now_ns))] if next_ns < NEVER_NS else []

    # --- votes ---------------------------------------------------------------------------------------------

    def _claim(self, unit: str, ticket: int, now_ns: int) -> list[Effect]:
        self._claims[unit] = claim = _Claim(ticket, 0, now_ns + self.answer_ns)
        return [*self._canvass(unit, claim, now_ns), *self._claims_timer(now_ns)]

    def _asked(self, source: str, session: int, ballot: int, unit: str, now_ns: int) -> list[Effect]:
        """A vote.  Whoever has it already may not know that (a migration's target) nor want it: it shall say so."""
        if unit not in self._claims:
            self._voter.give_back(unit, self.node_id, NOBODY, now_ns)
        holder = self._voter.vote(unit, source, now_ns)
        reply: list[Effect] = [Send(source, Vote(session, ballot, unit, holder))]
        return [*reply, Send(holder, Contested(unit))] if holder in self._peers and holder != source else reply

    def _canvass(self, unit: str, claim: _Claim, now_ns: int) -> list[Effect]:
        """Ask everybody for a vote, oneself first."""
        self._ballot += 1
        claim.ballot, claim.again_ns, claim.attempts = self._ballot, NEVER_NS, claim.attempts + 1
        claim.votes = {self.node_id: self._voter.vote(unit, self.node_id, now_ns)}
        known = [(name, peer) for name, peer in self._peers.items() if peer.open]
        asks: list[Effect] = [Send(name, RequestVote(peer.session, claim.ballot, unit)) for name, peer in known]
        return [*asks, *self._count(unit, claim, now_ns)]

    def _count(self, unit: str, claim: _Claim, now_ns: int) -> list[Effect]:
        """Whether it is won, lost to another, or open; where all have voted and nobody has won: once more, later."""
        if claim.owns:
            return self._lapse_timer(now_ns)
        if claim.again_ns < NEVER_NS:
            return []
        if self._valid_until_ns(claim) > now_ns:
            claim.owned_ns = now_ns
            return [*self._lapse_timer(now_ns), *self._tell_broker(Done(claim.ticket, True), now_ns)]
        others = Counter(holder for holder in claim.votes.values() if holder not in (NOBODY, self.node_id))
        winner, count = others.most_common(1)[0] if others else (NOBODY, 0)
        if count >= majority(len(self.brokers)):
            effects = self._lose(unit, claim, now_ns)
            if self._voter.lives(winner, now_ns):  # so clients that ask here next are told of it
                self._voter.vote(unit, winner, now_ns)
            return effects
        if len(claim.votes) < len(self.brokers):
            return []
        wait_ns = int(self._rng.integers(1, self.retry_ns << min(claim.attempts, 4), endpoint=True))
        claim.again_ns, claim.votes = now_ns + wait_ns, {}
        return [*self._return_votes(unit, NOBODY, now_ns), *self._claims_timer(now_ns)]

    def _lose(self, unit: str, claim: _Claim, now_ns: int) -> list[Effect]:
        return [*self._give_up(unit, now_ns), *self._tell_broker(Done(claim.ticket, False), now_ns)]

    def _try_again(self, now_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        for unit, claim in list(self._claims.items()):
            if claim.owns:
                continue
            if claim.until_ns <= now_ns:
                effects += self._lose(unit, claim, now_ns)
            elif claim.again_ns <= now_ns:
                effects += self._canvass(unit, claim, now_ns)
        return effects

    def _claims_timer(self, now_ns: int) -> list[Effect]:
        due_ns = [min(claim.until_ns, claim.again_ns) for claim in self._claims.values() if not claim.owns]
        return [SetTimer("claims", max(now_ns, min(due_ns)))] if due_ns else []

    def _give_up(self, unit: str, now_ns: int) -> list[Effect]:
        """Votes go back, or to the broker that the unit moves to."""
        if self._claims.pop(unit, None) is None:
            return []
        return self._return_votes(unit, self._moving.get(unit, (NOBODY, 0))[0], now_ns)

    def _return_votes(self, unit: str, successor: str, now_ns: int) -> list[Effect]:
        self._voter.give_back(unit, self.node_id, successor, now_ns)
        return [Send(name, GiveBack(peer.session, unit, successor)) for name, peer in self._peers.items()]

    # --- what is known of others, and what to do -------------------------------------------------------------

    def _report(self, report: BrokerReport, now_ns: int) -> None:
        """The broker's report on itself and its units: what others need of it is news, later than all before."""
        self._mine.reported(self.node_id, report)
        last = self._news.get(self.node_id)
        at_ns = max(now_ns, last.at_ns + 1) if last else now_ns
        self._news[self.node_id] = BrokerNews(
            self.node_id, at_ns, report.coordinate, round(report.out_rps, 3), report.utilisation
        )

    def _hear(self, source: str, told: BrokerNews) -> None:
        known_ns = self._peers[source].told_ns
        known_ns[told.broker] = max(told.at_ns, known_ns.get(told.broker, told.at_ns))
        if told.broker not in self._news or told.at_ns > self._news[told.broker].at_ns:
            self._news[told.broker] = told

    def _gossip(self) -> list[Effect]:
        """To one neighbour what it may not have heard."""
        lacks = [
            [told for name, told in self._news.items() if self._peers[to].told_ns.get(name, -NEVER_NS) < told.at_ns]
            for to in self._neighbours
        ]
        chosen = self._rounds.choose([len(news) for news in lacks])
        if chosen is None:
            return []
        to, news = self._neighbours[chosen], tuple(lacks[chosen])
        self._peers[to].told_ns |= {told.broker: told.at_ns for told in news}
        return [Send(to, Reports(news))]

    def _seen(self, now_ns: int) -> View:
        """This broker and its units as it knows them; of others that live, what was gossiped, as one load each."""
        mine = self._mine
        owned = {unit: claim.owned_ns for unit, claim in self._claims.items() if claim.owned_ns is not None}
        view = View(dict(mine.brokers), dict.fromkeys(owned, self.node_id), rates=dict(mine.rates))
        recent = {unit for unit, since_ns in owned.items() if now_ns - since_ns < self.guard_ns}
        view.held = frozenset({*recent, *self._moving})
        for name, peer in self._peers.items():
            told = self._news.get(name)
            if told is not None and peer.valid_until_ns > now_ns:
                view.brokers[name] = BrokerReport(told.coordinate, told.out_rps, {}, told.utilisation)
                view.owners[_REST + name], view.rates[_REST + name] = name, Rates(0.0, told.out_rps)
        return view

    def _owner_of(self, topic: str, coordinate: Coordinate | None, now_ns: int) -> str:
        """Who has the topic, or shall have it; "" where this broker cannot know, or where nobody can own anything."""
        unit = self.strategy.unit_of(topic)
        claim = self._claims.get(unit)
        if claim is not None and claim.owns:  # who only asks for votes may be losing them to the owner
            return self.node_id
        in_reach = 1 + sum(peer.valid_until_ns > now_ns for peer in self._peers.values())
        if not self._voter.votes(now_ns) or in_reach < majority(len(self.brokers)):
            return NOBODY
        return self._voter.holder(unit, now_ns) or self.strategy.first(unit, self._seen(now_ns), coordinate)

    def _place(self, now_ns: int) -> list[Effect]:
        """Algorithm 1 over what this broker owns; a move counts as its target's load until that tells of itself."""
        view = self._seen(now_ns)
        moves = self.strategy.moves(view).items()
        effects: list[Effect] = []
        for unit, target in islice(moves, max(0, self.options.executors - len(self._moving))):
            more_rps = view.rates.get(unit, Rates()).out_rps
            self._news[target] = replace(self._news[target], out_rps=self._news[target].out_rps + more_rps)
            self._moving[unit] = target, now_ns
            effects += self._tell_broker(Release(unit, target), now_ns)
        return effects
