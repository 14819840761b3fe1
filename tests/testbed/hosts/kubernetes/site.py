"""A further testbed in one file: a pod a host.  Nothing outside of this folder knows of it but its line in TESTBEDS."""

from collections.abc import Sequence

from core.errors import SpecError
from testbed.faults import Fault
from testbed.findings import Finding
from testbed.hosts.places import Place
from testbed.hosts.site import PathMeasure, Site
from tests.testbed.hosts.kubernetes.cluster import FakeCluster

CLUSTER = FakeCluster()


class KubernetesSite(Site):
    """A topology whose machines are pods; the cluster's network is as it is."""

    def _set_up(self) -> None:
        self._addresses: dict[str, str] = {}
        for host in self.topology.machines:
            self._addresses[host.name] = CLUSTER.create_pod(host.name)
            self._undo.callback(CLUSTER.delete_pod, host.name)

    def address(self, host: str) -> str:
        """The pod's."""
        return self._addresses[self.topology.host_of(host)]

    def _prefix(self, host: str, is_limited: bool = True) -> Sequence[str]:
        """Into the pod."""
        return CLUSTER.exec_words(host)

    def verify(self) -> list[PathMeasure]:
        """A cluster's paths are nobody's wish."""
        self._check_alive()
        return []

    def apply(self, fault: Fault) -> None:
        """SpecError: this stub changes no links."""
        raise SpecError(f"{fault}: pods have no links to change", "use --testbed mininet, or virtual")

    def counters(self) -> list[tuple[str, str, float]]:
        """None."""
        return []


def probe() -> list[Finding]:
    """The cluster answers."""
    return [Finding("cluster", True, "a fake one")]


KUBERNETES = Place("kubernetes", f"{__name__}:KubernetesSite", f"{__name__}:probe", has_links=False)
