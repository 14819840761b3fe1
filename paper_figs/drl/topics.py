"""drl-topics: topics arrive and leave; every resident topic's SLO, by where it is placed and how its bucket is shared.

Four brokers of calibration ``srtm-hundredth`` (the paper's, a hundred times as slow; room for 500 msg/s each).  Topics
come for 900 s, one after the other, and stay for 240 s on average; each has 20, 40 or 80 publishers x 5 msg/s, alone or
in groups of 10, an SLO of 100 or 200 ms, and a token bucket of its own.  LB spreads each over all brokers; Conc,
Max-Min and SRTM look for a place in rounds of 5 s that the residents bear.  Buckets are split, or in a store that each
message asks, 20 ms away.  A gap of 60 s between arrivals half fills the brokers, one of 30 s fills them.

Ours throughout: the SRTM paper places one topic.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from analysis.verdicts import Claim, Evidence, Interval, Tables, above, below, t_interval
from core.records import Json
from harness.experiment import CALIBRATED, Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.drl.topics_data import LATE_SHARE, runs_of, stays_of, windows_of
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.intervals import floored
from paper_figs.light import Axes, Data, Drawing, Frame, Series
from paper_figs.series import by_repetition, samples, whole
from paper_figs.sheets import draw_table
from paper_figs.style import Style, style_of

LB, CONC, MAX_MIN, SRTM = "lb", "conc", "max-min", "srtm"
SPLIT, STORE = "split", "store"
HALF_FULL, FULL = "60s", "30s"  # mean gaps between arrivals
LOADS = {HALF_FULL: "half full", FULL: "full"}
EXPONENTIAL, LOG_NORMAL = "exponential", "log-normal"
WAYS = ((LB, SPLIT), (CONC, SPLIT), (MAX_MIN, SPLIT), (SRTM, SPLIT), (LB, STORE), (SRTM, STORE))
SHOWN = ((LB, SPLIT), (SRTM, SPLIT), (LB, STORE))  # topic by topic
DURATION_S, EARLY_S, LATE_PERCENT = 900, 30, 100 * LATE_SHARE
RESIDENT, TOO_LATE, REFUSED = (
    Style("resident, within its SLO", "#56B4E9", "s", "-"),
    Style("above its SLO (windows of 10 s)", "#D55E00", "s", "-"),
    Style("refused", "#000000", "x", "-"),
)
SEARCHED = Style("waits and is searched a place", "#555555", "s", "-")


# --- grid ------------------------------------------------------------------------------------------


def point(placement: str, sharing: str, gap: str, life_kind: str = EXPONENTIAL) -> RunSpec:
    """One run."""
    topic: Json = {"publishers": [20, 40, 80], "group_sizes": [1, 10], "slos": ["100ms", "200ms"], "margin": 1.5}
    stay: Json = {"gap": gap, "life": "240s", "life_kind": life_kind, "duration": f"{DURATION_S}s"}
    return RunSpec(
        system=placement,
        workload="poisson",
        workload_options={"rate_rps": 5.0},
        topology_options={"brokers": 4},
        calibration="srtm-hundredth",
        slo=CALIBRATED,
        round="5s",
        study="topics",
        study_options={**topic, **stay, "sharing": sharing, "rtt": "20ms"},
    )


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Placements and sharings x loads; at scale paper other lives, too."""
    gaps = scale.pick(small=(), tiny=(FULL,), quick=(HALF_FULL, FULL), paper=("90s", HALF_FULL, "45s", FULL))
    ways = scale.pick(tiny=SHOWN, quick=WAYS, paper=(*WAYS, (CONC, STORE), (MAX_MIN, STORE)))
    others = scale.pick(small=(), tiny=(), quick=(), paper=((FULL, LOG_NORMAL),))
    loads = [*((gap, EXPONENTIAL) for gap in gaps), *others]
    return [point(placement, sharing, *load) for load, (placement, sharing) in product(loads, ways)]


# --- tables ----------------------------------------------------------------------------------------


def tables(data: Data) -> FigureTables:
    """``runs``: a row a run; ``stays``, ``late``: topics, and their late windows, of one full run a way."""
    stays = stays_of(data, EARLY_S)
    full = stays[(stays.repetition == 0) & (stays.gap == FULL) & (stays.life_kind == EXPONENTIAL)]
    is_shown = [way in SHOWN for way in zip(full.system, full.sharing, strict=True)]
    shown = full[is_shown].reset_index(drop=True)
    return {"runs": runs_of(data, stays), "stays": shown, "late": windows_of(data, shown)}


# --- drawing ---------------------------------------------------------------------------------------


def draw(tables: FigureTables) -> Drawing:
    """Above: one full run, topic by topic; below: who misses, who is late, and the price."""
    runs, stays, late = (tables[name] for name in ("runs", "stays", "late"))
    runs = runs[runs.life_kind == EXPONENTIAL]
    titles = [f"{_name(*way)}, {LOADS[FULL]}: one run" for way in SHOWN]
    titles += ["topics that miss their SLO", "time above the SLO", f"{LOADS[FULL]}: the price, means"]
    sheet, flat = drawing.panels(2, 3, titles, (9.8, 6.2), heights=[1.25, 1], widths=[1, 1, 1.2])
    for axes, (system, sharing) in zip(flat, SHOWN, strict=False):
        mine = [part[(part.system == system) & (part.sharing == sharing)] for part in (stays, late)]
        _draw_stays(axes, *mine)
    flat[0].set_ylabel("topic, in order of arrival")
    for axes, value, text in (
        (flat[3], "missed_share", "share of topics admitted (%)"),
        (flat[4], "late_share", "share of windows of 10 s (%)"),
    ):
        _draw_shares(axes, runs, value)
        axes.set_ylabel(text)
    _draw_price(flat[5], runs[runs.gap == FULL])
    marks = [keys.key(look, marker=False) for look in (RESIDENT, TOO_LATE, SEARCHED)]
    marks.append(keys.key(REFUSED, line=False))
    loads = [gap for gap in LOADS if (runs.gap == gap).any()]
    bars = [keys.bar_key(Style(f"(d), (e): {LOADS[gap]}", "#555555", "s", "-"), _alpha(gap)) for gap in loads]
    keys.legend_above(sheet, [*marks, *bars])
    return sheet


def _name(system: str, sharing: str) -> str:
    return style_of(system).label + (", store" if sharing == STORE else ", split")


def _alpha(gap: str) -> float:
    return 1.0 if gap == FULL else 0.45


def _draw_stays(axes: Axes, stays: Frame, late: Frame) -> None:
    """A line a topic, from its arrival to its end."""
    for topic in stays.itertuples():
        row = [topic.number] * 2
        if topic.is_refused:
            drawing.marks(axes, [topic.arrived_s], [topic.number], REFUSED)
            continue
        ends = (topic.start_s, topic.end_s) if topic.start_s == topic.start_s else (DURATION_S, DURATION_S)
        drawing.curve(axes, [topic.arrived_s, ends[0]], row, SEARCHED, width=0.8)
        drawing.curve(axes, ends, row, RESIDENT, width=2.6)
    for window in late.itertuples():
        drawing.curve(axes, [window.from_s, window.until_s], [window.number] * 2, TOO_LATE, width=2.6)
    axes.set_xlim(0, DURATION_S)
    axes.set_xticks(range(0, DURATION_S + 1, 300))
    axes.set_xlabel("time (s)")


def _draw_shares(axes: Axes, runs: Frame, value: str) -> None:
    """Bars of a share, a group a way, a bar a load."""
    present = _present(runs)
    loads = [gap for gap in LOADS if (runs.gap == gap).any()]
    shifts = drawing.beside(len(loads), 0.8)
    for place, (system, sharing) in enumerate(present):
        for shift, gap in zip(shifts, loads, strict=True):
            mine = runs[(runs.system == system) & (runs.sharing == sharing) & (runs.gap == gap)]
            if not mine.empty:
                shares = [_percent(samples(mine[value]))]
                look = style_of(system)
                drawing.interval_bars(axes, [place + shift], shares, look, 0.7 / len(loads), alpha=_alpha(gap))
    drawing.categories(axes, [_name(*way).replace(", ", "\n") for way in present])
    axes.set_ylim(bottom=0)


def _present(runs: Frame) -> list[tuple[str, str]]:
    return [way for way in WAYS if ((runs.system == way[0]) & (runs.sharing == way[1])).any()]


def _percent(shares: Sequence[float]) -> Interval:
    interval = floored(t_interval([100 * share for share in shares]))
    return replace(interval, high=min(100.0, interval.high)) if interval.count > 1 else interval


def _draw_price(axes: Axes, runs: Frame) -> None:
    """What it takes, as means."""
    rows = []
    for system, sharing in _present(runs):
        mine = runs[(runs.system == system) & (runs.sharing == sharing)]
        means = mine[["broker_count", "round_count", "wait_s", "refused_share", "spoilt_share"]].mean()
        shares = [f"{100 * means[name]:.0f} %" for name in ("refused_share", "spoilt_share")]
        counts = [whole(means.broker_count), f"{means.round_count:.1f}", f"{means.wait_s:.0f} s"]
        rows.append((_name(system, sharing), *counts, *shares))
    header = ("", "brokers", "rounds", "wait", "refused", "spoilt")
    draw_table(axes, header, rows, (2.4, 1.6, 1.5, 1.1, 1.6, 1.4))


# --- claims: written down, with their signs, before any full run (docs/sharing.md) -------------------


def at(tables: Tables, value: str, placement: str, sharing: str, gap: str) -> Series:
    """One point's, by repetition; KeyError where it was not run."""
    point = {"system": placement, "sharing": sharing, "gap": gap, "life_kind": EXPONENTIAL}
    return by_repetition(tables["drl-topics/runs"], value, **point)


def measure_f17(tables: Tables) -> Evidence:
    """Split buckets: SRTM's places against all brokers."""
    return Evidence(
        tuple(
            below(
                f"{LOADS[gap]}: share of topics that miss, SRTM minus LB",
                samples(at(tables, "missed_share", SRTM, SPLIT, gap) - at(tables, "missed_share", LB, SPLIT, gap)),
            )
            for gap in LOADS
        )
    )


def measure_f18(tables: Tables) -> Evidence:
    """A store and all brokers against SRTM's places with split buckets."""
    return Evidence(
        tuple(
            below(
                f"{LOADS[gap]}: share of topics that miss, LB with the store minus SRTM, split",
                samples(at(tables, "missed_share", LB, STORE, gap) - at(tables, "missed_share", SRTM, SPLIT, gap)),
            )
            for gap in LOADS
        )
    )


def measure_f19(tables: Tables) -> Evidence:
    """Who was within the SLO at first, and misses it over the residence."""
    ours, stores = at(tables, "spoilt_share", SRTM, SPLIT, FULL), at(tables, "spoilt_share", LB, STORE, FULL)
    return Evidence(
        (
            above("full: share of topics spoilt, SRTM, split, minus LB with the store", samples(ours - stores)),
            above("full: share of topics spoilt, SRTM, split", samples(ours), 0.05),
        )
    )


def measure_f20(tables: Tables) -> Evidence:
    """Correlation-aware and fitted against blind."""
    less = at(tables, "late_share", SRTM, SPLIT, FULL) - at(tables, "late_share", MAX_MIN, SPLIT, FULL)
    return Evidence((below("full: share of windows above the SLO, SRTM minus Max-Min", samples(less)),))


HERE, OURS = ("drl-topics",), "ours, by SRTM IV"
CLAIMS = (
    Claim(
        "F17",
        OURS,
        "Among residents, too, what is split is to be concentrated: with split buckets fewer topics "
        "miss their SLOs on SRTM's brokers than on LB's.",
        HERE,
        measure_f17,
    ),
    Claim(
        "F18",
        OURS,
        "A near store lets a topic be everywhere: on LB's brokers with a store fewer topics miss their "
        "SLOs than on SRTM's with split buckets.",
        HERE,
        measure_f18,
    ),
    Claim(
        "F19",
        OURS,
        "What a search finds does not last: of the topics that are within their SLO at first more than "
        "5 % miss it over their residence, and more than under LB with a store.",
        HERE,
        measure_f19,
        why="Of some 17 topics a run that are within their SLO at first it is two that are spoilt: chance decides.",
    ),
    Claim(
        "F20",
        OURS,
        "Groups dealt out evenly pay among residents: SRTM's topics are above their SLOs less of the "
        "time than Max-Min's.",
        HERE,
        measure_f20,
        why="Two topics in three and more are on one broker under either, where nothing is dealt out.",
    ),
)
NOTES = (
    "Study topics, calibration srtm-hundredth: the paper's costs times a hundred, so that 20 ms to a store are 0.2 ms. "
    f"A topic misses its SLO where more than {LATE_PERCENT:g} % of its messages over the whole residence take longer, "
    "and is above it in windows of 10 s of which that is true; of a run's topics or windows the share, means with 95 % "
    "intervals over repetitions. Spoilt: of the topics within their SLO in the first 30 to 40 s, those that miss it. "
    "Wait: from arrival to admission; searches are one after the other. On one broker a topic needs no store."
)
TITLE = "Topics arrive and leave: every resident topic's SLO"
EXPERIMENT = Experiment(
    "drl-topics",
    TITLE,
    "ours; systems of SRTM IV",
    points,
    skip_reason=lambda options: "the scale small has no grid: topics come and go in virtual time",
)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
