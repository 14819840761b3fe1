"""Options that all placement systems share; their defaults are the paper's, or say whose they are."""

from dataclasses import dataclass, field, fields

from core.errors import SpecError
from systems.parts.options import span_ns


@dataclass(frozen=True)
class Options:
    """The control plane: periods, the migration workflow, what is overload.  Spans are text."""

    bounds: dict[str, str] = field(default_factory=dict)  # of topics, on end-to-end latency; filled from the workload
    bound: str = "100ms"  # of topics that are not in there (ePulsar 5.1: 40 ms and 100 ms)
    # --- periods
    probe: str = "1s"  # Serf's lan profile: each agent probes one other
    locate: str = "5s"  # ePulsar 4: clients and brokers ask for their coordinate (public code: 1 s, 1.5 s)
    report: str = "5s"  # ePulsar: "periodically"; brokers to store (public code: 1.5 s)
    place: str = "5s"  # ePulsar 4: the load manager's loop (public code: 2.5 s)
    # --- the coordination store
    store_write: str = "1ms"  # ours: a synced ZooKeeper write here took 0.85 to 1.5 ms
    session: str = "6s"  # ours: ZooKeeper sessions
    # --- clients
    access: str = "0ms"  # ePulsar 4: client to proxy, one way, added to the height; filled from the study
    add_access: bool = True  # ePulsar 4; the public code does not
    reconnect: str = "0ms"  # public code: 0 in both systems (stock Pulsar: 100 ms and more)
    retry: str = "100ms"  # ours: when nobody owns the topic, ask again after so long
    answer: str = "2s"  # ours: ask again when there was no answer for so long
    dead: str = "12s"  # ours: a broker that has not answered for so long is dead
    # --- migration (ePulsar 3.6)
    executors: int = 16  # migrations at a time (Fig. 7a)
    hint: bool = True  # step 3: the old broker tells clients the new one
    proactive: bool = True  # step 4: the old broker tells the new one to acquire
    drain: bool = False  # ours: ownership goes back when what was accepted is delivered (live testbeds wait for it)
    guard: str = "5s"  # public code: a topic that was moved is left alone for so long
    periodic: str = ""  # the microbenchmark's load manager (5.7): all topics to the next broker, every so often
    # --- overload (ePulsar 3.4.2)
    out_maximum_rps: float = 1_500_000.0  # R_out^th of their broker, 8 cores (5.4)
    first: str = "near"  # ours: a new topic goes near its first client; "hash": where its name falls

    def __post_init__(self) -> None:
        """SpecError for what makes no sense."""
        for name in (
            "bound",
            "probe",
            "locate",
            "report",
            "place",
            "store_write",
            "session",
            "retry",
            "answer",
            "dead",
        ):
            self.span(name)
        for name in ("access", "reconnect", "guard"):
            self.span(name, least="0")
        if self.span("locate") >= self.span("dead"):  # brokers answer no more often than they are told
            raise SpecError(
                f"placement: locate = {self.locate!r} with dead = {self.dead!r}", "give dead the longer span"
            )
        for topic, bound in self.bounds.items():
            span_ns("placement", f"bounds of {topic}", bound)
        if self.periodic:
            self.span("periodic")
        if self.executors < 1:
            raise SpecError(f"placement: executors = {self.executors}", "give 1 or more")
        if not self.out_maximum_rps > 0:
            raise SpecError(f"placement: out_maximum_rps = {self.out_maximum_rps}", "give a rate above 0")
        if self.first not in ("near", "hash"):
            raise SpecError(f"placement: first = {self.first!r}", "choose near or hash")

    def span(self, name: str, least: str = "1ns") -> int:
        """The option ``name`` in nanoseconds."""
        assert name in {option.name for option in fields(self)}
        return span_ns("placement", name, getattr(self, name), least)

    def bound_ns(self, topic: str) -> int:
        """The bound on the topic's end-to-end latency."""
        return span_ns("placement", "bound", self.bounds.get(topic, self.bound))
