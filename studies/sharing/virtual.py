"""A shared bucket in virtual time."""

from core.errors import SpecError
from studies.distribution.deployment import far_of
from studies.distribution.search import searched
from studies.distribution.virtual import check as check_topic
from studies.distribution.virtual import deployment_of
from studies.sharing.asked import SharedSearch, SharingSearch
from studies.sharing.deployment import SharedDeployment
from studies.sharing.rules import SPLIT
from testbed.api import Testbed
from testbed.brokers.model import load_calibration


def run(asked: SharingSearch) -> SharedSearch:
    """Search, and judge the answer; a bucket that is split is the study of distribution, message by message."""
    if asked.rule.sharing == SPLIT:
        return SharedSearch(searched(asked, deployment_of(asked)), [])
    deployment = SharedDeployment(asked, deployment_of(asked).model)
    return SharedSearch(searched(asked, deployment), deployment.samples)


def check(testbed: Testbed, asked: SharingSearch) -> None:
    """SpecError for what modelled brokers cannot do where a bucket is shared."""
    check_topic(testbed, asked)
    if asked.rule.sharing == SPLIT:
        return
    if load_calibration(asked.calibration).pump_takes_core:
        raise SpecError(f"calibration {asked.calibration}: a pump on the cores", "use one with a pump of its own")
    if far_of(asked.topology, 1) is not None:
        raise SpecError("brokers that share a bucket have no long paths to publishers", "use srtm-lan, and rtt")
    for option, only in (("non_conformant", "delay"), ("release_quantum", False), ("stamps", "kernel")):
        if getattr(asked.rule, option) != only:
            raise SpecError(f"{option} = {getattr(asked.rule, option)!r} under sharing", "use split, or leave it out")
