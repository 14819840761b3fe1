"""Real processes that are stopped are told, by looks from outside and by probes."""

import os
import signal
import subprocess
import time

from collectors import procfs
from collectors.probes import STOPPED, Probes
from collectors.stops import Look, looks_at
from tests.live import needs


@needs("linux")
def test_a_stop_is_seen_from_outside_and_a_short_one_by_the_mark_that_it_leaves() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            assert looks_at([("it", child.pid)]) == [Look("it", child.pid, False, False)]
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            assert looks_at([("it", child.pid)]) == [Look("it", child.pid, True, False)]
            child.send_signal(signal.SIGCONT)
            assert looks_at([("it", child.pid)]) == [Look("it", child.pid, False, True)]
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            child.send_signal(signal.SIGCONT)
            assert [looks_at([("it", child.pid)])[0].went_on for _ in range(2)] == [True, False]
        finally:
            child.kill()
    assert looks_at([("it", child.pid)]) == [Look("it", child.pid, False, False)]  # it has ended
    assert not procfs.is_stopped(os.getpid()) and looks_at([("us", os.getpid())])[0].went_on is False


@needs("linux")
def test_probes_name_who_stood_still() -> None:
    children = {name: subprocess.Popen(["sleep", "60"]) for name in ("calm", "frozen")}
    try:
        with Probes(lambda: [(name, child.pid) for name, child in children.items()]) as probes:
            children["frozen"].send_signal(signal.SIGSTOP)
            time.sleep(0.6)
            children["frozen"].send_signal(signal.SIGCONT)
        rows = [(node, value) for _, node, metric, value in probes.samples(0) if metric == STOPPED]
        assert [node for node, _ in rows] == ["frozen"] and rows[0][1] > 0.2e9
    finally:
        for child in children.values():
            child.kill()
            child.wait()
