"""What all tests share: the fast ones run first; in CI, Hypothesis draws the same examples every time."""

import gc
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from core.garbage import collect_rarely
from tests.pulsar_cluster import started

settings.register_profile(
    "ratebed", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)  # nothing that depends on how long this process stands still
settings.load_profile("ratebed")
for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "RATEBED_TRACEBACK"):  # what a person likes to see is not tested
    os.environ.pop(name, None)
collect_rarely()  # as the command line and its workers do: looking took a fifth of the time


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the slow tests last, each group in its own order, so that a typo shows within seconds.

    All tests of a file that ``needs`` something of the machine are live: none of them runs beside one that computes.
    Workers who take whole files begin with those that have the most slow tests, lest one be left alone with them.
    """
    for item in items:
        if hasattr(getattr(item, "module", None), "needs"):
            item.add_marker(pytest.mark.live)
    items.sort(key=_is_slow)
    if hasattr(config, "workerinput"):
        slow = Counter(item.path for item in items if _is_slow(item))
        items.sort(key=lambda item: -slow[item.path])


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


def pytest_collection_finish() -> None:
    """What importing all tests has made stays to the end: nobody looks there for garbage."""
    gc.freeze()


@pytest.fixture
def spark() -> Any:
    """The Spark session of this process; where a test's command has stopped it, another."""
    from analysis.spark import session

    return session()


@pytest.fixture(scope="session")
def pulsar_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """See ``tests.pulsar_cluster``."""
    with started(tmp_path_factory.mktemp("pulsar")) as cluster:
        yield cluster


@pytest.fixture
def java_home(tmp_path: Path) -> Callable[..., Path]:
    """Makes a Java home, whose program says that it is of this version, and does ``body``."""

    def build(name: str, version: str | int, body: str = "") -> Path:
        java = tmp_path / name / "bin" / "java"
        java.parent.mkdir(parents=True)
        said = f'echo "    java.specification.version = {version}" >&2'
        java.write_text(f"#!/bin/sh\ncase $1 in -XshowSettings*) {said};; *) {body or 'exit 0'};; esac\n")
        java.chmod(0o755)
        return tmp_path / name

    return build
