"""service-log: the requests of a service's own log, in any format that finds itself (``workloads.service_log``).

As ``request-log``, but lines may be out of order, and a log that says which node was asked can have its requests
where they came.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from core.digests import digest_of
from core.reading import reading
from core.records import Int32, Request
from core.units import SECOND_NS
from workloads.api import Offer, Workload
from workloads.log_reader import LogRows
from workloads.placement import RULES, PlacedRequests, at_nodes, before
from workloads.request_log import LogOptions, part_of
from workloads.service_log import NODE, ROLES, TIME, USER, LogQuery, ServiceLog, read_service_log
from workloads.text_columns import column_map

AS_LOGGED = "node"  # a placement: in turn, as the log names them


@dataclass(frozen=True)
class ServiceRequestsConfig(LogOptions):
    """Options of a service's log; all of them are ours.  Raises SpecError when made."""

    PLACEMENTS = (*RULES, AS_LOGGED)

    columns: dict[str, str | int] | str = field(default_factory=dict)  # time=NAME,user=NAME,node=NAME; else the usual
    pattern: str = ""  # a regular expression: its first group in the user's column is the user

    def __post_init__(self) -> None:
        super().__post_init__()
        column_map(self.columns, ROLES)

    def query(self) -> LogQuery:
        """What is read of the file: no verdicts, for whoever wrote them is not asked."""
        given = {role: str(name) for role, name in column_map(self.columns, ROLES).items()}
        roles = (TIME, USER, NODE) if self.placement == AS_LOGGED else (TIME, USER)
        columns = {role: name for role, name in given.items() if role in roles}
        return LogQuery(columns, self.pattern, verdicts=False, skip_bad=self.skip_bad)


class ServiceRequests(PlacedRequests):
    """The requests of a service's log; of ``skipped`` and ``was_spread`` see ``RequestLog``; ``log``: all of it."""

    def __init__(self, config: ServiceRequestsConfig, seed: int):
        self.log = log = whole_log(config)
        rows = LogRows(log.at_ns, log.user, None, log.users, dict(log.skipped))
        self.skipped = rows.skipped
        whole_seconds = np.bincount(log.node, log.at_ns % SECOND_NS) == 0  # of each node
        is_spread = whole_seconds[log.node] & config.spread
        self.was_spread = bool(is_spread.any())
        part = part_of(rows, config, is_spread, seed)
        self._node = log.node[part.rows]
        self._is_as_logged = config.placement == AS_LOGGED
        cost = np.ones(len(part.at_ns), np.int32)
        rule = RULES[0] if self._is_as_logged else config.placement
        super().__init__(part.columns(rows, cost), part.span_ns, rule, seed)

    def requests(self, nodes: Sequence[str], duration_ns: int) -> dict[str, list[Request]]:
        """See ``PlacedRequests.requests``; as logged, nodes stand for the log's in turn, in the order of the file."""
        if not self._is_as_logged:
            return super().requests(nodes, duration_ns)
        columns = before(self.columns(), duration_ns)
        places: Int32 = self._node[: len(columns.at_ns)] % len(nodes)
        return at_nodes(nodes, columns, places.astype(np.int32))


def whole_log(config: ServiceRequestsConfig) -> ServiceLog:
    """All requests of the file; it is read once by a process for all runs on it."""
    with reading(config.path, "give a readable log file"), open(config.path, "rb") as file:
        digest = digest_of(file.read())
    query = config.query()
    return _read(config.path, digest, tuple(sorted(query.columns.items())), query.pattern, query.skip_bad)


@lru_cache(maxsize=2)
def _read(path: str, digest: str, columns: tuple[tuple[str, str], ...], pattern: str, skip_bad: bool) -> ServiceLog:
    """``digest`` of the content, so that an edited file is read anew."""
    return read_service_log([path], LogQuery(dict(columns), pattern, verdicts=False, skip_bad=skip_bad))


WORKLOAD = Workload(
    "service-log",
    "the requests of a service's own log, in whatever format",
    ServiceRequestsConfig,
    ServiceRequests,
    Offer.REQUESTS,
)
