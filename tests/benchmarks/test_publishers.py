"""What the benchmark of publishers says of rows that it cannot measure."""

import numpy as np

from benchmarks import publishers
from testbed.hosts import capabilities


def test_a_priority_that_the_machine_refuses_has_no_row(monkeypatch, capsys):
    measured = []

    def measure(folder, block, ours, fifo_priority):
        measured.append((ours, fifo_priority))
        return publishers.Lateness(np.ones(2, np.int64), np.ones(2, np.int64), 0.5)

    monkeypatch.setattr(publishers, "measure", measure)
    monkeypatch.setattr(publishers, "schedule_block", lambda seconds: None)
    monkeypatch.setattr(publishers, "brokerd_path", lambda: None)
    monkeypatch.setattr(capabilities, "find_capability", lambda name: None)
    publishers.report()
    ours, refused, peer = capsys.readouterr().out.splitlines()[-3:]
    assert "p50" in ours and "p50" in peer and measured == [(True, 0), (False, 0)]
    assert refused.startswith("  ours, SCHED_FIFO 10") and "not measured: this machine has no SCHED_FIFO" in refused
