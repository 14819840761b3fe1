"""A topic in virtual time: each round is carried by the kernels of a ``Fleet``."""

from collections.abc import Mapping
from dataclasses import replace

from core.errors import SpecError
from studies.distribution.asked import Deployed, Searched, Searching, check_deployed
from studies.distribution.deployment import Deployment, FarDeployment, far_of
from studies.distribution.search import searched
from testbed.api import Testbed
from testbed.brokers.model import load_calibration
from testbed.virtual.capacity import benchmarked_capacity_rps

JOURNAL_ROWS = 2_000_000  # messages kept at most when a run asks for them
PLAIN: Mapping[str, object] = {"non_conformant": "delay", "release_quantum": False, "stamps": "kernel"}


def deployment_of(asked: Deployed) -> Deployment:
    """The topic on modelled brokers, near or far."""
    model = load_calibration(asked.calibration)
    if asked.rule.stamps == "read":
        model = replace(model, read_time_stamps=True)
    if asked.rule.mcap_batch:
        capacity_rps = benchmarked_capacity_rps(model, asked.slo_ns, asked.rule.mcap_batch, asked.seed)
        model = replace(model, mcap_rps=capacity_rps)
    far = far_of(asked.topology, asked.schedule.population.count)
    if far is not None:
        return FarDeployment(asked, model, far)
    return Deployment(asked, model, JOURNAL_ROWS if asked.keeps_messages else 0)


def run(asked: Searching) -> Searched:
    """Search, and judge the answer."""
    return searched(asked, deployment_of(asked))


def check(testbed: Testbed, asked: Deployed) -> None:
    """SpecError for what modelled brokers, and the model of long paths, cannot do."""
    check_deployed(asked)
    rule = asked.rule
    for option, value, only in (("faults", rule.faults, ()), ("gc", rule.gc, "friendly")):
        if value != only:
            raise SpecError(f"virtual brokers have no {option}", "use --testbed mininet, or local")
    far = far_of(asked.topology, 1)
    if far is None:
        return
    if far.uncertain:
        raise SpecError(f"topology {asked.topology.name}: jitter or loss on a topic's path", "use --testbed mininet")
    if rule.non_conformant == "drop":
        raise SpecError("virtual brokers at the end of long paths drop nothing", "use srtm-lan, or delay")


def check_near(testbed: Testbed, asked: Deployed, who: str, only: Mapping[str, object] = PLAIN) -> None:
    """``check``, and SpecError for what ``who`` are not modelled with: pumps on cores, long paths, other options."""
    check(testbed, asked)
    if load_calibration(asked.calibration).pump_takes_core:
        raise SpecError(f"{who}: calibration {asked.calibration} has a pump on the cores", "use one with its own pump")
    if far_of(asked.topology, 1) is not None:
        raise SpecError(f"{who} have no long paths", "use srtm-lan")
    for option, value in only.items():
        if getattr(asked.rule, option) != value:
            raise SpecError(f"{who}: {option} = {getattr(asked.rule, option)!r}", "leave it out")
