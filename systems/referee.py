"""What a node may do: the rules that every driver, in virtual time or on sockets, holds its nodes to."""

from collections.abc import Collection, Sequence
from math import isfinite

from core.errors import SystemFault
from systems.api import Actuate, Arrival, Decide, Effect, Event, Forward, Sample, Send, SetBucket, SetTimer, Verdict


class Referee:
    """Watches one incarnation of one node.

    A request is *open* at a node from its arrival until the node decides it or hands it on; so a
    request gets at most one verdict, and none where it never arrived.  SystemFault names the node
    and the rule that it broke.
    """

    def __init__(self, node_id: str, members: Collection[str], messages: Sequence[type]):
        self.node_id, self.members, self.messages = node_id, members, frozenset(messages)
        self._open: set[int] = set()

    def saw(self, event: Event) -> None:
        """The node is about to be given ``event``."""
        if isinstance(event, Arrival):
            self._open.add(event.request.id)

    def check(self, effects: list[Effect], now_ns: int) -> None:
        """Judge what the node answered at ``now_ns``."""
        if not isinstance(effects, list):
            self._fault(f"handle returned a {type(effects).__name__}", "return a list of effects")
        for effect in effects:
            self._check_one(effect, now_ns)

    def _check_one(self, effect: Effect, now_ns: int) -> None:
        match effect:
            case Send(target, message):
                if target not in self.members:
                    self._unknown(effect)
                if type(message) not in self.messages:
                    self._fault(f"sent an undeclared {type(message).__name__}", "list it in the system's messages")
            case SetTimer(name, at_ns):
                if not isinstance(at_ns, int) or at_ns < now_ns:
                    self._fault(f"set timer {name!r} to {at_ns!r} at {now_ns}", "an instant is an integer, not past")
            case Decide(request_id, verdict, unanswered):
                if not isinstance(verdict, Verdict):
                    self._fault(f"decided {verdict!r}", "a verdict is ADMIT or REJECT")
                if not isinstance(unanswered, bool):
                    self._fault(f"decided with unanswered = {unanswered!r}", "an answer came (False) or did not (True)")
                self._close(request_id, "decided")
            case Forward(request, target):
                if target not in self.members:
                    self._unknown(effect)
                self._close(request.id, "forwarded")
            case Actuate(SetBucket(_, rate_rps, burst_count)):
                if not (isfinite(rate_rps) and rate_rps > 0 and isfinite(burst_count) and burst_count >= 1):
                    self._fault(f"commanded {effect.command}", "a bucket has a positive rate and a burst of at least 1")
            case Sample(metric, value):
                if not isfinite(value):
                    self._fault(f"sampled {metric} = {value}", "a sample is finite")
            case Actuate():
                pass
            case _:
                self._fault(f"returned {effect!r}", "return effects of systems.api")

    def _unknown(self, effect: Effect) -> None:
        self._fault(f"unknown target in {effect!r}", f"nodes are {', '.join(sorted(self.members))}")

    def _close(self, request_id: int, verb: str) -> None:
        if request_id not in self._open:
            self._fault(
                f"{verb} request {request_id}, which is not open there",
                "a request is decided or forwarded once, by a node that it arrived at and that has not crashed since",
            )
        self._open.remove(request_id)

    def _fault(self, what: str, fix: str) -> None:
        raise SystemFault(f"{self.node_id} {what}", fix)
