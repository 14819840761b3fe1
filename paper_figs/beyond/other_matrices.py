"""Placement policies on other delays than the paper's: how much hangs on coordinates that fit.

The game's 1024 clients on cities of the US and of the world, on the zones of one city, which are all equally far from
each other, and on the world's delays dealt anew among its pairs, which no space has; and on any matrix of measured
round trips, PlanetLab's or WonderNetwork's for instance, by ``--latency-table``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.experiment import FEWER, Experiment, RunSpec, Scale
from paper_figs.epulsar import policies
from paper_figs.epulsar.estimates import draw_curve
from paper_figs.epulsar.latency_table import ACCESS, DRAWN, OPTION, read
from paper_figs.epulsar.policies import GAME, draw_policies
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import log_axis
from paper_figs.style import SERIES, letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

SITES = (4, 8, 16, 32)
US, ZONES, WORLD, SHUFFLED, TABLE = "us-cities", "zones", "world", "shuffled", "table"
TITLES = {
    US: "US cities",
    ZONES: "zones of a city",
    WORLD: "cities of the world",
    SHUFFLED: "the world's, dealt anew",
    TABLE: "table given",
}
ERROR_LIMITS = (0.05, 2000.0)  # percent
FACTORS = {"cities": "topology.cities", "sites": "topology.sites", "shuffled": "study.shuffled",
           "table": "topology.table"}  # fmt: skip


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Each matrix with each number of sites; of a table as many as it has."""
    count = scale.pick(tiny=20, quick=100, paper=1000)
    sites = scale.pick(tiny=SITES[:2], quick=SITES)
    game = {**GAME, "access": ACCESS, "permutations": count}
    drawn = {"seed": DRAWN}
    specs = []
    for number in sites:
        specs += [
            policies.point(scale, "us-cities", {"cities": number}, **{**game, "access": "0ms"}),  # is in the topology
            policies.point(scale, "city-mec", {"sites": number}, **game),
            policies.point(scale, "matrix-sites", {"sites": number, **drawn}, **game),
            policies.point(scale, "matrix-sites", {"sites": number, **drawn}, **game, shuffled=True),
        ]
    if options.get(OPTION.name):
        table = read(options[OPTION.name])
        mended = {"table": table.path, "repair": "detour", **drawn}
        specs += [
            policies.point(scale, "matrix-sites", {**mended, "sites": number}, table.inputs, **game)
            for number in sorted({min(number, len(table.places)) for number in sites})
        ]
    return specs


def tables(data: "Data") -> FigureTables:
    """``runs`` and ``estimates``, see ``policies.tables``; ``matrix`` of ``TITLES``, ``file`` of a table, ``sites``.

    ``over_best`` of ``runs``: the mean worst true delay over that of the best brokers.
    """
    found = policies.tables(data, FACTORS)
    for name, frame in found.items():
        frame["matrix"] = [_matrix(row) for row in frame.itertuples()]
        frame["sites"] = [int(row.cities if row.matrix == US else row.sites) for row in frame.itertuples()]
        frame["file"] = [Path(row.table).name if row.matrix == TABLE else "" for row in frame.itertuples()]
        frame = frame.drop(columns=["cities", "shuffled", "table", "topology"])
        found[name] = frame.sort_values(["matrix", "sites", "repetition"], kind="stable", ignore_index=True)
    runs = found["runs"]
    key = ["matrix", "sites", "repetition"]
    best = runs[runs.policy == "optimal"].set_index(key).true_worst_ms
    runs["over_best"] = runs.true_worst_ms.to_numpy() / best.reindex(runs.set_index(key).index).to_numpy()
    return found


def _matrix(row: Any) -> str:
    if row.topology == "us-cities":
        return US
    if row.topology == "city-mec":
        return ZONES
    if row.shuffled is True:
        return SHUFFLED
    return TABLE if isinstance(row.table, str) and row.table else WORLD


def draw(found: FigureTables) -> "Drawing":
    """A column a matrix: the policies against the best brokers, and how far estimates are off."""
    runs, estimates = found["runs"], found["estimates"]
    shown = [matrix for matrix in TITLES if matrix in set(runs.matrix)] or [US]
    drawing, axes = panels(2, len(shown), sharex=True, sharey="row")
    drawing.set_size_inches(2.45 * len(shown) + 0.4, 4.8)
    for number, (matrix, column) in enumerate(zip(shown, axes.T, strict=True)):
        draw_policies(column[0], runs[runs.matrix == matrix], "sites", "over_best",
                      policies=("pulsar", "epulsar", "all-pairs"))  # fmt: skip
        column[0].axhline(1.0, color="#555555", linewidth=0.8, linestyle=(0, (4, 3)))
        _draw_errors(column[1], estimates[estimates.matrix == matrix])
        letter(column[0], f"({'abcde'[number]}) {_title(runs[runs.matrix == matrix], matrix)}")
        column[1].set_xscale("log", base=2)
        at = sorted(set(runs.sites)) or list(SITES)
        column[1].set_xticks(at, [str(sites) for sites in at])
        column[1].minorticks_off()
        column[1].set_xlabel("sites")
    axes[0][0].set_ylabel("worst true delay over the best")
    log_axis(axes[0][0], (1, 1.2, 1.5, 2, 3, 5))
    axes[0][0].set_ylim(bottom=0.95)
    axes[1][0].set_ylabel("error of estimates (%)")
    axes[1][0].set_yscale("log")
    axes[1][0].set_ylim(ERROR_LIMITS)
    axes[1][0].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    _legend(drawing, axes[1][0])
    return drawing


def _title(runs: "pd.DataFrame", matrix: str) -> str:
    """A table's is its file's name."""
    files = sorted(set(runs.file) - {""})
    return files[0][:28] if files else TITLES[matrix]


def _draw_errors(axes: "Axes", estimates: "pd.DataFrame") -> None:
    shares = (
        ("median_error_ratio", "o", SERIES[3], "median of pairs"),
        ("p90_error_ratio", "^", SERIES[1], "90th percentile"),
    )
    for measure, marker, colour, label in shares:
        percent = estimates.assign(percent=(100 * estimates[measure]).clip(lower=ERROR_LIMITS[0]))
        draw_curve(axes, percent, "sites", "percent", marker=marker, color=colour, label=label)


def _legend(drawing: "Drawing", errors: "Axes") -> None:
    from matplotlib.lines import Line2D

    handles: list[Any] = [
        Line2D([], [], color=style_of(policy).colour, marker=style_of(policy).marker, linestyle=policies.LINES[policy],
               markersize=policies.SIZES[policy], label=style_of(policy).label)
        for policy in ("pulsar", "epulsar", "all-pairs")
    ]  # fmt: skip
    handles += errors.get_legend_handles_labels()[0]
    drawing.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=7)


EXPERIMENT = Experiment(
    "placement-other-matrices", "Placement policies on other matrices of delays", "ours; ePulsar, 5.5", points,
    options=(OPTION,), repetitions=FEWER,
)  # fmt: skip
FIGURE = Figure(
    EXPERIMENT, tables, draw,
    notes=f"The game of Fig. 4, clients {ACCESS.replace('ms', ' ms')} (one way) from their sites. Above, the mean of "
    "each placement's worst true delay over that of brokers chosen by true delays; below, how far the estimates are "
    "off that the policies go by. Cities' delays are derived from distances. Measured round trips come by "
    "--latency-table: pairs that were not measured get their best detour.",
)  # fmt: skip
