"""The broker model: costs, and the calibration files that say them.

End-to-end latency = network in + ingress + token bucket + topic pump + network out.

* Ingress (NSQ's ``IOLoop`` goroutines): a publisher's wake-up costs ``wakeup_ns`` once and
  ``message_ns`` for each of its messages, on the first of ``cores`` that is free, first come first
  served.  A batch of 10 wakes the broker once; that is why bursts of one publisher are cheap
  (SRTM VI-C, footnote 11).
* Token bucket: conformance is decided at the kernel's receive time (``read_time_stamps = false``,
  SRTM V-B) or when the process has read the message.
* Topic pump (``Topic`` and ``MsgPump`` goroutines): ``pump_ns`` a message, in order.  By default a server of its own,
  which takes nothing from the cores; with ``pump_takes_core`` each message is a job of the cores as wake-ups are.

The defaults are *fitted* to the paper: see ``testbed/calibrations/srtm-paper.toml``.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta

from core.errors import SpecError
from core.reading import reading, toml_content, toml_of
from core.records import Int64
from core.registry import configure
from core.units import duration_ns

CostNs = Annotated[int, Meta(ge=0, le=10**12, description="give nanoseconds, at most a thousand seconds")]
CoreCount = Annotated[int, Meta(ge=1, le=1_000, description="give 1 to 1,000")]
Capacity = Annotated[float, Meta(ge=1, le=1e12, description="give 1 or more messages a second")]


@dataclass(frozen=True)
class BrokerModel:
    """Costs of one broker, integer nanoseconds."""

    name: str
    network_ns: CostNs  # one way, publisher to broker and broker to subscriber alike
    wakeup_ns: CostNs  # alpha
    message_ns: CostNs  # beta
    pump_ns: CostNs  # gamma
    cores: CoreCount
    mcap_rps: Capacity  # maximum message rate under the SLO, as benchmarked
    read_time_stamps: bool
    fitted_on: tuple[str, ...]  # ids of the claims that the numbers were fitted to
    provenance: str
    pump_takes_core: bool = False  # the topics' pumps run on the cores
    slo: str = ""  # 99th percentile of end-to-end latency that goes with these costs; empty: the spec must say

    def costs(self) -> Int64:
        """The kernel's view: int64 (network, wakeup, message, pump, read_time_stamps)."""
        return np.array(
            [self.network_ns, self.wakeup_ns, self.message_ns, self.pump_ns, self.read_time_stamps], np.int64
        )


CALIBRATIONS = Path(__file__).parents[1] / "calibrations"


def calibration_path(name: str) -> Path:
    """The file of a calibration: one that ships with the project, by name, or any path ending in .toml."""
    path = Path(name) if name.endswith(".toml") else CALIBRATIONS / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in CALIBRATIONS.glob("*.toml")))
        raise SpecError(f"no calibration {name!r}", f"use one of {known}, or the path of a .toml file")
    return path


def load_calibration(name: str) -> BrokerModel:
    """Read a calibration file; SpecError names the file and the field that is missing or wrong."""
    path = calibration_path(name)
    return _model(path, toml_content(path))


@lru_cache(maxsize=8)  # a search with many topics asks for each of them
def _model(path: Path, content: bytes) -> BrokerModel:
    raw = toml_of(content, str(path))
    with reading(str(path), "write [broker] and [origin] as testbed/calibrations/srtm-paper.toml has them"):
        fields = {**raw.get("broker", {}), **raw.get("origin", {}), "name": path.stem}
    model: BrokerModel = configure(f"calibration {path}", BrokerModel, fields)
    with reading(f"{path}, slo"):
        duration_ns(model.slo or 0)
    return model


def slo_ns(slo: str, calibration: str) -> int:
    """The SLO of a spec: a span as text, or "calibrated" for the calibration's own.

    SpecError where it is no span above zero, or the calibration has none.
    """
    if slo == "calibrated":
        slo = load_calibration(calibration).slo
        if not slo:
            raise SpecError(f"calibration {calibration!r} has no SLO", "give slo in [broker], or choose small")
    try:
        span_ns = duration_ns(slo)
    except ValueError as error:
        raise SpecError(f"slo: {error}") from None
    if span_ns <= 0:
        raise SpecError(f"slo = {slo!r}", "give a length above zero")
    return span_ns
