"""leases: an allocator lends each user's rate to the nodes that are asked for it (Doorman).

Every node is a client: for each user with requests it tells the allocator, each ``refresh``, what it
wants and what it has; the allocator divides the user's rate by proportional or fair share and lends
for one ``lease`` length, never more than the whole minus what is still outstanding.  A lost allocator
leaves each client with its ``safe`` share once its leases have run out.

Ours, beyond Doorman, which lends plain rates of a few long-lived resources:

* the bucket is lent in the proportion of the rate, and tokens move along (``systems.parts.portion``);
* only users with requests are asked about: each refresh if there were some, or if half as much is
  wanted as before, or if half of the lease is over; after a lease length without, the lease goes back;
* a client that is given less says at once that it has it, so that others need not wait for a refresh;
* what nobody wants is lent as well, an n-th of it to each (``spare``), so that bursts find tokens;
* a lease smaller than a client's safe share, only because others have not yet let go, is not given;
* clients are known, so learning ends when each has said what it has (``learning = "heard"``);
* whatever its share, a client's bucket can hold ``minimum`` tokens.  With 0, a user whose requests are
  spread evenly over more nodes than c gets nothing at all: no node ever has one whole token.

How far it over-admits.  All leases and the pool hold at most c + r t in any span t, and what clients with
leases admit is no more.  A client without a lease uses its safe share s = 1/n of the user's limit
meanwhile, and what it takes is charged to its next lease.  So all together admit at most
(1 + (n - 1) s)(c + r t), less than twice the limit: with everything lent to one, and all others cut
off.  ``safe = "0"`` is strict, and rejects until the first answer.  A crash forgets what a client spent
of its safe share: s c more, each time.  Nothing more, should all crash: an allocator that is back takes the
pools to be empty.  The ``minimum`` adds at most n times as many tokens to the total of any span, and once
more each time that a client crashes; the rate stays r.  It adds nothing where every share holds more than
that anyway.

Clocks need not agree, but have to go on evenly: one that is set back while a lease runs makes this
lease longer by as much.  Over a crash and restart they may be set anywhere.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from sys import getsizeof

from core.defaults import CAPACITY, RATE
from core.errors import SpecError
from core.units import rational
from systems.api import (
    Arrival,
    Decide,
    Delivery,
    Effect,
    Event,
    Message,
    Node,
    Send,
    SetTimer,
    Start,
    System,
    Timer,
    Transport,
    UnexpectedEvent,
    Verdict,
)
from systems.limiting.lease_invariants import LEASE_INVARIANTS
from systems.limiting.lease_messages import Learn, LeaseRequest, Lend, Portions
from systems.parts.lease_book import Grant, LeaseBook, LeaseClaim
from systems.parts.lease_client import LeaseClient, Terms
from systems.parts.limit import limit_of
from systems.parts.options import choice, span_ns
from systems.parts.portion import Bucket
from systems.parts.shares import SHARES

CLIENT_BYTES = 32 + 16 + 16 + 16  # a user, model: key; tokens and instant; parts and end of the lease; requests counted
ACCOUNT_BYTES, LEASE_BYTES = 32 + 16, 16 + 16  # of the allocator: key and pool; wants and has, end and question
_INTEGERS_BYTES = 12 * 32  # of a record


@dataclass(frozen=True)
class Config:
    """Options of leases."""

    capacity: int = CAPACITY  # c, tokens of a user
    rate: str = RATE  # r, tokens a second
    share: str = "proportional"  # Doorman's PROPORTIONAL_SHARE; or "fair"
    refresh: str = "5s"  # Doorman: typical
    lease: str = "5min"  # Doorman: typical
    learning: str = "heard"  # ours: until every client has spoken; "lease": a whole lease length, as Doorman
    safe: str = ""  # Doorman's safe capacity, as a share of the limit; default 1/n, as Doorman's
    spare: bool = True  # ours: lend what nobody wants as well
    window: str = "1min"  # ours: what a client wants is its mean rate over one to two windows
    server: str = ""  # where the allocator runs: the first node by default (ours)
    minimum: int = 1  # ours: tokens that a portion can hold at least; each client may have so many beyond c


Out = list[tuple[str, Message]]  # (target, message)


class Allocator:
    """Doorman's master: keeps the book, and learns it anew when it starts.

    ``epoch`` tells it from those before it.  Nobody compares epochs but for equality: a clock may have been
    set back in between.
    """

    def __init__(self, clients: list[str], terms: Terms, book: LeaseBook, until_heard: bool):
        self.clients, self.terms, self.book, self.until_heard = clients, terms, book, until_heard
        self.epoch = 0
        self.learning = True
        self._unheard = set(clients)
        self._newest: dict[str, tuple[int, int]] = {}  # (birth, number) of each client's newest question
        self._from_nothing = True
        self._learns_until_ns = 0
        self._waiting: dict[tuple[str, str], tuple[tuple[int, int], LeaseClaim]] = {}  # (client, user) -> its question

    def start(self, now_ns: int, again: bool) -> Out:
        """Begin, knowing nothing but whether there was one before: ask all clients what they have."""
        self.epoch, self._learns_until_ns = now_ns, now_ns + self.terms.lease_ns
        self._from_nothing = not again  # whatever clients say: they may have forgotten the one before as well
        return self._ask_all()

    def ring(self, now_ns: int) -> Out:
        """Each refresh: ask the silent again, stop waiting for them, or clean up."""
        if not self.learning:
            self.book.sweep(now_ns)
            return []
        return self._learned(now_ns) if now_ns >= self._learns_until_ns else self._ask_all()

    def asked(self, client: str, ask: LeaseRequest, now_ns: int) -> Out:
        """Answer a client's question, now or when everything is learned."""
        if ask.epoch != self.epoch:
            return [(client, Learn(self.epoch))]
        asked = ask.born_ns, ask.number
        newest = self._newest.get(client, (ask.born_ns, -1))
        if ask.born_ns < newest[0]:  # a late message of an earlier client, or a client whose clock was set back
            return [(client, Learn(self.epoch, newest[0]))]
        self._newest[client] = max(newest, asked)
        claims = [LeaseClaim(*row) for row in ask.claims]
        is_late = asked <= newest
        if is_late:  # or twice: what it hands in may be in the book, whose leases may be over
            claims = [claim._replace(surplus_millionths=0) for claim in claims]
        if not self.learning:
            grants = (self.book.answer(client, asked, claim, now_ns) for claim in claims)
            return self._lend(client, asked, [grant for grant in grants if grant])
        self._from_nothing &= ask.fresh
        known = []
        for claim in claims:
            if claim.has:
                known.append(self.book.learn(client, asked, claim, now_ns))
            elif not is_late or (client, claim.user) not in self._waiting:
                self._waiting[client, claim.user] = asked, claim
        if ask.whole:
            self._unheard.discard(client)
        done = self.until_heard and not self._unheard
        return self._lend(client, asked, known) + (self._learned(now_ns) if done else [])

    def _ask_all(self) -> Out:
        return [(client, Learn(self.epoch)) for client in self.clients if client in self._unheard]

    def _learned(self, now_ns: int) -> Out:
        self.learning = False
        self.book.learned(now_ns, self._from_nothing and not self._unheard)
        out: Out = []
        for (client, _), (asked, claim) in self._waiting.items():
            grant = self.book.answer(client, asked, claim, now_ns)
            out += self._lend(client, asked, [grant] if grant else [])
        self._waiting.clear()
        return out

    @staticmethod
    def _lend(client: str, asked: tuple[int, int], grants: list[Grant]) -> Out:
        return [(client, Lend(*asked, tuple(grants)))] if grants else []


class LeaseNode:
    """A client, and on one node the allocator too; the two talk there without messages."""

    def __init__(self, node_id: str, server: str, terms: Terms, allocator: Allocator | None):
        self.node_id, self.server, self.terms, self.allocator = node_id, server, terms, allocator
        self.client = LeaseClient(terms)
        self.born_ns = 0
        self.epoch: int | None = None
        self.fresh = True
        self._refreshes = False

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """One event in, effects out."""
        match event:
            case Start(None | Portions() as snapshot, again):
                return self._start(snapshot, again, now_ns)
            case Arrival(request):
                effects = self._ask(self.client.demand(request.user, request.cost, now_ns), now_ns)
                admitted = self.client.admit(request.user, request.cost)
                effects.append(Decide(request.id, Verdict.ADMIT if admitted else Verdict.REJECT))
                return effects + self._refresh_from(now_ns)
            case Delivery(source, message):
                return self._deliver(source, message, now_ns)
            case Timer("refresh", due_at_ns):
                self._refreshes = False
                return self._ask(self.client.refresh(now_ns), now_ns) + self._refresh_from(due_at_ns)
            case Timer("allocate", due_at_ns) if self.allocator is not None:
                following = SetTimer("allocate", due_at_ns + self.terms.refresh_ns)
                return [following, *self._post(self.allocator.ring(now_ns), now_ns)]
        raise UnexpectedEvent(self.node_id, event)

    def idle(self) -> bool:
        """No question is unanswered; leases go on being renewed while users are active."""
        return self.client.waiting_count == 0

    def state_bytes(self) -> int:
        """Model bytes of the client's users and, where it is, of the allocator's book."""
        total = CLIENT_BYTES * len(self.client.users)
        if self.allocator is not None:
            book = self.allocator.book
            total += ACCOUNT_BYTES * len(book.accounts) + LEASE_BYTES * book.lease_count
        return total

    def allocated_bytes(self) -> int:
        """Tables, records and their integers; the users' names belong to the requests."""
        users = self.client.users
        total = getsizeof(users) + sum(map(getsizeof, islice(users.values(), 1))) * len(users)
        total += _INTEGERS_BYTES * len(users)
        if self.allocator is not None:
            total += self.allocator.book.allocated_bytes()
        return total

    def snapshot(self) -> Message:
        """What its portions lack, for a peer to begin with."""
        return Portions(tuple(self.client.lacking_millionths()))

    def _start(self, snapshot: Portions | None, again: bool, now_ns: int) -> list[Effect]:
        self.born_ns = now_ns
        for user, lacking in snapshot.lacking if snapshot is not None else ():
            self.client.copy(user, lacking, now_ns)
        if self.allocator is None:
            return []
        first = SetTimer("allocate", now_ns + self.terms.refresh_ns)
        return [first, *self._post(self.allocator.start(now_ns, again), now_ns)]

    def _deliver(self, source: str, message: Message, now_ns: int) -> list[Effect]:
        match message:
            case LeaseRequest() if self.allocator is not None:
                return self._post(self.allocator.asked(source, message, now_ns), now_ns)
            case Lend(born_ns, number, grants) if born_ns == self.born_ns:
                self.fresh = False
                rows = (Grant(*row) for row in grants)
                return self._ask(self.client.granted(number, rows, now_ns), now_ns)
            case Lend():
                return []  # to the one that was here before a crash
            case Learn(epoch, born_ns):
                if born_ns is not None:
                    if born_ns <= self.born_ns:
                        return []  # about a question of the one that was here before a crash
                    self.born_ns = born_ns + 1
                if epoch != self.epoch:  # perhaps of an allocator that is gone: then the present one will say so
                    self.fresh, self.epoch = self.fresh and self.epoch is None, epoch
                return self._ask(self.client.statement(now_ns), now_ns, whole=True)
        raise UnexpectedEvent(self.node_id, Delivery(source, message))

    def _ask(self, claims: list[LeaseClaim], now_ns: int, whole: bool = False) -> list[Effect]:
        if not claims and not whole:
            return []
        ask = LeaseRequest(self.epoch, self.born_ns, self.client.number, self.fresh, whole, tuple(claims))
        return self._post([(self.server, ask)], now_ns)

    def _post(self, out: Out, now_ns: int) -> list[Effect]:
        """Messages as effects; those to this very node are taken at once."""
        effects: list[Effect] = []
        for target, message in out:
            effects += self._deliver(target, message, now_ns) if target == self.node_id else [Send(target, message)]
        return effects

    def _refresh_from(self, now_ns: int) -> list[Effect]:
        if self._refreshes or not self.client.users:
            return []
        self._refreshes = True
        return [SetTimer("refresh", now_ns + self.terms.refresh_ns)]


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """One node on each host."""
    server = choice("leases", "server", config.server or names[0], names)
    share = SHARES[choice("leases", "share", config.share, SHARES)]
    until_heard = choice("leases", "learning", config.learning, ("heard", "lease")) == "heard"
    terms = terms_of(config, len(names))
    whole = Bucket(terms.bucket.limit, len(names))
    book = LeaseBook(whole, len(names), share, terms.lease_ns, config.spare, terms.safe_parts)
    allocator = Allocator(names, terms, book, until_heard)
    return {name: LeaseNode(name, server, terms, allocator if name == server else None) for name in names}


def terms_of(config: Config, count: int) -> Terms:
    """The options of ``config`` as numbers, for ``count`` clients; SpecError says which is wrong."""
    if config.minimum < 0:
        raise SpecError(f"leases: minimum = {config.minimum}", "give 0, or the least number of tokens of a node")
    bucket = Bucket(limit_of(config.capacity, config.rate), count, config.minimum)
    spans = {name: span_ns("leases", name, getattr(config, name)) for name in ("refresh", "lease", "window")}
    if spans["lease"] < 2 * spans["refresh"]:
        fix = "give at least two refresh intervals, or leases run out in between"
        raise SpecError(f"leases: lease = {config.lease!r}, refresh = {config.refresh!r}", fix)
    try:
        safe = rational(config.safe) if config.safe else Fraction(1, count)
    except ValueError:
        safe = Fraction(-1)
    if not 0 <= safe <= 1:
        raise SpecError(f"leases: safe = {config.safe!r}", 'give a share of the limit, as in "0.1" or "1/3"')
    return Terms(bucket, int(safe * bucket.parts), spans["refresh"], spans["lease"], spans["window"])


SYSTEM = System(
    "leases",
    "an allocator lends each limit to the nodes that want it, for a while (Doorman)",
    config=Config,
    nodes=nodes,
    messages=(LeaseRequest, Lend, Learn, Portions),
    transport=Transport.STREAM,  # Doorman: gRPC
    invariants=LEASE_INVARIANTS,
)
