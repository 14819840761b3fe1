"""Fig. 7: one server's clients, sorted by demand, under the node-level rules of Section 7.

(a) Algorithm 1 cuts every client by the same ratio; (b) Algorithm 2, corrected, cuts all at one level; (c)
the same amount, which Section 7 names and does not print; (d) Algorithm 2 as printed, which admits more
than the server's limit.  The run is Example 2's: 1,000 clients assigned at random to 10 servers, 100 each.
"""

import numpy as np

from analysis.verdicts import Claim, Evidence, Tables, above, at_most
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.dst.loads import point
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import frame_of, samples, where, with_point
from paper_figs.style import Style

AT = 60  # the cycle that is shown
RULES = {
    "equal-ratio": "Algorithm 1: equal ratios",
    "water-filling": "Algorithm 2, corrected: water filling",
    "equal-amount": "equal amounts (named, not printed)",
    "printed": "Algorithm 2 as printed",
}
ADMITTED, THROTTLED = Style("admitted", "#0072B2", "", "--"), Style("throttled", "#D55E00", "", "-")
EXACT = 1e-9  # relative: rounding


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Graph #1 under each rule, told of each client's demand in one cycle."""
    told = {"clients_at": [AT]}
    return [point({"kind": "ar1"}, "dst-1", cycles=AT + 1, study=told, rule=rule) for rule in RULES]


def tables(data: Data) -> FigureTables:
    """``clients``, a row each: rule, repetition, server, client, demand, admitted; ``servers``: limit and admitted."""
    from pyspark.sql import functions as f

    key = ["rule", "repetition", "server"]
    clients = data.table("client_cycles").select("run_id", "server", "client", "demand", "admitted")
    servers = data.table("cycles").where(f.col("cycle") == AT).select("run_id", "server", "demand", "limit", "admitted")
    frames = {"clients": clients, "servers": servers}
    named = {name: with_point(data, frame, {"rule": "system.rule"}, ["repetition"]) for name, frame in frames.items()}
    return {name: frame[[*key, *frames[name].columns[2:]]] for name, frame in named.items()}


def shown(tables: FigureTables) -> str:
    """The server to draw, in repetition 0: the one whose limit is nearest to two thirds of its demand."""
    servers = where(tables["servers"], repetition=0, rule="equal-ratio")
    return str(servers.server.iloc[int((servers.limit / servers.demand - 2 / 3).abs().argmin())])


def draw(tables: FigureTables) -> Drawing:
    """A panel a rule: one bar a client, ascending; blue is admitted, red throttled."""
    sheet, axes = drawing.panels(2, 2, tuple(RULES.values()), (7.4, 4.8), share_x=True, share_y=True)
    server = shown(tables)
    here = {name: frame[(frame.server == server) & (frame.repetition == 0)] for name, frame in tables.items()}
    for rule, panel in zip(RULES, axes, strict=True):
        clients, servers = (here[name][here[name].rule == rule] for name in ("clients", "servers"))
        if not clients.empty and not servers.empty:
            _draw_rule(panel, clients.sort_values(["demand", "client"]), float(servers.limit.iloc[0]), rule)
    for panel in axes[2:]:
        panel.set_xlabel("client, by demand")
    for panel in axes[::2]:
        panel.set_ylabel("requests in the cycle")
    level = keys.key(ADMITTED._replace(label="level $l$"), marker=False)
    keys.legend_above(sheet, [keys.bar_key(ADMITTED), keys.bar_key(THROTTLED), level])
    return sheet


def _draw_rule(axes: Axes, clients: Frame, limit: float, rule: str) -> None:
    place, cut = np.arange(1, len(clients) + 1), clients.demand - clients.admitted
    parts = [drawing.BarPart(clients.admitted, ADMITTED), drawing.BarPart(cut, THROTTLED)]
    drawing.stacked_bars(axes, place, parts, width=1.0)
    if rule in ("water-filling", "printed"):
        level = float(clients.admitted.max())
        sign = "≥" if level >= float(clients.demand.max()) else "="
        drawing.curve(axes, [0.0, len(clients)], [level, level], ADMITTED)
        drawing.label(axes, f"level $l$ {sign} {level:.3g}", (1, level), ADMITTED.colour, (1, 2))
    axes.set_ylim(top=1.15 * float(clients.demand.max()))
    sums = f"limit {limit:,.0f}, admitted {clients.admitted.sum():,.0f}\nof {clients.demand.sum():,.0f}"
    drawing.note(axes, sums, (0.02, 0.6), top=True)


def measure_s14(tables: Tables) -> Evidence:
    """The worst server of each repetition: what it admits, how equal its ratios are, who is cut though not largest."""
    worst = _worst_servers(tables)
    ratio, level = worst.loc["equal-ratio"], worst.loc["water-filling"]
    ratios = where(tables["dst-fig7/servers"], rule="equal-ratio")
    throttling = (ratios.limit < ratios.demand).groupby(ratios.repetition).sum()  # without any, the rules say nothing
    off, unfair = "admitted against min(x, r), relative", "a client is cut below the largest share, relative"
    checks = (
        at_most(f"{RULES['equal-ratio']}: {off}", samples(ratio.off), EXACT),
        at_most(f"{RULES['water-filling']}: {off}", samples(level.off), EXACT),
        at_most("Algorithm 1: spread of admitted over demand", samples(ratio.uneven), EXACT),
        at_most(f"Algorithm 2, corrected: {unfair}", samples(level.unfair), EXACT),
        above("servers that throttle", samples(throttling), 0.0),
    )
    return Evidence(checks)


def _worst_servers(tables: Tables) -> Frame:
    """By rule and repetition, over the servers: the largest off (the sum), uneven (ratios), unfair (cuts)."""
    key = ["rule", "repetition", "server"]
    limits, rows = tables["dst-fig7/servers"].set_index(key).limit, []
    for server, clients in tables["dst-fig7/clients"].groupby(key):
        admitted, demand = clients.admitted, clients.demand
        wanted, largest = min(max(0.0, limits[server]), demand.sum()), admitted.max()
        ratio, cut = (admitted / demand)[demand > 0], admitted[admitted < demand * (1 - EXACT)]
        off = abs(admitted.sum() - wanted) / max(wanted, 1.0)
        rows.append((*server, off, ratio.max() - ratio.min(), ((largest - cut) / largest).max()))
    each = frame_of(rows, [*key, "off", "uneven", "unfair"]).fillna(0.0)  # null: nobody wants anything, or is cut
    return each.drop(columns="server").groupby(key[:2]).max()


S14 = (
    "Algorithm 1 throttles all clients of a server by the same ratio, Algorithm 2, corrected, the large ones, down to "
    "a level; both admit exactly what the limit allows."
)
WHY_S14 = (
    "Algorithm 2 as printed admits more than the limit: it hands on surplus that its level contains already. What is "
    "judged is the corrected one; panel (d) shows the printed one."
)
CLAIMS = (Claim("S14", "DST, Section 7", S14, ("dst-fig7",), measure_s14, why=WHY_S14),)
EXPERIMENT = Experiment("dst-fig7", "One server's clients under the node-level rules", "DST, Fig. 7", points)
NOTES = (
    f"One server in cycle {AT} of a run on graph #1 under the AR(1) load; clients' weights are lognormal (sigma 1, "
    "ours: the paper's demands are not given). All panels have the same demands and the same limit. The paper has (a) "
    "and (b)."
)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
