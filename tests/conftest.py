"""What all tests share: the fast ones run first; in CI, Hypothesis draws the same examples every time."""

import os

import pytest
from hypothesis import settings

settings.register_profile("ratebed", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("ratebed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the slow tests last, each group in its own order, so that a typo shows within seconds."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)
