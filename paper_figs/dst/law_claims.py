"""The claims on the update law: what ``dst-law`` measures."""

from analysis.verdicts import Check, Claim, Evidence, Tables, above, at_most, below
from paper_figs.dst.drawing import LABELS, sure
from paper_figs.series import where

ROUNDING = 1e-9
ONE_STEP = 0.1  # of the mean load: how far a cycle at g = 0.02 may carry a limit beyond its bound


def measure_s1(tables: Tables) -> Evidence:
    """The largest drift of the sum of the limits over all graphs, by measure."""
    drifts = tables["dst-law/sums"].groupby("measure", sort=False).drift.max()
    label = "largest drift of the sum"
    return Evidence(tuple(at_most(f"{name}: {label}", sure(value), ROUNDING) for name, value in drifts.items()))


def measure_s20(tables: Tables) -> Evidence:
    """The drift of the sum over each directed graph."""
    rows = tables["dst-law/directed"].itertuples()
    return Evidence(tuple(at_most(f"{row.graph}: drift of the sum", sure(row.drift), ROUNDING) for row in rows))


def measure_s2(tables: Tables) -> Evidence:
    """The factor measured against Phi_cr; below 1 for g < 2/l_n, above 1 beyond."""
    rows = where(tables["dst-law/contraction"], measure="throttled")
    off = sure((rows.measured - rows.phi_cr).abs().max())
    checks: list[Check] = [at_most("measured factor against Phi_cr, largest difference", off, 1e-6)]
    for name, part in rows.groupby("graph", sort=False):
        stable = part[part.share < 1.0].measured.max()
        checks.append(below(f"{LABELS[name]}: largest factor at g < 2/l_n", sure(stable), 1.0))
        unstable = part[part.share > 1.0].measured.min()
        checks.append(above(f"{LABELS[name]}: smallest factor at g > 2/l_n", sure(unstable), 1.0))
    return Evidence(tuple(checks))


def measure_s11(tables: Tables) -> Evidence:
    """Case II: the factor measured against Phi_cr at g/R, and between the smallest and the largest R."""
    rows = where(tables["dst-law/contraction"], measure="throttled-ratio")
    off = sure((rows.measured - rows.phi_cr).abs().max())
    checks: list[Check] = [at_most("measured factor against Phi_cr at g/R, largest difference", off, 1e-6)]
    direction: list[Check] = []
    for name, part in rows.groupby("graph", sort=False):
        ordered = part.sort_values("requests").measured
        label = f"{LABELS[name]}: least growth of the factor from one R to the next"
        direction.append(above(label, sure(ordered.diff().min())))
    return Evidence((*checks, *direction), tuple(direction))


def measure_s12(tables: Tables) -> Evidence:
    """Case IV: far out without the freeze; with it within a step of its bounds, at rest, the sum kept."""
    rows = tables["dst-law/frozen"]
    free, bound, clamped = (where(rows, rule=rule) for rule in ("no freeze", "freeze", "freeze, clamped"))
    checks = [
        above("no freeze: least distance beyond the bounds, mean loads", sure(free.beyond.min()), 100.0),
        at_most("freeze: largest distance beyond the bounds, mean loads", sure(bound.beyond.max()), ONE_STEP),
        at_most("freeze: largest change in the last cycle, mean loads", sure(bound.last_change.max()), ROUNDING),
        at_most("freeze: largest drift of the sum", sure(bound.drift.max()), ROUNDING),
        at_most("clamped: largest distance beyond the bounds", sure(clamped.beyond.max()), ROUNDING),
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
        "and at r_i they stay bounded, come to rest, and keep their sum.", ("dst-law",), measure_s12,
        why="The printed rule freezes at x_i = r_i exactly, which a step of finite length jumps over (rule \"freeze as "
        "printed\": as unbounded as none). With >= and <= the bound is kept up to one step; a clamp of each link's "
        "flow (ours) keeps it exactly.",
    ),
    Claim(
        "S18", "DST, appendix, Eqs. (45)-(47)", "With the logarithm as measure (Case III) and equal requests, x/r "
        "follows Eq. (47).", ("dst-law",), measure_s18, why="It is a rewriting of the law.",
    ),
    Claim(
        "S20", "DST, after Lemma 1", "The sum of the limits is kept over any directed graph, too.", ("dst-law",),
        measure_s20,
        why="An error of the paper. 1'L = 0 needs every server to be read with as much weight as it reads with: a ring "
        "of one-way links keeps the sum, a chain in which each follows the next does not.",
    ),
)  # fmt: skip
