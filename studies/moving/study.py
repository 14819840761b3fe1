"""The study of traffic that shifts: publishers begin on fixed brokers, in equal blocks of ids.

Whoever divides the topic's bucket is the system: TB Adaptor, on or off, or limiters that lend or pass on parts of it
(as in study ``sharing``).  Beside TB Adaptor publishers can be moved.
"""

from itertools import groupby

from core.errors import SpecError
from studies.api import Journal, Point, Study, expected_s
from studies.distribution.study import deployed
from studies.moving.asked import DIVIDES, Config, Moving, MovingShown
from studies.sharing.rules import shared_by
from studies.sharing.study import summed
from studies.spec import RunSpec
from studies.tables import columns, sample_rows, window_rows
from systems.api import System
from workloads.api import Offer

SECONDS_PER_RUN_SECOND = 0.01  # of a topic of a thousand messages a second, and of a word each second


def asked(point: Point, config: Config) -> Moving:
    """What is asked of the testbed."""
    name = DIVIDES[point.system.key]
    way = shared_by(name, config.interval, point.spec.system_options)
    assert way is not None
    if config.migrates and way.sharing.part is not None:
        raise SpecError(f"{name}: grants do not follow publishers", "use tb-adaptor, or migrates = false")
    duration, window = config.spans_ns(len(point.topology.node_names("broker")))
    return Moving(**vars(deployed(point, config, duration)), way=way, duration_ns=duration, window_ns=window)


def journal(point: Point, asked: Moving, shown: MovingShown) -> Journal:
    """The tables of a run: histograms by window, moves, what was delivered, and what was said for it."""
    deliveries = shown.deliveries
    counted = {
        "offered_count": deliveries.offered_count,
        "delivered_count": len(deliveries.number),
        "undelivered_count": deliveries.lost_count,
        "surplus_count": deliveries.surplus_count,
        "out_of_order_count": deliveries.out_of_order_count,
        "resent_count": deliveries.resent_count,
        "refused_count": shown.refused_count,
    }
    rows = [(asked.duration_ns, "", name, float(value)) for name, value in counted.items()]
    moves = [
        (at_ns, "move", target, len(list(transfers)))
        for (at_ns, target), transfers in groupby(shown.transfers, key=lambda one: (one.told_ns, one.target))
    ]
    tables = {
        "latency_histogram": window_rows(shown.windows),
        "samples": sample_rows([*summed(shown.samples, asked.duration_ns), *rows]),
        "messages": shown.messages,
        "decisions": columns(("at_ns", "kind", "broker", "publisher_count"), moves),
    }
    return Journal(tables, "done", shown.envelope.rate_rps, shown.envelope.burst_count, shown.evidence)


def fits(system: System) -> bool:
    """Whether it divides a topic's bucket."""
    return system.key in DIVIDES


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Its length, on real brokers and nearly nothing."""
    length_s = expected_s(spec, Config, "duration")
    return length_s if real_time else length_s * SECONDS_PER_RUN_SECOND


STUDY = Study(
    "moving",
    "a topic whose traffic shifts: sub-buckets follow it, publishers move, or both",
    Config,
    asked,
    journal,
    expected_seconds,
    fits,
    Offer.MESSAGES,
    virtual="studies.moving.virtual",
    live="studies.moving.live",
)
