"""deployed: what rate limiters that people deploy really do over a WAN, unmodified, beside ours.

Two regimes, a key each: 20 a second (``deployed``) and 30 a minute (``deployed-minute``).  How much is granted and how
far beyond the limit it gets stand for every load and every shape of load; what that costs beside them.

A sliding window is judged strictly (table ``groups``, decided_over_share).  HAProxy's counter weighs this period's
count and the last one's, so that one HAProxy alone may admit nearly 2 N in a period that begins anywhere.
"""

from dataclasses import replace
from functools import partial
from itertools import product

from analysis.verdicts import Check, Claim, Evidence, Tables, above, at_least, at_most, below
from core.units import MILLISECOND_NS
from harness.experiment import LIVE_REPETITIONS, Experiment
from paper_figs.beyond import grants
from paper_figs.beyond.configurations import configurations
from paper_figs.beyond.contenders import FAST, SLOW, Regime
from paper_figs.beyond.grants import NAMES, SHAPES, group_samples
from paper_figs.beyond.limiter_rows import named_rows, row_intervals, row_points
from paper_figs.beyond.wan import CITIES, LIVE_CLAIM
from paper_figs.drawing import log_axis, panels, rule
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import key, legend_above, rule_key
from paper_figs.light import Axes, Drawing, Frame
from paper_figs.series import by_repetition, samples, where
from paper_figs.style import Style, neutral

FACTOR_LOOKS = (("#AAAAAA", "o"), ("#56B4E9", "s"), ("#0072B2", "D"), ("#D55E00", "^"))  # by factor, lowest first
ROUND_TRIP = 0.10, 3.0  # ours: of a city's median wait, from its own round trip: share, ms

# --- the drawing ---------------------------------------------------------------------------------


def draw(regime: Regime, tables: FigureTables) -> Drawing:
    """Granted above, beyond the limit below, a column a shape; what it cost at the right."""
    groups, runs = tables["groups"], tables["runs"]
    names = [name for name in NAMES if name in set(runs.name)]
    titles = [f"granted, {words}" for words in SHAPES.values()] + ["wait"]
    titles += [f"beyond the limit, {words}" for words in SHAPES.values()] + ["bytes on the wire"]
    inches = 13.0, 1.5 + 0.62 * max(3, len(names))
    drawing, axes = panels(2, 4, titles, inches, widths=(1.1, 1.1, 1.1, 0.9), share_y=True)
    looks = _factor_looks(regime)
    for panel, shape in zip(axes, SHAPES, strict=False):
        log_axis(panel, "x", at=(0, 0.2, 0.5, 1, 2, 5), linear_below=0.2, linear_share=0.4)
        row_points(panel, groups[groups["shape"] == shape], "granted_ratio", names, "factor", looks)
        rule(panel, 1, "x", reference=True)
        panel.set_xlim(-0.03, max(2.5, 1.2 * groups.granted_ratio.max()))
        panel.set_xlabel("admitted, of what is right")
    for panel, shape in zip(axes[4:], SHAPES, strict=False):
        log_axis(panel, "x", at=(0, 1, 3, 10, 30, 100), linear_below=1.0, linear_share=0.6)
        row_points(panel, groups[groups["shape"] == shape], "decided_excess_share", names, "factor", looks)
        panel.set_xlim(-0.15, max(14.0, 1.2 * groups.decided_excess_share.max()))
        panel.set_xlabel("most admitted above c + r t, in c")
    _draw_waits(axes[3], runs, names)
    _draw_bytes(axes[7], runs, names)
    for panel in axes:
        named_rows(panel, names)
    legend_above(drawing, [*(key(look, line=False) for look in looks.values()), rule_key("right", reference=True)])
    return drawing


def _factor_looks(regime: Regime) -> dict[object, Style]:
    pairs = zip(regime.factors, FACTOR_LOOKS, strict=True)
    return {factor: Style(f"{factor:g} times the limit", colour, marker, "-") for factor, (colour, marker) in pairs}


def _draw_waits(axes: Axes, runs: Frame, names: list[str]) -> None:
    log_axis(axes, "x", at=(0.1, 1, 10, 100, 1000))
    for quantile, is_open in (("p50_ns", False), ("p99_ns", True)):
        for row, name in enumerate(names):
            values = samples(runs[runs.name == name][quantile] / MILLISECOND_NS)
            row_intervals(axes, {row: values}, neutral("", is_open=is_open), size=4.5)
    axes.set_xlabel("filled: median, open: p99 (ms)")


def _draw_bytes(axes: Axes, runs: Frame, names: list[str]) -> None:
    log_axis(axes, "x", at=(0, 10, 100, 1000, 10_000), linear_below=10, linear_share=0.5)
    for row, name in enumerate(names):
        row_intervals(axes, {row: samples(runs[runs.name == name]["wire_bytes_per_request"])}, neutral(""), size=4.5)
    axes.set_xlim(-1, 20_000)
    axes.set_xlabel("a request, headers and all")


# --- claims: set before the full runs ------------------------------------------------------------


def _group(tables: Tables, figure: str, name: str, shape: str, factor: float, measure: str) -> list[float]:
    return group_samples(tables[f"{figure}/groups"], name, shape, factor, measure)


def measure_d1(tables: Tables) -> Evidence:
    """HAProxy's peers at five times the limit, evenly spread; who limits nothing grants five times as much."""
    of, checks = partial(_group, tables, "deployed"), list[Check]()
    for name in ("haproxy", "haproxy, all"):
        checks.append(above(f"{name}: excess at 5 times", of(name, "even", 5, "decided_excess_share"), 3.0, "c"))
        checks.append(below(f"{name}: granted at 5 times", of(name, "even", 5, "granted_ratio"), 2.5))
    return Evidence(tuple(checks))


def measure_d2(tables: Tables) -> Evidence:
    """Exact limiters and splits at every load and shape of it; and, spread evenly, that they are not merely strict."""
    factors = sorted(set(tables["deployed/groups"].factor))
    checks = []
    for name, shape, factor in product(KEPT, SHAPES, factors):
        label, of = f"{name}, {shape}, {factor:g} times", partial(_group, tables, "deployed", name, shape, factor)
        checks.append(at_most(label, of("decided_excess_share"), 1.0, "c"))
        if shape == "even":
            checks.append(at_least(f"{label}: granted", of("granted_ratio"), 0.8))
    return Evidence(tuple(checks))


def measure_d3(tables: Tables) -> Evidence:
    """A split where most of the load is in one city."""
    of = partial(_group, tables, "deployed")
    at = [(name, factor) for name in ("nginx", "static-split") for factor in (1, 2)]
    return Evidence(
        tuple(
            below(f"{name}: granted at {factor} times", of(name, "skewed", factor, "granted_ratio"), 0.8)
            for name, factor in at
        )
    )


def measure_d4(tables: Tables) -> Evidence:
    """Each city's median wait, less its round trip, in units of what is tolerated."""
    cities = tables["deployed/cities"]
    share, least_ms = ROUND_TRIP
    checks = []
    for city in CITIES:
        rows = where(cities, name="ratelimit", city=city)
        off = (rows.p50_ms - rows.rtt_ms).abs() / (share * rows.rtt_ms).clip(lower=least_ms)
        checks.append(at_most(f"{city}: off its round trip, of what is tolerated", samples(off), 1.0))
    return Evidence(tuple(checks))


def measure_d5(tables: Tables) -> Evidence:
    """A mean hides it: the total is right, a second's is not."""
    of = partial(_group, tables, "deployed", "haproxy", "even", 5)
    granted = Check("granted at 5 times", tuple(of("granted_ratio")), 0.75, 1.35)
    return Evidence((granted, above("most admitted in a second, in N", of("decided_window_share"), 3.0)))


def measure_d6(tables: Tables) -> Evidence:
    """Who counts rejected requests as well rejects for good, but not everybody: who does that limits nothing."""
    of = partial(_group, tables, "deployed", "haproxy, all")
    shapes = "even", "skewed"
    checks = (below(f"{shape}: granted at 2 times", of(shape, 2, "granted_ratio"), 0.5) for shape in shapes)
    return Evidence(tuple(replace(check, low=0.02) for check in checks))


def measure_d7(tables: Tables) -> Evidence:
    """Bytes of all that is said between hosts, HAProxy's peers over a store in one city."""
    runs = tables["deployed/runs"]
    column = "wire_bytes_per_request"
    ratio = by_repetition(runs, column, name="haproxy") / by_repetition(runs, column, name="ratelimit")
    return Evidence((above("HAProxy's bytes over envoyproxy/ratelimit's", samples(ratio), 1.5),))


def measure_d8(tables: Tables) -> Evidence:
    """A store far away costs a round trip; peers that gossip, and splits, do not."""
    runs = tables["deployed/runs"]
    wanted = {"redis-gcra": (above, 50.0), "ratelimit": (above, 50.0), "haproxy": (below, 10.0), "nginx": (below, 10.0)}
    checks = []
    for name, (check, bound_ms) in wanted.items():
        p50_ms = by_repetition(runs, "p50_ns", name=name) / MILLISECOND_NS
        checks.append(check(f"{name}: median wait", samples(p50_ms), bound_ms, "ms"))
    return Evidence(tuple(checks))


def measure_d9(tables: Tables) -> Evidence:
    """The sign of HAProxy's error turns with the regime; who withholds everything has none."""
    measure = partial(_group, tables, "deployed-minute", "haproxy", "even", SLOW.highest)
    fast = _group(tables, "deployed", "haproxy", "even", FAST.highest, "decided_excess_share")
    return Evidence(
        (
            replace(below("granted at 10 times 30 a minute", measure("granted_ratio"), 0.9), low=0.3),
            below("excess at 10 times 30 a minute", measure("decided_excess_share"), 1.0, "c"),
            above("excess at 5 times 20 a second", fast, 1.0, "c"),
        )
    )


FIGURES = ("deployed",)
BOTH = ("deployed", "deployed-minute")
KEPT = "ratelimit", "ratelimit, cache", "redis-gcra", "nginx", "bucket4j"
D1 = "HAProxy's peers let through more than three buckets beyond the limit at 5 times 20 a second over five cities."
D2 = (
    "Limiters with one store, or a split, stay within one bucket of theirs, under every load and shape of load, and "
    "grant at least 80 % of the limit where it is spread evenly."
)
D3 = "A limit split among the nodes grants less than 80 % of itself where 80 % of the load is in one city."
D4 = "A city's median wait at envoyproxy/ratelimit is its own round trip to Redis, within 10 % or 3 ms."
D5 = "A mean hides it: HAProxy's peers grant about the limit in total, and over three times it within one second."
D6 = "Peers that count rejected requests as well grant less than half of the limit at twice the load."
D7 = "HAProxy's peers send over 1.5 times the bytes that asking one store for every request takes."
D8 = "Asking one store for every request costs half of the requests over 50 ms; peers and splits under 10 ms."
D9 = "The sign turns with the regime: at 10 times 30 a minute HAProxy's peers withhold, within a bucket."
CLAIMS = (
    Claim("D1", "Ratebed", D1, FIGURES, measure_d1, **LIVE_CLAIM),
    Claim("D2", "Ratebed", D2, FIGURES, measure_d2, **LIVE_CLAIM),
    Claim("D3", "Ratebed", D3, FIGURES, measure_d3, **LIVE_CLAIM),
    Claim("D4", "Ratebed", D4, FIGURES, measure_d4, **LIVE_CLAIM),
    Claim("D5", "Ratebed", D5, FIGURES, measure_d5, **LIVE_CLAIM),
    Claim("D6", "Ratebed", D6, FIGURES, measure_d6, **LIVE_CLAIM),
    Claim("D7", "Ratebed", D7, FIGURES, measure_d7, **LIVE_CLAIM),
    Claim("D8", "Ratebed", D8, FIGURES, measure_d8, **LIVE_CLAIM),
    Claim("D9", "Ratebed", D9, BOTH, measure_d9, **LIVE_CLAIM),
)
NOTES = (
    "New York (single stores), London, Singapore, Sao Paulo, Sydney, 109 to 329 ms apart there and back; real servers"
    " of their makers, unmodified, beside a process a node of our limiters. N = {said}: keys of 0.5, 1, 2 and "
    "{highest:g} times that, Poisson. Granted: admitted over what one token bucket without delay admits of the same "
    "requests. Beyond the limit: the most admitted above c + r t in any interval, by the instants at which nodes "
    "heard, in c = N; ways that vary make a little of an exact bucket, too. Bytes: what the hosts put on their links,"
    " with all headers. Wait and bytes: over all keys and shapes{cache}. Error bars: 95 % intervals over the "
    "repetitions."
)
CACHE = (
    "; half of the requests at ratelimit with its cache are answered from there, so that their median is a cache's as "
    "well as Redis'"
)
TITLE = "What deployed rate limiters do over a WAN, {said} a key"


def _figure(key: str, regime: Regime, claims: tuple[Claim, ...]) -> Figure:
    title = TITLE.format(said=regime.said)
    experiment = Experiment(key, title, "ours", partial(grants.points, regime), repetitions=LIVE_REPETITIONS)
    there = [name for name in NAMES if name not in regime.left_out]
    notes = NOTES.format(said=regime.said, highest=regime.highest, cache=CACHE * ("ratelimit, cache" in there))
    texts = partial(configurations, there, regime)
    return Figure(experiment, partial(grants.tables, regime), partial(draw, regime), claims, notes, texts)


FIGURE = _figure("deployed", FAST, CLAIMS)
MINUTE = _figure("deployed-minute", SLOW, ())
