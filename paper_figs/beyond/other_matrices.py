"""Placement policies on other delays than the paper's: how much hangs on coordinates that fit.

The game's 1024 clients on cities of the US and of the world, on the zones of one city, which are all equally far from
each other, and on the world's delays dealt anew among its pairs, which no space has; and on any matrix of measured
round trips, PlanetLab's or WonderNetwork's for instance, by ``--latency-table``.
"""

from pathlib import Path

from core.records import Options
from harness.experiment import FEWER, Experiment, RunSpec, Scale
from paper_figs.drawing import curve, log_axis, marks, panels, rule, title
from paper_figs.epulsar import policies
from paper_figs.epulsar.latency_table import ACCESS, DRAWN, OPTION, read
from paper_figs.epulsar.policies import GAME, draw_policies, look_of
from paper_figs.epulsar.published import GAME_ACCESS_MS
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import key, legend_above
from paper_figs.light import Axes, Data, Drawing, Frame, Series
from paper_figs.style import series

SITES = (4, 8, 16, 32)
US, ZONES, WORLD, SHUFFLED, TABLE = "us-cities", "zones", "world", "shuffled", "table"
TITLES = {
    US: "US cities",
    ZONES: "zones of a city",
    WORLD: "cities of the world",
    SHUFFLED: "the world's, dealt anew",
    TABLE: "table given",
}
LEAST_PERCENT = 0.05  # of an error on a log axis: less is drawn there
SYSTEMS = ("pulsar", "epulsar", "all-pairs")
ERRORS = {"median_error_ratio": series("median of pairs", 3, "o"), "p90_error_ratio": series("90th percentile", 1, "^")}
FACTORS = {name: f"topology.{name}" for name in ("cities", "sites", "table")} | {"shuffled": "study.shuffled"}


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Each matrix with each number of sites; of a table as many as it has."""
    count = scale.pick(tiny=20, quick=100, paper=1000)
    sites = scale.pick(tiny=SITES[:2], quick=SITES)
    game = {**GAME, "access": ACCESS, "permutations": count}
    drawn = {"seed": DRAWN}
    specs = []
    for number in sites:
        matrix = {"sites": number, **drawn}
        specs += [
            policies.point(scale, "us-cities", {"cities": number}, **{**game, "access": "0ms"}),  # is in the topology
            policies.point(scale, "city-mec", {"sites": number}, **game),
            policies.point(scale, "matrix-sites", matrix, **game),
            policies.point(scale, "matrix-sites", matrix, **game, shuffled=True),
        ]
    if options.get(OPTION.name):
        table = read(options[OPTION.name])
        mended = {"table": table.path, "repair": "detour", **drawn}
        specs += [
            policies.point(scale, "matrix-sites", {**mended, "sites": number}, **game)
            for number in sorted({min(number, len(table.places)) for number in sites})
        ]
    return specs


def tables(data: Data) -> FigureTables:
    """``runs`` and ``estimates``, see ``policies.tables``; ``matrix`` of ``TITLES``, ``file`` of a table, ``sites``.

    ``over_best`` of ``runs``: the mean worst true delay over that of the best brokers.
    """
    frames = policies.tables(data, FACTORS)
    for name, frame in frames.items():
        frame["matrix"] = [_matrix(row) for row in frame.itertuples()]
        frame["sites"] = [int(row.cities if row.matrix == US else row.sites) for row in frame.itertuples()]
        frame["file"] = [Path(row.table).name if row.matrix == TABLE else "" for row in frame.itertuples()]
        frame = frame.drop(columns=["cities", "shuffled", "table", "topology"])
        frames[name] = frame.sort_values(["matrix", "sites", "repetition"], kind="stable", ignore_index=True)
    runs = frames["runs"]
    point = ["matrix", "sites", "repetition"]
    best = runs[runs.policy == "optimal"].set_index(point).true_worst_ms
    runs["over_best"] = runs.true_worst_ms.to_numpy() / best.reindex(runs.set_index(point).index).to_numpy()
    return frames


def _matrix(row: Series) -> str:
    if row.topology != "matrix-sites":
        return US if row.topology == "us-cities" else ZONES
    if row.shuffled is True:
        return SHUFFLED
    return TABLE if isinstance(row.table, str) and row.table else WORLD


def draw(tables: FigureTables) -> Drawing:
    """A column a matrix: the policies against the best brokers, and how far estimates are off."""
    runs, estimates = tables["runs"], tables["estimates"]
    shown = [matrix for matrix in TITLES if matrix in set(runs.matrix)] or [US]
    inches = 2.45 * len(shown) + 0.4, 4.8
    drawing, axes = panels(2, len(shown), inches=inches, share_x=True, share_y="row")
    log_axis(axes[0], at=(1, 1.2, 1.5, 2, 3, 5))
    log_axis(axes[len(shown)], steps=(1,))
    log_axis(axes[0], "x", at=sorted(set(runs.sites)) or SITES)
    for number, matrix in enumerate(shown):
        above, below = axes[number :: len(shown)]
        part = runs[runs.matrix == matrix]
        draw_policies(above, part, "sites", "over_best", policies=SYSTEMS)
        rule(above, 1.0, reference=True)
        _draw_errors(below, estimates[estimates.matrix == matrix])
        files = sorted(set(part.file) - {""})  # of a table given
        title(above, f"({'abcde'[number]}) {files[0][:28] if files else TITLES[matrix]}")
        below.set_xlabel("sites")
    axes[0].set_ylabel("worst true delay over the best")
    axes[0].set_ylim(0.95, max(2.2, 1.1 * float(runs.over_best.max()) if len(runs) else 0.0))
    axes[len(shown)].set_ylabel("error of estimates (%)")
    legend_above(drawing, [*(key(look_of(policy)) for policy in SYSTEMS), *map(key, ERRORS.values())])
    return drawing


def _draw_errors(axes: Axes, estimates: Frame) -> None:
    """Each run a small mark, lines through the medians: errors of few repetitions span decades, their means do not."""
    for measure, look in ERRORS.items():
        percent = (100 * estimates[measure]).clip(lower=LEAST_PERCENT)
        marks(axes, estimates.sites, percent, look, size=3.5, alpha=0.5)
        middle = percent.groupby(estimates.sites).median()
        curve(axes, middle.index, middle, look)


NOTES = (
    f"The game of Fig. 4, clients {GAME_ACCESS_MS} ms (one way) from their sites. Above, the mean of each placement's "
    "worst true delay over that of brokers chosen by true delays, with 95 % intervals over repetitions; below, how far "
    "the estimates are off that the policies go by: a mark a run, lines through their medians. Cities' delays are "
    "derived from distances. Measured round trips come by --latency-table: pairs that were not measured get their best "
    "detour."
)
TITLE = "Placement policies on other matrices of delays"
EXPERIMENT = Experiment("placement-other-matrices", TITLE, "ours; ePulsar, 5.5", points, (OPTION,), repetitions=FEWER)
FIGURE = Figure(EXPERIMENT, tables, draw, notes=NOTES)
