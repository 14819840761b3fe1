"""The broker model of virtual time: costs, calibration files, state.

End-to-end latency = network in + ingress + token bucket + topic pump + network out.

* Ingress (NSQ's ``IOLoop`` goroutines): a publisher's wake-up costs ``wakeup_ns`` once and
  ``message_ns`` for each of its messages, on the first of ``cores`` that is free, first come first
  served.  A batch of 10 wakes the broker once; that is why bursts of one publisher are cheap
  (SRTM VI-C, footnote 11).
* Token bucket: conformance is decided at the kernel's receive time (``read_time_stamps = false``,
  SRTM V-B) or when the process has read the message.
* Topic pump (``Topic`` and ``MsgPump`` goroutines): one server, ``pump_ns`` a message, in order.

The defaults are *fitted* to the paper: see ``testbed/calibrations/srtm-paper.toml``.
"""

import tomllib
from dataclasses import dataclass

import numpy as np

from collectors.histogram import BUCKET_COUNT
from core.errors import SpecError
from core.records import Envelope, Int64
from core.units import duration_ns
from systems.parts import token_bucket
from testbed import calibration_path


@dataclass(frozen=True)
class BrokerModel:
    """Costs of one broker, integer nanoseconds."""

    name: str
    network_ns: int  # one way, publisher to broker and broker to subscriber alike
    wakeup_ns: int  # alpha
    message_ns: int  # beta
    pump_ns: int  # gamma
    cores: int
    mcap_rps: float  # maximum message rate under the SLO, as benchmarked
    read_time_stamps: bool
    fitted_on: tuple[str, ...]  # ids of the claims that the numbers were fitted to
    provenance: str
    slo: str = ""  # 99th percentile of end-to-end latency that goes with these costs; empty: the spec must say

    def costs(self) -> Int64:
        """The kernel's view: int64 (network, wakeup, message, pump, read_time_stamps)."""
        return np.array(
            [self.network_ns, self.wakeup_ns, self.message_ns, self.pump_ns, self.read_time_stamps], np.int64
        )


def load_calibration(name: str) -> BrokerModel:
    """Read a calibration file; SpecError names the file and the field that is missing or wrong."""
    path = calibration_path(name)
    try:
        raw = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path}: {error}", "mend the TOML") from None
    model = {**raw.get("broker", {}), **raw.get("origin", {}), "name": path.stem}
    model["fitted_on"] = tuple(model.get("fitted_on", ()))
    fields = BrokerModel.__dataclass_fields__
    for key in fields.keys() - model.keys() - {"slo"}:
        raise SpecError(f"{path}: field {key!r} is missing", "see testbed/calibrations/srtm-paper.toml")
    for key in model.keys() - fields.keys():
        raise SpecError(f"{path}: unknown field {key!r}", f"known: {', '.join(fields)}")
    for key in ("network_ns", "wakeup_ns", "message_ns", "pump_ns", "cores", "mcap_rps"):
        lowest = 1 if key in ("cores", "mcap_rps") else 0
        if not isinstance(model[key], int | float) or model[key] < lowest:
            raise SpecError(f"{path}: {key} = {model[key]!r}", f"give a number of at least {lowest}")
    return BrokerModel(**model)


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


class FleetState:
    """Everything that the kernel carries from one call to the next, for all brokers of one topic.

    int64 arrays of one entry a broker (``free_at_ns``: one a broker and core).  Counts are kept in
    histograms, shape (brokers, BUCKET_COUNT).
    """

    def __init__(self, brokers: int, cores: int):
        self.free_at_ns = np.zeros((brokers, cores), np.int64)
        self.pump_free_at_ns = np.zeros(brokers, np.int64)
        self.level = np.zeros(brokers, np.int64)
        self.level_at_ns = np.zeros(brokers, np.int64)
        self.rate = np.ones(brokers, np.int64)
        self.capacity = np.full(brokers, token_bucket.TOKEN, np.int64)
        self.quantum = np.ones(brokers, np.int64)  # debts are repaid in multiples of it; 1 = to the unit
        self.dropped_count = np.zeros(brokers, np.int64)  # of the messages counted in the histograms
        self.lowest_level = np.zeros(brokers, np.int64)  # since the last report, relative to the capacity
        self.lowest_balance = np.zeros(brokers, np.int64)  # since the last report; negative = messages wait
        self.message_count = np.zeros(brokers, np.int64)  # since the last report
        self.latency = np.zeros((brokers, BUCKET_COUNT), np.int64)
        self.access_delay = np.zeros((brokers, BUCKET_COUNT), np.int64)

    def set_bucket(self, broker: int, envelope: Envelope, at_ns: int, full: bool) -> None:
        """A new sub-bucket: full, or with the tokens it has, cut to its new size."""
        rate, capacity = token_bucket.units(envelope)
        if full:
            level = capacity
        else:
            elapsed_ns = max(0, at_ns - int(self.level_at_ns[broker]))
            level = token_bucket.refill(
                int(self.level[broker]), elapsed_ns, int(self.rate[broker]), int(self.capacity[broker])
            )
        # The last message may be stamped later than now: it is on its way to the broker.
        filled_at_ns = at_ns if full else max(at_ns, int(self.level_at_ns[broker]))
        self.level[broker], self.level_at_ns[broker] = min(level, capacity), filled_at_ns
        self.rate[broker], self.capacity[broker] = rate, capacity

    def clear_histograms(self) -> None:
        """Forget the counts: a new round begins."""
        self.latency[:] = self.access_delay[:] = 0
        self.dropped_count[:] = 0
