"""The limiters that are compared, their points, and what a run's factors say of its point.

Every protocol that speaks periodically has one *period*: a gossip interval, a refresh interval of leases, a
throttler's cycle.  Where a figure does not vary it, it is 1 s for all, so that they differ in what they say and
not in how often.  What else can be tuned has a usual value, and others that are tried.  All run on the topology wan,
a city a node.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

from analysis.tables import collect
from core.records import Json, Options
from core.units import SECOND_NS, duration_ns, rational
from harness.experiment import RunSpec
from paper_figs.beyond.faults import Faults
from paper_figs.beyond.load import Load
from paper_figs.light import Data, Frame, Series
from paper_figs.series import case_of, frame_of, in_ms, joined, value_of

CITIES = "New York, London, Singapore, Sao Paulo, Sydney, Tokyo, Frankfurt, Mumbai"  # ours; the first has the servers
PERIOD = "1s"  # ours: the thesis gossips every 300 ms, Doorman refreshes every 5 s
ORACLE, CLOSED = "oracle", "centralised, fail-closed"


class Limiter(NamedTuple):
    """One that is shown: ``options`` make it what it is.

    ``period``: the option that is its period, "" = it has none; ``overlay``: the same for who talks with whom;
    ``knobs``: other options that are tuned, the first value of each the usual one;
    ``derived``: options of frequency analysis that follow from the load (at least 2 tokens make a window).
    """

    system: str
    options: Options = MappingProxyType({})
    period: str = ""
    overlay: str = ""
    knobs: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    derived: tuple[str, ...] = ()


LIMITERS = {
    "centralised": Limiter("centralised"),
    CLOSED: Limiter("centralised", {"on_failure": "closed"}),
    "static-split": Limiter("static-split"),
    "leases": Limiter("leases", period="refresh", knobs={"window": ("10s", "30s"), "lease": ("20s",)}),
    "counter": Limiter("crdt-counter", period="gossip", overlay="overlay"),
    "counter, urgent": Limiter("crdt-counter", {"push": "urgent"}, "gossip", "overlay", {}, ("window", "threshold")),
    "queue": Limiter("crdt-queue", period="gossip", overlay="overlay"),
    "queue+F+L": Limiter("crdt-queue", {"frequency": True, "linf": True}, "gossip", "overlay", {},
                         ("window", "threshold")),
    "sliding-log": Limiter("sliding-log", period="gossip", overlay="overlay"),
    "throttler": Limiter("throttler", period="cycle", overlay="graph", knobs={"graph": ("full-mesh", "ring")}),
    "centralised-throttler": Limiter("centralised-throttler", period="cycle", knobs={"average": ("10s", "3s")}),
}  # fmt: skip
NEAR = ("counter, urgent", "queue")  # near relatives of others: not everywhere
PERIODS = ("system.gossip", "system.refresh", "system.cycle")  # factors
OVERLAYS = ("system.overlay", "system.graph")
SPANS = (
    "refresh",
    "window",
    "lease",
    "gossip",
    "cycle",
    "average",
)  # options that have to be well below a run's length


def point(name: str, load: Load, nodes: int, cities: str, faults: Faults = (), **varied: str | float) -> RunSpec:
    """One limiter on one load; defaults are left out, so that equal points are one run.

    ``varied``: the period, the overlay, the skew of clocks, its knobs, and options of the topology
    (``loss_probability=0.1``).
    """
    limiter = LIMITERS.get(name, Limiter(name))
    period, overlay, skew = varied.pop("period", PERIOD), varied.pop("overlay", ""), varied.pop("skew", "")
    knobs = {option: varied.pop(option, values[0]) for option, values in limiter.knobs.items()}
    options = {**limiter.options, **{option: value for option, value in knobs.items() if value != "full-mesh"}}
    if limiter.period:
        options[limiter.period] = period
    if overlay:
        assert limiter.overlay, name
        options[limiter.overlay] = overlay
    derived = {"window": max(2, load.capacity // nodes), "threshold": load.threshold}
    options |= {option: derived[option] for option in limiter.derived}
    study = {"clock_skew": skew} if skew else {}
    return _spec(limiter.system, options, load, "wan", {"nodes": nodes, "cities": cities, **varied}, faults, study)


def settings_of(name: str, periods: Sequence[str]) -> list[Options]:
    """What is tried of a limiter: its periods times its knobs, as ``point`` takes them."""
    limiter = LIMITERS[name]
    tuned = {"period": tuple(periods), **limiter.knobs} if limiter.period else limiter.knobs
    return [dict(zip(tuned, values, strict=True)) for values in product(*tuned.values())]


def is_tuned(name: str, overlay: str) -> bool:
    """Whether who talks with whom is as in ``settings_of``."""
    limiter = LIMITERS.get(name, Limiter(name))
    return overlay in ("", *limiter.knobs.get(limiter.overlay, ("full-mesh",)))


def works(spec: RunSpec, load: Load) -> bool:
    """Whether a limiter can work with these settings: no node without a token, no span that outlasts the load.

    Static shares of fewer tokens than there are nodes leave some with none.  Who looks back, or lends, for longer than
    a third of the run has hardly begun when it ends.  Who gossips tells one neighbour a round: news that takes longer
    than c/r to reach all is of tokens that are back by then.  A queue forgets sooner: a token that was taken alone is
    back after 1/r, and if more than n/2 of them (ours) come and go between two rounds, nobody hears of most.
    """
    nodes, gossip = int(spec.topology_options["nodes"]), str(spec.system_options.get("gossip", "0s"))
    if (nodes - 1) * duration_ns(gossip) > load.capacity / rational(load.rate) * SECOND_NS:
        return False
    if spec.system == "crdt-queue" and duration_ns(gossip) / SECOND_NS * rational(load.rate) > nodes / 2:
        return False
    if load.capacity < nodes:
        return spec.system in ("centralised", "crdt-counter", "crdt-queue", "sliding-log")
    spans = (str(spec.system_options[option]) for option in SPANS if option in spec.system_options)
    return all(3 * duration_ns(span) <= load.span_s * SECOND_NS for span in spans if not span.isdigit())


def oracle(load: Load, nodes: int, faults: Faults = (), server: str = "") -> RunSpec:
    """The centralised limiter without delay, the ground truth (thesis 4.3.1).

    ``faults``: nodes that are down lose their requests here as well; then give a ``server`` that stays up.
    """
    options = {"server": server} if server else {}
    return _spec("centralised", options, load, "full-mesh", {"nodes": nodes, "delay": "0ms"}, faults, {})


def _spec(
    system: str, options: Options, load: Load, topology: str, place: Json, faults: Faults, study: Options
) -> RunSpec:
    lasts = {"duration": load.duration} if load.duration else {}
    return RunSpec(
        system=system,
        system_options={"capacity": load.capacity, "rate": load.rate, **options},
        workload=load.workload,
        workload_options=load.options,
        topology=topology,
        topology_options=place,
        study="limiting",
        study_options={**lasts, **study, **({"faults": list(faults)} if faults else {})},
    )


def name_of(system: str, factors: Mapping[str, str], topology: str = "wan") -> str:
    """The name in ``LIMITERS`` of a run with these factors; ``oracle``; or the system itself, if it joined."""
    if topology != "wan":
        return ORACLE if system == "centralised" else f"{system} on {topology}"
    cases: dict[str, Options] = {system: {}}
    for name, limiter in LIMITERS.items():
        options = {f"system.{option}": value for option, value in limiter.options.items()}
        cases[name] = {"system": limiter.system, **options}
    return case_of({"system": system, **{factor: value_of(text) for factor, text in factors.items()}}, cases)


def named(data: Data) -> Frame:
    """One row a run: run_id, name (``name_of``), testbed, validity, repetition, factors (a dict), and more."""
    columns = ["run_id", "system", "topology", "testbed", "validity", "repetition", "factors"]
    runs = collect(data.runs.select(*columns), ["run_id"])
    runs["factors"] = [dict(pairs) for pairs in runs.factors]
    runs["name"] = [name_of(*run) for run in zip(runs.system, runs.factors, runs.topology, strict=True)]
    return runs


def points_of(data: Data) -> Frame:
    """One row a run: run_id, name, repetition, nodes, load, period, overlay, setting, delay, loss, skew, faults.

    Those that an option left alone have the default as the factor would give it: ``"1s"``, ``"full-mesh"``,
    1.0, 0.0, ``"0ms"``, ``"[]"``.  Period and overlay are "" where the limiter has none.  load: capacity and rate, as
    text; setting: the values of its knobs besides who talks with whom, in their order.
    """
    runs, rows = named(data), []
    for name, has in zip(runs.name, runs.factors, strict=True):
        limiter = LIMITERS.get(name, Limiter(name))
        period, overlay = PERIOD if limiter.period else "", "full-mesh" if limiter.overlay else ""
        varied = [
            int(has.get("topology.nodes", 0)),
            load_name(has.get("system.capacity", ""), has.get("system.rate", "")),
            next((has[factor] for factor in PERIODS if factor in has), period),
            next((has[factor] for factor in OVERLAYS if factor in has), overlay),
            ", ".join(has.get(f"system.{knob}", "") for knob in limiter.knobs if knob != limiter.overlay),
            float(has.get("topology.delay_factor", 1.0)),
            float(has.get("topology.loss_probability", 0.0)),
            has.get("study.clock_skew", "0ms"),
            has.get("study.faults", "[]"),
        ]
        rows.append(varied)
    columns = ["nodes", "load", "period", "overlay", "setting", "delay", "loss", "skew", "faults"]
    return runs[["run_id", "name", "repetition"]].astype({"repetition": int}).join(frame_of(rows, columns))


def usual_setting(name: str) -> str:
    """``points_of``' setting of a limiter whose knobs have their usual values."""
    limiter = LIMITERS.get(name, Limiter(name))
    return ", ".join(values[0] for knob, values in limiter.knobs.items() if knob != limiter.overlay)


def load_name(capacity: object, rate: object) -> str:
    """What tells one load from another: its limit."""
    return f"c = {capacity}, r = {rate}/s"


def measured(data: Data) -> Frame:
    """``points_of`` and, for each run that has an oracle, what it decided and what that cost.

    Shares are of the requests offered: over_admission_share and false_rejection_share (``limiting.netted``),
    false_admit_share and false_reject_share (request by request), lost_share;
    excess_share of the capacity; bytes_per_request and messages_per_request, all that all nodes sent;
    p99_ms of the decision latency; oracle_rejected_share.
    """
    from pyspark.sql import functions as f

    from analysis import limiting

    runs = points_of(data)
    sent = data.table("usage").where(f.col("node") != "").groupBy("run_id")
    totals = sent.agg(*(f.sum(name).alias(name) for name in ("sent_bytes", "sent_count")))
    latency = in_ms(data.latency_histogram.where("metric = 'decision_latency'"), {0.99: "p99_ms"}, "run_id")
    oracle_runs = limiting.with_oracle(data.runs)
    runs = runs.merge(collect(limiting.precision(data.requests, oracle_runs), ["run_id"]), on="run_id")
    excess = limiting.worst_excess(data.requests, data.runs).drop("user")
    runs = joined(runs, limiting.netted(data.requests, oracle_runs, data.runs), excess, totals, latency)
    runs["lost_share"] = runs.lost_count / runs.offered_count
    runs["oracle_rejected_share"] = runs.oracle_rejected_count / runs.offered_count
    for metric, unit in (("sent_bytes", "bytes"), ("sent_count", "messages")):
        runs[f"{unit}_per_request"] = runs[metric].fillna(0) / runs.offered_count
    return runs.sort_values(["name", "nodes", "run_id"], ignore_index=True)


def order_of(names: Series) -> list[str]:
    """The names that there are, in the order of ``LIMITERS``, then those that joined; the oracle is none."""
    present = set(names) - {ORACLE}
    own = [name for name in LIMITERS if name in present]
    return own + sorted(name for name in present - set(own) if " on " not in name)
