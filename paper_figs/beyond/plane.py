"""limiters-plane: what precision costs, for every limiter on the same requests and the same wide-area network.

Ours; the thesis leaves open what other topologies, delays and lost messages do (5.5, chapter 7).  Above: over-admission
and false rejection of each limiter on several loads, tuned on one repetition and judged on the others, and both
against the bytes sent.  Below: one factor at a time, with each limiter's usual settings.

``--log FILE`` takes a real log (see ``load``); without it the requests are synthetic, and the figure says so.
"""

from collections.abc import Mapping
from itertools import product
from pathlib import Path

from analysis.tables import collect
from core.errors import SpecError
from core.records import Options
from core.units import SECOND_NS, rational
from harness.experiment import Experiment, Option, RunSpec, Scale
from paper_figs.beyond import plane_drawing
from paper_figs.beyond.envelope import envelopes
from paper_figs.beyond.limiters import (
    CITIES,
    NEAR,
    ORACLE,
    PERIOD,
    load_name,
    measured,
    named,
    oracle,
    point,
    settings_of,
    works,
)
from paper_figs.beyond.load import OPTIONS as LOAD_OPTIONS
from paper_figs.beyond.load import loads_of
from paper_figs.beyond.sweeps import NODES, SHOWN, SWEEPS, node_counts, sweep_means
from paper_figs.figure import Figure, FigureTables
from paper_figs.light import Data, Frame

OPTIONS = (
    *LOAD_OPTIONS,
    Option("nodes", "nodes, one to a city in turn", NODES, int),
    Option("cities", "where the nodes are, separated by commas", CITIES),
)


PERIODS = {"tiny": (PERIOD,), "quick": ("300ms", PERIOD, "3s"), "paper": ("100ms", "300ms", PERIOD, "3s", "10s")}


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Every limiter with every setting that is tried, on every load; each sweep's other values; the oracles.

    Settings under which a limiter cannot work on a load are left out.
    """
    nodes, cities = options["nodes"], options["cities"]
    if nodes < 2:
        raise SpecError(f"--nodes {nodes}", "give at least 2")
    loads = loads_of(options, nodes)
    specs: list[RunSpec] = []
    for load in loads:
        names = [name for name in SHOWN if scale.name == "paper" or name not in NEAR]
        tried = [
            point(name, load, nodes, cities, **its) for name in names for its in settings_of(name, _periods(scale))
        ]
        specs += [oracle(load, nodes), *(spec for spec in tried if works(spec, load))]
    usual = loads[0]
    for sweep in SWEEPS:
        values = scale.pick(tiny=sweep.quick[-1:], quick=sweep.quick, paper=sweep.paper)
        if sweep.column == "nodes":
            values = node_counts(scale, nodes)
            specs += [oracle(usual, value) for value in values]
        option = {"loss": "loss_probability", "delay": "delay_factor"}.get(sweep.column, sweep.column)
        for value, name in product(values, sweep.systems):
            varied: Options = {"nodes": nodes, option: value}
            spec = point(name, usual, cities=cities, **varied)
            specs += [spec] if works(spec, usual) and spec not in specs else []
    return specs


def _periods(scale: Scale) -> tuple[str, ...]:
    periods: tuple[str, ...] = scale.pick(**PERIODS)
    return periods


def tables(data: Data) -> FigureTables:
    """``runs``: one row a run; ``envelopes``, ``sweeps``: means with 95 % intervals; ``facts``: what was offered."""
    runs = measured(data)
    return {"runs": runs, "envelopes": envelopes(runs), "sweeps": sweep_means(runs), "facts": facts(data, runs)}


def facts(data: Data, runs: Frame) -> Frame:
    """What was offered, a row a load: log ("" = synthetic), requests, users, capacity, rate, span_s, threshold.

    load, rejected_share, refills (r T / c), is_usual (sweeps are on it), and of a log start, duration, speed, spread
    (truth value), skip_bad, skipped (lines), skipped_reasons (as text).
    """
    import pandas as pd
    from pyspark.sql import functions as f

    factors = named(data).set_index("run_id").factors
    central = runs[runs.name == ORACLE].sort_values(["repetition", "run_id"]).drop_duplicates("load")
    its = f.col("run_id").isin([str(run_id) for run_id in central.run_id])
    asked = data.requests.where(its).groupBy("run_id")
    seen = asked.agg(f.count_distinct("user").alias("users"), (f.max("intended_at_ns") / SECOND_NS).alias("span_s"))
    reasons = collect(data.table("skipped_lines").where(its), ["reason"])
    usual = runs.load.mode().iloc[0] if len(runs) else ""
    thresholds = {load_of(has): has["system.threshold"] for has in factors if "system.threshold" in has}
    rows = []
    for row in central.merge(collect(seen, ["run_id"]), on="run_id").itertuples():
        has = factors[row.run_id]
        capacity, rate = has["system.capacity"], has["system.rate"]
        rows.append({
            "load": row.load,
            "is_usual": row.load == usual,
            "log": Path(has.get("workload.path", "")).name,
            "requests": int(row.offered_count),
            "users": int(row.users),
            "capacity": capacity,
            "rate": rate,
            "span_s": float(row.span_s),
            "refills": float(rational(rate)) * row.span_s / int(capacity),
            "threshold": thresholds.get(row.load, ""),
            "rejected_share": float(row.oracle_rejected_share),
            "start": has.get("workload.start", ""),
            "duration": has.get("workload.duration", ""),
            "speed": float(has.get("workload.speed", 1.0)),
            "spread": has.get("workload.spread") == "true",
            "skip_bad": has.get("workload.skip_bad") == "true",
            "skipped": int(reasons.line_count.sum()),
            "skipped_reasons": ", ".join(f"{row.reason} {row.line_count}" for row in reasons.itertuples()),
        })  # fmt: skip
    return pd.DataFrame(rows).sort_values(["is_usual", "load"], ascending=[False, True], ignore_index=True)


def load_of(factors: Mapping[str, str]) -> str:
    """``limiters.load_name`` of a run."""
    return load_name(factors.get("system.capacity", ""), factors.get("system.rate", ""))


NOTES = (
    "Over-admission and false rejection: how many more of a user's requests, or fewer, were admitted than by the "
    "oracle, the centralised limiter without delay, of those within the same c/r, the time in which a bucket fills; "
    "in % of all requests. A request admitted in place of another is no error. Users offer 0.8 to 2 times their rate, "
    "the aggregate 1.4 times, and ask some cities more often than others (Zipf). (Of a log, the busiest ten minutes "
    "unless --start and --duration say otherwise.) Above: each limiter's lower envelope over bytes. Of all settings "
    "tried (periods, and windows of leases, graphs and averages of throttlers) repetition 0 chose those whose larger "
    "error is below that of every one that sends less; the other repetitions, with other requests, are shown, with 95 "
    "% intervals (where there is no other, repetition 0 itself, and the sheet says so); the large mark has the "
    "smallest larger error. Settings under which a limiter cannot work (a node without a token, spans longer than a "
    "third of the run, news that is out of date on arrival) are not tried: with eight nodes no period of 300 ms or "
    "more lets the queue work on the aggregate, whose tokens are back after 31 ms, before another city can hear of "
    "most of them. "
    "Throttlers were made for one aggregate, not for many users: both are shown. Below: 8 cities, a node each, "
    "a period of 1 s for every protocol, windows of leases of 10 s, full mesh, no loss, true clocks; in each sweep "
    "one of them differs; a sweep has the limiters that it can touch. Distances stretch the delays of the network, up "
    "to 4 x, where the centralised limiter runs into its timeout of 1 s and then admits. Frequency analysis (F) has "
    "windows of at least two tokens; urgent is who asks a node for more than its share of the rate. The sliding log "
    "admits c requests in any c/r, as it is meant to: it is no token bucket."
)
REPETITIONS = {"quick": 4}  # one tunes
TITLE = "All limiters: precision, bytes and latency, and what moves them"
SOURCE = "ours; thesis 5.5 and chapter 7 leave it open"
EXPERIMENT = Experiment("limiters-plane", TITLE, SOURCE, points, OPTIONS, open_to_systems=True, repetitions=REPETITIONS)
FIGURE = Figure(EXPERIMENT, tables, plane_drawing.draw, notes=NOTES)
