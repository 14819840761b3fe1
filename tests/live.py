"""Live tests run for real where the machine can, and are skipped with a printed reason where it cannot.

``@needs("root", "mininet")`` above a test, or ``pytestmark = needs("go")`` for a whole file; the names are those
of ``testbed.hosts.capabilities``, the same that ``ratebed doctor`` lists.

``RATEBED_NEEDS="nginx ratelimit"`` in the environment: what must be here.  Where it is not, tests that need it fail.
"""

import os

import pytest

from core.errors import MachineError
from testbed.hosts.capabilities import capability, find_capability, fix_of


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip where this machine lacks one of the named capabilities, saying which and how to get it.

    MachineError, so that the file cannot be collected, where that is one which must be here.
    """
    missing = [name for name in names if find_capability(name) is None]
    reason = "; ".join(f"this machine has no {capability(name).what} ({fix_of(name)})" for name in missing)
    if not set(os.environ.get("RATEBED_NEEDS", "").split()).isdisjoint(missing):
        raise MachineError(f"tests of {', '.join(missing)} must not be skipped here", reason)
    return pytest.mark.skipif(bool(missing), reason=reason)
