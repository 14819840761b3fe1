"""A topic deployed on a testbed, for tests that ask for its rounds themselves."""

from harness.run import Point
from studies.distribution import live, virtual
from studies.distribution.asked import DeploymentConfig
from studies.distribution.study import deployed
from studies.distribution.windows import TopicWindows


class Up(live.LiveDeployment):
    """Takes its site down as well."""

    def close(self) -> None:
        """A second time it does nothing."""
        super().close()
        self.site.close()


def up(point: Point, config: DeploymentConfig) -> TopicWindows:
    """SpecError where the testbed cannot do that; to be closed."""
    asked = deployed(point, config)
    if not point.testbed.real_time:
        virtual.check_modelled(asked)
        return virtual.deployment_of(asked)
    live.check_real(point.testbed, asked)
    context = point.testbed.site(asked.topology, asked.seed)
    site = context.__enter__()
    try:
        return Up(site, asked)
    except BaseException:
        site.close()
        raise
