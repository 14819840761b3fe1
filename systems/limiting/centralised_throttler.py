"""centralised-throttler: one node divides the limit anew each cycle, in proportion to demand (DST, Section 1: CST).

"A single decision maker … sets the limits according to aggregated metrics it receives from multiple
servers."  Every server reports its demand of cycle k to the centre; when all reports are there, the centre
commands x_i = l_total r_i / sum r.  A command that arrives in the middle of a cycle counts from its end, so
a change of demand is answered one report-and-command round trip late; at no delay, from cycle k + 1 on, as by
a DST.  The centre is one of the servers; its own reports and commands take no time.

Users (``Arrival``) are limited as in the throttler, by buckets with shares; a part of each limit, ``floor``,
is split evenly whatever the demand, so that nobody's first request finds nothing (ours).  Tokens move with the
shares (ours): a command says how many to add or take off, all commands of a cycle together none, exactly: shares
are whole parts of the limit, tokens travel in whole millionths.  So the centre
divides a user's limit anew when all servers have reported since its last command, or, after some cycles, what
is held by those that have.

A report that is missing counts with what its server said last; it is waited for until another server is two
cycles ahead.  A server that is silent keeps its part: the
centre cannot tell a crash from a partition.  A centre that restarts knows nothing, and commands nothing
before every server has reported again.  Of a user it asks all others for their parts, and divides when it has
heard of each; its own is what they leave.  (Who asks there before finds an even share, as at any server that
restarts.)
"""

from dataclasses import dataclass
from sys import getsizeof

from core.errors import SpecError
from systems.api import Arrival, Effect, Event, Message, Node, Send, Start, System, UnexpectedEvent
from systems.limiting.command_invariants import BY_COMMANDS
from systems.limiting.command_messages import (
    NEVER,
    Command,
    PartsAsked,
    PartsTold,
    Reported,
    UserCommands,
    UsersReported,
)
from systems.limiting.held import CONSERVED, FIRST, TOTAL_CONSERVED
from systems.limiting.throttling_node import ThrottlingNode
from systems.limiting.throttling_users import Demand, KnownUsers, UserBuckets, UserOptions, account, in_parts, in_pieces
from systems.parts.options import choice
from systems.parts.portion import MILLION

ENTRY_BYTES = 16  # model: the centre's entry for one server and user
SHARE_BYTES = 8  # model: a server's share, all that is left of the entry while the user rests
PATIENCE = 5  # cycles that a user's limit waits for reports of all servers; ours
FINEST_DEMAND = 2**32  # demands are divided by in 2**-32 requests a second
BEHIND = 2  # cycles: the centre waits no longer for a report when another server is this far ahead


@dataclass(frozen=True)
class Config(UserOptions):
    """Options of the centralised throttler."""

    centre: str = ""  # ours: the server that decides; "" = the first
    floor: float = 0.05  # ours: the part of a user's limit that is split evenly
    average: str = "10s"  # ours: in proportion to one cycle's demand a user's whole limit would follow one request


def in_proportion(total: float, weights: list[float]) -> list[float]:
    """``total`` in parts proportional to ``weights``, evenly if all are 0; the largest takes up the rounding."""
    whole = sum(weights)
    if whole <= 0.0:
        weights, whole = [1.0] * len(weights), float(len(weights))
    parts = [total * weight / whole for weight in weights]
    largest = max(range(len(parts)), key=parts.__getitem__)
    parts[largest] = total - sum(part for place, part in enumerate(parts) if place != largest)
    return parts


class Centre:
    """What the deciding server knows: the last demand of each server, in total and by user."""

    def __init__(self, names: list[str], total: float, floor: float, forget: int):
        self.names, self.total, self.floor, self.forget = names, total, floor, forget
        self.reported: dict[str, tuple[int, float]] = {}  # server -> cycle, demand
        self.commanded: int | None = None  # the last cycle
        self.asked: dict[str, int] = {}  # active user -> cycle
        self.users: dict[str, dict[str, tuple[float, int, int]]] = {}  # user -> server -> demand, millionths, obeyed
        self.rested: dict[str, int] = {}  # user who is not active, and not forgotten -> cycle of its last request
        self.shares: dict[str, list[int]] = {}  # user -> the last shares commanded, in the order of ``names``
        self.told: dict[str, int] = {}  # user -> cycle of the last command
        self.is_back = False  # from a crash: who has which share is to be asked
        self.heard: dict[str, dict[str, int]] = {}  # user whose shares are not known -> server -> its parts

    def report(self, source: str, cycle: int, demand: float) -> list[Command] | None:
        """A report came in: the commands to all servers, in the order of ``names``, if it is time for them."""
        if cycle >= self.reported.get(source, (cycle, 0.0))[0]:
            self.reported[source] = cycle, demand
        if len(self.reported) < len(self.names):
            return None
        everyone = min(cycle for cycle, _ in self.reported.values())
        ahead = max(cycle for cycle, _ in self.reported.values()) - BEHIND
        ready = max(everyone, ahead)
        if self.commanded is not None and ready <= self.commanded:
            return None
        self.commanded = ready
        limits = in_proportion(self.total, [self.reported[name][1] for name in self.names])
        return [Command(ready, limit) for limit in limits]

    def report_users(self, source: str, users: dict[str, tuple[float, int, int, int]]) -> None:
        """What a server says of its users."""
        for user, (demand, tokens, cycle, obeyed) in users.items():
            if user in self.rested and cycle - self.rested.pop(user) > self.forget:
                self.shares.pop(user, None)  # its servers have forgotten it, too: all buckets are even, and full
            self.users.setdefault(user, {})[source] = demand, tokens, obeyed
            self.asked[user] = max(cycle, self.asked.get(user, cycle))

    def hear_parts(self, source: str, parts: dict[str, int], own: str) -> None:
        """A server's answer; when all others' are there, ``own`` has what they leave.

        Where others that crashed as well have begun anew they may tell of more than there is: all get less.
        """
        for user in self.unknown():
            if user not in parts:
                continue
            heard = self.heard.setdefault(user, {})
            heard[source] = parts[user]
            if len(heard) == len(self.names) - 1:
                del self.heard[user]
                whole = MILLION * len(self.names)
                heard[own] = max(0, whole - sum(heard.values()))
                self.shares[user] = in_parts(whole, [heard[name] for name in self.names])

    def unknown(self) -> dict[str, int]:
        """Active users of whose shares nothing is known, and when each was last asked for."""
        if not self.is_back:
            return {}
        return {user: asked for user, asked in self.asked.items() if user not in self.shares}

    def command_users(self, cycle: int, linger: int) -> list[UserCommands]:
        """The commands to each server, in the order of ``names``; of whoever rests the shares alone are kept."""
        for user in [user for user, asked in self.asked.items() if cycle - asked > linger]:
            self.rested[user] = self.asked.pop(user)
            self.users.pop(user)
            self.told.pop(user, None)
            self.heard.pop(user, None)
        commands: list[dict[str, tuple[int, int, int]]] = [{} for _ in self.names]
        unknown = self.unknown()
        for user, asked in self.asked.items():
            if user in unknown:
                continue
            for shares, (share, tokens) in zip(commands, self._divided(user, cycle), strict=False):
                shares[user] = share, tokens, asked
        return [UserCommands(cycle, shares) for shares in commands]

    def sweep(self, cycle: int) -> None:
        """Forget whom nobody asked for during c/r, as the servers do."""
        for user in [user for user, asked in self.rested.items() if cycle - asked > self.forget]:
            del self.rested[user]
            self.shares.pop(user, None)

    def _divided(self, user: str, cycle: int) -> list[tuple[int, int]]:
        """A user's new share in parts, and millionths of tokens to add, at each server (none while it waits).

        The first command leaves things as they are: it makes every server report.
        """
        reports, told = self.users[user], self.told.get(user)
        if told is None:
            self.told[user] = cycle
            return [(share, 0) for share in self.shares.setdefault(user, [MILLION] * len(self.names))]
        current = [place for place, name in enumerate(self.names) if name in reports and reports[name][2] >= told]
        if not current or (len(current) < len(self.names) and cycle - told < PATIENCE):
            return []
        self.told[user], shares = cycle, self.shares[user]
        held = sum(shares[place] for place in current)
        demands = [reports[self.names[place]][0] for place in current]
        tokens = [reports[self.names[place]][1] for place in current]
        free = int((1.0 - self.floor) * held)
        by_demand = in_parts(free, [int(demand * FINEST_DEMAND) for demand in demands])
        even = in_parts(held - free, [1] * len(current))
        parts = [one + other for one, other in zip(by_demand, even, strict=True)]
        moves = [0] * len(shares)
        for place, part, target, here in zip(current, parts, in_parts(sum(tokens), parts), tokens, strict=True):
            shares[place], moves[place] = part, target - here
        return list(zip(shares, moves, strict=True))


class ServerNode(ThrottlingNode):
    """One server; the centre is one with a ``Centre``."""

    def __init__(self, node_id: str, names: list[str], config: Config, seed: int):
        super().__init__(node_id, names, UserBuckets(node_id, len(names), config, seed))
        self.config, self.names = config, names
        self.centre_id = config.centre or names[0]
        self.centre: Centre | None = None
        if node_id == self.centre_id:
            self.centre = Centre(names, config.l_total, config.floor, self.buckets.forget)
        self.limit = config.l_total / len(names)
        self.next: tuple[int, float] | None = None  # (cycle, limit) commanded, not in force yet
        self.newest = NEVER  # cycle of the last command taken
        self.obeyed: dict[str, int] = {}  # user -> cycle of the last command taken
        self.closed_at_ns: int | None = None  # when the last cycle ended

    # --- events ----------------------------------------------------------------------------------

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        """See ``systems.api.Node``."""
        if self.centre is not None and isinstance(event, Start):
            self.centre.is_back = event.again and len(self.names) > 1
        return super().handle(event, now_ns)

    def _hear(self, source: str, message: Message, now_ns: int) -> list[Effect]:
        match message:
            case Reported(cycle, demand):
                return self._gather(source, cycle, demand, now_ns)
            case Command(cycle, limit):
                self._obey(cycle, limit, now_ns)
                return []
            case UsersReported(users):
                if self.centre is not None:
                    self.centre.report_users(source, users)
                return self._timers(now_ns)
            case UserCommands(cycle, shares):
                self._obey_users(cycle, shares, now_ns)
                return self._timers(now_ns)
            case PartsAsked(asked):
                parts = {user: self.buckets.touch(user, cycle, now_ns).parts for user, cycle in asked.items()}
                return [Send(source, PartsTold(parts)), *self._timers(now_ns)]
            case PartsTold(parts):
                if self.centre is not None:
                    self.centre.hear_parts(source, parts, self.node_id)
                return []
        raise UnexpectedEvent(self.node_id, message)

    # --- one limit for all -------------------------------------------------------------------------

    def _end_of_cycle(self, demand: Demand, now_ns: int) -> list[Effect]:
        effects = account(self.limit, demand, self.config.rule)
        if self.next is not None:
            self.limit, self.next = self.next[1], None
        self.closed_at_ns = now_ns
        if self.centre is None:
            return [*effects, Send(self.centre_id, Reported(demand.cycle, demand.total))]
        return effects + self._gather(self.node_id, demand.cycle, demand.total, now_ns)

    def _gather(self, source: str, cycle: int, demand: float, now_ns: int) -> list[Effect]:
        commands = self.centre.report(source, cycle, demand) if self.centre is not None else None
        effects: list[Effect] = []
        for name, command in zip(self.names, commands or (), strict=bool(commands)):
            if name == self.node_id:
                self._obey(command.cycle, command.limit, now_ns)
            else:
                effects.append(Send(name, command))
        return effects

    def _obey(self, cycle: int, limit: float, now_ns: int) -> None:
        """At the very end of a cycle a command counts from now, otherwise from the next one's end."""
        if cycle <= self.newest:
            return  # it was overtaken
        self.newest = cycle
        if now_ns == self.closed_at_ns:
            self.limit = limit
        else:
            self.next = cycle, limit

    # --- users -------------------------------------------------------------------------------------

    def _remembers(self) -> bool:
        return super()._remembers() or (self.centre is not None and bool(self.centre.rested))

    def _sweep(self, cycle: int) -> None:
        for user in self.buckets.sweep(cycle):
            self.obeyed.pop(user, None)
        if self.centre is not None:
            self.centre.sweep(cycle)

    def _end_of_user_cycle(self, cycle: int, now_ns: int) -> list[Effect]:
        """Report the active users; the centre commands."""
        buckets, said = self.buckets, {}
        for user in buckets.active:
            bucket = buckets.users[user]
            buckets.fill(bucket, now_ns)
            demand = buckets.count(bucket, cycle)
            millionths = bucket.grains // buckets.whole.millionth
            said[user] = demand, millionths, bucket.asked_cycle, self.obeyed.get(user, NEVER)
        buckets.rest(cycle)
        effects: list[Effect] = []
        if self.centre is not None:
            self.centre.report_users(self.node_id, said)
            for name, command in zip(self.names, self.centre.command_users(cycle, buckets.linger), strict=True):
                if name == self.node_id:
                    self._obey_users(command.cycle, command.shares, now_ns)
                else:
                    effects += [Send(name, PartsAsked(piece)) for piece in in_pieces(self.centre.unknown())]
                    effects += [Send(name, UserCommands(cycle, piece)) for piece in in_pieces(command.shares)]
        else:
            effects += [Send(self.centre_id, UsersReported(piece)) for piece in in_pieces(said)]
        return self._timers(now_ns) + effects

    def _obey_users(self, cycle: int, shares: dict[str, tuple[int, int, int]], now_ns: int) -> None:
        """New shares, and tokens that come or go with them; a user asked for elsewhere is reported from here, too."""
        for user, (parts, millionths, asked_cycle) in shares.items():
            if cycle > self.obeyed.get(user, NEVER):
                self.obeyed[user] = cycle
                bucket = self.buckets.touch(user, asked_cycle, now_ns)
                self.buckets.reshare(bucket, parts, millionths * self.buckets.whole.millionth, now_ns)

    # --- for whoever watches -------------------------------------------------------------------------

    def idle(self) -> bool:
        """Nothing is to be reported or commanded."""
        return super().idle() and not (self.centre is not None and self.centre.asked)

    def state_bytes(self) -> int:
        """Model bytes: users, and the centre's entries."""
        total = super().state_bytes()
        if self.centre is not None:
            total += sum(32 + ENTRY_BYTES * len(entries) for entries in self.centre.users.values())
            total += (32 + SHARE_BYTES * len(self.names)) * len(self.centre.rested)
        return total

    def allocated_bytes(self) -> int:
        """The centre's entries beside what every throttler has, by CPython's sizes."""
        total = super().allocated_bytes()
        if self.centre is not None:
            total += getsizeof(self.centre.users) + getsizeof(self.centre.asked) + getsizeof(self.centre.rested)
            total += sum(getsizeof(entries) + 24 * len(entries) for entries in self.centre.users.values())
        return total


def nodes(names: list[str], config: Config, seed: int) -> dict[str, Node]:
    """One server on each host, one of them the centre.  SpecError on bad options."""
    config.check(SYSTEM.key)
    if config.centre:
        choice(SYSTEM.key, "centre", config.centre, names)
    if not 0.0 <= config.floor <= 1.0:
        raise SpecError(f"{SYSTEM.key}: floor = {config.floor}", "give a part from 0 to 1")
    return {name: ServerNode(name, names, config, seed) for name in names}


SYSTEM = System(
    "centralised-throttler",
    "one node divides the limit by demand, each cycle anew (CST, DST section 1)",
    config=Config,
    nodes=nodes,
    messages=(Reported, Command, UsersReported, PartsAsked, PartsTold, UserCommands, KnownUsers),
    inputs=(Arrival, Demand),
    invariants=(CONSERVED, TOTAL_CONSERVED, FIRST, BY_COMMANDS),
)
