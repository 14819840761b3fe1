"""The update law (4), iterated: what the paper proves of it, and where it needs more than it says.

Ours; the paper has no figure of it.  Loads are constant, so that only the law is at work.
"""

from collections.abc import Iterator

import numpy as np

from analysis.verdicts import Claim, Evidence, Tables, above, at_most, below
from core.records import Row
from core.seeds import generator
from paper_figs import drawing, keys
from paper_figs.dst.drawing import LABELS, LOOKS, analytic, frame, sure
from paper_figs.dst.published import CYCLE, SERVERS
from paper_figs.figure import Figure, FigureTables
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import where
from paper_figs.style import SERIES, series
from systems.parts.laplacian import largest_cycle, logarithmic_step, phi_cr
from systems.parts.throttling import MEASURES, Array, performance, step, trajectory
from systems.parts.throttling_graphs import Graph, graph_named, laplacian, unweighted, weighted

LOAD = 100.0  # requests a cycle and server
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 1.02, 1.1)  # of 2 / l_n: the cycles of S2
REQUESTS = (10.0, 20.0, 40.0, 80.0, 160.0)  # R of Cases II and III
RATIO_CYCLE = 1.0  # g of Case II: g / R takes the place of g, and is stable down to R = 10
RULES: dict[str, dict[str, bool]] = {  # Case IV
    "no freeze": {"freeze": False},
    "freeze as printed": {"literal": True},
    "freeze": {},
    "freeze, clamped": {"clamp": True},
}
STARTS = 10  # of Case IV, on each graph
ROUNDING = 1e-9
ONE_STEP = 0.1  # of the mean load: how far a cycle at g = 0.02 may carry a limit beyond its bound
FROZEN_CYCLES = 500  # of Case IV
TREE = laplacian(graph_named("dst-1"))
DIRECTED: dict[str, Array] = {  # who reads whom
    "two-way tree": np.diag(np.diag(TREE)) - TREE,
    "one-way ring": np.roll(np.eye(SERVERS), 1, axis=1),
    "chain of followers": np.eye(SERVERS, k=1),  # the last one reads nobody
}


def tables(data: Data) -> FigureTables:
    """``sums``, ``directed``: S1, S20a, S20b; ``contraction``: S2, S11; ``frozen``, ``limits``: S12; ``logs``: S18."""
    frozen, limits = map(frame, frozen_runs())
    of_sums = {"sums": frame(sum_drifts()), "directed": frame(directed_drifts())}
    of_speed = {"contraction": frame(contractions()), "logs": frame(logarithmic_gaps())}
    return {**of_sums, **of_speed, "frozen": frozen, "limits": limits}


def random_graph(rng: np.random.Generator, n: int = SERVERS) -> Graph:
    """A random tree with random links on top and weights of 0.1 to 2."""
    parents = [int(rng.integers(node)) for node in range(1, n)]
    links = {(parent, node) for node, parent in enumerate(parents, 1)}
    links |= {(a, b) for a in range(n) for b in range(a + 1, n) if rng.random() < 0.2}
    return weighted(unweighted(n, links), rng.uniform(0.1, 2.0, len(links)))


def drift(limits: Array) -> float:
    """The largest change of the sum of the limits, as a share of the largest sum of their sizes; cycles first."""
    total = limits.sum(axis=1)
    return float(np.abs(total - total[0]).max() / np.abs(limits).sum(axis=1).max())


def sum_drifts() -> Iterator[Row]:
    """S1: every measure on random weighted graphs under random loads; Case IV with the freeze."""
    rng = generator(1, "dst-law", "sums")
    for number in range(20):
        matrix = laplacian(random_graph(rng))
        requests = LOAD * rng.uniform(0.5, 1.5, (200, SERVERS))
        start = LOAD * rng.uniform(0.2, 1.8, SERVERS)
        for measure in MEASURES:
            g = 0.4 * largest_cycle(matrix) * (0.2 * LOAD if measure in ("throttled-ratio", "log-ratio") else 1.0)
            yield {"graph": number, "measure": measure, "drift": drift(trajectory(matrix, start, requests, measure, g))}


def directed_drifts() -> Iterator[Row]:
    """S20a, S20b: Case I over directed graphs; ``gap``: between the sum and what Eq. (10) makes of the one before."""
    rng = generator(1, "dst-law", "directed")
    requests, start = LOAD * rng.uniform(0.5, 1.5, SERVERS), LOAD * rng.uniform(0.5, 1.5, SERVERS)
    for kind, reads in DIRECTED.items():
        matrix = np.diag(reads.sum(axis=1)) - reads
        limits = trajectory(matrix, start, [requests] * 500, "throttled", CYCLE)
        told = limits.sum(axis=1)[:-1] + CYCLE * (performance("throttled", limits[:-1], requests) @ matrix.T).sum(
            axis=1
        )
        gap = float(np.abs(limits.sum(axis=1)[1:] - told).max() / np.abs(limits).sum(axis=1).max())
        balanced = bool((reads.sum(axis=0) == reads.sum(axis=1)).all())  # every node is read as much as it reads
        end = float(limits[-1].sum() / limits[0].sum())
        yield {"graph": kind, "balanced": balanced, "gap": gap, "drift": drift(limits), "sum_at_end": end}


def contraction(matrix: Array, measure: str, g: float, requests: float, rng: np.random.Generator) -> float:
    """By what factor the slowest disagreement shrinks (or grows) in a cycle: iterated, cut back to size every cycle.

    For Cases I and II under r_i = ``requests``, where the law is linear about equal limits.
    """
    offsets = rng.standard_normal(len(matrix))
    rest = np.full(len(matrix), requests)
    sizes = []
    for _ in range(4_000):
        offsets -= offsets.mean()
        offsets /= np.linalg.norm(offsets)
        offsets = step(matrix, rest + offsets, rest, measure, g) - rest
        sizes.append(float(np.linalg.norm(offsets)))
    return float(np.exp(np.log(sizes[-100:]).mean()))


def contractions() -> Iterator[Row]:
    """S2: Case I at several shares of 2 / l_n; S11: Case II at one g and several R."""
    for name in LABELS:
        matrix = laplacian(graph_named(name))
        rng = generator(1, "dst-law", "contraction", name)
        paces = [share * largest_cycle(matrix) for share in SHARES]
        cases = [("throttled", share, g, LOAD, g) for share, g in zip(SHARES, paces, strict=True)]
        cases += [("throttled-ratio", np.nan, RATIO_CYCLE, requests, RATIO_CYCLE / requests) for requests in REQUESTS]
        for measure, share, g, requests, pace in cases:
            row = {"graph": name, "measure": measure, "share": share, "g": g, "requests": requests}
            measured = contraction(matrix, measure, g, requests, rng)
            yield {**row, "measured": measured, "phi_cr": phi_cr(matrix, pace)}


def frozen_runs() -> tuple[list[Row], list[Row]]:
    """S12: Case IV by rule: one row a start; and the limits of one start, one row a cycle and server."""
    rng = generator(1, "dst-law", "frozen")
    rows, limits = [], []
    for name in LABELS:
        matrix = laplacian(graph_named(name))
        for start in range(STARTS):
            requests = LOAD * rng.uniform(0.5, 1.5, SERVERS)
            first = requests * rng.uniform(0.0, 1.0, SERVERS)
            for rule, options in RULES.items():
                path = trajectory(matrix, first, [requests] * FROZEN_CYCLES, "allowed", CYCLE, **options)
                beyond = float(np.maximum(path - requests, -path).max())
                row = {"graph": name, "rule": rule, "start": start, "beyond": max(0.0, beyond) / LOAD}
                row["below"] = max(0.0, -float(path.min())) / LOAD
                last = float(np.abs(path[-1] - path[-2]).max()) / LOAD
                rows.append({**row, "drift": drift(path), "last_change": last})
                if name == "dst-1" and start == 0:
                    for (k, server), value in np.ndenumerate(path[:101] / requests):
                        limits.append({"rule": rule, "cycle": k, "server": server, "share": float(value)})
    return rows, limits


def logarithmic_gaps() -> Iterator[Row]:
    """S18: Case III by the law and by Eq. (47), the same start; the largest gap, and the spread left at the end."""
    for name in LABELS:
        matrix = laplacian(graph_named(name))
        rng = generator(1, "dst-law", "logarithmic", name)
        for requests in REQUESTS:
            g = 0.5 * largest_cycle(matrix) * requests * 0.5
            share = rng.uniform(0.5, 1.0, SERVERS)
            limits, gap = requests * share, 0.0
            for _ in range(300):
                limits = step(matrix, limits, np.full(SERVERS, requests), "log-ratio", g)
                share = logarithmic_step(matrix, share, g, requests)
                gap = max(gap, float(np.abs(limits / requests - share).max()))
            yield {"graph": name, "requests": requests, "gap": gap, "spread": float(np.ptp(share))}


def draw(tables: FigureTables) -> Drawing:
    """Contraction against g and against R; the sum over directed graphs; Case IV by rule."""
    rules = ("no freeze", "freeze", "freeze, clamped")
    cases = ("Case I: agreement below $2/\\lambda_n$", "Case II: the load sets the speed", "directed links")
    sheet, axes = drawing.panels(2, 3, (*cases, *(f"Case IV, {rule}" for rule in rules)), (8.6, 5.0))
    _draw_contraction(axes[0], tables["contraction"], "throttled", "g")
    drawing.rule(axes[0], 1.0)
    axes[0].set_xlabel("update cycle $\\gamma$")
    _draw_contraction(axes[1], tables["contraction"], "throttled-ratio", "requests")
    axes[1].set_xlabel("requests $R$ a cycle and server")
    sums, limits = tables["directed"], tables["limits"]
    colours = [SERIES[0] if balanced else "#D55E00" for balanced in sums.balanced]
    drawing.categories(axes[2], [name.replace(" of ", "\nof ") for name in sums.graph], "y")
    axes[2].barh(range(len(sums)), sums.sum_at_end, color=colours, height=0.6)
    drawing.rule(axes[2], 1.0, "x")
    axes[2].set_xlabel("sum of limits, end / start")
    for panel, rule in zip(axes[3:], rules, strict=True):  # a line a server, up to where they leave the picture
        for server, line in limits[limits.rule == rule].groupby("server"):
            drawing.curve(panel, line.cycle, line.share, series("", int(str(server))), width=1.0)
        for bound in (0.0, 1.0):
            drawing.rule(panel, bound)
        panel.set(ylim=(-0.5, 1.5), xlabel="cycle", ylabel="limit / requests")
    curves = [keys.key(look._replace(label=f"{look.label}, $\\Phi_{{cr}}$"), marker=False) for look in LOOKS.values()]
    points = [keys.key(look._replace(label=f"{look.label}, iterated"), line=False) for look in LOOKS.values()]
    keys.legend_above(sheet, [*curves, *points])
    return sheet


def _draw_contraction(axes: Axes, contraction: Frame, measure: str, x: str) -> None:
    for name, look in LOOKS.items():
        part = contraction[(contraction.measure == measure) & (contraction.graph == name)].sort_values(x)
        drawing.curve(axes, part[x], part.phi_cr, look)
        drawing.marks(axes, part[x], part.measured, look)
    axes.set_ylabel("factor a cycle")


def measure_s1(tables: Tables) -> Evidence:
    """The largest drift of the sum of the limits over all graphs, by measure."""
    drifts = tables["dst-law/sums"].groupby("measure", sort=False).drift.max()
    label = "largest drift of the sum"
    return Evidence(tuple(at_most(f"{name}: {label}", sure(value), ROUNDING) for name, value in drifts.items()))


def measure_s20a(tables: Tables) -> Evidence:
    """The sum of the limits over each directed graph, against what Eq. (10) makes of the cycle before."""
    rows = tables["dst-law/directed"].itertuples()
    return Evidence(tuple(at_most(f"{row.graph}: gap of Eq. (10)", sure(row.gap), ROUNDING) for row in rows))


def measure_s20b(tables: Tables) -> Evidence:
    """The drift of the sum over each directed graph."""
    rows = tables["dst-law/directed"].itertuples()
    return Evidence(tuple(at_most(f"{row.graph}: drift of the sum", sure(row.drift), ROUNDING) for row in rows))


def measure_s2(tables: Tables) -> Evidence:
    """The factor measured against Phi_cr; below 1 for g < 2/l_n, above 1 beyond."""
    rows = where(tables["dst-law/contraction"], measure="throttled")
    off = sure((rows.measured - rows.phi_cr).abs().max())
    checks = [at_most("measured factor against Phi_cr, largest difference", off, 1e-6)]
    for name, part in rows.groupby("graph", sort=False):
        stable, unstable = part[part.share < 1.0].measured.max(), part[part.share > 1.0].measured.min()
        checks.append(below(f"{LABELS[name]}: largest factor at g < 2/l_n", sure(stable), 1.0))
        checks.append(above(f"{LABELS[name]}: smallest factor at g > 2/l_n", sure(unstable), 1.0))
    return Evidence(tuple(checks))


def measure_s11(tables: Tables) -> Evidence:
    """Case II: the factor measured against Phi_cr at g/R, and between the smallest and the largest R."""
    rows = where(tables["dst-law/contraction"], measure="throttled-ratio")
    off = sure((rows.measured - rows.phi_cr).abs().max())
    close = at_most("measured factor against Phi_cr at g/R, largest difference", off, 1e-6)
    factors = rows.pivot(index="graph", columns="requests", values="measured")
    growth = factors.diff(axis=1).min(axis=1)
    label = "least growth of the factor from one R to the next"
    slower = tuple(above(f"{LABELS[name]}: {label}", sure(growth[name])) for name in LABELS if name in growth)
    return Evidence((close, *slower), slower)


def measure_s12(tables: Tables) -> Evidence:
    """Case IV: far out without the freeze; with it within a step of its bounds, at rest, the sum kept."""
    rows = tables["dst-law/frozen"]
    free, bound, clamped = (where(rows, rule=rule) for rule in ("no freeze", "freeze", "freeze, clamped"))
    checks = [
        above("no freeze: least distance beyond the bounds, mean loads", sure(free.beyond.min()), 100.0),
        at_most("freeze: largest distance beyond the bounds, mean loads", sure(bound.beyond.max()), ONE_STEP),
        at_most("freeze: largest change in the last cycle, mean loads", sure(bound.last_change.max()), ROUNDING),
        at_most("freeze: largest drift of the sum", sure(bound.drift.max()), ROUNDING),
        at_most("clamped: largest distance below 0", sure(clamped.below.max()), ROUNDING),
        at_most("clamped: largest distance beyond the bounds, mean loads", sure(clamped.beyond.max()), ONE_STEP),
        at_most("clamped: largest drift of the sum", sure(clamped.drift.max()), ROUNDING),
    ]
    return Evidence(tuple(checks))


def measure_s18(tables: Tables) -> Evidence:
    """Case III: the law against Eq. (47), and that servers come to agree."""
    logs = tables["dst-law/logs"]
    gap = at_most("largest gap between the law and Eq. (47)", sure(logs.gap.max()), ROUNDING)
    return Evidence((gap, at_most("spread of x/r left at the end, largest", sure(logs.spread.max()), 1e-3)))


CLAIMS = (
    Claim(
        "S1", "DST, Lemma 1, Eq. (9)", "The sum of the servers' limits never changes, whatever measure and load.",
        ("dst-law",), measure_s1,
        why="It is a theorem for a symmetric L: the law would have been iterated with another matrix.",
    ),
    Claim(
        "S2", "DST, Lemma 2, Eq. (15)", "Under steady loads the servers agree in the end if and only if Phi_cr < 1, "
        "that is g < 2/l_n, and disagreement shrinks by Phi_cr a cycle.", ("dst-law",), measure_s2,
        why="It is a theorem: a start without a part in the slowest mode would hide it.",
    ),
    Claim(
        "S11", "DST, appendix, Eq. (42)", "With the throttled ratio as measure (Case II) the requests R of a server "
        "take part in the speed: g/R stands for g.", ("dst-law",), measure_s11,
        why="It is a theorem for equal, constant requests.",
    ),
    Claim(
        "S12", "DST, appendix, Eq. (48)", "With the admitted amount as measure (Case IV) limits run away; frozen at 0 "
        "and at r_i and beyond (at exactly these, as printed, they are never caught) they stay bounded, come to rest, "
        "and keep their sum.", ("dst-law",), measure_s12,
        why="The printed rule freezes at x_i = r_i exactly, which a step of finite length jumps over (rule \"freeze as "
        "printed\": as unbounded as none). With >= and <= the bound is kept up to one step; the throttler's clamp of "
        "each link's flow (ours) keeps 0 exactly, and r_i up to a step.",
    ),
    Claim(
        "S18", "DST, appendix, Eqs. (45)-(47)", "With the logarithm as measure (Case III) and equal requests, x/r "
        "follows Eq. (47).", ("dst-law",), measure_s18, why="It is a rewriting of the law.",
    ),
    Claim(
        "S20a", "DST, after Lemma 1, Eq. (10)", "Over any directed graph, too, the sum of the limits changes by "
        "g 1'L p (10) in a cycle.", ("dst-law",), measure_s20a,
        why="It is an identity, whatever L is, and says nothing of the sum: see S20b.",
    ),
    Claim(
        "S20b", "DST, after Lemma 1, Eq. (9)", "Over any directed graph, too, the sum of the limits is kept (9): what "
        "the sentence on (10) is there to say.", ("dst-law",), measure_s20b,
        why="The paper says it of (10), an identity that holds for every matrix (S20a); of (9) it is not so. 1'L = 0 "
        "needs every server to be read with as much weight as it reads with: a ring of one-way links keeps the sum, "
        "a chain in which each follows the next does not.",
    ),
)  # fmt: skip
EXPERIMENT = analytic("dst-law", "The update law, iterated", "DST, Lemmas 1-2, appendix")
NOTES = (
    "Ours; constant loads. (a) Points: iterated from a random start. (b) g = 1. (c) After "
    "Lemma 1 the paper has (10) hold over any directed graph: it does, as an identity, but the constant sum (9) that "
    "(10) stands for is kept by balanced ones alone. The "
    "freeze of Case IV as printed, at exactly x = r, never takes hold (table frozen): limits run away as in (d). With "
    "x >= r (e) they pass their bounds by at most one step; cutting the flow on each link (f, ours) keeps them above "
    "0. Nothing keeps limits positive in the other cases: a limit below 0 admits nothing."
)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
