"""The limiters that are compared, their points, and what a run's factors say of its point.

Every protocol that speaks periodically has one *period*: a gossip interval, a refresh interval of leases, a
throttler's cycle.  Where a figure does not vary it, it is 1 s for all, so that they differ in what they say and
not in how often.  All run on the topology wan, a city a node.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from analysis.spark import collect
from core.records import Json, Options
from harness.experiment import RunSpec
from paper_figs.beyond.faults import Faults
from paper_figs.beyond.load import Load
from paper_figs.light import Data, Frame, Series
from paper_figs.series import case_of, frame_of, in_ms, joined, value_of

CITIES = "New York, London, Singapore, Sao Paulo, Sydney, Tokyo, Frankfurt, Mumbai"  # ours; the first has the servers
PERIOD = "1s"  # ours: the thesis gossips every 300 ms, Doorman refreshes every 5 s
ORACLE, CLOSED = "oracle", "centralised, fail-closed"


class Limiter(NamedTuple):
    """One that is shown.

    ``period``: the option that is its period, "" = it has none; ``overlay``: the same for who talks with whom;
    ``derived``: options of frequency analysis that follow from the load (at least 2 tokens make a window).
    """

    system: str
    options: Options = MappingProxyType({})
    period: str = ""
    overlay: str = ""
    derived: tuple[str, ...] = ()


LIMITERS = {
    "centralised": Limiter("centralised"),
    CLOSED: Limiter("centralised", {"on_failure": "closed"}),
    "static-split": Limiter("static-split"),
    "leases": Limiter("leases", period="refresh"),
    "counter": Limiter("crdt-counter", period="gossip", overlay="overlay"),
    "counter, urgent": Limiter("crdt-counter", {"push": "urgent"}, "gossip", "overlay", ("window", "threshold")),
    "queue": Limiter("crdt-queue", period="gossip", overlay="overlay"),
    "queue+F+L": Limiter("crdt-queue", {"frequency": True, "linf": True}, "gossip", "overlay",
                         ("window", "threshold")),
    "sliding-log": Limiter("sliding-log", period="gossip", overlay="overlay"),
    "throttler": Limiter("throttler", period="cycle", overlay="graph"),
    "centralised-throttler": Limiter("centralised-throttler", period="cycle"),
}  # fmt: skip
NEAR = ("counter, urgent", "queue")  # near relatives of others: not everywhere
PERIODS = ("system.gossip", "system.refresh", "system.cycle")  # factors
OVERLAYS = ("system.overlay", "system.graph")


def point(name: str, load: Load, nodes: int, cities: str, faults: Faults = (), **varied: str | float) -> RunSpec:
    """One limiter on one load; defaults are left out, so that equal points are one run.

    ``varied``: the period, the overlay, the skew of clocks, and options of the topology (``loss_probability=0.1``).
    """
    limiter = LIMITERS[name]
    period, overlay, skew = varied.pop("period", PERIOD), varied.pop("overlay", ""), varied.pop("skew", "")
    options = dict(limiter.options)
    if limiter.period:
        options[limiter.period] = period
    if overlay:
        assert limiter.overlay, name
        options[limiter.overlay] = overlay
    derived = {"window": max(2, load.capacity // nodes), "threshold": load.threshold}
    options |= {option: derived[option] for option in limiter.derived}
    study = {"clock_skew": skew} if skew else {}
    return _spec(limiter.system, options, load, "wan", {"nodes": nodes, "cities": cities, **varied}, faults, study)


def oracle(load: Load, nodes: int, faults: Faults = (), server: str = "") -> RunSpec:
    """The centralised limiter without delay, the ground truth (thesis 4.3.1).

    ``faults``: nodes that are down lose their requests here as well; then give a ``server`` that stays up.
    """
    options = {"server": server} if server else {}
    return _spec("centralised", options, load, "full-mesh", {"nodes": nodes, "delay": "0ms"}, faults, {})


def _spec(
    system: str, options: Options, load: Load, topology: str, place: Json, faults: Faults, study: Options
) -> RunSpec:
    return RunSpec(
        system=system,
        system_options={"capacity": load.capacity, "rate": load.rate, **options},
        workload=load.workload,
        workload_options=load.options,
        topology=topology,
        topology_options=place,
        study="limiting",
        study_options={**study, **({"faults": list(faults)} if faults else {})},
        inputs=load.inputs,
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
    """One row a run: run_id, name, repetition, nodes, period, overlay, delay, loss, skew, faults.

    Those that an option left alone have the default as the factor would give it: ``"1s"``, ``"full-mesh"``,
    1.0, 0.0, ``"0ms"``, ``"[]"``.  Period and overlay are "" where the limiter has none.
    """
    runs, rows = named(data), []
    for name, has in zip(runs.name, runs.factors, strict=True):
        limiter = LIMITERS.get(name, Limiter(name))
        period, overlay = PERIOD if limiter.period else "", "full-mesh" if limiter.overlay else ""
        varied = [
            int(has.get("topology.nodes", 0)),
            next((has[factor] for factor in PERIODS if factor in has), period),
            next((has[factor] for factor in OVERLAYS if factor in has), overlay),
            float(has.get("topology.delay_factor", 1.0)),
            float(has.get("topology.loss_probability", 0.0)),
            has.get("study.clock_skew", "0ms"),
            has.get("study.faults", "[]"),
        ]
        rows.append(varied)
    columns = ["nodes", "period", "overlay", "delay", "loss", "skew", "faults"]
    return runs[["run_id", "name", "repetition"]].astype({"repetition": int}).join(frame_of(rows, columns))


def measured(data: Data) -> Frame:
    """``points_of`` and, for each run that has an oracle, what it decided and what that cost.

    Shares are of the requests offered: false_admit_share, false_reject_share, error_share (their sum), lost_share;
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
    runs = joined(runs, excess, totals, latency)
    runs["error_share"] = runs.false_admit_share + runs.false_reject_share
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
