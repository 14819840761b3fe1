"""Tables of the figures ``deployed`` as their claims hope for them, and as they could be drawn."""

import pandas as pd

from paper_figs.beyond import deployed_failures as failures
from paper_figs.beyond import deployed_staleness as staleness
from paper_figs.beyond.contenders import FAST, REPLICATED, SLOW, TWIN_OF
from paper_figs.beyond.grants import NAMES, SHAPES
from paper_figs.beyond.wan import CITIES, LIVE, VIRTUAL
from tests.paper_figs.tables import Frames, repeated

MS = 1_000_000.0
ROUND_TRIPS_MS = dict(zip(CITIES, (0.5, 109.5, 300.5, 151.5, 314.5), strict=True))
WAITS_MS = {"redis-gcra": 151.0, "ratelimit": 152.0, "ratelimit, cache": 41.0, "bucket4j": 190.0, "centralised": 151.0}
BYTES = {"haproxy": 715.0, "haproxy, all": 720.0, "ratelimit": 250.0, "redis-gcra": 310.0, "ratelimit, cache": 160.0}
EXCESS_AT_5 = {"haproxy": 7.4, "haproxy, all": 6.6, "counter": 0.9}


def granted_of(name: str, shape: str, factor: float) -> float:
    """What a limiter grants, about as measured once."""
    if name in ("nginx", "static-split"):
        return {"even": 0.95, "skewed": 0.42, "moving": 0.5}[shape] * min(1.0, 0.9 + 0.05 * factor)
    if name == "haproxy, all":
        return 0.95 if factor < 1 else {1: 0.6, 2: 0.2}.get(factor, 0.35)
    if name == "haproxy":
        return 0.99 if factor < 5 else 1.13
    return 0.97


def excess_of(name: str, shape: str, factor: float) -> float:
    """How far beyond the limit."""
    return EXCESS_AT_5.get(name, 0.02) * (factor / 5 if factor > 1 else 0.0)


def of_runs() -> pd.DataFrame:
    """A row a run of ``deployed``."""
    points = [
        {
            "name": name,
            "testbed": LIVE,
            "p50_ns": WAITS_MS.get(name, 1.2) * MS,
            "p99_ns": WAITS_MS.get(name, 4.0) * 2.2 * MS,
            "wire_bytes_per_request": BYTES.get(name, 0.0 if name in ("nginx", "static-split") else 120.0),
        }
        for name in NAMES
    ]
    return repeated(points, ("p50_ns", "p99_ns", "wire_bytes_per_request"))


def of_groups(factors: tuple[float, ...]) -> pd.DataFrame:
    """A row a run, shape and factor."""
    points = [
        {
            "name": name,
            "shape": shape,
            "factor": factor,
            "granted_ratio": granted_of(name, shape, factor),
            "decided_excess_share": excess_of(name, shape, factor),
            "decided_window_share": 1.0 + excess_of(name, shape, factor),
        }
        for name in NAMES
        for shape in SHAPES
        for factor in factors
    ]
    return repeated(points, ("granted_ratio", "decided_excess_share", "decided_window_share"))


def deployed_tables() -> Frames:
    """Of ``deployed`` and ``deployed-minute``."""
    cities = [
        {"name": "ratelimit", "city": city, "rtt_ms": ms, "p50_ms": ms + 1.2} for city, ms in ROUND_TRIPS_MS.items()
    ]
    slow = of_groups(SLOW.factors)
    ten = (slow.name == "haproxy") & (slow.factor == SLOW.highest)
    slow.loc[ten, "granted_ratio"] *= 0.7
    slow.loc[ten, "decided_excess_share"] *= 0.04
    return {
        "deployed/runs": of_runs(),
        "deployed/groups": of_groups(FAST.factors),
        "deployed/cities": repeated(cities, ("p50_ms",)),
        "deployed-minute/runs": of_runs(),
        "deployed-minute/groups": slow,
    }


def seconds_table() -> pd.DataFrame:
    """What is admitted of a key in each second; HAProxy's swings."""
    rows = []
    for name in NAMES:
        for shape in SHAPES:
            for t_s in range(20):
                swings = name.startswith("haproxy") and (88 if t_s < 2 else 0 if t_s < 8 else 20)
                rate = swings if name.startswith("haproxy") else 20 + (t_s * 7 + len(name)) % 5 - 2
                rows.append(
                    {"name": name, "shape": shape, "factor": 5.0, "t_s": float(t_s), "admitted_rps": float(rate)}
                )
    frame = pd.DataFrame(rows)
    return frame.assign(low=frame.admitted_rps - 5, high=frame.admitted_rps + 5, count=3)


def staleness_tables(noise: float = 0.01) -> Frames:
    """Twins as their servers, at all places; lines that rise with staleness."""

    def at(name: str, staleness_: float, factor: float) -> tuple[float, float]:
        slope = {"overwrite": 8.0, "overwrite, all": 7.0, "owner-global": 30.0, "counter": 4.0, "leases": 1.0}.get(
            name, 0.1
        )
        granted = 1 + min(factor - 1, 0.05 * slope * staleness_)
        return (0.4 if name == "overwrite, all" else granted), slope * (0.3 + staleness_) * factor / 5

    def wait_ms(name: str, x: float, factor: float) -> float:
        local = name in ("ratelimit, cache", "fixed-window, cache") and factor > 2
        return 1000 * x if name in staleness.IN_STORE and not local else 0.5

    points = []
    for factor in staleness.REGIME.factors:
        for name in staleness.LINES:
            for place in staleness.DELAYS:
                points.append((name, VIRTUAL, place, staleness.DELAY, staleness.round_trip_s(place), factor, name))
            if name in ("leases", "counter", "owner-global"):
                points += [(name, VIRTUAL, "10ms", staleness.SPAN, 0.02 + 0.2 * 2**n, factor, name) for n in range(5)]
        for place in (*staleness.MEETING, staleness.WAN_PLACE):
            for server, twin in TWIN_OF.items():
                trip = staleness.round_trip_s(place, server in staleness.IN_STORE)
                points.append((server, LIVE, place, staleness.MET, trip, factor, twin))
                points.append((twin, VIRTUAL, place, staleness.MET, trip, factor, twin))
                if server in staleness.CHAOTIC and place == staleness.WAN_PLACE:
                    points.append((server, LIVE, place, staleness.MET_LONG, trip, factor, twin))
                    points.append((twin, VIRTUAL, place, staleness.MET_LONG, trip, factor, twin))
    rows = []
    for name, testbed, place, sweep, x, factor, like in points:
        granted, excess = at(like, x, factor)
        told = {"name": name, "testbed": testbed, "place": place, "sweep": sweep, "staleness": x, "factor": factor}
        aligned = 1.0 if name in staleness.IN_STORE else 1.8
        of_key = {staleness.GRANTED: granted, staleness.EXCESS: excess, staleness.ALIGNED: aligned}
        of_key[staleness.WAIT] = wait_ms(name, x, factor)
        rows += [{**told, "key": f"even-{factor:g}x-{number}", **of_key} for number in (1, 2)]
    return {"deployed-staleness/points": repeated(rows, (staleness.GRANTED, staleness.EXCESS), noise)}


def failures_tables() -> Frames:
    """Redis dead: callers decide; a city cut off: that one does; HAProxy goes on; ours lose a fifth."""
    runs, cities, seconds, groups = [], [], [], []
    for name, scenarios in failures.NAMES.items():
        for scenario in scenarios:
            point = {"name": name, "scenario": scenario}
            by_city = {city: _told(name, scenario, city) for city in CITIES}
            cities += [{**point, "city": city, **told} for city, told in by_city.items()]
            whole = {outcome: sum(told[outcome] for told in by_city.values()) / 5 for outcome in failures.OUTCOMES}
            single = name in ("redis-gcra", "ratelimit")
            p99_ms = 1_001.0 if whole["timeout"] > 0.01 else 610.0 if scenario == "lossy" else 329.0 if single else 9.0
            runs.append({**point, **whole, "p99_ms": p99_ms, "p99_before_ms": 329.0 if single else 9.0})
            alone = whole["error"] + whole["timeout"]
            for factor in failures.REGIME.factors:
                groups.append({
                    **point,
                    "factor": factor,
                    "granted_ratio": _granted_in(name, scenario, factor, alone) - (factor < 1) * whole["lost"],
                    "decided_excess_share": max(0.0, factor - 1) * 11 * alone,
                })  # fmt: skip
            for since_s in range(-4, 16):
                back = name in REPLICATED and since_s > 6
                told = whole if 0 <= since_s < 12 else _told(name, "", "")
                if back:
                    told = {"answered": 0.8, "error": 0.2, "timeout": 0.0, "lost": 0.0}
                seconds.append({**point, "since_s": float(since_s), **told})
    return {
        "deployed-failures/runs": repeated(runs, ("p99_ms", "p99_before_ms")),
        "deployed-failures/cities": repeated(cities, ()),
        "deployed-failures/seconds": repeated(seconds, ()),
        "deployed-failures/groups": repeated(groups, ("granted_ratio", "decided_excess_share")),
    }


def _granted_in(name: str, scenario: str, factor: float, alone: float) -> float:
    """Of what is right, nothing lost."""
    ours = {
        (failures.SHORT_LEASES, failures.KILLED): 0.8,
        (failures.SHORT_LEASES, failures.CUT): 1.1,
        ("counter", failures.CUT): 1.4,
    }
    return ours.get((name, scenario), 1 + (factor - 1) * alone) if factor > 1 else 1.0


def _told(name: str, scenario: str, city: str) -> dict[str, float]:
    """Shares of the outcomes in one city."""
    single = name in ("redis-gcra", "ratelimit", *REPLICATED, "centralised")
    told = {"answered": 1.0, "error": 0.0, "timeout": 0.0, "lost": 0.0}
    if (
        scenario == failures.KILLED
        and name in ("centralised", failures.SHORT_LEASES, "counter")
        and city == failures.NEW_YORK
    ):
        return {**told, "answered": 0.0, "lost": 1.0}
    if scenario == failures.KILLED and (single or city == failures.NEW_YORK):
        error = 1.0 if name == "redis-gcra" or city == failures.NEW_YORK else 0.1
        return {**told, "answered": 0.0, "error": error, "timeout": 1 - error}
    if scenario == failures.CUT and city == failures.SYDNEY and (single or name == "bucket4j"):
        return {**told, "answered": 0.02, "timeout": 0.98}
    if scenario == failures.LOSSY and single:
        return {**told, "answered": 0.99, "timeout": 0.01}
    return told
