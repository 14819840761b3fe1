"""What the ePulsar paper leaves open and what moves a verdict.  The defaults are its cell of record."""

from core.records import Json
from harness.experiment import Reading
from paper_figs.figure import Options

PING, HALF = "ping", "half"
ONE_WAY, PRINTED = "one-way", "printed"
HEIGHT, GATEWAY = "height", "gateway"

CITY_DELAYS = Reading(
    "city-delays",
    "one way between two cities: the ping of WonderNetwork's table, or half of it",
    PING,
    values=(PING, HALF),
    source="5.1.2 models inter-city latencies on WonderNetwork's table, which lists pings and halves none; with halves "
    "nothing that 5.5.2 (many violations of 100 ms) and 5.8.2 (migrations) tell of can happen in US cities",
    after=True,
)
SUMS = Reading(
    "delay-sums",
    "what is held against the bound: one-way delays, or sums of round trips",
    ONE_WAY,
    values=(ONE_WAY, PRINTED),
    source="the bound is on one-way latency (5.1); 3.2 and 3.4.1 print sums of distances, which are round trips (5.3); "
    "the authors' public code halves them since 2021-01-19",
)
PLACE = Reading(
    "client-place",
    "where a client is: at its gateway's coordinate with the access delay in the height, or at the gateway's as it is",
    HEIGHT,
    values=(HEIGHT, GATEWAY),
    source="4 adds the latency between client and proxy to the height; the public code does not",
)


def summed(options: Options) -> Json:
    """Options of ePulsar under ``SUMS``: none where they are its own."""
    return {"literal": True} if SUMS.of(options) == PRINTED else {}


def placed_at(options: Options) -> Json:
    """Options of a control plane under ``PLACE``: none where they are its own."""
    return {"add_access": False} if PLACE.of(options) == GATEWAY else {}
