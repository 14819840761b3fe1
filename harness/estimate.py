"""What a run will cost, before it starts: rough.

In virtual time from its messages, measured on one core of a small machine; in real time from its
rounds, which take as long as they say.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from core.clients import Joined, Role
from core.errors import SpecError
from core.units import SECOND_NS, duration_ns
from harness.experiment import RunSpec
from testbed import load_testbed
from workloads import load as load_workload

SECONDS_PER_MESSAGE = 80e-9  # schedule, envelope, kernel
SECONDS_PER_RUN = 0.15  # set-up and files
MEGABYTES_PER_WORKER = 400
KILOBYTES_PER_RUN = 40
SECONDS_PER_REQUEST = 5e-5
SECONDS_PER_GOSSIP = 1.5e-4  # a round of one node, and its message
SECONDS_PER_CYCLE = 1e-3  # of ten servers
SECONDS_PER_PROBE = 2e-6  # of a coordinate agent, and its share of what is kept
SECONDS_PER_CLIENT_SECOND = 1e-4  # of a client of topics, its agents and brokers
SECONDS_PER_CHOICE = 1.2e-6  # of a topic's brokers, by all policies, in one placement of the clients
SECONDS_PER_TOPIC_MESSAGE = 5e-7  # to all of its consumers
_EXACT = ("instants", "probes")
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
_FEW_ROUNDS = {"lb": 1, "conc": 3, "max-min": 4, "srtm": 8}  # the same on the four brokers of the scale small
_SMALL_GROUP = 5  # up to here SRTM needs no search
SECONDS_PER_LIVE_RUN = 8.0  # hosts, processes, paths measured before the load, drain, tear-down
SECONDS_PER_LIVE_ROUND = 3.0  # beside its traffic: publishers moved, drain, records
SECONDS_PER_NODE = 0.8  # a process


def messages_a_round(spec: RunSpec) -> float:
    """Messages of one round, the brokers' other topics (at a tenth of the cost) included."""
    options: dict[str, Any] = spec.workload_options
    rate = float(options.get("publishers", 1000)) * float(options.get("rate_rps", 10))
    others = sum(spec.study_options.get("initial_loads_rps", ()))
    try:
        round_s = duration_ns(str(spec.study_options.get("duration", spec.round))) / SECOND_NS
    except ValueError as error:
        raise SpecError(f"round: {error}") from None
    return (rate + others / 10) * round_s


def expected_seconds(spec: RunSpec) -> float:
    """Seconds of one core; where the testbed works in real time, of the clock."""
    if load_testbed(spec.testbed).real_time:
        return SECONDS_PER_LIVE_RUN + _live_seconds(spec)
    if spec.study == "limiting":
        return SECONDS_PER_RUN + _limiter_seconds(spec)
    if spec.study == "throttling":
        return SECONDS_PER_RUN + float(spec.study_options.get("cycles", 1000)) * SECONDS_PER_CYCLE
    if spec.study == "coordinates":
        return SECONDS_PER_RUN + _probe_rounds(spec) * _agents(spec) * SECONDS_PER_PROBE
    if spec.study == "placement":
        return SECONDS_PER_RUN + _placing_seconds(spec)
    if spec.study == "policies":
        return SECONDS_PER_RUN + _choices(spec) * SECONDS_PER_CHOICE
    rounds = 1 if spec.system_options.get("brokers") else _ROUNDS.get(spec.system, 5)
    return SECONDS_PER_RUN + rounds * messages_a_round(spec) * SECONDS_PER_MESSAGE


def campaign_seconds(specs: Iterable[RunSpec], jobs: int) -> float:
    """Seconds of the clock for all of them: runs in real time are alone, the others ``jobs`` at a time."""
    live, modelled = 0.0, 0.0
    for spec in specs:
        if load_testbed(spec.testbed).real_time:
            live += expected_seconds(spec)
        else:
            modelled += expected_seconds(spec)
    return live + modelled / jobs


def _live_seconds(spec: RunSpec) -> float:
    """What takes its time, whatever the machine."""
    if spec.study == "links":
        return 0.0
    if spec.study == "limiting":
        _, span = _requests_and_span(spec)
        nodes = float(spec.topology_options.get("nodes", 10))
        return duration_ns(str(spec.study_options.get("duration") or span)) / SECOND_NS + nodes * SECONDS_PER_NODE
    if spec.study == "coordinates":
        interval_ns = duration_ns(str(spec.study_options.get("interval", "1s")))
        return _probe_rounds(spec) * interval_ns / SECOND_NS + _agents(spec) * SECONDS_PER_NODE
    if spec.study == "profile":
        return duration_ns(str(spec.study_options.get("duration", "6s"))) / SECOND_NS
    if spec.study == "control":
        return duration_ns(str(spec.study_options.get("duration", "120s"))) / SECOND_NS
    if spec.study == "placement":
        seconds, clients, _ = _placing(spec)
        return seconds + float(spec.study_options.get("warm_up_rounds", 600)) + clients * SECONDS_PER_NODE
    rounds = 1 if spec.system_options.get("brokers") else _FEW_ROUNDS.get(spec.system, 4)
    if spec.system == "srtm" and int(spec.workload_options.get("group_size", 1)) <= _SMALL_GROUP:
        rounds = min(rounds, 2)
    return rounds * (duration_ns(spec.round) / SECOND_NS + SECONDS_PER_LIVE_ROUND)


def _placing_seconds(spec: RunSpec) -> float:
    seconds, clients, messages = _placing(spec)
    return seconds * clients * SECONDS_PER_CLIENT_SECOND + messages * SECONDS_PER_TOPIC_MESSAGE


def _placing(spec: RunSpec) -> tuple[float, float, float]:
    """Length in seconds, clients, and messages."""
    seconds = duration_ns(str(spec.study_options.get("duration", "60s"))) / SECOND_NS
    clients, rate_rps = _clients(spec.workload, msgspec.json.encode(spec.workload_options, order="deterministic"))
    return seconds, clients, seconds * rate_rps


@lru_cache
def _clients(key: str, options: bytes) -> tuple[float, float]:
    """The clients of a workload, and the messages a second of those that publish at first."""
    workload = load_workload(key)
    load = workload.make(workload.configure(msgspec.json.decode(options)), 1)
    rates = {topic.name: topic.rate_rps for topic in load.topics}
    joined = [change for change in load.happenings(0) if isinstance(change, Joined) and change.role is Role.PRODUCER]
    return len(load.homes), sum(rates[change.topic] for change in joined)


def _choices(spec: RunSpec) -> float:
    """Topics times placements: a game has a topic a member of a group, swarms have two a group."""
    options: dict[str, Any] = spec.study_options
    a_group = 2.0 if options.get("scenario") == "swarms" else float(options.get("members", 8))
    return float(options.get("groups", 128)) * a_group * float(options.get("permutations", 1000))


def _probe_rounds(spec: RunSpec) -> float:
    return float(spec.study_options.get("rounds", 600))


def _agents(spec: RunSpec) -> float:
    options: dict[str, Any] = spec.topology_options
    return float(options.get("nodes", options.get("fanout", 10))) + float(spec.study_options.get("clients", 0))


def _limiter_seconds(spec: RunSpec) -> float:
    """Requests, and for limiters that gossip their rounds; of logs only the length asked for is known."""
    count, span = _requests_and_span(spec)
    seconds = count * SECONDS_PER_REQUEST
    if spec.system in _GOSSIPING:
        interval_ns = duration_ns(str(spec.system_options.get("gossip", "300ms")))
        nodes = float(spec.topology_options.get("nodes", 10))
        rounds = nodes * duration_ns(str(spec.study_options.get("duration") or span)) / interval_ns
        seconds += rounds * SECONDS_PER_GOSSIP
    return seconds


def _requests_and_span(spec: RunSpec) -> tuple[float, str]:
    """How many requests, and how long they take."""
    options: dict[str, Any] = spec.workload_options
    data_set = str(options.get("set", ""))
    count, span = _DATA_SETS.get(data_set, (10_000.0, "5min"))
    if spec.workload in _EXACT:  # cheap to make, and of any length
        workload = load_workload(spec.workload)
        natural_ns = workload.make(workload.configure(options), spec.seed).duration_ns
        span = f"{natural_ns // 1_000_000}ms" if natural_ns else span
    if data_set == "C":
        count, span = float(options.get("requests", count)), str(options.get("duration", span))
    elif data_set in _DATA_SETS:
        count *= float(options.get("capacity", 300)) / 300
    return count, span
