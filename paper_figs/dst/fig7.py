"""Fig. 7: one server's clients, sorted by demand, under the node-level rules of Section 7.

(a) Algorithm 1 cuts every client by the same ratio; (b) Algorithm 2, corrected, cuts all at one level; (c)
the same amount, which Section 7 names and does not print; (d) Algorithm 2 as printed, which admits more
than the server's limit.  The run is Example 2's: 1,000 clients assigned at random to 10 servers, 100 each.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.verdicts import Check, Claim, Evidence, Tables, above, at_most
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.dst.loads import point
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import plain, where
from paper_figs.style import letter, panels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

AT = 60  # the cycle that is shown
RULES = {
    "equal-ratio": "(a) Algorithm 1: equal ratios",
    "water-filling": "(b) Algorithm 2, corrected: water filling",
    "equal-amount": "(c) equal amounts (named, not printed)",
    "printed": "(d) Algorithm 2 as printed",
}
EXACT = 1e-9  # relative: rounding


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Graph #1 under each rule, told of each client's demand in one cycle."""
    told = {"clients_at": [AT]}
    return [point({"kind": "ar1"}, "dst-1", cycles=AT + 1, study=told, rule=rule) for rule in RULES]


def tables(data: "Data") -> FigureTables:
    """``clients``, a row each: rule, repetition, server, client, demand, admitted; ``servers``: limit and admitted."""
    from pyspark.sql import functions as f

    from analysis.spark import collect

    named = data.runs.select("run_id", "repetition", f.col("factors")["system.rule"].alias("rule"))
    key = ["rule", "repetition", "server"]
    clients = data.table("client_cycles").join(named, "run_id").select(*key, "client", "demand", "admitted")
    then = data.table("cycles").where(f.col("cycle") == AT)
    servers = then.join(named, "run_id").select(*key, "demand", "limit", "admitted")
    return {
        "clients": plain(collect(clients, [*key, "client"]), []),
        "servers": plain(collect(servers, key), []),
    }


def shown(found: FigureTables) -> str:
    """The server to draw, in repetition 0: the one whose limit is nearest to two thirds of its demand."""
    servers = where(found["servers"], repetition=0, rule="equal-ratio")
    return str(servers.server.iloc[int((servers.limit / servers.demand - 2 / 3).abs().argmin())])


def draw(found: FigureTables) -> "Drawing":
    """A panel a rule: one bar a client, ascending; blue is admitted, red throttled."""
    drawing, axes = panels(2, 2, sharex=True, sharey=True)
    drawing.set_size_inches(7.6, 4.8)
    server = shown(found)
    for (rule, title), panel in zip(RULES.items(), axes.flat, strict=True):
        clients = found["clients"]
        part = clients[(clients.rule == rule) & (clients.server == server) & (clients.repetition == 0)]
        totals = found["servers"]
        total = totals[(totals.rule == rule) & (totals.server == server) & (totals.repetition == 0)]
        if not part.empty and not total.empty:
            _draw_rule(panel, part.sort_values(["demand", "client"]), float(total.limit.iloc[0]), rule)
        letter(panel, title)
    for panel in axes[1]:
        panel.set_xlabel("client, by demand")
    for panel in axes[:, 0]:
        panel.set_ylabel("requests in the cycle")
    axes[0][0].legend(fontsize=6.5, loc="upper left", bbox_to_anchor=(0.0, 0.93))
    return drawing


def _draw_rule(axes: "Axes", clients: "pd.DataFrame", limit: float, rule: str) -> None:
    place = np.arange(1, len(clients) + 1)
    axes.bar(place, clients.admitted, width=1.0, color="#0072B2", linewidth=0, label="admitted")
    axes.bar(place, clients.demand - clients.admitted, width=1.0, bottom=clients.admitted, color="#D55E00", linewidth=0,
             label="throttled")  # fmt: skip
    if rule in ("water-filling", "printed"):
        level = float(clients.admitted.max())
        all_fit = level >= float(clients.demand.max())
        axes.axhline(level, color="#0072B2", linestyle="--", linewidth=1.0)
        axes.annotate(f"level $l$ {'≥' if all_fit else '='} {level:.3g}", (1, level), fontsize=6.5, color="#0072B2",
                      xytext=(0, 2), textcoords="offset points", va="bottom")  # fmt: skip
    axes.set_ylim(top=1.15 * float(clients.demand.max()))
    axes.annotate(f"limit {limit:,.0f}, admitted {clients.admitted.sum():,.0f}\nof {clients.demand.sum():,.0f}",
                  (0.02, 0.6), xycoords="axes fraction", fontsize=6.5, va="top")  # fmt: skip


def measure_s14(tables: Tables) -> Evidence:
    """The worst server of each repetition: what it admits, how equal its ratios are, who is cut though not largest."""
    clients, servers = tables["dst-fig7/clients"], tables["dst-fig7/servers"]
    exact: list[Check] = []
    for rule in ("equal-ratio", "water-filling"):
        off = _per_server(clients, servers, rule, _off_the_sum)
        exact.append(at_most(f"{RULES[rule][4:]}: admitted against min(x, r), relative", off, EXACT))
    uneven = _per_server(clients, servers, "equal-ratio", _uneven)
    exact.append(at_most("Algorithm 1: spread of admitted over demand", uneven, EXACT))
    unfair = _per_server(clients, servers, "water-filling", _unfair)
    exact.append(at_most("Algorithm 2, corrected: a client is cut below the largest share, relative", unfair, EXACT))
    exact.append(above("servers that throttle", _throttling(servers), 0.0))
    return Evidence(tuple(exact))


def _per_server(clients: "pd.DataFrame", servers: "pd.DataFrame", rule: str, measure: Any) -> list[float]:
    """The largest value over the servers of each repetition."""
    worst = []
    for repetition, part in where(clients, rule=rule).groupby("repetition"):
        limits = where(servers, rule=rule, repetition=repetition).set_index("server").limit
        worst.append(max(float(measure(each, float(limits[server]))) for server, each in part.groupby("server")))
    return worst


def _off_the_sum(clients: "pd.DataFrame", limit: float) -> float:
    wanted = min(max(0.0, limit), clients.demand.sum())
    return abs(clients.admitted.sum() - wanted) / max(wanted, 1.0)


def _uneven(clients: "pd.DataFrame", limit: float) -> float:
    ratio = (clients.admitted / clients.demand)[clients.demand > 0]
    return float(ratio.max() - ratio.min()) if len(ratio) else 0.0


def _unfair(clients: "pd.DataFrame", limit: float) -> float:
    cut = clients.admitted[clients.admitted < clients.demand * (1 - EXACT)]
    largest = float(clients.admitted.max())
    return float(((largest - cut) / largest).max()) if len(cut) and largest > 0 else 0.0


def _throttling(servers: "pd.DataFrame") -> list[float]:
    """How many servers of a repetition throttle at all: without any, the rules say nothing."""
    part = where(servers, rule="equal-ratio")
    return [float((each.limit < each.demand).sum()) for _, each in part.groupby("repetition")]


CLAIMS = (
    Claim(
        "S14", "DST, Section 7", "Algorithm 1 throttles all clients of a server by the same ratio, Algorithm 2 the "
        "large ones, down to a level; both admit exactly what the limit allows.", ("dst-fig7",), measure_s14,
        why="Algorithm 2 as printed admits more than the limit: it hands on surplus that its level contains already. "
        "What is judged is the corrected one; panel (d) shows the printed one.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment("dst-fig7", "One server's clients under the node-level rules", "DST, Fig. 7", points)
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes=f"One server in cycle {AT} of a run on graph #1 under the AR(1) load; clients' weights are lognormal (sigma "
    "1, ours: the paper's demands are not given). All panels have the same demands and the same limit. The paper has "
    "(a) and (b).",
)  # fmt: skip
