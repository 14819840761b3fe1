"""Fig. 5.15: rejections of the queue on data set D, by gossip interval: requests slightly faster than the refill.

(a) Rejections since the start, against the centralised limiter's, whose sequence is known by hand (the
42nd request is the first that is rejected, then every tenth).  (b) All rejections against the
interval; ours: intervals between the thesis' three, rounds as 5.4 reckons with them (all nodes
at once, a neighbour drawn among all), and the remedy that 5.4 suggests and does not try: refilling
leaves the last element.  (c) Ours: when each run rejects for the first time.

Frequency analysis and LINF are off: with a window of c / n < 1 every request would be urgent (5.4's
reasoning has gossip alone).  Each repetition has several draws of the gossip on the same requests.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from analysis.verdicts import Claim, Evidence, Tables, above, at_most, t_interval
from core.units import SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt.grids import NODES, ORACLE, at
from paper_figs.crdt.runs import per_run
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import plain, samples, where
from paper_figs.style import SERIES, letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

LIMIT: dict[str, Any] = {"capacity": 5, "rate": "1"}  # Table 4.2
GOSSIP_MS = (300, 450, 900)  # Table 4.2
BETWEEN_MS = (600, 750)  # ours
END_S = 100.0  # length of the data set; a run that rejects nothing counts as if it did here
PLAIN, ALIGNED, KEPT = "as it is", "rounds as in 5.4", "last element kept"
MODES: dict[str, dict[str, Any]] = {
    PLAIN: {},
    ALIGNED: {"phase": "aligned", "choice": "all"},
    KEPT: {"keep_last": 1},
}
LOOKS = {PLAIN: (SERIES[0], "o", "-"), ALIGNED: (SERIES[4], "s", "--"), KEPT: (SERIES[2], "D", "-.")}
FACTORS = {"phase": "system.phase", "keep_last": "system.keep_last", "draw": "study.draw"}


def point(system: str, draw: int = 0, nodes: int = NODES, delay: str = "0ms", **options: Any) -> RunSpec:
    """A system on data set D; ``options``: of the system, beside the limit."""
    return RunSpec(
        system=system,
        system_options={**LIMIT, **options},
        workload="data-set",
        workload_options={"set": "D", **LIMIT},
        topology="full-mesh",
        topology_options={"nodes": nodes, "delay": delay},
        study="limiting",
        study_options={"draw": draw} if draw else {},
    )


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """The centralised limiter; intervals x modes, with several draws each."""
    draws = scale.pick(tiny=1, quick=4, paper=8)
    few = scale.pick(tiny=1, quick=1, paper=4)
    found = [point(ORACLE)]
    for mode in scale.pick(small=(PLAIN, ALIGNED), tiny=tuple(MODES)):
        switches = MODES[mode]
        every = mode == PLAIN and scale.name not in ("small", "tiny")
        intervals = (*GOSSIP_MS, *BETWEEN_MS) if every else GOSSIP_MS
        for interval_ms in intervals:
            count = draws if mode == PLAIN and interval_ms in GOSSIP_MS else few
            found += [point("crdt-queue", draw, gossip=f"{interval_ms}ms", **switches) for draw in range(count)]
    return at(scale, found)


def tables(data: "Data") -> FigureTables:
    """``runs``: one row a run; ``by_repetition``: means over draws; ``curves``: rejections since the start."""
    from pyspark.sql import functions as f

    from analysis import limiting
    from analysis.spark import collect

    runs = with_mode(per_run(data, more=FACTORS))
    first = data.requests.where("decision = 'reject'").groupBy("run_id")
    found = collect(first.agg((f.min("intended_at_ns") / SECOND_NS).alias("first_s")), ["run_id"])
    runs = runs.merge(found, on="run_id", how="left")
    runs["memory_bytes"] = runs.state_byte_seconds / (runs.end_ns / SECOND_NS)
    curve = collect(limiting.rejections_over_time(data.requests, SECOND_NS), ["run_id", "t_ns"])
    return {"runs": runs, "by_repetition": by_draws(runs), "curves": mean_curves(runs, curve)}


def with_mode(runs: "pd.DataFrame") -> "pd.DataFrame":
    """``runs`` with gossip_ms and mode (of ``MODES``; the centralised limiter has its own name)."""
    runs = plain(runs, ["keep_last"])
    runs["gossip_ms"] = [int(text.removesuffix("ms")) for text in runs.gossip]
    runs["mode"] = PLAIN
    runs.loc[runs.phase == "aligned", "mode"] = ALIGNED
    runs.loc[runs.keep_last.fillna(0).astype(int) > 0, "mode"] = KEPT
    runs.loc[runs.variant == ORACLE, "mode"] = ORACLE
    return runs


def by_draws(runs: "pd.DataFrame") -> "pd.DataFrame":
    """One row a mode, interval and repetition: means over the draws, and the share of runs that reject nothing.

    Runs that reject nothing count in first_s as if they rejected at the end.
    """
    counted = runs.assign(first_s=runs.first_s.fillna(END_S), silent_share=(runs.rejected_count == 0).astype(float))
    values = ["rejected_count", "first_s", "silent_share", "false_admit_count", "false_reject_count", "excess_tokens",
              "memory_bytes", "sent_bytes"]  # fmt: skip
    keys = ["mode", "gossip_ms", "repetition"]
    means = counted.groupby(keys, sort=True)[values].mean().reset_index()
    return means.merge(counted.groupby(keys).size().rename("draw_count").reset_index(), on=keys)


def mean_curves(runs: "pd.DataFrame", curve: "pd.DataFrame") -> "pd.DataFrame":
    """mode, gossip_ms, t_s, rejected_count (mean over runs) and rejected_count_std."""
    rows = curve.merge(runs[["run_id", "mode", "gossip_ms"]], on="run_id")
    found = rows.groupby(["mode", "gossip_ms", "t_ns"], sort=True).rejected_count.agg(["mean", "std"]).reset_index()
    found = found.rename(columns={"mean": "rejected_count", "std": "rejected_count_std"}).fillna(0.0)
    return found.assign(t_s=found.t_ns / SECOND_NS).drop(columns="t_ns")


def draw(found: FigureTables) -> "Drawing":
    """Three panels."""
    drawing, axes = panels(1, 3)
    _draw_curves(axes[0][0], found["curves"])
    letter(axes[0][0], "(a) rejections since the start")
    _draw_totals(axes[0][1], found["by_repetition"])
    letter(axes[0][1], "(b) all rejections (mean, 95 % interval)")
    _draw_first(axes[0][2], found["runs"])
    letter(axes[0][2], "(c) first rejection of each run")
    return drawing


def _draw_curves(axes: "Axes", curves: "pd.DataFrame") -> None:
    look = style_of(ORACLE)
    central = curves[curves["mode"] == ORACLE]
    axes.step(central.t_s, central.rejected_count, where="post", color=look.colour, linestyle=look.dashes,
              linewidth=1.2, label=look.label)  # fmt: skip
    for n, interval_ms in enumerate(GOSSIP_MS):
        part = curves[(curves["mode"] == PLAIN) & (curves.gossip_ms == interval_ms)]
        axes.plot(part.t_s, part.rejected_count, color=SERIES[n], linewidth=1.2, label=f"gossip every {interval_ms} ms")
        low, high = (part.rejected_count + sign * part.rejected_count_std for sign in (-1, 1))
        axes.fill_between(part.t_s, low.clip(lower=0), high, color=SERIES[n], alpha=0.2, linewidth=0)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("rejected requests")
    axes.set_ylim(-0.3, 9.5)
    axes.legend(fontsize=6.5, loc="upper left")


def _draw_totals(axes: "Axes", means: "pd.DataFrame") -> None:
    for mode, (colour, marker, dashes) in LOOKS.items():
        rows = [(interval_ms, t_interval(samples(part.rejected_count)))
                for interval_ms, part in means[means["mode"] == mode].groupby("gossip_ms")]  # fmt: skip
        at = [interval_ms for interval_ms, _ in rows]
        mean = [row.mean for _, row in rows]
        error = [[row.mean - max(row.low, 0.0) if row.count > 1 else 0.0 for _, row in rows],
                 [min(row.high, 20.0) - row.mean if row.count > 1 else 0.0 for _, row in rows]]  # fmt: skip
        axes.errorbar(at, mean, yerr=error, color=colour, marker=marker, markersize=4, linestyle=dashes, capsize=2,
                      linewidth=1.2, label=mode)  # fmt: skip
    central = means[means["mode"] == ORACLE].rejected_count.mean()
    axes.axhline(central, color="#000000", linewidth=0.8, linestyle=":")
    axes.annotate("centralised", (0.01, central), xycoords=("axes fraction", "data"), fontsize=6.5, va="bottom")
    axes.set_xlabel("gossip interval (ms)")
    axes.set_ylabel("rejected requests")
    axes.set_xticks(sorted((*GOSSIP_MS, *BETWEEN_MS)))
    axes.set_ylim(-0.3, 9.5)
    axes.legend(fontsize=6.5, loc="lower left")


def _draw_first(axes: "Axes", runs: "pd.DataFrame") -> None:
    """A row an interval; runs that reject nothing stand beyond the end."""
    for place, interval_ms in enumerate(GOSSIP_MS):
        part = runs[(runs["mode"] == PLAIN) & (runs.gossip_ms == interval_ms)].sort_values(["repetition", "draw"])
        spread = [place + 0.6 * ((n + 0.5) / max(1, len(part)) - 0.5) for n in range(len(part))]
        axes.plot(part.first_s.fillna(END_S + 8), spread, color=SERIES[place], marker="o", markersize=3, alpha=0.7,
                  linestyle="none")  # fmt: skip
    central = runs[runs["mode"] == ORACLE].first_s.mean()
    axes.axvline(central, color="#000000", linewidth=0.8, linestyle=":")
    axes.annotate("centralised", (central, 1.0), xycoords=("data", "axes fraction"), rotation=90, fontsize=6.5,
                  va="top", ha="right")  # fmt: skip
    axes.axvline(END_S, color="#555555", linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_xlim(0, END_S + 16)
    axes.set_xticks([0, 20, 40, 60, 80, END_S + 8], ["0", "20", "40", "60", "80", "never"])
    axes.set_yticks(range(len(GOSSIP_MS)), [f"{interval_ms} ms" for interval_ms in GOSSIP_MS])
    axes.set_ylim(len(GOSSIP_MS) - 0.5, -0.5)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("gossip interval")


def measure_t19(tables: Tables) -> Evidence:
    """First rejection and number of rejections, each interval against the next longer one, over all draws."""
    means = where(tables["crdt-fig5.15/by_repetition"], mode=PLAIN)
    late, fewer = [], []
    for shorter, longer in pairwise(GOSSIP_MS):
        one, other = (where(means, gossip_ms=at).set_index("repetition") for at in (shorter, longer))
        pair = f"{longer} ms minus {shorter} ms"
        late.append(
            above(f"first rejection, {pair} (none: at the end)", samples(other.first_s - one.first_s), 0.0, "s")
        )
        difference = samples(other.rejected_count - one.rejected_count)
        fewer.append(at_most(f"rejections, {pair}", difference, 0.0))
    return Evidence((*late, *fewer), tuple(late))


CLAIMS = (
    Claim(
        "T19", "5.4, Fig. 5.15",
        "Data set D: the longer the gossip interval, the later the queue rejects, if it rejects at all.",
        ("crdt-fig5.15",), cast(Any, measure_t19),
    ),
)  # fmt: skip
EXPERIMENT = Experiment(
    "crdt-fig5.15", "Rejections at a rate slightly above the refill, by gossip interval", "CRDT thesis, Fig. 5.15",
    points,
)  # fmt: skip
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes="Bands: standard deviation over runs. The gossip of each repetition is drawn several times on the same "
    "requests; intervals are over the repetitions' means. The thesis' curves are not in its text. Its remedy (5.4: to "
    "leave a user's last element when refilling) is measured here for the first time.",
)  # fmt: skip
