"""How ``drl-frontier`` is drawn: p99 by round trip, the frontier of bytes, and who wins which cell."""

from paper_figs import drawing, keys
from paper_figs.figure import FigureTables
from paper_figs.intervals import geometric, intervals_by
from paper_figs.light import Axes, Drawing, Frame
from paper_figs.series import samples
from paper_figs.sheets import draw_table
from paper_figs.style import Style, style_of

LOOKS = {
    "split": Style("split", "#999999", "s", ":"),
    "ideal": Style("ideal", "#000000", "x", ":"),
    "adaptor": Style("TB Adaptor", "#E69F00", "v", "-"),
    "leases": Style("leases", "#661100", "p", "--"),
    "throttler": Style("throttler", "#CC79A7", "h", "-."),
    "counter": Style("counter (on credit)", "#56B4E9", "o", "--"),
    "central": Style("central", "#0072B2", "D", "-"),
}
LEAST_BYTES = 0.1  # where who says nothing stands on the log axis
PANELS = (("lb", 1), ("srtm", 1), ("lb", 10), ("srtm", 10))
ROOM, APART = 1.6, 0.3  # beside the first and last round trip, a factor; of what stands side by side, decades


def draw(tables: FigureTables) -> Drawing:
    """Above: p99 latency by round trip, a panel a placement and load; below: bytes, and the winners."""
    runs = tables["runs"]
    interval_ms = runs.interval_ms.max()
    titles = [f"{style_of(system).label}, {load_of(size)}" for system, size in PANELS]
    titles += ["bytes of control, 1 ms, alone", "lowest p99 that keeps the contract (ms)"]
    sheet, flat = drawing.panels(3, 2, titles, (8.4, 8.2), heights=[1, 1, 1.25])
    for axes, (system, size) in zip(flat, PANELS, strict=False):
        part = runs[(runs.system == system) & (runs.group_size == size)]
        _draw_by_rtt(axes, part[part.interval_ms.isna() | (part.interval_ms == interval_ms)], runs)
    _draw_frontier(flat[4], runs)
    _draw_winners(flat[5], tables["winners"])
    marks = [keys.key(LOOKS[name]) for name in LOOKS if (runs.sharing == name).any()]
    keys.legend_above(sheet, [*marks, keys.rule_key("SLO")], columns=4)
    return sheet


def load_of(size: int) -> str:
    """What a size of groups is called."""
    return "alone" if size == 1 else f"groups of {size}"


def _draw_by_rtt(axes: Axes, part: Frame, runs: Frame) -> None:
    """Over the round trips of all panels; what was measured at one of them stands side by side."""
    if part.empty:
        drawing.sentence(axes, "not run")
        return
    trips = sorted(set(runs.rtt_ms.dropna()))
    drawing.log_axis(axes)
    drawing.log_axis(axes, "x", at=trips)
    drawing.rule(axes, float(runs.slo_ms.iloc[0]))
    ends = [trips[0] / ROOM, trips[-1] * ROOM]
    talking = [name for name in LOOKS if part[part.sharing == name].rtt_ms.notna().any()]
    shifts = dict(zip(talking, drawing.beside(len(talking), APART), strict=True))
    for name, look in LOOKS.items():
        mine = part[part.sharing == name]
        if mine.empty:
            continue
        if name not in shifts:
            level = geometric(samples(mine.p99_ms))
            drawing.interval_curve(axes, ends, [level.mean] * 2, [level.low] * 2, [level.high] * 2, look)
        else:
            at, intervals = intervals_by(mine, "rtt_ms", "p99_ms", geometric)
            drawing.interval_points(axes, [10 ** shifts[name] * trip for trip in at], intervals, look, joined=True)
    axes.set_xlim(*ends)
    axes.set_xlabel("round trip between brokers (ms)")
    axes.set_ylabel("p99 latency (ms)")


def _draw_frontier(axes: Axes, runs: Frame) -> None:
    """Each sharing's bytes and p99; filled: on LB's brokers, open: on SRTM's."""
    drawing.log_axis(axes)
    drawing.log_axis(axes, "x", steps=(1,))
    near = runs[(runs.group_size == 1) & (runs.rtt_ms.isna() | (runs.rtt_ms == runs.rtt_ms.min()))]
    near = near[near.interval_ms.isna() | (near.interval_ms == runs.interval_ms.max())]
    for system, name in sorted(set(near[["system", "sharing"]].itertuples(index=False, name=None))):
        part = near[(near.system == system) & (near.sharing == name)]
        look = LOOKS[name]._replace(is_open=system != "lb")
        bytes_ = max(LEAST_BYTES, float(part.control_bytes.mean()))
        drawing.interval_points(axes, [bytes_], [geometric(samples(part.p99_ms))], look)
    drawing.rule(axes, float(runs.slo_ms.iloc[0]))
    drawing.note(axes, "filled: LB; open: concentrated", (0.98, 0.98), right=True, top=True)
    axes.set_xlabel(f"bytes a message ({LEAST_BYTES:g}: none)")
    axes.set_ylabel("p99 latency (ms)")


def _draw_winners(axes: Axes, winners: Frame) -> None:
    """A row a round trip and interval, two columns a load: who is first, and its p99."""
    sizes = sorted(set(winners.group_size))
    rows = []
    for (rtt_ms, interval_ms), part in winners.groupby(["rtt_ms", "interval_ms"], sort=True):
        row = [f"{rtt_ms:g} · {interval_ms:g}"]
        for size in sizes:
            first, *tied = [*part[part.group_size == size].itertuples()] or [None]
            more = f" + {len(tied)}" if tied else ""
            row += (
                [f"{style_of(first.system).label} {first.sharing}{more}", f"{first.p99_ms:.1f}"] if first else ["", ""]
            )
        rows.append(row)
    named = [["alone" if size == 1 else f"groups of {size:g}", "p99"] for size in sizes]
    header = ["trip · every", *(name for pair in named for name in pair)]
    draw_table(axes, header, rows, (1.9, *((3.5, 1.2) * len(sizes))))
