"""Deployed limiters and ours, side by side: who, in which regime, under which loads; and how each looks.

Limits are said as deployed limiters say them, N requests in a period, so that c = N and r = N over the period.  Keys
are offered 0.5, 1, 2 and 5 or 10 times that, in each of three shapes: an even spread alone makes a limit that is split
among the nodes look perfect.  Keys have nothing to do with each other, so that one run holds all of them.

Five cities, a node each; what has one server has it in New York.  Who gossips, refreshes or synchronises does so ten
times a period, at least every second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from core.records import Json, Options
from core.units import SECOND_NS, duration_ns
from harness.experiment import RunSpec, Scale
from paper_figs.beyond.wan import CITIES, LIVE, VIRTUAL
from paper_figs.light import Data, Frame
from paper_figs.style import Style
from systems import SYSTEMS

NODES = len(CITIES)
OVERWRITE, OVERWRITE_ALL, FIXED, FIXED_CACHE = "overwrite", "overwrite, all", "fixed-window", "fixed-window, cache"
REPLICA, HASTY = REPLICATED = "ratelimit, replica", "ratelimit, hasty"  # the same as ratelimit until its Redis dies
ORACLE = "oracle"


@dataclass(frozen=True)
class Regime:
    """A limit and what is offered: ``count`` requests in ``period``, keys at ``factors`` of it, ``keys`` of each.

    ``shapes``: of workload hot-keys; () is all.  ``left_out``: contenders that are not tried in it.
    """

    said: str
    count: int
    period: str
    factors: tuple[float, ...]
    keys: int
    duration: str
    shapes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def limit(self) -> Options:
        """As options of a limiter."""
        rate = Fraction(self.count * SECOND_NS, duration_ns(self.period))
        return {"capacity": self.count, "rate": str(rate)}

    @property
    def period_s(self) -> float:
        """The period, in s."""
        return duration_ns(self.period) / SECOND_NS

    @property
    def between(self) -> str:
        """How often who speaks periodically does so."""
        return f"{round(min(1.0, self.period_s / 10) * 1000)}ms"

    @property
    def highest(self) -> float:
        """The largest factor."""
        return max(self.factors)

    @property
    def offer(self) -> Json:
        """As options of the workload, but for the duration."""
        factors = ",".join(f"{factor:g}" for factor in self.factors)
        shapes = {"shapes": ",".join(self.shapes)} if self.shapes else {}
        return {"count": self.count, "period": self.period, "factors": factors, "keys": self.keys, **shapes}


FAST = Regime("20 a second", 20, "1s", (0.5, 1, 2, 5), 1, "20s")
# Runs of over two minutes each.  A split is seen in nginx, an exact bucket in Redis.
LEFT_OUT = ("static-split", "centralised", "bucket4j", "ratelimit, cache")
SLOW = Regime("30 a minute", 30, "60s", (0.5, 1, 2, 10), 4, "130s", left_out=LEFT_OUT)


class Contender(NamedTuple):
    """A system with its options; ``contract``: what it promises itself, of ``analysis.deployed.CONTRACTS``."""

    system: str
    look: Style
    options: Options = MappingProxyType({})
    contract: str = "bucket"
    period: str = ""  # the option that is how often it speaks
    is_windowed: bool = False  # by the wall clock: such a run begins with a window


PRODUCTS = {
    "nginx": Contender("nginx", Style("nginx, N / n a node", "#999999", "X", "-"), contract="split"),
    "redis-gcra": Contender("redis-gcra", Style("Redis, GCRA", "#D55E00", "^", "-")),
    "ratelimit": Contender(
        "ratelimit", Style("envoyproxy/ratelimit", "#0072B2", "o", "-"), {}, "fixed-window", is_windowed=True
    ),
    "ratelimit, cache": Contender(
        "ratelimit", Style("ratelimit, local cache", "#56B4E9", "v", "-"), {"cache": True}, "fixed-window",
        is_windowed=True,
    ),
    REPLICA: Contender(
        "ratelimit-sentinel", Style("ratelimit, Sentinels", "#332288", "<", "-"), {}, "fixed-window", is_windowed=True
    ),
    HASTY: Contender(
        "ratelimit-sentinel",
        Style("Sentinels told to hurry", "#44AA99", ">", "-"),
        {"down_after": "2s", "failover_timeout": "2s"},
        "fixed-window",
        is_windowed=True,
    ),
    "bucket4j": Contender("bucket4j", Style("Bucket4j, Hazelcast", "#882255", "p", "-")),
    "haproxy": Contender("haproxy", Style("HAProxy peers, gpc0_rate", "#E69F00", "s", "-"), {}, "sliding-window"),
    "haproxy, all": Contender(
        "haproxy", Style("HAProxy peers, http_req_rate", "#997700", "D", "-"), {"counter": "all"}, "sliding-window"
    ),
}  # fmt: skip
OURS = {
    "static-split": Contender("static-split", Style("static split", "#999999", "X", ":", True), contract="split"),
    "centralised": Contender("centralised", Style("centralised", "#000000", "s", ":", True)),
    "leases": Contender("leases", Style("leases", "#661100", "p", "--", True), {"lease": "20s"}, period="refresh"),
    "counter": Contender("crdt-counter", Style("CRDT counter", "#CC79A7", "o", "--", True), period="gossip"),
}
TWINS = {
    FIXED: Contender(
        FIXED, Style("twin of ratelimit", "#0072B2", "o", "--", True), {}, "fixed-window", is_windowed=True
    ),
    FIXED_CACHE: Contender(
        FIXED,
        Style("twin, local cache", "#56B4E9", "v", "--", True),
        {"cache": True},
        "fixed-window",
        is_windowed=True,
    ),
    OVERWRITE: Contender(
        OVERWRITE, Style("twin of HAProxy, gpc0_rate", "#E69F00", "s", "--", True), {}, "sliding-window"
    ),
    OVERWRITE_ALL: Contender(
        OVERWRITE, Style("twin, http_req_rate", "#997700", "D", "--", True), {"counter": "all"}, "sliding-window"
    ),
    "owner-global": Contender(
        "owner-global", Style("twin of Gubernator, unchecked", "#009E73", "P", "-.", True), period="sync"
    ),
}
TWIN_OF = {"ratelimit": FIXED, "ratelimit, cache": FIXED_CACHE, "haproxy": OVERWRITE, "haproxy, all": OVERWRITE_ALL}
SHORT_LEASES = "leases, 5 s"  # so short that they run out while a fault lasts
OTHERS = {
    SHORT_LEASES: Contender(
        "leases", Style("leases of 5 s", "#661100", "p", "--", True), {"lease": "5s"}, period="refresh"
    )
}
CONTENDERS: Mapping[str, Contender] = {**PRODUCTS, **OURS, **OTHERS, **TWINS}
TINY = ("redis-gcra", "static-split")


def names_of(scale: Scale, names: Sequence[str]) -> list[str]:
    """Those that there are and that a scale runs: tiny, two that every machine has."""
    known = [name for name in names if CONTENDERS[name].system in SYSTEMS]
    return [name for name in known if scale.name != "tiny" or name in TINY]


def point(
    name: str,
    regime: Regime,
    scale: Scale,
    place: Options | None = None,
    testbed: str = LIVE,
    between: str = "",
    more: Options = MappingProxyType({}),
    **study: object,
) -> RunSpec:
    """A contender on the five cities, or on a full mesh with the options of ``place``.

    ``between``: how often it speaks, if not as the regime has it; ``more``: options of its system.
    """
    who = CONTENDERS[name]
    told = {**regime.limit, **who.options, **({who.period: between or regime.between} if who.period else {}), **more}
    if who.system == "leases":
        told["window"] = f"{max(1, round(regime.period_s))}s"
    if who.is_windowed:  # in virtual time, too, which has no other clock: live and virtual runs are pairs
        study["align"] = regime.period
    return _spec(who.system, told, regime, scale, place, testbed, study)


def oracle(regime: Regime, scale: Scale) -> RunSpec:
    """A token bucket in the middle without delay, in virtual time."""
    return _spec("centralised", dict(regime.limit), regime, scale, {"delay": "0ms"}, VIRTUAL, {})


def _spec(
    system: str, options: Json, regime: Regime, scale: Scale, place: Options | None, testbed: str, study: Json
) -> RunSpec:
    nodes, duration = (3, "5s") if scale.name == "tiny" else (NODES, regime.duration)
    where: Options = {"cities": ", ".join(CITIES)} if place is None else place
    return RunSpec(
        system=system,
        system_options=options,
        workload="hot-keys",
        workload_options={**regime.offer, "duration": duration},
        topology="wan" if place is None else "full-mesh",
        topology_options={"nodes": nodes, **where},
        testbed=testbed,
        study="limiting",
        study_options={"duration": duration, **study},
    )


RUN = ("run_id", "name", "testbed", "validity", "repetition", "topology", "delay", "between", "duration", "faults")


def runs_of(data: Data) -> Frame:
    """One row a run, the columns ``RUN``; name: of ``CONTENDERS``, or ``ORACLE``.

    delay, between (how often it speaks), duration: as given, "" where not; faults: a list.
    """
    from analysis.tables import collect
    from paper_figs.series import frame_of, value_of

    rows = []
    for run in collect(data.runs, ["run_id"]).itertuples():
        told = {key: value_of(text) for key, text in dict(run.factors).items()}
        name = name_of(run.system, told)
        delay, faults = str(told.get("topology.delay", "")), told.get("study.faults") or []
        is_oracle = name == "centralised" and run.testbed == VIRTUAL and delay == "0ms" and not faults
        between = str(told.get(f"system.{CONTENDERS[name].period}", ""))
        of_run = run.run_id, ORACLE if is_oracle else name, run.testbed, run.validity, run.repetition
        rows.append((*of_run, run.topology, delay, between, str(told.get("study.duration", "")), faults))
    return frame_of(rows, RUN)


def name_of(system: str, told: Mapping[str, object]) -> str:
    """Who it is, of ``CONTENDERS``; ``told``: a run's factors."""
    fitting = [
        (len(who.options), name)
        for name, who in CONTENDERS.items()
        if who.system == system and all(told.get(f"system.{key}") == value for key, value in who.options.items())
    ]
    return max(fitting)[1]


def groups_of(regime: Regime) -> list[tuple[str, str, float]]:
    """user, shape, factor: of all keys of the regime."""
    from workloads.hot_keys import HotKeysConfig, keys_of

    return [(key.user, key.shape, float(key.factor)) for key in keys_of(HotKeysConfig(**regime.offer))]
