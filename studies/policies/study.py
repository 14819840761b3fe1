"""The study of the placement study: coordinates once, then many random placements, all policies (ePulsar 5.5).

Nothing is offered, and no system runs: a run is one topology, on which all policies choose for the same clients.  Its
table ``policies`` has a row for each placement and policy; ``coordinates`` has what is estimated, pair by pair.
"""

from dataclasses import dataclass

from core.errors import SpecError
from core.registry import configure
from core.seeds import generator
from core.units import SECOND_NS, duration_ns
from studies.api import Journal, Point, Study
from studies.policies.tables import pair_rows, policy_rows
from systems.parts.topic_placement import Policy

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


def configured(point: Point) -> Config:
    """The study's options; SpecError where the topology or the testbed does not fit them."""
    config: Config = configure("study policies", Config, point.spec.study_options)
    if point.spec.testbed != "virtual":
        raise SpecError(f"study policies on {point.spec.testbed}", "it computes: use the testbed virtual")
    for role, what in (("proxy", "sites"), ("broker", "brokers")):
        if not point.topology.node_names(role):
            raise SpecError(
                f"topology {point.spec.topology} has no {what}", "choose us-cities, city-mec or matrix-sites"
            )
    return config


def run(point: Point, config: Config) -> Journal:
    """Let coordinates settle, draw the placements, and see what each policy makes of them."""
    from studies.policies import virtual as study

    seed = point.spec.seed
    places = study.places_of(point.topology)
    if config.shuffled:
        places = study.shuffled(places, generator(seed, "placement-study", "delays"))
    where = study.settled(places, config.rounds, generator(seed, "placement-study", "coordinates"))
    in_swarms = config.scenario == "swarms"
    scenario = (study.swarms if in_swarms else study.game)(config.groups, config.members)
    rng = generator(seed, "placement-study", "clients")
    placements = study.drawn(config.permutations, config.groups, config.members, places.sites, in_swarms, rng)
    policy = Policy(literal=config.literal, shortcut=config.shortcut)
    bound_s, access_s = _seconds("bound", config.bound), _seconds("access", config.access)
    setting = study.Setting(policy, bound_s, access_s, config.access_in_height, config.only_violated)
    found = study.results(places, where, scenario, placements, setting)
    tables = {
        "policies": policy_rows(found, study.POLICIES, study.MEASURES),
        "coordinates": pair_rows(places.names, places.delay_s, where),
    }
    return Journal(tables, "done")


STUDY = Study(configured, run)
