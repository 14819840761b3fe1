"""What is soaked: every system whose nodes talk, in the variants of its options that change its protocol.

Registry: ``SOAKED``, system -> variants.  Limits are small, so that buckets are empty often; periods are short, so that
schedules are.
"""

from dataclasses import dataclass
from enum import Enum

from core.records import Options


class SoakLoad(Enum):
    """What a variant is offered."""

    REQUESTS = "requests"
    CYCLES = "cycles"  # demands of servers, cycle by cycle
    TOPICS = "topics"  # clients that come, go and move
    TRAFFIC = "traffic"  # what brokers report of a topic


@dataclass(frozen=True)
class SoakVariant:
    """``options`` beyond the family's.  ``clock_steps``: clocks may be set while it runs, beside being apart."""

    options: Options
    load: SoakLoad = SoakLoad.REQUESTS
    clock_steps: bool = True


_LIMIT: Options = {"capacity": 12, "rate": "1"}
_LEASES: Options = {**_LIMIT, "refresh": "1s", "lease": "5s", "window": "3s"}
_STRICT: Options = {**_LEASES, "safe": "0", "minimum": 0}
_USERS: Options = {**_LIMIT, "linger": "2s"}
_PLACED: Options = {
    **{"locate": "2s", "report": "1s", "place": "2s", "session": "3s", "answer": "1s", "dead": "6s", "guard": "2s"},
    **{"out_maximum_rps": 200.0},
}
_ROTATING: Options = {**_PLACED, "periodic": "3s"}


def _variants(
    common: Options, *options: Options, load: SoakLoad = SoakLoad.REQUESTS, steps: bool = True
) -> list[SoakVariant]:
    return [SoakVariant({**common, **more}, load, steps) for more in options]


def _placed(*options: Options) -> tuple[SoakVariant, ...]:
    """Each option at rest; and while all topics go round, when whoever is on the way is not judged as served."""
    alone: Options = {"hint": False, "proactive": False}
    each: tuple[Options, ...] = ({}, alone, {"drain": True}, {"executors": 1, "first": "hash"}, *options)
    at_rest, rotating = (_variants(common, *each, load=SoakLoad.TOPICS, steps=False) for common in (_PLACED, _ROTATING))
    return (*at_rest, *rotating)


SOAKED: dict[str, tuple[SoakVariant, ...]] = {
    "centralised": tuple(_variants(_LIMIT, {}, {"on_failure": "closed"}, {"timeout": "300ms"}, {"line": True})),
    "crdt-counter": tuple(
        _variants(
            _LIMIT, {}, {"body": "literal"}, {"slots": "incarnation"}, {"push": "urgent"}, {"push": "broadcast"},
            {"overlay": "ring"}, {"overlay": "line", "push": "broadcast"}, {"queued": "literal"}, {"choice": "all"},
        )
    ),
    "crdt-queue": tuple(
        _variants(
            _LIMIT, {}, {"implementation": "lists"}, {"frequency": True}, {"linf": True},
            {"frequency": True, "linf": True}, {"key": "birth-node"}, {"overlay": "ring"}, {"phase": "aligned"},
        )
    ),
    "sliding-log": tuple(_variants(_LIMIT, {}, {"implementation": "lists"}, {"frequency": True}, {"linf": True})),
    "static-split": tuple(_variants(_LIMIT, {}, {"minimum": 1, "capacity": 2})),
    "leases": tuple(
        [
            *_variants(_LEASES, {}, {"spare": False}, steps=False),
            *_variants(_STRICT, {}, {"learning": "lease"}, {"share": "fair"}, {"spare": False}, steps=False),
        ]
    ),
    "fixed-window": tuple(
        _variants(
            {**_LIMIT, "capacity": 3},
            {}, {"cache": True}, {"on_failure": "closed", "cache": True}, {"timeout": "300ms"},
        )
    ),
    "overwrite": tuple(_variants({**_LIMIT, "capacity": 6, "rate": "2"}, {}, {"counter": "all"}, {"capacity": 2})),
    "owner-global": tuple(_variants({**_LIMIT, "capacity": 6, "rate": "2"}, {}, {"sync": "1s"}, {"capacity": 1})),
    # All deployed limiters have one node; here nobody answers it.
    "redis-gcra": tuple(_variants({**_LIMIT, "timeout": "300ms"}, {}, {"on_failure": "closed"})),
    "throttler": tuple(
        [
            *_variants(
                _USERS, {}, {"phase": "aligned"}, {"phase": "aligned", "minimum": 0}, {"graph": "ring"},
                {"pairing": "latest"}, {"measure": "throttled-ratio"}, {"measure": "allowed"}, {"clamp": "none"},
            ),
            *_variants(_USERS, {}, {"measure": "allowed"}, {"pairing": "latest"}, load=SoakLoad.CYCLES),
        ]
    ),
    "centralised-throttler": tuple(
        [
            *_variants(_USERS, {}, {"phase": "aligned"}, {"average": "0s", "floor": 0.2}, {"minimum": 0}),
            *_variants(_USERS, {}, load=SoakLoad.CYCLES),
        ]
    ),
    "pulsar": _placed({"bundles": 4}, {"bundles": 0}),
    "all-pairs": _placed({"first": "hash"}),
    "epulsar": _placed({"first": "hash"}, {"literal": True}),
    "gossip-placer": tuple(
        _variants(
            _PLACED, {}, {"hint": False, "proactive": False}, {"first": "hash"}, {"overlay": "ring", "gossip": "3s"},
            {"out_maximum_rps": 60.0}, {"out_maximum_rps": 60.0, "drain": True}, {"bound": "1ms", "stay": False},
            {"bound": "1ms", "stay": False, "drain": True}, load=SoakLoad.TOPICS, steps=False,
        )
    ),
    "tb-adaptor": tuple(
        _variants(
            {}, {}, {"backlog": "waiting"}, {"zero_backlog": "rates"}, {"window": "2s", "period": "500ms"},
            load=SoakLoad.TRAFFIC, steps=False,
        )
    ),
}  # fmt: skip
