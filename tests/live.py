"""Live tests run for real where the machine can, and are skipped with a printed reason where it cannot.

``@needs("root", "mininet")`` above a test, or ``pytestmark = needs("go")`` for a whole file; the names are those
of ``testbed.hosts.capabilities``, the same that ``ratebed doctor`` lists.

``RATEBED_NEEDS="nginx hdfs"`` in the environment: what must be here.  Where it is not, tests that need it fail.
"""

import os

import pytest

from core.errors import MachineError
from testbed.hosts.capabilities import CAPABILITIES, capability, find_capability, fix_of
from testbed.servers import SERVERS

_OTHERS = ("browser", "hdfs", "s3")  # tests/browser.py, tests/collectors/: each has a ``needs_…`` of its own


def demanded() -> set[str]:
    """What must be here; MachineError where that is something that nobody knows."""
    names = set(os.environ.get("RATEBED_NEEDS", "").split())
    if unknown := sorted(names - {*CAPABILITIES, *SERVERS, *_OTHERS}):
        fix = f"there are CAPABILITIES (testbed/hosts), SERVERS (testbed/servers), {', '.join(_OTHERS)}"
        raise MachineError(f"RATEBED_NEEDS names what nobody knows: {', '.join(unknown)}", fix)
    return names


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip where this machine lacks one of the named capabilities, saying which and how to get it.

    MachineError, so that the file cannot be collected, where that is one which must be here.
    """
    missing = [name for name in names if find_capability(name) is None]
    reason = "; ".join(f"this machine has no {capability(name).what} ({fix_of(name)})" for name in missing)
    if not demanded().isdisjoint(missing):
        raise MachineError(f"tests of {', '.join(missing)} must not be skipped here", reason)
    return pytest.mark.skipif(bool(missing), reason=reason)
