"""Where systems run.  Registry: ``TESTBEDS``, name -> "module:OBJECT", imported on use.

No code outside this folder asks which testbed it is on: all give the same ``Backend``.
"""

from typing import Any, Protocol

from core.registry import lookup

TESTBEDS = {
    "virtual": "testbed.virtual:BACKEND",
}


class Backend(Protocol):
    """A testbed."""

    def probe(self) -> list[tuple[str, bool, str]]:
        """What this machine has of what the testbed needs: (what, found, detail or fix)."""
        ...

    def deploy(self, topology: Any, schedule: Any, spec: Any, config: Any) -> Any:
        """Brokers of ``topology`` with the calibration of ``spec``, ready to be offered ``schedule``."""
        ...

    def limit(self, system: Any, config: Any, topology: Any, requests: Any, duration_ns: int, seed: int) -> Any:
        """Offer ``requests`` to the nodes of a limiter; returns columns of ``requests()`` and ``samples()``."""
        ...


def load_testbed(name: str) -> Backend:
    """The testbed called ``name``; SpecError for an unknown one."""
    backend: Backend = lookup("testbed", TESTBEDS, name)
    return backend
