"""load-curve: what servers are asked for, cycle by cycle (Siami & Skaf, "DST", Section 6).

The paper's "randomly generated usage curve" is not given, and over-throttling depends on how persistent
it is (D7).  Three kinds:

* ``iid``: the paper's own model (16)-(17), r_i(k + 1) = r_i(k) + v_i(k + 1) with independent v; begins at ``mean``.
* ``ar1``: r_i(k) = mean (1 + relative_sd z_i(k)), z_i a stationary AR(1) process of unit variance with
  coefficient ``phi``; the defaults are calibrated to the paper's published over-throttling.
* ``log``: the arrival rate of a real log, in as many bins of equal length as there are cycles.  Every
  server sees the whole log, round and round, each from an instant of its own, drawn by seed (``spread``
  ``offset``); or each request goes to a server drawn by seed (``hashed``).  Scaled to ``mean``.

Demands are real numbers, not below 0.  Server i's curve does not depend on how many servers there are,
except where one log is hashed over them.
"""

from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import isfinite

import numpy as np

from core.limits import ClientCount, Factor
from core.reading import reading
from core.records import Float64, Int64
from core.seeds import generator
from workloads.api import INPUT_FILE, Offer, Workload, require, workload_id
from workloads.log_reader import LogFormat, read_log
from workloads.text_columns import open_bytes

KINDS = ("iid", "ar1", "log")
SPREADS = ("offset", "hashed")
STAMP = "TIMESTAMP"  # the column of Azure's logs, ISO instants


@dataclass(frozen=True)
class LoadCurveConfig:
    """Options of a load curve.  Raises SpecError when made."""

    kind: str = "ar1"  # iid | ar1 | log
    mean: Factor = 1_000.0  # ours (D7): requests a cycle of a server; iid: at the start
    phi: float = 0.9935  # ours, ar1: calibrated with relative_sd to DST Table 4's over-throttling (D7)
    relative_sd: Factor = 0.58  # ours, ar1: standard deviation over mean
    step_sd: Factor = 20.0  # ours, iid: standard deviation of v; 2 % of the mean
    clients: ClientCount = 100  # DST Section 6: of each server
    client_spread: float = 1.0  # ours: sigma of the lognormal weights of clients; 0 = all alike
    path: str = field(default="", metadata=INPUT_FILE)  # log: the file, CSV or white space, gzip recognised
    column: str = ""  # log: of instants, by name or 0-based number; "" = TIMESTAMP, or that of a known log
    instant_unit: str = ""  # log: s | ms | us | ns | iso; "" = iso for TIMESTAMP, otherwise s
    spread: str = "offset"  # log: offset | hashed
    skip_bad: bool = False  # log: count lines that cannot be read instead of refusing them

    def __post_init__(self) -> None:
        require(self.kind in KINDS, "kind", self.kind, f"choose one of {', '.join(KINDS)}")
        require(self.spread in SPREADS, "spread", self.spread, f"choose one of {', '.join(SPREADS)}")
        require(self.mean > 0 and isfinite(self.mean), "mean", self.mean, "give a finite mean above 0")
        require(0 <= self.phi < 1, "phi", self.phi, "give 0 to below 1")
        for name in ("relative_sd", "step_sd", "client_spread"):
            value = getattr(self, name)
            require(value >= 0 and isfinite(value), name, value, "give a finite value of 0 or more")
        require(self.client_spread <= 20, "client_spread", self.client_spread, "give at most 20: e to that is much")
        require(self.clients >= 1, "clients", self.clients, "give 1 or more clients")
        require(self.kind != "log" or bool(self.path), "path", self.path, "give the log's file")


@dataclass(frozen=True)
class LoadCurve:
    """The demands of servers; each of them a pure function of config, seed and the server's number."""

    config: LoadCurveConfig
    seed: int

    @property
    def mean(self) -> float:
        """Requests a cycle of a server, on average (``iid``: at the start)."""
        return self.config.mean

    @property
    def skipped(self) -> dict[str, int]:
        """Lines of the log that could not be read, by reason."""
        return self._log[1] if self.config.kind == "log" else {}

    def demands(self, nodes_count: int, cycles: int) -> Float64:
        """Requests of each server in each cycle: float64 (cycles, nodes_count), not below 0."""
        assert nodes_count >= 1 and cycles >= 1
        if self.config.kind == "log" and self.config.spread == "hashed":
            return self._hashed(nodes_count, cycles)
        curve = {"iid": self._walk, "ar1": self._autoregressive, "log": self._offset}[self.config.kind]
        return np.stack([curve(server, cycles) for server in range(nodes_count)], axis=1)

    def client_demands(self, row: Float64) -> Float64:
        """The demands ``row`` of the servers in a cycle by client: (servers, clients), each row's sum is its demand.

        All clients draw a weight; they are then assigned to servers at random, ``clients`` to each.
        """
        count, each = len(row), self.config.clients
        rng = generator(self.seed, "clients")
        weights = rng.permutation(np.exp(self.config.client_spread * rng.standard_normal(count * each)))
        shares = weights.reshape(count, each)
        return np.asarray(row[:, None] * shares / shares.sum(axis=1, keepdims=True))

    def _walk(self, server: int, cycles: int) -> Float64:
        steps = self.config.step_sd * generator(self.seed, "load", server).standard_normal(cycles)
        steps[0] = 0.0
        return np.maximum(0.0, self.config.mean + np.cumsum(steps))

    def _autoregressive(self, server: int, cycles: int) -> Float64:
        """The stationary process from its first cycle on."""
        from scipy.signal import lfilter

        phi = self.config.phi
        noise = generator(self.seed, "load", server).standard_normal(cycles)
        noise[1:] *= (1.0 - phi * phi) ** 0.5
        z = lfilter([1.0], [1.0, -phi], noise)
        demand: Float64 = np.maximum(0.0, self.config.mean * (1.0 + self.config.relative_sd * z))
        return demand

    def _offset(self, server: int, cycles: int) -> Float64:
        start = int(generator(self.seed, "load", server).integers(cycles))
        return np.roll(self._scaled(self._bins(cycles)[0].astype(float)), -start)

    def _hashed(self, nodes_count: int, cycles: int) -> Float64:
        bins = self._bins(cycles)[1]
        places = generator(self.seed, "load", "hash").integers(nodes_count, size=len(bins))
        counts = np.zeros((cycles, nodes_count))
        np.add.at(counts, (bins, places), 1.0)
        return self._scaled(counts)

    def _scaled(self, counts: Float64) -> Float64:
        return np.asarray(counts * (self.config.mean / counts.mean()))

    def _bins(self, cycles: int) -> tuple[Int64, Int64]:
        """The log's requests in each of ``cycles`` bins, and the bin of each request."""
        at_ns = self._log[0]
        span = int(at_ns[-1] - at_ns[0]) + 1
        bins = np.minimum((at_ns - at_ns[0]) / span * cycles, cycles - 1).astype(np.int64)
        return np.bincount(bins, minlength=cycles).astype(np.int64), bins

    @cached_property
    def _log(self) -> tuple[Int64, dict[str, int]]:
        """The log's instants in ns, in order, and what was skipped; SpecError names a line that cannot be read."""
        config = self.config
        with reading(config.path, "give a readable log file"), open_bytes(config.path) as file:
            stamped = STAMP.encode() in file.readline(10_000)
        name = config.column or (STAMP if stamped else "")
        columns: dict[str, str | int] = {"user": "=all"}
        if name:
            columns["instant"] = int(name) if name.isdecimal() else name
        unit = config.instant_unit or ("iso" if name == STAMP else "s")
        rows = read_log(config.path, LogFormat(columns, unit), config.skip_bad)
        return rows.at_ns, rows.skipped


@dataclass(frozen=True)
class _Plain:
    """A config's values without a file."""

    values: dict[str, object]


class LoadCurveWorkload(Workload):
    """A workload whose file is only there for one of its kinds."""

    def id(self, config: object, seed: int) -> str:
        """``workload_id``; the log's content counts, not its path."""
        assert isinstance(config, LoadCurveConfig)
        if config.kind == "log":
            return workload_id(self.key, config, seed)
        return workload_id(self.key, _Plain({**asdict(config), "path": ""}), seed)


WORKLOAD = LoadCurveWorkload(
    "load-curve", "demands of servers, cycle by cycle: random or from a log", LoadCurveConfig, LoadCurve, Offer.DEMANDS
)
