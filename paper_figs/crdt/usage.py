"""What figures of usage have in common: memory and bandwidth of a node over time, ratios, and convergence.

(a), (b) Means over nodes and repetitions, the counter's peak as 100 %, a run that has ended as 0: the thesis'
axes (5.1.3, 5.2.4).  (c) Areas under the curves over the counter's, each until its own run ends; memory as
modelled and as measured.  (d) When each run came to rest.  (c) and (d) are ours; there the thesis has numbers.
"""

from collections.abc import Mapping, Sequence

from analysis.tables import collect, computed_once
from analysis.verdicts import RATIO_TOLERANCE, Check, Claim, above, below, t_interval, within
from harness.experiment import Experiment
from paper_figs.crdt.grids import same
from paper_figs.crdt.published import BANDWIDTH, MEASURED, MEMORY, RATIOS, PrintedNumber
from paper_figs.crdt.readings import of_data_set
from paper_figs.crdt.runs import EXTENSIONS_NOTE, INTERVAL_NOTE, curves, draw_means, per_run
from paper_figs.crdt.variants import COUNTER
from paper_figs.drawing import beside, categories, interval_points, log_axis, panels, published, rule, run_marks
from paper_figs.figure import Figure, FigureTables
from paper_figs.intervals import interval_table, intervals_of
from paper_figs.keys import key, key_above, legend_above, published_key
from paper_figs.light import Axes, Data, Drawing, Frame, Series
from paper_figs.series import by_repetition, samples
from paper_figs.style import looks_of, neutral, style_of

AREAS = {MEMORY: "memory\n(model)", MEASURED: "memory\n(measured)", BANDWIDTH: "bandwidth"}
HIGH = 10  # counter's peaks: axes above it are logarithmic
USAGE_NOTE = (
    "Memory is that of a model of Erlang processes, in which delta states share terms with the local state, and what "
    "our nodes allocate beside it; the thesis measured real processes. Bandwidth is bytes as we encode them, "
    'or as Erlang counts them (unit). "798 % more" (5.2.1) is a ratio of 7.98, so that other percentages may be read '
    "both ways: both are marked, the nearer one counts."
)
Ratios = Mapping[str, Mapping[str, PrintedNumber]]  # variant -> area -> its ratio to the counter's
REST, LAST = neutral("at rest"), neutral("last message", "|")


def figure(number: str, title: str, data_set: str, variants: Sequence[str], claims: tuple[Claim, ...]) -> Figure:
    """A figure of the thesis that has the four panels of ``draw``."""
    grid = same(data_set, variants)
    experiment = Experiment(f"crdt-fig{number}", title, f"CRDT, Fig. {number}", grid, of_data_set(data_set, True))
    notes = f"{EXTENSIONS_NOTE} {USAGE_NOTE} {INTERVAL_NOTE}"
    return Figure(experiment, tables, lambda made: draw(made, variants, RATIOS[data_set]), claims, notes)


def tables(data: Data) -> FigureTables:
    """``runs``: one row a run; ``curves``: state_bytes and sent_bytes by second; ``ratios``: areas over the counter's.

    ``runs`` has, besides ``per_run``'s, in seconds: load_end_s, last_sent_s (0: nothing ever), and rest_s, when all
    requests were over and nothing was queued or under way, or where that never was, the end of the run; ``converged``
    tells the two apart.  And memory_kept (below).
    """
    runs, rows = usage_of(data, decided=False)
    over_time = curves(rows, runs, "state_bytes", "sent_bytes", zero_after_end=True)
    kept = runs.merge(memory_kept(rows, runs), on="run_id", how="left")
    return {"runs": kept, "curves": over_time, "ratios": ratios(runs)}


def usage_of(data: Data, decided: bool = True, more: Mapping[str, str] | None = None) -> tuple[Frame, Frame]:
    """``per_run`` ``with_seconds``; and memory and bandwidth of a node, a row a run and second.

    The latter has run_id, t_ns, state_bytes, sent_bytes (``usage_over_time``).
    """
    from analysis.usage import usage_over_time

    with computed_once(usage_over_time(data.table("usage"))) as over_time:
        runs = with_seconds(per_run(data, decided=decided, more=more, over_time=over_time))
        rows = over_time.select("run_id", "t_ns", "state_bytes", "sent_bytes")
        return runs, collect(rows, ["run_id", "t_ns"])


def memory_kept(rows: Frame, ends: Frame) -> Frame:
    """run_id and memory_kept: a node's mean memory in the last tenth of the load over that in the sixth."""
    timed = rows.merge(ends[["run_id", "load_end_ns"]], on="run_id")
    part = timed["t_ns"] / timed["load_end_ns"]
    tenths = (timed[(part > low) & (part <= low + 0.1)] for low in (0.9, 0.5))
    last, sixth = (tenth.groupby("run_id")["state_bytes"].mean() for tenth in tenths)
    return (last / sixth.where(sixth > 0.0)).rename("memory_kept").reset_index()


def with_seconds(runs: Frame) -> Frame:
    """``runs`` with load_end_s, last_sent_s, rest_s and converged."""
    converged = runs["converged_at_ns"].notna()
    end_ns = runs["converged_at_ns"].where(converged, runs["end_ns"]).astype(float)
    load_end_s = runs["load_end_ns"].astype(float) / 1e9
    rest_s = (end_ns / 1e9).clip(lower=load_end_s)
    last_sent_s = runs["last_sent_at_ns"].astype(float).fillna(0.0) / 1e9
    return runs.assign(load_end_s=load_end_s, last_sent_s=last_sent_s, rest_s=rest_s, converged=converged)


def rest_of(runs: Frame, *variants: str) -> Frame:
    """When all was at rest, s, a column a variant, a row a repetition; what never is has the end of its run.

    KeyError where in a repetition none of ``variants`` ever is: of two ends of runs nothing follows.
    """
    rest_s, converged = (
        runs.pivot(index="repetition", columns="variant", values=value) for value in ("rest_s", "converged")
    )
    if not converged[[*variants]].astype(bool).any(axis=1).all():
        raise KeyError(f"a run in which {' or '.join(variants)} comes to rest")
    return rest_s


def ratio(runs: Frame, area: str, variant: str, to: str = COUNTER) -> Series:
    """An area of one variant over that of another, paired by repetition."""
    one, other = (by_repetition(runs, area, variant=name).astype(float) for name in (variant, to))
    return one / other


def ratios(runs: Frame) -> Frame:
    """One row a variant and area: the mean ratio to the counter's with its interval, low and high."""
    variants = sorted(set(runs.variant) - {COUNTER})
    rows = [((variant, area), samples(ratio(runs, area, variant))) for variant in variants for area in AREAS]
    return interval_table(["variant", "area"], [row for row in rows if row[1]])


def draw(tables: FigureTables, variants: Sequence[str], printed: Ratios) -> Drawing:
    """Four panels."""
    titles = ("memory of a node", "bandwidth of a node", "areas under the curves", "convergence of each run")
    drawing, (memory, bandwidth, areas, rest) = panels(2, 2, titles, inches=(7.6, 5.2))
    load_end_s = tables["runs"].load_end_s.max()
    draw_costs((memory, bandwidth, areas), tables, variants, printed)
    _draw_rest(rest, tables["runs"], variants, load_end_s)
    legend_above(drawing, [key(look) for look in looks_of(variants).values()])
    return drawing


def draw_costs(panels: Sequence[Axes], tables: FigureTables, variants: Sequence[str], printed: Ratios) -> None:
    """Memory and bandwidth over time, and the areas under their curves."""
    for panel, value in zip(panels, ("state_bytes", "sent_bytes"), strict=False):
        _draw_usage(panel, tables, value, variants)
    _draw_ratios(panels[-1], tables["ratios"], [variant for variant in variants if variant != COUNTER], printed)


def _draw_usage(axes: Axes, tables: FigureTables, value: str, variants: Sequence[str]) -> None:
    """Mean curves with intervals, the peak of the counter's as 100 %; a thin line where the requests end."""
    runs, curves = tables["runs"], tables["curves"]
    peak = curves[curves.variant == COUNTER][value].max()
    if curves[value].max() > HIGH * peak:  # the counter would be a flat line
        log_axis(axes, linear_below=100)
    draw_means(axes, curves, value, dict.fromkeys(variants, 1.2), int(runs.repetition.nunique()), peak / 100, least=0.0)
    rule(axes, runs.load_end_s.max(), "x")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set(xlabel="time (s); requests end at the dashed line", ylabel="of the counter's peak (%)")


def _draw_ratios(axes: Axes, ratios: Frame, variants: Sequence[str], printed: Ratios) -> None:
    """Each area over the counter's with its interval, log axis; printed values in both readings, left of ours."""
    log_axis(axes)
    for variant, shift in zip(variants, beside(len(variants), 0.7), strict=True):
        for place, area in enumerate(AREAS):
            row = ratios[(ratios.variant == variant) & (ratios.area == area)]
            interval_points(axes, [place + shift] * len(row), intervals_of(row), style_of(variant))
            if area in printed.get(variant, {}):
                readings = printed[variant][area].readings
                published(axes, [place + shift - 0.25 / len(variants)] * len(readings), readings)
    rule(axes, 1, reference=True)
    axes.margins(y=0.15)
    low, high = axes.get_ylim()  # intervals of few repetitions may be wider than any sense
    axes.set_ylim(low, min(high, 1e3))
    axes.set_ylabel("over the counter's")
    categories(axes, list(AREAS.values()))
    twice = any(len(number.readings) > 1 for areas in printed.values() for number in areas.values())
    if printed:
        key_above(axes, [published_key('published ("N % more": N/100 and 1 + N/100)' if twice else "published")])


def _draw_rest(axes: Axes, runs: Frame, variants: Sequence[str], load_end_s: float) -> None:
    """One row a variant: when each run came to rest, and (a tick) when it sent its last message."""
    for place, variant in enumerate(variants):
        look, part = style_of(variant), runs[runs.variant == variant].sort_values("repetition")
        run_marks(axes, place, part.rest_s, look)
        run_marks(axes, place, part.last_sent_s, look._replace(marker="|"), 6)
    rule(axes, load_end_s, "x")
    instants = [load_end_s, *runs.rest_s, *runs.last_sent_s]
    margin = 0.05 * max(instants)
    axes.set_xlim(max(0.0, min(instants) - margin), max(instants) + margin)
    categories(axes, [style_of(variant).label for variant in variants], "y")
    axes.set_xlabel("time (s); requests end at the dashed line")
    key_above(axes, [key(REST, line=False), key(LAST, line=False)])


def as_published(
    runs: Frame, variant: str, printed: Mapping[str, PrintedNumber], name: str = ""
) -> tuple[list[Check], list[Check]]:
    """The areas of a variant over the counter's: within 15 % of the nearest reading; and on the same side of 1."""
    exact, direction = [], []
    for area, number in printed.items():
        values, readings = samples(ratio(runs, area, variant)), number.readings
        mean, label = t_interval(values).mean, f"{AREAS[area].split()[0]} of the {name or variant} over the counter's"
        nearest = min(readings, key=lambda reading: abs(mean - reading))
        exact.append(within(label, values, nearest, RATIO_TOLERANCE))
        direction.append((above if min(readings) > 1 else below)(label, values, 1.0))
    return exact, direction


def last_word(runs: Frame, variant: str) -> tuple[str, list[float]]:
    """A check's label and samples: a variant's last message minus the last request, in seconds."""
    last, end = (by_repetition(runs, instant, variant=variant) for instant in ("last_sent_s", "load_end_s"))
    return f"last message of the {variant} minus last request", samples(last - end)
