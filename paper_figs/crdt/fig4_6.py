"""Fig. 4.6: how the requests of data set A are divided among its 10 users.

The split is legible in the thesis' drawing only; here it is Zipf's, above the least that makes a user
limited.  Ours: how much of each user's requests the centralised limiter rejects.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt.grids import CAPACITY, at, oracle
from paper_figs.crdt.published import TOTAL_A
from paper_figs.crdt.runs import points_of
from paper_figs.drawing import note, panels
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import bar_key, legend_above
from paper_figs.style import series

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

ADMITTED, REJECTED = series("admitted by the centralised limiter", 0), series("rejected by it", 1)


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """The centralised limiter on A."""
    return at(scale, [oracle("A")])


def tables(data: "Data") -> FigureTables:
    """``users``: one row a run and user, the most active first (rank 1): offered_count, rejected_count."""
    from pyspark.sql import functions as f

    from analysis.spark import collect

    counts = data.requests.groupBy("run_id", "user").agg(
        f.count("*").alias("offered_count"), f.count_if(f.col("decision") == "reject").alias("rejected_count")
    )
    users = collect(counts, ["run_id", "user"]).merge(points_of(data), on="run_id")
    users = users.sort_values(["repetition", "offered_count", "user"], ascending=[True, False, True])
    users["rank"] = users.groupby("repetition").cumcount() + 1
    return {"users": users[["repetition", "rank", "offered_count", "rejected_count"]].reset_index(drop=True)}


def draw(tables: FigureTables) -> "Drawing":
    """A bar a user, of admitted and rejected requests."""
    drawing, (axes,) = panels(1, 1)
    mean = tables["users"].groupby("rank")[["offered_count", "rejected_count"]].mean() / CAPACITY
    admitted = mean.offered_count - mean.rejected_count
    axes.bar(mean.index, admitted, color=ADMITTED.colour, linewidth=0)
    axes.bar(mean.index, mean.rejected_count, bottom=admitted, color=REJECTED.colour, linewidth=0)
    total = mean.offered_count.sum()
    note(axes, f"total {total:.1f} c (thesis: {TOTAL_A.value} c)", (0.97, 0.9), right=True)
    axes.set_xticks(mean.index)
    axes.set(xlabel="user, by number of requests", ylabel="requests in 5 minutes (c)")
    axes.grid(visible=False, axis="x")
    legend_above(drawing, [bar_key(ADMITTED), bar_key(REJECTED)])
    return drawing


EXPERIMENT = Experiment("crdt-fig4.6", "Requests of data set A by user", "CRDT, Fig. 4.6", points)
FIGURE = Figure(
    EXPERIMENT, tables, draw,
    notes="A substitute: 10 users, each limited at least once, and the total are the thesis'; the split among them is "
    "Zipf's.",
)  # fmt: skip
