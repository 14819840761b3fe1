"""The study of the placement study: coordinates once, then many random placements, all policies (ePulsar 5.5).

Nothing is offered, and no system runs: a run is one topology, on which all policies choose for the same clients.  Its
table ``policies`` has a row for each placement and policy; ``coordinates`` has what is estimated, pair by pair.
"""

from dataclasses import dataclass

from core.errors import SpecError
from core.units import SECOND_NS, duration_ns
from studies.api import Journal, Point, Study
from studies.policies.asked import MEASURES, POLICIES, PolicyResults, PolicyStudy, Setting
from studies.policies.tables import pair_rows, policy_rows
from studies.spec import RunSpec
from systems.api import System
from systems.parts.topic_placement import Policy

SECONDS_PER_CHOICE = 1.2e-6  # of a topic's brokers, by all policies, in one placement of the clients

SCENARIOS = ("game", "swarms")


@dataclass(frozen=True)
class Config:
    """Options of the study; its defaults are the paper's MMOG (5.5.2)."""

    scenario: str = "game"  # or swarms: UAVs (5.5.3), whose groups are at one site each
    groups: int = 128  # 5.5.2; of swarms 16 (5.5.3)
    members: int = 8  # of a group: 1024 clients / 128 groups (5.5.2), 8 UAVs (5.5.3)
    bound: str = "100ms"  # L_th (5.1.2); of swarms 40 ms (5.1.1)
    access: str = "0ms"  # client to site, one way; ours: the paper's game servers are at their sites
    access_in_height: bool = True  # 4: the client-proxy latency is added to the height; the public code does not
    permutations: int = 1_000  # 5.5.1
    rounds: int = 600  # of probes: ten minutes (5.5.1) at one a second (Serf's LAN profile)
    shuffled: bool = False  # ours: deal the delays between brokers anew among their pairs
    only_violated: bool = False  # ours: begin at Pulsar's brokers and move what violates the bound, as Algorithm 1 does
    literal: bool = False  # as systems.parts.topic_placement.Policy
    shortcut: bool = False

    def __post_init__(self) -> None:
        """SpecError for numbers that make no sense."""
        if self.scenario not in SCENARIOS:
            raise SpecError(f"study policies: scenario = {self.scenario!r}", f"choose {' or '.join(SCENARIOS)}")
        for name, least in (("groups", 1), ("members", 2), ("permutations", 1), ("rounds", 0)):
            if getattr(self, name) < least:
                raise SpecError(f"study policies: {name} = {getattr(self, name)}", f"give at least {least}")
        for name in ("bound", "access"):
            _seconds(name, getattr(self, name))


def _seconds(name: str, text: str) -> float:
    try:
        return duration_ns(text) / SECOND_NS
    except ValueError as error:
        raise SpecError(f"study policies: {name}: {error}", 'give a span such as "8ms"') from None


def asked(point: Point, config: Config) -> PolicyStudy:
    """SpecError where the topology does not fit the options."""
    for role, what in (("proxy", "sites"), ("broker", "brokers")):
        if not point.topology.node_names(role):
            raise SpecError(
                f"topology {point.spec.topology} has no {what}", "choose us-cities, city-mec or matrix-sites"
            )
    policy = Policy(literal=config.literal, shortcut=config.shortcut)
    bound_s, access_s = _seconds("bound", config.bound), _seconds("access", config.access)
    setting = Setting(policy, bound_s, access_s, config.access_in_height, config.only_violated)
    return PolicyStudy(
        point.topology, point.spec.seed, config.scenario, config.groups, config.members, config.permutations,
        config.rounds, config.shuffled, setting,
    )  # fmt: skip


def journal(point: Point, asked: PolicyStudy, shown: PolicyResults) -> Journal:
    """The tables of a run."""
    tables = {
        "policies": policy_rows(shown.results, POLICIES, MEASURES),
        "coordinates": pair_rows(shown.names, shown.delay_s, shown.coordinates),
    }
    return Journal(tables)


def fits(system: System) -> bool:
    """No system runs: any may be named."""
    return True


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Topics times placements: a game has a topic a member of a group, swarms have two a group."""
    options = spec.study_options
    a_group = 2.0 if options.get("scenario") == "swarms" else float(options.get("members", Config.members))
    topics = float(options.get("groups", Config.groups)) * a_group
    return topics * float(options.get("permutations", Config.permutations)) * SECONDS_PER_CHOICE


STUDY = Study(
    "policies",
    "placement policies on many random placements of clients",
    Config,
    None,
    fits,
    asked,
    journal,
    expected_seconds,
    "studies.policies.virtual:BODY",
)
