"""Measurement rounds: what every testbed is asked for and what it answers."""

from dataclasses import dataclass
from typing import Any

from core.errors import SpecError
from core.records import Envelope, Float64, Int32, Int64
from core.units import duration_ns
from systems.api import Measured


@dataclass(frozen=True)
class EnvelopeRule:
    """How the topic's token bucket (r, b) is found; a config of the procedure."""

    envelope: str = "profiled"  # VI: "profiled" on a recorded trace before; "conformant": on the window itself (ours)
    profile: str = "70s"  # length of that trace; the artifact's 70 s
    margin: float = 1.0  # footnote 1: "often includes a margin"; enlarges b

    def __post_init__(self) -> None:
        """SpecError for an unknown rule, a margin below 1 or a profile of no length."""
        if self.envelope not in ("profiled", "conformant"):
            raise SpecError(f"procedure: envelope = {self.envelope!r}", "use profiled or conformant")
        if self.margin < 1:
            raise SpecError(f"procedure: margin = {self.margin}", "give at least 1")
        if duration_ns(self.profile) <= 0:
            raise SpecError(f"procedure: profile = {self.profile!r}", "give a length, as in 70s")


@dataclass(frozen=True)
class Round:
    """One measured window.  Arrays have one entry, or one row, a broker."""

    start_ns: int
    duration_ns: int
    assignment: Int32
    rates_rps: Float64
    envelope: Envelope
    sub_buckets: tuple[Envelope | None, ...]
    latency: Int64  # histogram counts (brokers, BUCKET_COUNT)
    access_delay: Int64
    measured: Measured
    note: str = ""


@dataclass(frozen=True)
class Controlled:
    """What a controller's run showed."""

    windows: list[tuple[Int64, Int64]]  # of each window: histogram counts of latency and of access delay, by broker
    samples: dict[str, list[Any]]  # columns of the ``samples`` table
    commands: list[tuple[int, str, Any]]  # (at_ns, node, command)
