"""The timeline of a live run.  No process is started."""

from functools import partial

import pytest

from core.units import MILLISECOND_NS, SECOND_NS
from testbed.play import Play, Progress

MS = MILLISECOND_NS


def test_what_was_due_while_the_machine_stood_still_happens_late_and_in_order() -> None:
    done: list[str] = []
    play = Play()
    for at_ns, name in ((2 * MS, "heal"), (MS, "partition"), (2 * MS, "crash"), (10 * MS, "later")):
        play.plan(at_ns, partial(done.append, name))
    play.begin(lead_ns=-SECOND_NS)  # the epoch is past, and so is the end of the load
    play.until(10 * MS)
    assert done == ["partition", "heal", "crash"] and not play.is_over, "what is due at the end belongs to what follows"
    play.until(11 * MS)
    assert done[-1] == "later" and play.is_over


def test_a_drain_that_stood_still_does_not_take_that_for_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the others, who stood still as well, deliver right afterwards is waited for."""
    now = iter([0, 0, 100 * MS, 5000 * MS, 5100 * MS, 5200 * MS])
    came = iter([7, 7, 7, 7, 10])
    play = Play()
    monkeypatch.setattr(play, "now_ns", partial(next, now))
    monkeypatch.setattr(play, "until", lambda at_ns: None)

    def progress() -> Progress:
        count = next(came)
        return Progress(count, count == 10, patience_ns=2 * SECOND_NS)

    assert play.drain(progress, lambda: 60 * SECOND_NS)


def test_a_drain_gives_up_what_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    play = Play()
    monkeypatch.setattr(play, "now_ns", lambda: now[0])
    monkeypatch.setattr(play, "until", lambda at_ns: now.__setitem__(0, at_ns))
    assert not play.drain(lambda: Progress(7, False, patience_ns=2 * SECOND_NS), lambda: 60 * SECOND_NS)
    assert 2 * SECOND_NS < now[0] < 3 * SECOND_NS
