"""A limiter that others have written and people deploy, unmodified: what its driver says, and the node that asks it.

A driver is text and bytes.  The testbed starts the processes (``testbed.servers.driven``) and carries questions and
answers (``testbed.servers.asking``).  One file makes such a limiter, in ``systems/limiting/drivers/`` or anywhere else:
a config, a ``DRIVER``, and ``SYSTEM = deployed(DRIVER)``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from core.defaults import CAPACITY, RATE
from systems.api import (
    Actuate,
    Arrival,
    Decide,
    Effect,
    Event,
    Node,
    Report,
    Sample,
    Start,
    System,
    Timer,
    UnexpectedEvent,
    Verdict,
)
from systems.limiting.centralised import ANSWERED, FAILURES
from systems.parts.limit import Quota as Quota
from systems.parts.limit import limit_of
from systems.parts.limit import whole as whole
from systems.parts.options import choice, span_ns
from systems.parts.questions import TIMER, Questions
from systems.parts.wires import HttpAnswer as HttpAnswer
from systems.parts.wires import http as http
from systems.parts.wires import resp as resp

LOOPBACK = "127.0.0.1"  # of a process' own host
PLANES = {"http": "testbed.servers.asking:http_plane", "resp": "testbed.servers.asking:resp_plane"}


@dataclass(frozen=True)
class DeployedConfig:
    """Options that every deployed limiter has; its driver's own class adds to them."""

    capacity: int = CAPACITY  # c = N, requests of a user a period
    rate: str = RATE  # r = N over the period, requests a second
    server: str = ""  # ours: the node beside which a single server stands; "": the first
    timeout: str = "1s"  # ours: a node that has no answer by then decides alone
    on_failure: str = "open"  # what it then decides: "open" admits, as Envoy's filter does by default; or "closed"


def quota_of(config: DeployedConfig) -> Quota:
    """The config's limit; SpecError for what is none."""
    return Quota(config.capacity, config.capacity / limit_of(config.capacity, config.rate).rate_rps)


@dataclass(frozen=True)
class Cluster:
    """Where a deployed limiter is to stand.

    ``addresses``: node -> its host's among the hosts; ``main``: the node beside which single servers stand;
    ``secret``: the run's, of letters and digits.  ``port_of(node, name, usual)``: the usual port, or where hosts share
    an address a free one, always the same; ``folder_of(node, name)``: where that process' files are, for its host.
    """

    addresses: Mapping[str, str]
    main: str
    secret: str
    port_of: Callable[[str, str, int], int] = lambda node, name, usual: usual
    folder_of: Callable[[str, str], str] = lambda node, name: f"/{name}-{node}"

    @property
    def nodes(self) -> list[str]:
        """The nodes, in order."""
        return list(self.addresses)

    def at(self, node: str, name: str, usual: int) -> str:
        """``address:port`` at which others reach a process."""
        return f"{self.addresses[node]}:{self.port_of(node, name, usual)}"


class Process(NamedTuple):
    """One process of a deployed limiter.

    ``command``: the program, as on the PATH, and its words.  ``files``: name -> text, in the process' folder.
    ``port``: where it answers ``question`` over its host's loopback, for ``Driver.ready``; it ends with ``until``.
    """

    node: str
    name: str
    command: tuple[str, ...]
    port: int
    question: bytes
    until: bytes
    files: Mapping[str, str] = MappingProxyType({})
    environment: Mapping[str, str] = MappingProxyType({})


class Entry(NamedTuple):
    """Where a node asks, and ``greeting``: what it asks there before the run, each on a connection of its own."""

    address: str
    port: int
    greeting: tuple[bytes, ...] = ()


class Driver(ABC):
    """What is to be known of a deployed limiter.  Of texts and bytes alone: it has no I/O, and keeps nothing.

    ``programs``: those that its processes need, each with the command that brings it.  ``versions``: of these, the
    word to which each answers with its version; of one in Go, the module that it is.  ``wire``: how it is asked, of
    ``PLANES``.  ``contract``: what it promises by its own documentation, as ``analysis.deployed`` knows it.
    ``coordinates``: whether its processes tell each other anything, so that bytes must flow.
    """

    key: str
    summary: str
    config: type[DeployedConfig]  # in the driver's own file
    programs: Mapping[str, str]
    versions: Mapping[str, str] = MappingProxyType({})
    wire: str = "http"
    contract: str = "bucket"
    coordinates: bool = True

    def check(self, quota: Quota, config: Any, nodes: Sequence[str]) -> None:  # noqa: B027
        """SpecError for a limit that it cannot say, with the nearest that it can."""

    @abstractmethod
    def servers(self, cluster: Cluster, quota: Quota, config: Any) -> list[Process]:
        """Its processes, in the order of their start."""

    @abstractmethod
    def entry(self, cluster: Cluster, node: str, quota: Quota, config: Any) -> Entry:
        """Where a node asks."""

    @abstractmethod
    def ready(self, cluster: Cluster, answers: Mapping[str, bytes]) -> str:
        """What is missing before the load may come, "" = nothing.

        ``answers``: to what each process of ``servers`` is asked, by ``node/name``; b"" where there is none yet.
        """

    @abstractmethod
    def ask(self, user: str, cost: int, quota: Quota, config: Any) -> bytes:
        """The question for a request."""

    @abstractmethod
    def verdict(self, answer: Any) -> bool | None:
        """Whether it admits; None for an error, however it is dressed.

        ``answer``: an ``HttpAnswer``; by Redis' protocol what hiredis makes of it, an exception for an error.
        """


class Ask(NamedTuple):
    """A command: ask the limiter this; b"" where nobody waits for the answer any more."""

    request_id: int
    content: bytes


class Answered(NamedTuple):
    """A report: what it answered; None where its connection broke first."""

    request_id: int
    answer: Any


class _Node:
    """Asks for every request and waits at most ``timeout``; an answer that is an error is none.  See ``Node``."""

    def __init__(self, node_id: str, driver: Driver, config: DeployedConfig):
        self.node_id, self.driver, self.config, self.quota = node_id, driver, config, quota_of(config)
        self.questions = Questions(span_ns(driver.key, "timeout", config.timeout), FAILURES[config.on_failure])

    def handle(self, event: Event, now_ns: int) -> list[Effect]:
        match event:
            case Arrival(request):
                content = self.driver.ask(request.user, request.cost, self.quota, self.config)
                return [Actuate(Ask(request.id, content)), *self.questions.asked(request.id, now_ns)]
            case Report(Answered(request_id, answer)):
                admits = None if answer is None else self.driver.verdict(answer)
                if admits is not None:
                    return self.questions.answered(request_id, Verdict.ADMIT if admits else Verdict.REJECT)
                decides = self.questions.refused(request_id)
                return [*decides, Sample("error_answer_count", 1.0)] if decides else []
            case Timer(name, _) if name == TIMER:
                effects = self.questions.rung(now_ns)
                return effects + [Actuate(Ask(late.request_id, b"")) for late in effects if isinstance(late, Decide)]
            case Start(_):
                return []
        raise UnexpectedEvent(self.node_id, event)

    def idle(self) -> bool:
        return not self.questions.waiting

    def state_bytes(self) -> int:
        return self.questions.state_bytes()


def deployed(driver: Driver) -> System:
    """The system of a driver; it is called ``DRIVER`` in the file where its config is."""
    assert driver.config.__module__ == type(driver).__module__, f"{driver.key}: its config stands elsewhere"

    def nodes(names: list[str], config: Any, seed: int) -> dict[str, Node]:
        """A node on each host.  SpecError on options that make no sense."""
        choice(driver.key, "server", config.server or names[0], names)
        choice(driver.key, "on_failure", config.on_failure, FAILURES)
        driver.check(quota_of(config), config, names)
        return {name: _Node(name, driver, config) for name in names}

    return System(
        driver.key, f"{driver.summary}; live testbeds only", config=driver.config, nodes=nodes,
        inputs=(Arrival, Answered), servers=(":DRIVER",), plane=PLANES[driver.wire], invariants=(ANSWERED,),
        beside=lambda of: str(of.server), timeout_ns=lambda of: span_ns(driver.key, "timeout", of.timeout),
    )  # fmt: skip
