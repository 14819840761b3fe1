"""``RunSpec``: everything that decides a run's result, and nothing else.

Two figures that ask for the same point share its run.
"""

import msgspec

from core.reading import reading
from core.records import Json

SLO = "1ms"  # 99th percentile of end-to-end latency (SRTM VI, footnote 10)
CALIBRATED = "calibrated"  # as the SLO of a spec: the one that the calibration gives
ROUND = "60s"  # SRTM VI-E

AXES = ("system", "workload", "topology", "testbed", "calibration", "study", "slo", "round")  # what a grid may vary
CONFIGURED = ("system", "workload", "topology", "testbed", "study")  # those with options of their own: system_options


class RunSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One point of a grid, with one seed.  Spans are written as text, ``"60s"``."""

    system: str
    workload: str
    system_options: Json = {}
    workload_options: Json = {}
    topology: str = "srtm-lan"
    topology_options: Json = {}
    testbed: str = "virtual"
    testbed_options: Json = {}  # where its hosts are
    calibration: str = "srtm-paper"
    study: str = "distribution"  # what is asked of the testbed: see studies/
    study_options: Json = {}
    slo: str = SLO
    round: str = ROUND
    seed: int = 1
    repetition: int = 0
    keep: tuple[str, ...] = ()  # optional tables to keep: "messages"
    inputs: tuple[str, ...] = ()  # files that the run reads and no option names: see ``studies.inputs``

    def to_json(self) -> bytes:
        """Canonical bytes: sorted keys.  SpecError for text that is no UTF-8, which no manifest could hold."""
        with reading(f"the options of {self.system!r} on {self.workload!r}", "write them in UTF-8, and flat"):
            return msgspec.json.encode(self, order="sorted")

    def factors(self) -> dict[str, str]:
        """Every option as text, prefixed with its axis: ``workload.publishers`` -> ``4000``."""
        return {
            f"{axis}.{name}": value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for axis in CONFIGURED
            for name, value in sorted(getattr(self, f"{axis}_options").items())
        }
