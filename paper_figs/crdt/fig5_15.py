"""Fig. 5.15: rejections of the queue on data set D, by gossip interval: requests slightly faster than the refill.

(a) Rejections since the start, against the centralised limiter's, known by hand (the 42nd request is the first that is
rejected, then every tenth).  (b) All rejections against the interval; ours: intervals between the thesis' three, rounds
as 5.4 reckons with them (all at once, a neighbour drawn among all), and the remedy that 5.4 suggests and does not
try: refilling leaves the last element.  (c) Ours: when each run rejects for the first time.

Frequency analysis and LINF are off: with a window of c / n < 1 every request would be urgent.
"""

from collections.abc import Mapping
from itertools import pairwise, product

from analysis.tables import collect
from analysis.verdicts import Claim, Evidence, Tables, above, at_most, half_width
from core.records import Options
from core.units import SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt.grids import at, on_d
from paper_figs.crdt.published import D_GOSSIP_MS, D_SPAN_S
from paper_figs.crdt.readings import PHASE
from paper_figs.crdt.runs import curves, per_run
from paper_figs.crdt.variants import ORACLE
from paper_figs.drawing import categories, curve, interval_curve, mean_lines, panels, rule, run_marks
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import key, key_above, rule_key
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import case_of, joined, samples, where
from paper_figs.style import series, style_of

BETWEEN_MS = (600, 750)  # ours
END_S = float(D_SPAN_S)  # a run that rejects nothing counts as if it did here
PLAIN, ALIGNED, KEPT = "as it is", "rounds as in 5.4", "last element kept"
MODES: dict[str, Options] = {PLAIN: {}, ALIGNED: {"choice": "all"}, KEPT: {"keep_last": 1}}
LOOKS = {PLAIN: series(PLAIN, 0, "o", "-"), ALIGNED: series(ALIGNED, 4, "s", "--"), KEPT: series(KEPT, 2, "D", "-.")}
INTERVAL_LOOKS = {at: series(f"gossip every {at} ms", n, "o", "-") for n, at in enumerate(D_GOSSIP_MS)}
FACTORS = {"keep_last": "system.keep_last", "draw": "study.draw"}


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """The centralised limiter; intervals x modes, with several draws each."""
    draws, few = scale.pick(tiny=1, quick=4, paper=8), scale.pick(tiny=1, quick=1, paper=4)
    grid = [*product([PLAIN], D_GOSSIP_MS, range(draws))]
    grid += product([PLAIN], scale.pick(tiny=(), quick=BETWEEN_MS), range(few))
    grid += product(scale.pick(small=(ALIGNED,), tiny=(ALIGNED, KEPT)), D_GOSSIP_MS, range(few))
    queues = (on_d("crdt-queue", draw=n, gossip=f"{at_ms}ms", **_told(mode, options)) for mode, at_ms, n in grid)
    return at(scale, [on_d(ORACLE), *queues])


def _told(mode: str, options: Options) -> Options:
    """The queue's options in a mode."""
    is_aligned = mode == ALIGNED or PHASE.of(options) == "aligned"
    return {**MODES[mode], **({"phase": "aligned"} if is_aligned else {})}


def tables(data: Data) -> FigureTables:
    """``runs``: one row a run; ``by_repetition``: means over draws; ``curves``: rejections since the start."""
    from pyspark.sql import functions as f

    from analysis import limiting

    runs = per_run(data, more=FACTORS)
    runs["gossip_ms"] = runs.gossip.str.removesuffix("ms").astype(int)
    runs["mode"] = [case_of(run, {ORACLE: {"variant": ORACLE}, **MODES}) for run in runs.to_dict("records")]
    first_s = (f.min("intended_at_ns") / SECOND_NS).alias("first_s")
    runs = joined(runs, data.requests.where("decision = 'reject'").groupBy("run_id").agg(first_s))
    runs["memory_bytes"] = runs.state_byte_seconds / (runs.end_ns / SECOND_NS)
    rejections = collect(limiting.rejections_over_time(data.requests, SECOND_NS), ["run_id", "t_ns"])
    over_time = curves(rejections, runs, "rejected_count", by=["mode", "gossip_ms"])
    over_time["t_s"] = over_time.pop("t_s")  # the last column
    return {"runs": runs, "by_repetition": by_draws(runs), "curves": over_time}


def by_draws(runs: Frame) -> Frame:
    """One row a mode, interval and repetition: means over the draws, and the share of runs that reject nothing.

    Runs that reject nothing count in first_s as if they rejected at the end.
    """
    counted = runs.assign(first_s=runs.first_s.fillna(END_S), silent_share=(runs.rejected_count == 0).astype(float))
    decided = ["rejected_count", "first_s", "silent_share", "false_admit_count", "false_reject_count", "excess_tokens"]
    keys = ["mode", "gossip_ms", "repetition"]
    means = counted.groupby(keys, sort=True)[[*decided, "memory_bytes", "sent_bytes"]].mean().reset_index()
    return means.merge(counted.groupby(keys).size().rename("draw_count").reset_index(), on=keys)


def draw(tables: FigureTables) -> Drawing:
    """Three panels."""
    titles = ("rejections since the start", "all rejections", "first rejection of each run")
    drawing, (since, totals, first) = panels(1, 3, titles, inches=(10.5, 3.0))
    runs, means = tables["runs"], tables["by_repetition"]
    _draw_curves(since, tables["curves"], runs.groupby(["mode", "gossip_ms"]).run_id.nunique().to_dict())
    mean_lines(totals, means, "gossip_ms", "rejected_count", "mode", LOOKS, apart_points=2)
    rule(totals, means[means["mode"] == ORACLE].rejected_count.mean(), reference=True)
    totals.set(xlabel="gossip interval (ms)", ylabel="rejected requests", ylim=(-0.3, 9.5))
    totals.set_xticks(sorted((*D_GOSSIP_MS, *BETWEEN_MS)))
    key_above(totals, [*(key(look) for look in LOOKS.values()), rule_key("centralised", reference=True)])
    _draw_first(first, runs)
    return drawing


def _draw_curves(axes: Axes, curves: Frame, counts: Mapping[tuple[str, int], int]) -> None:
    """The centralised limiter's and the queue's by interval; ``counts``: how many runs are behind each curve."""
    central, look = curves[curves["mode"] == ORACLE], style_of(ORACLE)
    curve(axes, central.t_s, central.rejected_count, look, stairs=True)
    for interval_ms, interval_look in INTERVAL_LOOKS.items():
        part = curves[(curves["mode"] == PLAIN) & (curves.gossip_ms == interval_ms)]
        mean, half = part.rejected_count, half_width(counts.get((PLAIN, interval_ms), 0)) * part.rejected_count_std
        interval_curve(axes, part.t_s, mean, (mean - half).clip(lower=0), mean + half, interval_look)
    axes.set(xlabel="time (s)", ylabel="rejected requests", ylim=(-0.3, 9.5))
    key_above(axes, [key(one, marker=False) for one in (*INTERVAL_LOOKS.values(), look)])


def _draw_first(axes: Axes, runs: Frame) -> None:
    """A row an interval; runs that reject nothing stand beyond the end."""
    for place, (interval_ms, look) in enumerate(INTERVAL_LOOKS.items()):
        part = runs[(runs["mode"] == PLAIN) & (runs.gossip_ms == interval_ms)].sort_values(["repetition", "draw"])
        run_marks(axes, place, part.first_s.fillna(END_S + 8), look, 3)
    rule(axes, runs[runs["mode"] == ORACLE].first_s.mean(), "x", reference=True)
    rule(axes, END_S, "x")
    axes.set_xlim(0, END_S + 16)
    axes.set_xticks([0, 20, 40, 60, 80, END_S + 8], ["0", "20", "40", "60", "80", "never"])
    categories(axes, [f"{interval_ms} ms" for interval_ms in D_GOSSIP_MS], "y")
    axes.set(xlabel="time (s)", ylabel="gossip interval")
    key_above(axes, [rule_key("centralised", reference=True), rule_key("end of the requests")])


def measure_t19(tables: Tables) -> Evidence:
    """First rejection and number of rejections, each interval against the next longer one, over all draws."""
    means = where(tables["crdt-fig5.15/by_repetition"], mode=PLAIN).set_index(["gossip_ms", "repetition"])
    late, fewer = [], []
    for shorter, longer in pairwise(D_GOSSIP_MS):
        change = means.loc[longer, ["first_s", "rejected_count"]] - means.loc[shorter, ["first_s", "rejected_count"]]
        pair = f"{longer} ms minus {shorter} ms"
        late.append(above(f"first rejection, {pair} (none: at the end)", samples(change.first_s), 0.0, "s"))
        fewer.append(at_most(f"rejections, {pair}", samples(change.rejected_count), 0.0))
    return Evidence((*late, *fewer), tuple(late))


CLAIMS = (
    Claim(
        "T19", "5.4, Fig. 5.15",
        "Data set D: the longer the gossip interval, the later the queue rejects, if it rejects at all.",
        ("crdt-fig5.15",), measure_t19,
    ),
)  # fmt: skip
NOTES = (
    "Bands: 95 % intervals over runs. The gossip of each repetition is drawn several times on the same "
    "requests; intervals are over the repetitions' means. The thesis' curves are not in its text. Its remedy (5.4: to "
    "leave a user's last element when refilling) is measured here for the first time. Of the thesis' open rules the "
    "phase of the rounds alone is as in its cell of record; births are unique, and a later death is told back."
)
TITLE = "Rejections at a rate slightly above the refill, by gossip interval"
EXPERIMENT = Experiment("crdt-fig5.15", TITLE, "CRDT thesis, Fig. 5.15", points, (PHASE,))
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
