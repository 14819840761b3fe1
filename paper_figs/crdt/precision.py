"""What figures of precision have in common: rejections over time, the thesis' percentage, errors of both kinds.

(a) Requests and rejections since the start, in units of c, and (b) how many are missing; (c) rejections over those
of the centralised limiter, in both readings of 5.1.1; (d) ours: requests admitted that it rejects, and the reverse,
and the most that was admitted above the envelope c + r (t - s).
"""

from collections.abc import Mapping, Sequence

from analysis.tables import collect
from analysis.verdicts import RATIO_TOLERANCE, Check, Claim, Evidence, above, below, within
from core.units import SECOND_NS
from harness.experiment import Experiment
from paper_figs.crdt.grids import same
from paper_figs.crdt.published import shares_of
from paper_figs.crdt.readings import of_data_set
from paper_figs.crdt.runs import INTERVAL_NOTE, PRECISION_NOTE, counts_of, curves, draw_means, per_run
from paper_figs.crdt.variants import COUNTER, ORACLE
from paper_figs.drawing import (
    categories,
    curve,
    interval_bars,
    interval_points,
    panels,
    published,
    rule,
    sentence,
)
from paper_figs.figure import Figure, FigureTables
from paper_figs.intervals import interval_table, intervals_of
from paper_figs.keys import key, key_above, legend_above, published_key
from paper_figs.light import Artist, Axes, Data, Drawing, Frame
from paper_figs.series import by_repetition, joined, samples
from paper_figs.style import Style, neutral, style_of

FEW = 0.2  # of the requests
STEADY = 0.95  # ours: what is not below 95 % of an earlier value has not fallen
LATE_ADMITTED = f"decision = 'admit' and intended_at_ns >= {30 * SECOND_NS}"  # in the second half of B's minute
# A15: 5.1.1 sums points of curves, cumulative or not.  Claims' numbers are judged by the first, their order by both.
READINGS = {"rejected_ratio": "total", "area_ratio": "area"}
ERRORS = {"false_admit_count": "admitted\nwrongly", "false_reject_count": "rejected\nwrongly"}
ERRORS |= {"excess_tokens": "worst\nexcess"}
REQUESTS = Style("requests", "#999999", "o", "-")
TOTAL, AREA = neutral("total"), neutral("area under the curve", is_open=True)


def figure(
    number: str,
    title: str,
    data_set: str,
    variants: Sequence[str],
    claims: tuple[Claim, ...],
    note: str,
    repetitions: Mapping[str, int] | None = None,
) -> Figure:
    """A figure of the thesis that has the four panels of ``draw``; ``repetitions`` by scale, where not its own."""
    grid, notes = same(data_set, (ORACLE, *variants)), f"{note} {PRECISION_NOTE} {INTERVAL_NOTE}"
    source, options = f"CRDT, Fig. {number}", of_data_set(data_set)
    experiment = Experiment(f"crdt-fig{number}", title, source, grid, options, repetitions=repetitions or {})
    return Figure(experiment, tables, lambda made: draw(made, variants, shares_of(data_set)), claims, notes)


def tables(data: Data) -> FigureTables:
    """``runs``: one row a run; ``curves``: rejected, offered and gap (the centralised limiter's less) by second.

    ``runs`` has, besides ``per_run``'s: gap_peak_count and gap_end_count, and late_admitted_count (``LATE_ADMITTED``).
    """
    from analysis import limiting

    gaps = limiting.rejection_gap_over_time(data.requests, limiting.with_oracle(data.runs), SECOND_NS)
    rows = collect(gaps, ["run_id", "t_ns"])
    peaks = rows.groupby("run_id")["gap_count"].agg(gap_peak_count="max", gap_end_count="last").reset_index()
    late = counts_of(data.requests, ["run_id"], late_admitted_count=LATE_ADMITTED)
    runs = joined(per_run(data, used=False).merge(peaks, on="run_id", how="left"), late)
    over_time = curves(rows, runs, "rejected_count", "offered_count", "gap_count")
    return {"runs": runs, "curves": over_time, "share": shares(runs)}


def shares(runs: Frame) -> Frame:
    """One row a variant, capacity and measure of ``READINGS`` and ``ERRORS``: mean, low, high (95 % interval)."""
    parts = runs[runs.variant != ORACLE].groupby(["variant", "data_set", "capacity"], sort=True)
    rows = [((*point, measure), samples(part[measure])) for point, part in parts for measure in (*READINGS, *ERRORS)]
    return interval_table(["variant", "data_set", "capacity", "measure"], rows)


def draw(tables: FigureTables, variants: Sequence[str], printed: Mapping[str, float]) -> Drawing:
    """Four panels; ``printed``: variant -> share of the centralised limiter's rejections."""
    keys = [key(style_of(name)) for name in (ORACLE, *variants)]
    repetitions = int(tables["runs"].repetition.nunique())
    if not tables["curves"].rejected_count.any():
        drawing, (curves, rest) = panels(1, 2, ("rejections", "what is missing, and errors"), inches=(7.6, 2.8))
        offered = draw_curves(curves, tables["curves"], [ORACLE, *variants], repetitions)
        sentence(rest, "Nobody rejects anything:\nno rejection is missing, and none is wrong.")
        legend_above(drawing, [*offered, *keys])
        return drawing
    titles = ("rejections", "rejections that are missing", "the thesis' percentage", "errors of both kinds")
    drawing, (curves, gaps, shares, errors) = panels(2, 2, titles, inches=(7.6, 5.2))
    offered = draw_curves(curves, tables["curves"], [ORACLE, *variants], repetitions)
    draw_gaps(gaps, tables["curves"], variants, repetitions)
    gaps.set_xlim(curves.get_xlim())
    secret = [name for name in printed if name not in variants]  # printed values without a curve of ours
    draw_shares(shares, tables["share"], [*variants, *secret], printed)
    draw_errors(errors, tables["share"], variants)
    legend_above(drawing, [*offered, *keys])
    return drawing


def draw_curves(axes: Axes, curves: Frame, variants: Sequence[str], repetitions: int) -> list[Artist]:
    """Cumulative requests, and rejections with intervals, in units of c; each line is narrower than the one before.

    Where few requests are rejected, and late, only the rejections' part of the plane is shown.  Returns the requests'
    key, if they are there.
    """
    marks: list[Artist] = []
    offered = curves[curves.variant == curves.variant.min()]
    rejecting = curves[curves.rejected_count > 0]
    most = rejecting.rejected_count.max()
    if len(rejecting) and most < FEW * offered.offered_count.max():
        axes.set_xlim(rejecting.t_s.min() - 2, curves.t_s.max())
        axes.set_ylim(0, 1.4 * most / offered.capacity.max())
    else:
        curve(axes, offered.t_s, offered.offered_count / offered.capacity, REQUESTS, width=1.0)
        marks.append(key(REQUESTS, marker=False))
    widths = {variant: 1.2 + 1.4 * (len(variants) - 1 - n) for n, variant in enumerate(variants)}
    draw_means(axes, curves, "rejected_count", widths, repetitions, curves.capacity.max(), least=0.0)
    axes.set(xlabel="time (s)", ylabel="since the start (c)")
    axes.set_ylim(bottom=0)
    return marks


def draw_gaps(axes: Axes, curves: Frame, variants: Sequence[str], repetitions: int) -> None:
    """The centralised limiter's rejections less each variant's: means with intervals."""
    draw_means(axes, curves, "gap_count", dict.fromkeys(variants, 1.0), repetitions, curves.capacity.max())
    rule(axes, 0, reference=True)
    axes.set(xlabel="time (s)", ylabel="centralised minus own (c)")


def draw_shares(axes: Axes, shares: Frame, variants: Sequence[str], printed: Mapping[str, float]) -> None:
    """Both readings of the percentage with intervals, and what the thesis printed."""
    known = shares[shares.measure.isin(list(READINGS))].dropna(subset="mean")
    if known.empty:
        sentence(axes, "the centralised limiter\nrejects nothing")
        return
    for place, variant in enumerate(variants):
        for reading, shift, open_marker in zip(READINGS, (-0.12, 0.12), (False, True), strict=True):
            row = known[(known.variant == variant) & (known.measure == reading)]
            look = style_of(variant)._replace(marker="o", is_open=open_marker)
            interval_points(axes, [place + shift] * len(row), intervals_of(row, 100), look)
        if variant in printed:
            published(axes, [place], [100 * printed[variant]])
    rule(axes, 100, reference=True)
    axes.margins(y=0.12)
    low, high = axes.get_ylim()  # intervals of few repetitions may be wider than any sense
    axes.set_ylim(max(0.0, low), min(high, 200.0))
    axes.set_ylabel("of centralised rejections (%)")
    names = [style_of(variant).label.replace(", ", ",\n") for variant in variants]
    categories(axes, [name.replace("queue+", "queue\n+") if len(variants) > 3 else name for name in names])
    keys = [key(TOTAL, line=False), key(AREA, line=False)]
    key_above(axes, [*keys, published_key()] if printed else keys, columns=3)


def draw_errors(axes: Axes, shares: Frame, variants: Sequence[str]) -> None:
    """Bars with intervals, in % of c."""
    measured = shares[shares.measure.isin(list(ERRORS))]
    if not (measured["mean"] > 0).any():
        sentence(axes, "no request is decided wrongly,\nand none admitted above the envelope")
        return
    width = 0.8 / len(variants)
    for n, variant in enumerate(variants):
        rows = measured[(measured.variant == variant) & measured["mean"].notna()]
        at = [list(ERRORS).index(measure) + (n - (len(variants) - 1) / 2) * width for measure in rows.measure]
        interval_bars(axes, at, intervals_of(rows, 100 / rows.capacity.max()), style_of(variant), 0.9 * width)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("requests, tokens (% of c)")
    categories(axes, list(ERRORS.values()))


def shares_as_published(runs: Frame, printed: Mapping[str, float]) -> list[Check]:
    """Each variant's percentage, in total, within 15 % of the printed one."""
    checks = []
    for variant, value in printed.items():
        label = f"rejections of the {variant} over the centralised ones (total)"
        values = samples(by_repetition(runs, "rejected_ratio", variant=variant))
        checks.append(within(label, values, value, RATIO_TOLERANCE))
    return checks


def rejects_too_little(runs: Frame) -> list[Check]:
    """The counter's percentage is below 100, in both readings; and above 0: who limits nothing does not limit badly."""
    label = "rejections of the counter over the centralised ones ({})"
    shares = {name: samples(by_repetition(runs, reading, variant=COUNTER)) for reading, name in READINGS.items()}
    checks = [below(label.format(name), values, 1.0) for name, values in shares.items()]
    return [above(f"{label.format('total')}: some", shares["total"], 0.0), *checks]


def gap_shrinks(runs: Frame, variant: str, label: str) -> Check:
    """A variant's gap to the centralised limiter is smaller at the end than at its largest, which it never exceeds."""
    peak, end = (by_repetition(runs, f"gap_{when}_count", variant=variant) for when in ("peak", "end"))
    return below(label.format(variant), samples(end / peak), STEADY)


def measure(runs: Frame, printed: Mapping[str, float], *extra: Check) -> Evidence:
    """A claim on one data set: the printed percentages; too low for the counter, nearer to 100 % for the queue.

    Both readings count, and ``extra`` must hold too.
    """
    queue = next(variant for variant in printed if variant != COUNTER)
    some, *too_little = rejects_too_little(runs)
    direction = [some]
    for less, (reading, name) in zip(too_little, READINGS.items(), strict=True):
        counter, other = (by_repetition(runs, reading, variant=variant) for variant in (COUNTER, queue))
        distance = samples((counter - 1).abs() - (other - 1).abs())
        direction += [less, above(f"distance from 1, counter minus {queue} ({name})", distance)]
    return Evidence((*shares_as_published(runs, printed), *extra), (*direction, *extra))
