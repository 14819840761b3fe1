"""What the benchmark of messages counts."""

import os
import subprocess
import sys
from unittest.mock import MagicMock

from analysis import exact, spark
from benchmarks import messages

BUSY_S = 1


def test_what_a_cluster_took_to_start_is_no_part_of_the_work(monkeypatch, tmp_path):
    answer, totals = MagicMock(), {"count(1)": 6, "sum(p99)": 1.0}
    answer.agg.return_value.first.return_value = totals
    monkeypatch.setattr(spark, "session", MagicMock())
    monkeypatch.setattr(exact, "exact_percentiles", lambda *words: answer)
    (tmp_path / "java").symlink_to(os.path.realpath(sys.executable))
    code = f"import time\nwhile time.process_time() < {BUSY_S}: pass\nprint(flush=True)\ntime.sleep(60)"
    with subprocess.Popen([tmp_path / "java", "-c", code], stdout=subprocess.PIPE) as java:
        try:
            assert java.stdout.readline() == b"\n"
            measured = messages._by_spark(tmp_path, "spark://nowhere:1", {})
        finally:
            java.kill()
    assert measured["groups"] == 6 and measured["java_mib"] > 1, "it was seen"
    assert measured["cpu_s"] < messages._own_s() + BUSY_S / 2
