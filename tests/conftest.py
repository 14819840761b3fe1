"""What all tests share: the fast ones run first; in CI, Hypothesis draws the same examples every time."""

import os
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("ratebed", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("ratebed")


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the slow tests last, each group in its own order, so that a typo shows within seconds.

    All tests of a file that ``needs`` something of the machine are live: none of them runs beside one that computes.
    """
    for item in items:
        if hasattr(getattr(item, "module", None), "needs"):
            item.add_marker(pytest.mark.live)
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


@pytest.fixture
def spark() -> Any:
    """The Spark session of this process; where a test's command has stopped it, another."""
    from analysis.spark import session

    return session()
