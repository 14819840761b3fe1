"""What a run will cost, before it starts: rough, from its messages.  Measured on one core of a small machine."""

from typing import Any

from core.errors import SpecError
from core.units import SECOND_NS, duration_ns
from harness.experiment import RunSpec

SECONDS_PER_MESSAGE = 80e-9  # schedule, envelope, kernel
SECONDS_PER_RUN = 0.15  # set-up and files
MEGABYTES_PER_WORKER = 400
KILOBYTES_PER_RUN = 40
SECONDS_PER_REQUEST = 5e-5
SECONDS_PER_GOSSIP = 1.5e-4  # a round of one node, and its message
SECONDS_PER_CYCLE = 1e-3  # of ten servers
_GOSSIPING = ("crdt-counter", "crdt-queue", "sliding-log")
_DATA_SETS = {  # requests at c = 300, and how long they take
    "A": (20_490.0, "5min"),
    "B-extreme": (6_450.0, "1min"),
    "B-substantial": (960.0, "1min"),
    "B-barely": (330.0, "1min"),
    "B-not-limited": (35.0, "2min"),
    "C": (500_000.0, "1h"),
    "D": (112.0, "100s"),
}
_ROUNDS = {"lb": 2, "conc": 4, "max-min": 5, "srtm": 12}  # search rounds and the fresh one, typical


def messages_a_round(spec: RunSpec) -> float:
    """Messages of one round, the brokers' other topics (at a tenth of the cost) included."""
    options: dict[str, Any] = spec.workload_options
    rate = float(options.get("publishers", 1000)) * float(options.get("rate_rps", 10))
    others = sum(spec.procedure_options.get("initial_loads_rps", ()))
    try:
        round_s = duration_ns(str(spec.procedure_options.get("duration", spec.round))) / SECOND_NS
    except ValueError as error:
        raise SpecError(f"round: {error}") from None
    return (rate + others / 10) * round_s


def expected_seconds(spec: RunSpec) -> float:
    """Seconds of one core."""
    if spec.procedure == "requests":
        return SECONDS_PER_RUN + _limiter_seconds(spec)
    if spec.procedure == "cycles":
        return SECONDS_PER_RUN + float(spec.procedure_options.get("cycles", 1000)) * SECONDS_PER_CYCLE
    rounds = 1 if spec.system_options.get("brokers") else _ROUNDS.get(spec.system, 5)
    return SECONDS_PER_RUN + rounds * messages_a_round(spec) * SECONDS_PER_MESSAGE


def _limiter_seconds(spec: RunSpec) -> float:
    """Requests, and for limiters that gossip their rounds; of logs only the length asked for is known."""
    options: dict[str, Any] = spec.workload_options
    data_set = str(options.get("set", ""))
    count, span = _DATA_SETS.get(data_set, (10_000.0, "5min"))
    if data_set == "C":
        count, span = float(options.get("requests", count)), str(options.get("duration", span))
    elif data_set in _DATA_SETS:
        count *= float(options.get("capacity", 300)) / 300
    seconds = count * SECONDS_PER_REQUEST
    if spec.system in _GOSSIPING:
        interval_ns = duration_ns(str(spec.system_options.get("gossip", "300ms")))
        nodes = float(spec.topology_options.get("nodes", 10))
        rounds = nodes * duration_ns(str(spec.procedure_options.get("duration") or span)) / interval_ns
        seconds += rounds * SECONDS_PER_GOSSIP
    return seconds
