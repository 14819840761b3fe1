"""One look for all figures: labels, colours and markers by system, and sizes.

Colours are Okabe and Ito's, told apart by colour-blind readers; markers and line styles differ
too, so that black-and-white print works.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

PANEL_INCHES = (3.5, 2.6)  # one panel of a two-column paper


Dashes = Literal["-", "--", "-.", ":"]


class Style(NamedTuple):
    """How one system is drawn."""

    label: str
    colour: str
    marker: str
    dashes: Dashes
    is_open: bool = False  # an open marker


Looks = Mapping[str, Style]  # of systems, or whatever is told apart, in the order of drawing
STYLES = {
    "lb": Style("LB", "#999999", "s", ":"),
    "conc": Style("Conc", "#0072B2", "o", "--"),
    "max-min": Style("Max-Min", "#E69F00", "^", "-."),
    "srtm": Style("SRTM", "#009E73", "D", "-"),
    "max-min-forced": Style("Max-Min, as many brokers as SRTM", "#D55E00", "v", ":"),
    "tb-adaptor": Style("TB Adaptor", "#CC79A7", "v", "-"),
    "off": Style("without TB Adaptor", "#999999", "s", ":"),
    "centralised": Style("centralised", "#000000", "s", ":"),
    "central counter": Style("counter on one node", "#E69F00", "o", "--"),
    "central queue": Style("queue on one node", "#0072B2", "D", "-."),
    "central counter, as printed": Style("counter on one node, as printed", "#D55E00", "v", "--"),
    "spotify": Style("Spotify's, secret", "#999999", "x", ":"),
    "counter": Style("counter", "#E69F00", "o", "--"),
    "queue": Style("queue", "#0072B2", "D", "-."),
    "queue+L": Style("queue+L", "#56B4E9", "v", "-."),
    "queue+F": Style("queue+F", "#CC79A7", "^", "-"),
    "queue+F+L": Style("queue+F+L", "#009E73", "P", "-"),
    "sliding-log": Style("sliding log", "#D55E00", "v", "--"),
    "centralised, fail-closed": Style("centralised, fail-closed", "#555555", "D", ":"),
    "counter, urgent": Style("counter, urgent", "#997700", "^", "-"),
    "static-split": Style("static split", "#999999", "X", ":"),
    "leases": Style("leases", "#661100", "p", "--"),
    "throttler": Style("throttler", "#CC79A7", "h", "-"),
    "redis-gcra": Style("Redis", "#D55E00", "^", "-"),
    "fixed-window": Style("fixed window", "#56B4E9", ">", "-."),
    "overwrite": Style("overwrite", "#332288", "*", "--"),
    "owner-global": Style("owner, global", "#117733", "d", "-"),
    "bucket4j": Style("Bucket4j on Hazelcast", "#882255", "p", "-"),
    "centralised-throttler": Style("centralised throttler", "#882255", "<", "-."),
    "pulsar": Style("Pulsar", "#D55E00", "s", "--"),
    "all-pairs": Style("AllPairs", "#0072B2", "o", "-."),
    "epulsar": Style("ePulsar", "#009E73", "D", "-"),
    "gossip-placer": Style("gossip placer", "#CC79A7", "^", "-"),
    "optimal": Style("best by true delays", "#000000", "x", ":"),
}
SERIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")  # for anything that is no system
MARKERS = ("o", "s", "D", "^", "v", "P")


def style_of(system: str) -> Style:
    """The style of a system; one that the table does not know gets a default of its own."""
    return STYLES.get(system, Style(system, "#D55E00", "P", "-"))


def looks_of(systems: Iterable[str]) -> dict[str, Style]:
    """The styles of systems, in their order."""
    return {system: style_of(system) for system in systems}


def series(label: str, place: int, marker: str = "", dashes: Dashes = "-", is_open: bool = False) -> Style:
    """The look of what is no system: the ``place``-th colour (and marker, if none is given) of the series."""
    n = place % len(SERIES)
    return Style(label, SERIES[n], marker or MARKERS[n], dashes, is_open)


def neutral(label: str, marker: str = "o", is_open: bool = False) -> Style:
    """A grey look, for what is of no system or of all."""
    return Style(label, "#555555", marker, "-", is_open)
