"""A testbed that is not the virtual one and whose answers differ: slower brokers, and clocks that are off.

Real enough to be compared with: it runs everything, in virtual time.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from studies.api import Study
from studies.distribution.asked import Searching
from studies.limiting.asked import Limiting
from testbed.brokers.model import calibration_path
from testbed.trust.evidence import Fidelity, RunEvidence
from testbed.virtual import VirtualTime

ELSEWHERE = VirtualTime("elsewhere")
PUMP_NS, SKEW_NS = 200_000, 3_000_000_000


def stand(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Put it up: what it is asked for is carried out otherwise."""
    slower = folder / "slower.toml"
    slower.write_text(
        calibration_path("srtm-paper").read_text().replace("pump_ns = 5_500", f"pump_ns = {5_500 + PUMP_NS}")
    )
    carry_out = Study.carry_out

    def otherwise(self, testbed, asked):
        if testbed is ELSEWHERE and isinstance(asked, Searching):
            asked = replace(asked, calibration=str(slower))
        if testbed is ELSEWHERE and isinstance(asked, Limiting):
            asked = replace(asked, clock_skew_ns=SKEW_NS)
        return carry_out(self, testbed, asked)

    monkeypatch.setattr(Study, "carry_out", otherwise)


def doubtful(journal, *reasons, validity="degraded"):
    """The journal of a run that found itself degraded, or invalid."""
    return replace(journal, evidence=RunEvidence(Fidelity(validity, reasons, {"lateness_p99_ns": 5e6})))
