"""What is asked of a topic whose bucket is shared, and what comes home."""

from dataclasses import dataclass, field

from core.records import Json, Sample
from studies.distribution.asked import DeploymentConfig, Searched, Searching
from studies.sharing.rules import SPLIT, Shared, one_way_ns, shared_by
from systems.parts.options import choice, span_ns


@dataclass(frozen=True)
class Config(DeploymentConfig):
    """Options of the study."""

    sharing: str = SPLIT  # how (r, b) lives on the brokers: see studies/sharing/rules.py
    sharing_options: Json = field(default_factory=dict)  # of the system that shares
    rtt: str = "0ms"  # between brokers, and from each to the store; publishers are on the brokers' LAN
    interval: str = "1s"  # between two words of whoever shares: V-D, "each second"; see ``Sharing.spans``
    placed_on: str = SPLIT  # what searches measure: "split" buckets, as SRTM does, so that sharings are compared on the
    # very same brokers; or the "sharing" itself
    retry: str = ""  # ours: pause of a broker whose message was rejected; "": what a token takes to form

    def __post_init__(self) -> None:
        super().__post_init__()
        one_way_ns("study sharing", self.rtt)
        span_ns("study sharing", "interval", self.interval)
        choice("study sharing", "placed_on", self.placed_on, (SPLIT, "sharing"))
        if self.retry:
            span_ns("study sharing", "retry", self.retry)
        shared_by(self.sharing, self.interval, self.sharing_options)

    @property
    def shared(self) -> Shared | None:
        """Who shares; None where that takes nobody."""
        return shared_by(self.sharing, self.interval, self.sharing_options)


@dataclass(frozen=True, kw_only=True)
class SharingSearch(Searching):
    """A search for an assignment of publishers to brokers that share the topic's bucket."""

    rule: Config


@dataclass(frozen=True)
class SharedSearch:
    """The search, and what whoever shares said in the fresh round: samples, by its nodes."""

    searched: Searched
    samples: list[Sample]
