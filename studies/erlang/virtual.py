"""Runs the thesis' nodes as Erlang processes, in virtual time, and tells what they weighed.

Instants are whole milliseconds, as the thesis' clock's (4.2.2): requests come at those of theirs, rounded down.
Messages take no time.  At an instant requests come first, then rounds of gossip, then their messages.
"""

from dataclasses import fields
from fractions import Fraction

from core.errors import SpecError
from core.records import Request
from core.units import MILLISECOND_NS, duration_ns, rational
from studies.erlang.asked import ErlangLimiting
from studies.limiting.asked import RequestJournal
from systems.api import Verdict
from systems.limiting import counter_common, crdt_queue
from systems.parts.gossip import CHOICES, PHASES
from systems.parts.options import choice, span_ns
from testbed.api import Testbed
from testbed.erlang.emulator import ErlangAnswer, ErlangJob, Value, play
from testbed.hosts.capabilities import require
from testbed.nodes.journal import NodeJournal
from testbed.trust.evidence import RunEvidence
from workloads.placement import EPOCH_MS, user_number

_COMMON = {"capacity", "rate", "gossip", "phase", "choice"}
# Options that the nodes in Erlang have; those of the study stand for others of the Python nodes.
_OF_COUNTER = {*_COMMON, "refill_cap", "whole_tokens", "body"}
_OF_QUEUE = {*_COMMON, "frequency", "linf", "window", "threshold", "literal_priorities", "implementation"}
_OF_BODY = {
    "memory",
    "unit",
    "births",
    "identity",
    "resolution",
    "queued",
}  # of Python's nodes alone; here the study's, or as listed
UNIQUE_SCALE = 1_000  # births that are to differ are in microseconds


def check(testbed: Testbed, asked: ErlangLimiting) -> None:
    """SpecError for what the nodes in Erlang do not have; MachineError where there is no Erlang."""
    require("erlang")
    job_of(asked)
    if any(link.one_way_delay_ns or link.jitter_ns or link.loss_probability for link in asked.topology.links):
        raise SpecError("study erlang: messages take no time", "give --set topology.delay=0ms")


def run(asked: ErlangLimiting) -> RequestJournal:
    """Offer the requests to the processes; SystemFault where they break."""
    names = asked.topology.node_names()
    offered = sorted(
        ((request, name) for name, requests in asked.requests().items() for request in requests),
        key=lambda pair: (pair[0].at_ns, pair[0].id),
    )
    numbers = {name: number for number, name in enumerate(names, 1)}
    rows = [(request.at_ns // MILLISECOND_NS, numbers[name], user_text(request)) for request, name in offered]
    answer = play(job_of(asked), rows)
    journal = NodeJournal()
    for (request, name), accepted in zip(offered, answer.accepted, strict=True):
        journal.offered[request.id] = name, request
        journal.verdicts[request.id] = request.at_ns, name, Verdict.ADMIT if accepted else Verdict.REJECT
    last_request_ns = max((request.at_ns for request, _ in offered), default=0)
    journal.samples += _samples(answer, names, last_request_ns)
    note = f"memory and bytes are those of Erlang/OTP {answer.release}"
    return RequestJournal(journal, evidence=RunEvidence(notes=(note,)))


def user_text(request: Request) -> str:
    """A user as the thesis' recordings have it, 32 hex digits (4.3.1); SpecError for a request of more than a token."""
    if request.cost != 1:
        raise SpecError(f"study erlang: request {request.id} costs {request.cost} tokens", "give requests of one token")
    return f"{user_number(request.user):032x}"


def _samples(answer: ErlangAnswer, names: list[str], last_request_ns: int) -> list[tuple[int, str, str, float]]:
    rows: list[tuple[int, str, str, float]] = [(last_request_ns, "", "load_end_ns", float(last_request_ns))]
    for weight in answer.weights:
        of_node = {
            "state_bytes": weight.shared_bytes,
            "allocated_bytes": weight.process_bytes,
            "flat_state_bytes": weight.flat_bytes,
        }
        if weight.sent_count:
            of_node |= {
                "sent_count": weight.sent_count,
                "sent_bytes": weight.external_bytes,
                "sent_word_bytes": weight.word_bytes,
            }
        at_ns, node = weight.at_ms * MILLISECOND_NS, names[weight.node - 1]
        rows += [(at_ns, node, metric, float(value)) for metric, value in of_node.items() if value is not None]
    if answer.converged_at_ms is not None:
        at_ns = answer.converged_at_ms * MILLISECOND_NS
        rows.append((at_ns, "", "convergence_ns", float(at_ns)))
    return rows


def job_of(asked: ErlangLimiting, journal: bool = False) -> ErlangJob:
    """What the emulator is asked for; SpecError for an option that the nodes in Erlang do not have."""
    names = asked.topology.node_names()
    config = asked.config
    if isinstance(config, counter_common.Config):
        _check_known("crdt-counter", config, _OF_COUNTER)
        program = "token_counter", _counter_options(config)
    else:
        assert isinstance(config, crdt_queue.Config)
        _check_known("crdt-queue", config, _OF_QUEUE)
        program = "token_queue", _queue_options(config, asked, len(names))
    interval_ns = span_ns(asked.system.key, "gossip", config.gossip)
    if interval_ns % MILLISECOND_NS:
        raise SpecError(f"study erlang: gossip = {config.gossip!r}", "give whole milliseconds")
    return ErlangJob(
        nodes=len(names),
        seed=asked.seed,
        interval=interval_ns // MILLISECOND_NS,
        phase=choice(asked.system.key, "phase", config.phase, PHASES),
        drain=asked.drain_ns // MILLISECOND_NS,
        options=program,
        epoch=EPOCH_MS,
        collected=asked.collected,
        own_words=asked.own_words,
        journal=journal,
    )


def _counter_options(config: counter_common.Config) -> dict[str, Value]:
    return {
        "capacity": config.capacity,
        "rate": float(rational(config.rate) / 1000),
        "cap": config.refill_cap,
        "whole": config.whole_tokens,
        "choice": choice("crdt-counter", "choice", config.choice, CHOICES),
    }


def _queue_options(config: crdt_queue.Config, asked: ErlangLimiting, node_count: int) -> dict[str, Value]:
    """Deaths are whole numbers, as Fig. 4.3 has them."""
    scale = UNIQUE_SCALE if asked.births == "unique" else 1
    window = config.window or max(1, config.capacity // node_count)
    threshold = duration_ns(config.threshold) * scale // MILLISECOND_NS
    return {
        "capacity": config.capacity,
        "step": max(1, round(Fraction(1000 * scale) / rational(config.rate))),
        "scale": scale,
        "unique": asked.births == "unique",
        "duplicates": asked.identity.replace("-", "_"),
        "choice": choice("crdt-queue", "choice", config.choice, CHOICES),
        "linf": config.linf,
        "counters": config.literal_priorities,
        "frequency": (window, threshold) if config.frequency else "none",
    }


def _check_known(system: str, config: counter_common.Config | crdt_queue.Config, known: set[str]) -> None:
    """SpecError for an option that is neither known nor its default."""
    default = type(config)()
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name not in known | _OF_BODY and value != getattr(default, field.name):
            what = f"study erlang: {system} has no {field.name} = {value!r} in Erlang"
            raise SpecError(what, f"leave {field.name} out, or use --set study=limiting")
