"""A container whose daemon does not answer, or refuses: it goes, or stays on record; another run's stays."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from docker.errors import APIError, NotFound
from requests.exceptions import ReadTimeout

from core.errors import MachineError
from testbed.hosts.docker.container import RUN_LABEL, Container
from testbed.hosts.docker.daemon import Daemon
from testbed.hosts.docker.wishes import Wish
from testbed.hosts.state import RunState, read_state

LATE, REFUSED = ReadTimeout("too late"), APIError("no", explanation="it is refused")


class _Containers:
    """Of a daemon that raises ``error`` when it is asked for one, which it makes all the same, or does not."""

    def __init__(self, error: Exception, makes: bool):
        self.error, self.makes = error, makes
        self.there: dict[str, str] = {}  # name -> token
        self.is_dead = False

    def create(self, image: str, command: list[str] | None, name: str, labels: dict[str, str], **_: Any) -> None:
        if self.makes:
            self.there[name] = labels[RUN_LABEL]
        raise self.error

    def get(self, name: str) -> SimpleNamespace:
        if self.is_dead:
            raise LATE
        if name not in self.there:
            raise NotFound("no such container")
        return SimpleNamespace(
            labels={RUN_LABEL: self.there[name]}, remove=lambda force, v: self.there.pop(name) if force and v else None
        )


@contextmanager
def failing(containers: _Containers, state: RunState, text: str) -> Iterator[None]:
    """A container that cannot be made."""
    daemon = SimpleNamespace(url="unix:///nowhere", is_private=False, client=SimpleNamespace(containers=containers))
    image = cast("Any", SimpleNamespace(id="sha256:0", labels={}))
    with pytest.raises(MachineError, match=f"no container for host n1: {text}"):
        Container(cast("Daemon", daemon), "n1", Wish(), image, state, [])
    yield
    state.close()


@pytest.fixture
def state(tmp_path: Path) -> RunState:
    return RunState(tmp_path)


def on_record(state: RunState) -> list[str]:
    return [thing["kind"] for thing in read_state(state.path).things.values()]


def test_one_that_was_made_unsaid_is_removed_by_its_name(state: RunState) -> None:
    containers = _Containers(LATE, makes=True)
    with failing(containers, state, "too late"):
        assert containers.there == {} and on_record(state) == []
    assert not state.path.exists()


def test_one_that_may_come_later_stays_on_record(state: RunState) -> None:
    containers = _Containers(LATE, makes=False)
    with failing(containers, state, "too late"):
        assert on_record(state) == ["container"]
    assert state.path.exists()


def test_one_whose_daemon_is_lost_stays_on_record(state: RunState) -> None:
    containers = _Containers(LATE, makes=True)
    containers.is_dead = True
    with failing(containers, state, "too late"):
        assert on_record(state) == ["container"]


def test_one_that_was_refused_is_not_on_record(state: RunState) -> None:
    with failing(_Containers(REFUSED, makes=False), state, "it is refused"):
        assert on_record(state) == []


def test_another_runs_of_the_same_name_stays(state: RunState) -> None:
    containers = _Containers(REFUSED, makes=False)
    theirs = {f"ratebed-{state.tag}-n1": "another token"}
    containers.there = dict(theirs)
    with failing(containers, state, "it is refused"):
        assert containers.there == theirs and on_record(state) == []
