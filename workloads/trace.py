"""trace: the messages of a recorded file, replayed faster, in several copies, round and round.

Time in the trace is divided by ``speed`` (rounded down to a nanosecond).  The trace starts over
after its span and one mean gap, so a whole pass of n rows takes span x n / (n - 1) and the message
rate is replicas x rows / pass.  Each replica has an offset of its own, drawn uniformly over a pass
and named by the replica; its publishers form one correlation group.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from core.errors import SpecError
from core.limits import ROWS, ByteCount, Factor, RoundCount, check_product
from core.records import Block, Int32, Population
from core.seeds import child_seed
from core.units import SECOND_NS
from workloads.api import INPUT_FILE, Workload, require
from workloads.chunks import ChunkedSchedule, chunk_length_ns, ranges, sort_pairs
from workloads.text_columns import INSTANT_UNITS, column_map
from workloads.trace_reader import FORMATS, ROLES, TraceFormat, TraceRows, read_trace


@dataclass(frozen=True)
class TraceConfig:
    """Options of a replayed trace; all of them are ours.  Raises SpecError when made."""

    path: str = field(metadata=INPUT_FILE)  # the file; gzip is recognised
    format: str = "csv"  # csv | parquet | ulb-wsn (readings of the ULB library's motes, as published)
    # Column of each role, by header name or 0-based position; text "publisher=node,instant=0" works too.
    # Roles left out are looked for under their own names: publisher, instant, and if there, size, group.
    columns: dict[str, str | int] | str = field(default_factory=dict)
    instant_unit: str = "s"  # s | ms | us | ns | iso (2006-11-13T17:13:22.015Z); csv and parquet
    separator: str = ","  # csv: one character; " " = any white space
    decimal: str = "."  # csv: of instants; "," needs another separator
    header: bool = True  # csv: the first line names the columns
    replicas: RoundCount = 1  # independent copies, each at its own offset
    speed: Factor = 1.0  # time compression
    row_limit: int = 0  # only the first rows of the file; 0 = all
    size_bytes: ByteCount = 150  # where the trace gives no sizes; SRTM's artifact

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """SpecError that names the first impossible field."""
        require(bool(self.path), "path", self.path, "give the trace's file")
        require(self.format in FORMATS, "format", self.format, f"choose one of {', '.join(FORMATS)}")
        self.column_map()
        units = ", ".join(INSTANT_UNITS)
        require(self.instant_unit in INSTANT_UNITS, "instant_unit", self.instant_unit, f"choose one of {units}")
        bad = len(self.separator) != 1 or self.separator in '\r\n"0123456789'
        require(not bad, "separator", self.separator, "give one character; a blank means any white space")
        require(self.decimal in (".", ","), "decimal", self.decimal, "give . or ,")
        require(self.decimal != self.separator, "decimal", self.decimal, "give a separator other than the decimal mark")
        require(1 <= self.replicas <= 1_000_000, "replicas", self.replicas, "give 1 to 1,000,000 copies")
        require(0 < self.speed < math.inf, "speed", self.speed, "give a finite factor above 0")
        require(
            self.row_limit >= 0 and self.row_limit != 1, "row_limit", self.row_limit, "give 2 or more, or 0 for all"
        )
        require(0 <= self.size_bytes < 2**31, "size_bytes", self.size_bytes, "give 0 or more bytes")

    def column_map(self) -> dict[str, str | int]:
        """``columns`` as a map, whichever way it was written."""
        return column_map(self.columns, ROLES)

    def read(self) -> TraceRows:
        """The file's rows, in canonical order."""
        form = TraceFormat(self.column_map(), self.instant_unit, self.separator, self.decimal, self.header)
        return read_trace(self.path, self.format, form, self.row_limit)


class TraceSchedule(ChunkedSchedule):
    """The replayed trace.  ``pass_ns``: how long one copy takes to go round; ``names``: publishers in the file.

    Publisher ``replica x len(names) + i`` is the file's publisher ``names[i]`` in that replica.
    """

    def __init__(self, config: TraceConfig, seed: int):
        rows = config.read()
        check_product("workload trace", ROWS, replicas=config.replicas, publishers=len(rows.names))
        self.config, self.seed, self.names = config, seed, rows.names
        self.row_count = len(rows.at_ns)  # of one copy
        span_ns = int(rows.at_ns[-1] - rows.at_ns[0])
        if span_ns == 0:
            raise SpecError(f"{config.path}: all messages have one instant", "give a trace that takes some time")
        fits = 2 * span_ns / config.speed < 2**62
        require(fits, "speed", config.speed, "give a larger factor: instants have 64 bits")
        since_ns = np.floor((rows.at_ns - rows.at_ns[0]) / config.speed).astype(np.int64)
        mean_pass_ns = int(span_ns * self.row_count / (self.row_count - 1) / config.speed)
        self.pass_ns = max(mean_pass_ns, int(since_ns[-1]) + 1)
        # Instants that compression made equal must be in the order of publishers again.
        order = np.lexsort((rows.publisher, since_ns))
        self._since_ns, self._publisher = since_ns[order], rows.publisher[order]
        self._size_bytes = None if rows.size_bytes is None else rows.size_bytes[order]
        draws = [child_seed(seed, "trace", "offset", replica) for replica in range(config.replicas)]
        self._offset_ns = np.array([draw * self.pass_ns >> 64 for draw in draws], np.int64)
        population = self._describe(rows)
        longest_ns = 2**62 >> (config.replicas * self.row_count).bit_length()  # what sort_pairs can pack
        chunk_ns = min(chunk_length_ns(population.total_rps), self.pass_ns, longest_ns)
        super().__init__(population, chunk_ns)

    def _describe(self, rows: TraceRows) -> Population:
        """Rates are counts a pass.  Groups: the file's in each replica; if it has none, one a replica of several."""
        replicas, width = self.config.replicas, len(rows.names)
        rate_rps = np.bincount(rows.publisher, minlength=width) * (SECOND_NS / self.pass_ns)
        own: Int32 = np.arange(width, dtype=np.int32)
        if rows.group is not None:
            own = rows.group
        elif replicas > 1:
            own = np.zeros(width, np.int32)
        replica = np.repeat(np.arange(replicas, dtype=np.int32), width)
        return Population(np.tile(rate_rps, replicas), np.tile(own, replicas) + replica * (own.max() + np.int32(1)))

    def wraps(self, start_ns: int, end_ns: int) -> int:
        """How many times within [start, end) a copy of the trace starts over, summed over the replicas."""
        started = (end_ns - 1 - self._offset_ns) // self.pass_ns - (start_ns - 1 - self._offset_ns) // self.pass_ns
        return int(started.sum())

    def _chunk(self, index: int) -> Block:
        start_ns = index * self.chunk_ns
        turn_at_ns = (start_ns - self._offset_ns) // self.pass_ns * self.pass_ns + self._offset_ns
        # A chunk is no longer than a pass: it meets the pass under way and the next one.
        turn_at_ns = np.concatenate([turn_at_ns, turn_at_ns + self.pass_ns])
        low = np.searchsorted(self._since_ns, start_ns - turn_at_ns)
        high = np.searchsorted(self._since_ns, start_ns + self.chunk_ns - turn_at_ns)
        row, turn = ranges(low, high)
        replica = turn % self.config.replicas
        # Rows are numbered by replica and place in the trace, which is the order of publishers at one instant.
        at_ns, key = sort_pairs(
            self._since_ns[row] + turn_at_ns[turn],
            replica * self.row_count + row,
            self.config.replicas * self.row_count,
            start_ns,
        )
        replica, row = np.divmod(key, self.row_count)
        publisher = (replica * len(self.names) + self._publisher[row]).astype(np.int32)
        size: int | Int32 = self.config.size_bytes if self._size_bytes is None else self._size_bytes[row]
        return Block(at_ns, publisher, np.ones(len(at_ns), np.int32), size)


WORKLOAD = Workload(
    key="trace",
    summary="a recorded trace file (CSV, Parquet, ULB sensor logs), replicated and sped up",
    config=TraceConfig,
    make=TraceSchedule,
)
