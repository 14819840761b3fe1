"""A shared bucket in virtual time."""

from studies.distribution.search import searched
from studies.distribution.virtual import check as check_topic
from studies.distribution.virtual import check_near, deployment_of
from studies.sharing.asked import SharedSearch, SharingSearch
from studies.sharing.deployment import SharedDeployment
from studies.sharing.rules import SPLIT
from testbed.api import Testbed


def run(asked: SharingSearch) -> SharedSearch:
    """Search, and judge the answer; a bucket that is split is the study of distribution, message by message."""
    if asked.rule.sharing == SPLIT:
        return SharedSearch(searched(asked, deployment_of(asked)), [])
    deployment = SharedDeployment(asked, deployment_of(asked).model)
    return SharedSearch(searched(asked, deployment), deployment.samples)


def check(testbed: Testbed, asked: SharingSearch) -> None:
    """SpecError for what modelled brokers cannot do where a bucket is shared."""
    if asked.rule.sharing == SPLIT:
        check_topic(testbed, asked)
    else:
        check_near(testbed, asked, "brokers that share a bucket")
