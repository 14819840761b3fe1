"""The numbers that the thesis prints, each where it stands, and what they may mean.

All that figures and claims compare themselves with comes from here, and the set-up that they take over; a test finds
every number in our digest of the thesis, at the same claim, and every page in the thesis' own lists.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from paper_figs.crdt.variants import COUNTER, FL, F, L

# Where numbers stand -> page: that of a figure or table, or on which the section begins (our copy marks no others).
PAGES = {
    "Fig. 4.2": 19, "Table 4.1": 34, "Table 4.2": 34, "4.3.4": 35, "Table 4.3": 37, "5.1.1": 39, "5.1.3": 40,
    "5.2.1": 43, "5.2.2": 44, "5.2.3": 46, "5.2.4": 47, "5.3": 49, "5.4": 50, "5.5": 53,
}  # fmt: skip

# The set-up.
NODES = 30  # Table 4.1
ROUND_MS = 300  # between a node's rounds of gossip: Table 4.1
FILL_S = 1_000  # from empty to full: 0.001 c tokens a second, Table 4.1
THRESHOLD_MS = 2_400  # of frequency analysis: Table 4.2
C_USERS = 5_000  # 4.3.4
D_CAPACITY, D_RATE_RPS = 5, 1  # Table 4.3
D_GOSSIP_MS = (300, 450, 900)  # Table 4.3
D_SPAN_S, D_EVERY_MS = 100, 900  # of data set D, and between its requests: 4.3.4
LOG_CAPACITY, LOG_RATE_RPS = 4, 1  # Fig. 4.2
REST_S = 60  # the queues converge at least so much later: 5.1.3
DELAYED_GOSSIP_MS, DELAY_MS = 200, 250  # 5.5

MEMORY, MEASURED, BANDWIDTH = "state_byte_seconds", "allocated_byte_seconds", "sent_bytes"  # areas of ``usage``
SPOTIFY = "spotify"  # the real system, secret


class PrintedNumber(NamedTuple):
    """One printed number: of a claim (none: of the set-up), in a section, table or figure, as ``text``."""

    claim: str
    where: str
    text: str
    readings: tuple[float, ...]  # what it may mean; the nearest to what is measured counts

    @property
    def page(self) -> int:
        """Of the place where it stands."""
        return PAGES[self.where]

    @property
    def value(self) -> float:
        """What it means, where there is no doubt."""
        (reading,) = self.readings
        return reading


def more(claim: str, where: str, text: str) -> PrintedNumber:
    """A ratio, from "N % more": 5.2.1 prints its ratio of 7.98 as 798 % more, so that N above 100 has two readings."""
    ratio = _number(text) / 100
    return PrintedNumber(claim, where, text, (float(ratio), float(1 + ratio)) if ratio > 1 else (float(1 + ratio),))


def number(claim: str, where: str, text: str) -> PrintedNumber:
    """A number with or without its unit, or a part of something: "96.9 %"."""
    return PrintedNumber(claim, where, text, (float(_number(text) / (100 if "%" in text else 1)),))


def _number(text: str) -> Decimal:
    """What a text begins with."""
    return Decimal(text.replace("c", " ").split()[0])


# Rejections over those of the centralised limiter, by data set and variant.
SHARES: Mapping[str, Mapping[str, PrintedNumber]] = {
    "A": {COUNTER: number("T1", "5.1.1", "95.7 %"), SPOTIFY: number("T1", "5.1.1", "91.2 %")},
    "B-extreme": {COUNTER: number("T8", "5.2.1", "96.9 %"), FL: number("T8", "5.2.1", "99.7 %")},
    "B-substantial": {COUNTER: number("T11", "5.2.2", "96.4 %"), FL: number("T11", "5.2.2", "98.6 %")},
    "B-barely": {COUNTER: number("T13", "5.2.3", "10.0 %"), FL: number("T13", "5.2.3", "80.0 %")},
    "B-not-limited": {},
}
# Areas under the curves of memory and bandwidth over the counter's, by data set and variant.
RATIOS: Mapping[str, Mapping[str, Mapping[str, PrintedNumber]]] = {
    "A": {L: {BANDWIDTH: more("T7", "5.1.3", "+31 %")}, F: {BANDWIDTH: more("T7", "5.1.3", "+243 %")}},
    "B-extreme": {FL: {MEMORY: number("T9", "5.2.1", "798 %"), BANDWIDTH: number("T9", "5.2.1", "883 %")}},
    "B-substantial": {FL: {MEMORY: more("T12", "5.2.2", "513 %"), BANDWIDTH: more("T12", "5.2.2", "495 %")}},
    "B-barely": {FL: {MEMORY: more("T14", "5.2.3", "427 %"), BANDWIDTH: more("T14", "5.2.3", "215 %")}},
    "B-not-limited": {F: {MEMORY: more("T15", "5.2.4", "-10 %"), BANDWIDTH: more("T15", "5.2.4", "-77 %")}},
    # +0.0025 %: a ratio of 1.0025, or 1.000025: equal
    "C": {FL: {MEMORY: number("T18", "5.3", "13.6 %"), BANDWIDTH: PrintedNumber("T18", "5.3", "+0.0025 %", (1.0,))}},
}
# What LINF saves of the memory of the plain queue, and of the queue with frequency analysis.
SAVED_PLAIN, SAVED_FREQUENCY = number("T6", "5.1.3", "18.3 %"), number("T6", "5.1.3", "24 %")
SILENT_S = number("T10", "5.2.1", "10 s")  # the counter sends nothing after it
# Nodes that know of an element after 900 ms in the best case, by gossip interval in ms.
KNOWN = {at: PrintedNumber("T20", "5.4", f"{n}/30", (n / 30,)) for at, n in ((300, 8), (450, 4), (900, 2))}
ADDED = number("T21", "5.4", "8 more")  # nodes that the fourth round tells
TOTAL_A = number("", "4.3.4", "68.3c")  # requests of data set A


def shares_of(data_set: str) -> dict[str, float]:
    """Variant -> its printed share of the centralised limiter's rejections."""
    return {variant: printed.value for variant, printed in SHARES[data_set].items()}
