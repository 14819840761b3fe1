"""The study of the thesis' nodes as Erlang processes: the same requests, the same rules, Erlang's own memory.

The systems ``crdt-counter`` and ``crdt-queue`` have here a second body, the listings in Erlang (testbed/erlang): real
processes that send each other real messages, in virtual time.  What it tells goes into the tables of the limiters'
study.  In ``usage``, state_bytes are live terms, each counted once where states share it, allocated_bytes the process'
memory, sent_bytes messages in Erlang's external format; ``samples`` have the words of both without sharing.
"""

from dataclasses import dataclass

from studies.api import Journal, Point, Study, check_least
from studies.erlang.asked import BIRTHS, IDENTITIES, ErlangLimiting
from studies.limiting import study as limiting
from studies.limiting.asked import RequestJournal
from studies.spec import RunSpec
from systems.api import System
from systems.parts.options import choice, span_ns
from workloads import load as load_workload
from workloads.api import Offer

SYSTEMS = ("crdt-counter", "crdt-queue")  # that have nodes in Erlang
SECONDS_OF_EMULATOR = 0.5  # to start it
SECONDS_PER_REQUEST = 2e-4
TYPICAL_COUNT = 10_000  # requests, of logs say


@dataclass(frozen=True)
class Config:
    """Options of the study; readings of the thesis, but for the first two."""

    duration: str = ""  # as of the study of limiters
    drain: str = "10min"  # as of the study of limiters
    births: str = "ms"  # 4.2.2: UNIX time in milliseconds, whoever shares one; "unique" at a node and user (ours)
    identity: str = "birth"  # A11: what the sender of a delta state has sent itself: that "birth", "exact", "not-later"
    collected: bool = True  # ours: garbage is collected before each look at a process; 4.3.1 does not say
    own_words: int = 0  # ours: of memory that a process holds beside what Fig. 4.3 says; the thesis' are not known

    def __post_init__(self) -> None:
        choice("study erlang", "births", self.births, BIRTHS)
        choice("study erlang", "identity", self.identity, IDENTITIES)
        check_least("erlang", self, own_words=0)
        for name, least in (("duration", "1ms"), ("drain", "0")):
            if getattr(self, name) or name != "duration":
                span_ns("study erlang", name, getattr(self, name), least)


def asked(point: Point, config: Config) -> ErlangLimiting:
    """SpecError where system and workload do not fit."""
    plain = limiting.asked(point, limiting.Config(duration=config.duration, drain=config.drain))
    return ErlangLimiting(
        **{name: getattr(plain, name) for name in plain.__dataclass_fields__},
        births=config.births,
        identity=config.identity,
        collected=config.collected,
        own_words=config.own_words,
    )


def journal(point: Point, asked: ErlangLimiting, shown: RequestJournal) -> Journal:
    """The tables of the limiters' study."""
    return limiting.journal(point, asked, shown)


def fits(system: System) -> bool:
    """Whether it has nodes in Erlang."""
    return system.key in SYSTEMS


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """The emulator, and the requests; those of a log are not known."""
    workload = load_workload(spec.workload)
    size = workload.size(workload.configure(spec.workload_options)) if workload.size else None
    return SECONDS_OF_EMULATOR + (size.request_count if size else TYPICAL_COUNT) * SECONDS_PER_REQUEST


STUDY = Study(
    "erlang",
    "the thesis' counter and queue as Erlang processes",
    Config,
    asked,
    journal,
    expected_seconds,
    fits,
    Offer.REQUESTS,
    virtual="studies.erlang.virtual",
)
