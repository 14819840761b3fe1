"""What holds of placements by vote: one owner at a time whatever happens, and nothing acknowledged is lost.

Unlike ``invariants``, nothing here asks whose session lives: a lease ends at its owner before it ends anywhere else.
"""

from collections.abc import Iterator

from systems.api import Actuate, Invariant, Report, RunHistory, Send, Step, Violation
from systems.placement.gossip_messages import GiveBack
from systems.placement.invariants import INVARIANTS as FAMILYS
from systems.placement.messages import Drained, Fence, Open

_SERVED = FAMILYS[-1]  # asks nothing of a store
assert _SERVED.name == "clients are served at rest"


def _commands(history: RunHistory) -> Iterator[tuple[Step, object]]:
    """In order, with its step: a node that has crashed by then (its name), what is drained, commands, votes returned.

    A vote comes back last: its unit's topics are fenced before.
    """
    crashes = sorted((begin_ns, node) for node, spans in history.outages.items() for begin_ns, _ in spans)
    for step in history.steps:
        while crashes and crashes[0][0] <= step.true_ns:
            yield step, crashes.pop(0)[1]
        if isinstance(step.event, Report) and isinstance(step.event.measurement, Drained):
            yield step, step.event.measurement
        for effect in step.effects:
            if isinstance(effect, Actuate):
                yield step, effect.command
        for effect in step.effects:
            if isinstance(effect, Send) and isinstance(effect.message, GiveBack):
                yield step, effect.message


def _one_owner(history: RunHistory) -> Violation | None:
    """No broker accepts a topic that another accepts: cut off, slow or restarted, whatever it is."""
    accepts: dict[str, set[str]] = {}
    for step, what in _commands(history):
        match what:
            case str():
                for brokers in accepts.values():
                    brokers.discard(what)
            case Fence(topic):
                accepts.setdefault(topic, set()).discard(step.node)
            case Open(topic):
                others = accepts.setdefault(topic, set()) - {step.node}
                if others:
                    return Violation(step.true_ns, step.node, f"accepts {topic}, which {min(others)} accepts as well")
                accepts[topic].add(step.node)
    return None


def _nothing_lost(history: RunHistory) -> Violation | None:
    """Where brokers drain, nobody accepts a topic before all that was acknowledged elsewhere is delivered.

    A broker whose lease ran out returns its votes in favour of nobody: it delivers what it has as well, but nobody
    waits for it.  Who names a successor has to be done before.
    """
    draining: dict[str, set[str]] = {}
    for step, what in _commands(history) if history.config.drain else ():
        match what:
            case str():
                for brokers in draining.values():
                    brokers.discard(what)
            case Fence(topic):
                draining.setdefault(topic, set()).add(step.node)
            case Drained(topic) | GiveBack(_, topic, ""):
                draining.setdefault(topic, set()).discard(step.node)
            case Open(topic):
                others = draining.get(topic, set()) - {step.node}
                if others:
                    what = f"accepts {topic} before {min(others)} has delivered what it acknowledged"
                    return Violation(step.true_ns, step.node, what)
    return None


INVARIANTS = (
    Invariant("one owner at a time", _one_owner),
    Invariant("nothing acknowledged is lost", _nothing_lost),
    _SERVED,
)
