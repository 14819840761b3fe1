"""How long runs take: for the order of a campaign, and for ``ratebed plan``."""

from collections.abc import Iterable

from harness.experiment import RunSpec
from studies import load_study
from testbed import load_testbed

MEGABYTES_PER_WORKER = 400
KILOBYTES_PER_RUN = 40
SECONDS_PER_RUN = 0.15  # set-up and files
SECONDS_PER_LIVE_RUN = 8.0  # hosts, processes, paths measured before the load, drain, tear-down


def expected_seconds(spec: RunSpec) -> float:
    """Seconds of one core; where the testbed works in real time, of the clock."""
    real_time = load_testbed(spec.testbed).real_time
    beside = SECONDS_PER_LIVE_RUN if real_time else SECONDS_PER_RUN
    return beside + load_study(spec.study).expected_seconds(spec, real_time)


def campaign_seconds(specs: Iterable[RunSpec], jobs: int) -> float:
    """Seconds of the clock for all of them: runs in real time are alone, the others ``jobs`` at a time."""
    seconds = {True: 0.0, False: 0.0}  # in real time, or not
    for spec in specs:
        seconds[load_testbed(spec.testbed).real_time] += expected_seconds(spec)
    return seconds[True] + seconds[False] / jobs
