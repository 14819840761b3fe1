"""How a topic's (r, b) lives on its brokers: by which system, and which of its options say how often it speaks.

``split`` and ``ideal`` need none.  All others are systems as they are: one that sets buckets (TB Adaptor), or limiters,
whose verdicts messages wait for or whose grants become sub-buckets (``testbed.virtual.gates``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from core.errors import SpecError
from core.records import Envelope, Options
from core.registry import configure
from core.units import duration_ns, duration_text
from systems.api import System
from systems.limiting.granted import LEASES, THROTTLER, Part, leased, throttled
from systems.loader import load_system
from systems.parts.options import choice, span_ns

SPLIT, IDEAL, ADAPTOR, STORE = "split", "ideal", "adaptor", "store"


@dataclass(frozen=True)
class Sharing:
    """A system as a way of sharing.

    ``spans``: options that follow the control interval, each so many times as long; ``options``: others that are not
    the system's defaults; ``store``: a host of its own has the tokens, as far from brokers as they are from each other.
    ``part``: grants become sub-buckets, a node's part of the whole; without it messages wait for verdicts.
    ``beside``: the same beside real brokers, where that can be.
    """

    system: str
    spans: Mapping[str, int] = field(default_factory=dict)
    options: Options = field(default_factory=dict)
    store: bool = False
    part: Part | None = None
    beside: System | None = None


_CLOSED = {"server": STORE, "on_failure": "closed"}
SHARINGS: dict[str, Sharing | None] = {
    SPLIT: None,
    IDEAL: None,
    ADAPTOR: Sharing("tb-adaptor", {"period": 1, "window": 10}),  # V-D: each second, by a window of 10 s
    "leases": Sharing("leases", {"refresh": 1, "lease": 10, "window": 2}, part=leased, beside=LEASES),
    "throttler": Sharing("throttler", {"cycle": 1}, part=throttled, beside=THROTTLER),
    "counter": Sharing("crdt-counter", {"gossip": 1}),
    "central": Sharing("centralised", {}, _CLOSED, store=True),
    "central-fifo": Sharing("centralised", {}, {**_CLOSED, "line": True, "timeout": "10s"}, store=True),
}


@dataclass(frozen=True)
class Shared:
    """A way of sharing, resolved: the system and its nodes' options, without the topic's bucket."""

    sharing: Sharing
    system: System
    options: Options

    def config(self, envelope: Envelope) -> object:
        """The system's options for a topic's bucket: whole tokens, and a rate of six digits."""
        rate = Fraction(f"{envelope.rate_rps:.6g}")
        return self.configured(capacity=max(1, int(envelope.burst_count)), rate=str(rate))

    def configured(self, **more: object) -> object:
        """The system's options, with ``more`` that are values of its own class."""
        config = configure(f"system {self.system.key}", self.system.config, self.options)
        return replace(config, **more)


def shared_by(name: str, interval: str, options: Options) -> Shared | None:
    """The way of sharing called so, speaking every ``interval``; None for ``split`` and ``ideal``.

    SpecError for an unknown one, and for options that its system does not have, or that are not its own to say.
    """
    sharing = SHARINGS[choice("study sharing", "sharing", name, SHARINGS)]
    if sharing is None:
        if options:
            raise SpecError(f"sharing {name} has no options, got {', '.join(options)}", "leave them out")
        return None
    for option in ("capacity", "rate"):
        if option in options:
            raise SpecError(f"sharing_options has {option}", "the topic's envelope says it: leave it out")
    spans = {option: duration_text(times * duration_ns(interval)) for option, times in sharing.spans.items()}
    told = {**sharing.options, **spans, **options}
    system = load_system(sharing.system)
    configure(f"sharing {name}: system {system.key}", system.config, told)
    return Shared(sharing, system, told)


def one_way_ns(study: str, rtt: str) -> int:
    """Half a round trip, what a message takes; SpecError for one that is no span, or cannot be halved."""
    rtt_ns = span_ns(study, "rtt", rtt, "0s")
    if rtt_ns % 2:
        raise SpecError(f"{study}: rtt = {rtt}", "give an even number of nanoseconds: it is halved")
    return rtt_ns // 2
