"""limiters-plane: what precision costs, for every limiter on the same requests and the same wide-area network.

Ours; the thesis leaves open what other topologies, delays and lost messages do (5.5, chapter 7).  Above: the error
(requests decided otherwise than the oracle decides) against bytes sent, along the period of each protocol, and against
the wait for a decision, along the distances; errors of both kinds, and the excess.  Below: one factor at a time.

``--log FILE`` takes a real log (see ``load``); without it the requests are synthetic, and the figure says so.
"""

from itertools import product
from pathlib import Path

from analysis.spark import collect
from core.errors import SpecError
from core.records import Options
from harness.experiment import FEWER, Experiment, Option, RunSpec, Scale
from paper_figs.beyond import plane_drawing
from paper_figs.beyond.limiters import CITIES, ORACLE, measured, oracle, point
from paper_figs.beyond.load import OPTIONS as LOAD_OPTIONS
from paper_figs.beyond.load import load_of
from paper_figs.beyond.sweeps import NODES, SHOWN, SWEEPS, node_counts, sweep_means
from paper_figs.figure import Figure, FigureTables
from paper_figs.light import Data, Frame

OPTIONS = (
    *LOAD_OPTIONS,
    Option("nodes", "nodes, one to a city in turn", NODES, int),
    Option("cities", "where the nodes are, separated by commas", CITIES),
)


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """The base, and each sweep's other values for the limiters that it affects; an oracle for each number of nodes."""
    nodes, cities = options["nodes"], options["cities"]
    if nodes < 2:
        raise SpecError(f"--nodes {nodes}", "give at least 2")
    load = load_of(options, nodes)
    specs = [oracle(load, nodes), *(point(name, load, nodes, cities) for name in SHOWN)]
    for sweep in SWEEPS:
        values = scale.pick(tiny=sweep.quick[-1:], quick=sweep.quick, paper=sweep.paper)
        if sweep.column == "nodes":
            values = node_counts(scale, nodes)
            specs += [oracle(load, value) for value in values]
        option = {"loss": "loss_probability", "delay": "delay_factor"}.get(sweep.column, sweep.column)
        for value, name in product(values, sweep.systems):
            varied: Options = {"nodes": nodes, option: value}
            specs.append(point(name, load, cities=cities, **varied))
    return specs


def tables(data: Data) -> FigureTables:
    """``runs``: one row a run; ``sweeps``: means with 95 % intervals; ``facts``: one row, what was offered."""
    runs = measured(data)
    return {"runs": runs, "sweeps": sweep_means(runs), "facts": facts(data, runs)}


def facts(data: Data, runs: Frame) -> Frame:
    """What was offered: log ("" = synthetic), requests, users, capacity, rate, threshold, rejected_share, and of a log.

    start, duration, speed, spread (truth value), skipped (lines, by reason, as text).
    """
    import pandas as pd
    from pyspark.sql import functions as f

    central = runs[runs.name == ORACLE]
    its = f.col("run_id") == (central.run_id.min() if len(central) else "")
    one = collect(data.runs.where(its).select("factors"), [])
    has = dict(one.factors.iloc[0]) if len(one) else {}
    users = collect(data.requests.where(its).agg(f.count_distinct("user").alias("users")), ["users"])
    reasons = collect(data.table("skipped_lines").where(its), ["reason"])
    thresholds = collect(data.runs.select(f.col("factors")["system.threshold"].alias("threshold")), ["threshold"])
    return pd.DataFrame([{
        "log": Path(has.get("workload.path", "")).name,
        "requests": int(central.offered_count.max()) if len(central) else 0,
        "users": int(users.users.iloc[0]),
        "capacity": has.get("system.capacity", ""),
        "rate": has.get("system.rate", ""),
        "threshold": next(iter(thresholds.threshold.dropna()), ""),
        "rejected_share": float(central.oracle_rejected_share.mean()) if len(central) else 0.0,
        "start": has.get("workload.start", ""),
        "duration": has.get("workload.duration", ""),
        "speed": float(has.get("workload.speed", 1.0)),
        "spread": has.get("workload.spread") == "true",
        "skip_bad": has.get("workload.skip_bad") == "true",
        "skipped": int(reasons.line_count.sum()),
        "skipped_reasons": ", ".join(f"{row.reason} {row.line_count}" for row in reasons.itertuples()),
    }])  # fmt: skip


NOTES = (
    "The error is the share of requests that are decided otherwise than by the oracle, the centralised limiter without "
    "delay, on the same requests; requests without a decision are not in it. A request admitted in place of another "
    "counts on both sides. Error bars: 95 % intervals over the repetitions. Of a log, the busiest ten minutes unless "
    "--start and --duration say otherwise. Base: 8 cities, a node each, a period of 1 s for every protocol, full mesh, "
    "no loss, true clocks; in each sweep one of them differs. A sweep has the limiters that it can touch; the plain "
    "queue and the urgent counter are only where the period varies. Distances stretch the delays of the network, up to "
    "4 x, where the centralised limiter runs into its timeout of 1 s and then admits. Frequency analysis (F, and the "
    "urgent counter) has windows of at least two tokens and the threshold that the thesis' procedure (4.3.3) derives "
    "from these requests."
)
TITLE = "All limiters: precision, bytes and latency, and what moves them"
SOURCE = "ours; thesis 5.5 and chapter 7 leave it open"
EXPERIMENT = Experiment("limiters-plane", TITLE, SOURCE, points, OPTIONS, open_to_systems=True, repetitions=FEWER)
FIGURE = Figure(EXPERIMENT, tables, plane_drawing.draw, notes=NOTES)
