"""How long clients were without a broker, from the log of Pulsar's own client: closed to connected (ePulsar, 5.7).

A client is numbered in the order in which those of its role were made, from 0; its broker's word that it is closed
names the number, the line of its new connection its topic.  A broker that dies says no word: then the client's own that
it will connect again counts.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from core.clients import Role
from core.units import SECOND_NS

_AT = r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+)"
_CLOSED = re.compile(rf"^{_AT} .*Broker notification of Closed (?P<role>producer|consumer): (?P<number>\d+)", re.M)
_NAMED = r"\[(?P<topic>[a-z-]+://[^,\] ]+)(?P<others>[^\]]*)\]"  # a consumer: by its subscription and number, too
_LOST = re.compile(rf"^{_AT} .*{_NAMED} Schedule reconnection", re.M)
_MADE = re.compile(rf"^{_AT} .*{_NAMED} Created (?P<role>producer|consumer) on", re.M)


class Downtime(NamedTuple):
    """A client was cut off.  Instants of CLOCK_REALTIME, of milliseconds; the end is ``None`` where it stayed so."""

    topic: str
    role: str
    begin_ns: int
    end_ns: int | None

    def span_ns(self, until_ns: int) -> int:
        """How long; of one that never came back at least until the end of what was watched."""
        return max(0, (until_ns if self.end_ns is None else self.end_ns) - self.begin_ns)


def downtimes(log: str, made: Mapping[str, Sequence[str]]) -> list[Downtime]:
    """In order of their beginnings.  ``made``: role -> its clients' topics, in the order in which these were made.

    One that is closed again before it was back is cut off since the first time; one that has never been connected has
    lost nothing.
    """
    lines: list[tuple[int, str, str, str]] = [
        (_ns(match["at"]), "closed", match["role"], made[match["role"]][int(match["number"])])
        for match in _CLOSED.finditer(log)
    ]
    for match in _LOST.finditer(log):
        of_whom = Role.CONSUMER if match["others"].count(",") > 1 else Role.PRODUCER
        lines.append((_ns(match["at"]), "lost", of_whom, match["topic"]))
    lines += [(_ns(match["at"]), "made", match["role"], match["topic"]) for match in _MADE.finditer(log)]
    connected, spans = set[tuple[str, str]](), list[Downtime]()
    since: dict[tuple[str, str], int] = {}
    for at_ns, what, role, topic in sorted(lines, key=lambda line: line[0]):
        client = role, topic
        if what == "made":
            connected.add(client)
            if client in since:
                spans.append(Downtime(topic, role, since.pop(client), at_ns))
        elif what == "closed" or client in connected:
            since.setdefault(client, at_ns)
    spans += [Downtime(topic, role, begin_ns, None) for (role, topic), begin_ns in since.items()]
    return sorted(spans, key=lambda span: span.begin_ns)


def _ns(text: str) -> int:
    """Local time, as the client writes it."""
    at = datetime.fromisoformat(text)
    return int(at.replace(microsecond=0).timestamp()) * SECOND_NS + at.microsecond * 1_000
