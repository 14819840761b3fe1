"""Where systems run.  Registry: ``TESTBEDS``, name -> "module:OBJECT" (a ``testbed.api.Testbed``), imported on use."""

from typing import TYPE_CHECKING

from core.registry import lookup

if TYPE_CHECKING:
    from testbed.api import Testbed

TESTBEDS = {
    "virtual": "testbed.virtual:VIRTUAL",
    "local": "testbed.hosts.places:LOCAL",
    "mininet": "testbed.hosts.places:MININET",
    "docker": "testbed.hosts.places:DOCKER",
    "ssh": "testbed.hosts.places:SSH",
}


def load_testbed(name: str) -> "Testbed":
    """The testbed called ``name``; SpecError for an unknown one."""
    testbed: Testbed = lookup("testbed", TESTBEDS, name)
    return testbed
