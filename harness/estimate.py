"""What a run will cost, before it starts: rough, from its messages.  Measured on one core of a small machine."""

from typing import Any

from core.errors import SpecError
from core.units import SECOND_NS, duration_ns
from harness.experiment import RunSpec

SECONDS_PER_MESSAGE = 80e-9  # schedule, envelope, kernel
SECONDS_PER_RUN = 0.15  # set-up and files
MEGABYTES_PER_WORKER = 400
KILOBYTES_PER_RUN = 40
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
    rounds = 1 if spec.system_options.get("brokers") else _ROUNDS.get(spec.system, 5)
    return SECONDS_PER_RUN + rounds * messages_a_round(spec) * SECONDS_PER_MESSAGE
