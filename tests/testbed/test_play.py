"""The timeline of a live run.  No process is started."""

from functools import partial

from core.units import MILLISECOND_NS, SECOND_NS
from testbed.play import Play

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
