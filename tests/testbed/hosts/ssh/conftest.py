"""The machines that the tests of the testbed ``ssh`` share."""

from collections.abc import Iterator

import pytest

from tests.testbed.hosts.ssh.lab import Lab, lab


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two of them."""
    with lab(tmp_path_factory.mktemp("lab"), 2) as made:
        yield made
