"""A topic deployed on a testbed, for tests that ask for its rounds themselves."""

from contextlib import ExitStack

from studies.api import Point
from studies.distribution import live, virtual
from studies.distribution.asked import Deployed, DeploymentConfig
from studies.distribution.study import deployed
from studies.distribution.windows import TopicWindows
from testbed.hosts.site import Site


class Up(live.LiveDeployment):
    """Takes its site down as well: ``stack`` does."""

    def __init__(self, stack: ExitStack, site: Site, asked: Deployed):
        self.stack = stack
        super().__init__(site, asked)

    def close(self) -> None:
        """A second time it does nothing."""
        super().close()
        self.stack.close()


def up(point: Point, config: DeploymentConfig) -> TopicWindows:
    """SpecError where the testbed cannot do that; to be closed."""
    asked = deployed(point, config)
    if not point.testbed.real_time:
        virtual.check(point.testbed, asked)
        return virtual.deployment_of(asked)
    live.check(point.testbed, asked)
    with ExitStack() as stack:
        site = stack.enter_context(point.testbed.site(asked.topology, asked.seed))
        return Up(stack.pop_all(), site, asked)
