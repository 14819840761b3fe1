"""Points that several figures of the SRTM paper share, so that their runs are made once.

Envelopes.  The paper finds b on a recorded trace: the smallest bucket that leaves the 99th
percentile of access delay at zero (VI; the artifact records 70 s).  Figs. 4, Eq. (1) and
Proposition 1 keep that rule by the letter.  So do periodic publishers in Figs. 5 to 9 and Table I: what
they send is the same in every minute.  Poisson publishers there have b from the very
window that is offered ("conformant", ours; ``readings.ENVELOPE``): 70 s of bursty Poisson groups hold only some ten
relaxation times of the bucket's queue, so a b from them is off by tens of percent, and a fresh
minute of traffic then waits up to hundreds of ms for tokens however it is distributed.  The
question is what distribution adds (the DRL penalty), so the traffic has to conform to its envelope.
Fig. 7 shows, and R27 judges, what the letter does to Poisson groups.

That b is enlarged by 2 % (``readings.MARGIN``).  Without it the
bucket is on a knife's edge: 1,000 publishers are no multiple of a group of 30, so that even SRTM's
shares of the groups are uneven by some 0.2 %, and that alone costs more than the SLO.  Max-Min's
random shares are uneven by some 15 %, which the margin does not hide.

The scale ``small`` has topics of at most 1,000 msg/s on at most four brokers, rounds of 30 s, and the
SLO and the capacities of its calibration.  Its grids are cut so that no figure takes more than
20 minutes on real sockets, where a round takes as long as it says.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from core.records import Json
from core.units import duration_ns
from harness.experiment import CALIBRATED, RunSpec, Scale
from paper_figs.figure import Options
from paper_figs.srtm import readings
from paper_figs.srtm.published import BATCH, BROKERS, LARGEST_GROUP, PUBLISHERS

CONFORMANT: Json = readings.study("poisson", 1, {})  # of topics outside Figs. 5 to 9: the cell of record
ARRIVALS = ("poisson", "periodic")
SMALL_BROKERS, SMALL_ROUND, SMALL_PUBLISHERS = 4, "30s", 100  # at the scale small, 10 msg/s each
FEWER = PUBLISHERS // SMALL_PUBLISHERS


def at(scale: Scale, specs: Sequence[RunSpec], fewer: int = 1) -> list[RunSpec]:
    """The specs with the physics of ``scale``: at small, with as many as a ``fewer``-th of the publishers."""
    return [_small(spec, fewer) for spec in specs] if scale.physics == "small" else list(specs)


def _small(spec: RunSpec, fewer: int) -> RunSpec:
    workload = dict(spec.workload_options)
    if "publishers" in workload:
        workload["publishers"] //= fewer
    shorter = duration_ns(spec.round) > duration_ns(SMALL_ROUND)
    return msgspec.structs.replace(
        spec,
        workload_options=workload,
        topology_options={"brokers": SMALL_BROKERS, **spec.topology_options},
        calibration="bucket-only" if spec.calibration == "bucket-only" else "small",
        slo=spec.slo if spec.calibration == "bucket-only" else CALIBRATED,
        round=SMALL_ROUND if shorter else spec.round,
    )


def most_brokers(scale: Scale) -> int:
    """The largest k."""
    return SMALL_BROKERS if scale.physics == "small" else BROKERS


def arrivals(scale: Scale) -> Sequence[str]:
    """The kinds of arrivals of Figs. 7 to 9 and Table I."""
    return ARRIVALS[:1] if scale.physics == "small" else ARRIVALS


def group_searches(scale: Scale, systems: Sequence[str], options: Options, brokers: int = 0) -> list[RunSpec]:
    """Kinds of arrivals x sizes of synchronised groups x systems, Fig. 7, Fig. 8 and Table I."""
    sizes = scale.pick(small=[5, 15], tiny=[5, 20], paper=[5, 10, 15, 20, 25, LARGEST_GROUP])
    cases = [(system, kind, size) for kind in arrivals(scale) for size in sizes for system in systems]
    return at(scale, [grouped(*case, options, brokers=brokers) for case in cases], FEWER)


def grouped(
    system: str, arrivals: str, group_size: int, options: Options, spread: str = "0ms", brokers: int = 0
) -> RunSpec:
    """A topic of ``PUBLISHERS`` in correlation groups on six idle brokers (VI-D); with ``brokers``, forced to so many.

    1,000 is no multiple of 15 or 30: the last group is smaller.
    """
    workload: Json = {"publishers": PUBLISHERS, "batch": BATCH, "group_size": group_size}
    if spread != "0ms":  # left out where it is the default, so that Fig. 7 and Fig. 9 share runs
        workload["spread"] = spread
    forced = {"brokers": brokers} if brokers else {}
    return _distributed(system, arrivals, workload, options, system_options=forced)


def topic(
    system: str, arrivals: str, publishers: int, batch: int, options: Options, loads_rps: tuple[float, ...] = ()
) -> RunSpec:
    """A topic of independent publishers x 10 msg/s on six brokers, idle or loaded (VI-B, VI-C)."""
    loads: Json = {"initial_loads_rps": list(loads_rps)} if loads_rps else {}
    return _distributed(system, arrivals, {"publishers": publishers, "batch": batch}, options, loads)


def _distributed(
    system: str, arrivals: str, workload: Json, options: Options, study: Json | None = None, **spec: Any
) -> RunSpec:
    """A point of Figs. 5 to 9 and Table I, as the readings have it."""
    rule = {**readings.study(arrivals, workload["batch"], options), **(study or {})}
    axes: Json = {"system": system, "workload": arrivals, "workload_options": workload, "study_options": rule}
    return RunSpec(**axes, calibration=readings.calibration(options), **spec)


def split(brokers: int, workload: Json, arrivals: str = "poisson", **spec: Any) -> RunSpec:
    """A topic spread evenly over all of ``brokers`` idle brokers, with the literal envelope (II-A, VI-A).

    ``spec``: further fields of the run, ``calibration="bucket-only"`` for token buckets alone.
    """
    point: Json = {"workload": arrivals, "workload_options": workload, "topology_options": {"brokers": brokers}}
    return RunSpec(**{"system": "lb", **point, **spec})


LIVE: Json = {"needs": "mininet or local", "testbed": "mininet", "minimum_repetitions": 3}  # claims on live brokers


def live_broker(workload: Json, length: str, **study: object) -> RunSpec:
    """Poisson publishers on one live broker that stands alone (V-B, V-C)."""
    options = {"envelope": "conformant", **study}
    place = {"testbed": "mininet", "calibration": "small", "slo": CALIBRATED}
    return split(1, workload, round=length, study_options=options, **place)
