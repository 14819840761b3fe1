"""The study ``profile`` of a broker of a real Apache Pulsar, with Pulsar's own clients (ePulsar 5.4)."""

from dataclasses import dataclass

from core.errors import SpecError
from core.units import duration_ns
from studies.api import Point, Study, expected_s
from studies.profile import study as profile
from studies.profile.asked import ProfileRequest
from studies.spec import RunSpec
from systems.parts.options import span_ns
from workloads.api import Offer

NAME = "profile-on-pulsar"
CLUSTER_S = 75.0  # ours: a cluster is started and stopped, its broker warmed up


@dataclass(frozen=True)
class Config(profile.Config):
    """Options of the study; all are ours."""

    duration: str = "20s"
    warm_up: str = "10s"  # of it: the broker gets used to what it may take
    heat: str = "10s"  # before time 0, at the load's own rate, while nothing is limited
    persistent: bool = False  # topics; the paper's public clients use others

    def __post_init__(self) -> None:
        """See ``profile.Config``."""
        super().__post_init__()
        span_ns(f"study {NAME}", "heat", self.heat)


@dataclass(frozen=True, kw_only=True)
class PulsarProfile(ProfileRequest):
    """See ``ProfileRequest``, and ``Config``."""

    heat_ns: int
    persistent: bool


def asked(point: Point, config: Config) -> PulsarProfile:
    """SpecError where workload and topology do not fit."""
    same, heat_ns = vars(profile.asked(point, config)), duration_ns(config.heat)
    request = PulsarProfile(**same, heat_ns=heat_ns, persistent=config.persistent)
    if len({(topic.rate_rps, topic.size_bytes) for topic in request.load.topics}) > 1:
        raise SpecError("topics of several rates or sizes", "on Pulsar give all of them the same")
    return request


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Its length, and the cluster."""
    return expected_s(spec, Config, "duration") + CLUSTER_S


STUDY = Study(
    NAME,
    "one Apache Pulsar broker's data plane under topics with fan-out",
    Config,
    asked,
    profile.journal,
    expected_seconds,
    offer=Offer.CLIENTS,
    live="studies.profile_on_pulsar.live",
)
