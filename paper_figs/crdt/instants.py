"""What Figs. 4.1 and 4.2 have in common: sliding log and token bucket alone on a node, and when they admit."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from core.units import SECOND_NS
from harness.experiment import RunSpec
from paper_figs.crdt.grids import ORACLE
from paper_figs.drawing import categories, marks
from paper_figs.series import with_point
from paper_figs.style import style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from analysis.spark import Data

LIMIT: dict[str, Any] = {"capacity": 4, "rate": "1"}  # 4.1.1
LIFE_S = 4  # c / r, Eq. (4.1)
SYSTEMS = {"sliding-log": "sliding-log", "crdt-queue": "central queue", ORACLE: ORACLE}  # -> style


def alone(system: str, pattern: Mapping[str, Any]) -> RunSpec:
    """A system on one node, offered a pattern of instants."""
    return RunSpec(
        system=system,
        system_options=dict(LIMIT),
        workload="instants",
        workload_options=dict(pattern),
        topology="full-mesh",
        topology_options={"nodes": 1, "delay": "0ms"},
        study="limiting",
    )


def admitted(data: "Data") -> "pd.DataFrame":
    """system, repetition, request_id, at_s, count: the admitted requests in order."""
    from pyspark.sql import functions as f

    rows = data.requests.where("decision = 'admit'")
    at_s = (f.col("intended_at_ns") / SECOND_NS).alias("at_s")
    requests = with_point(data, rows.select("run_id", "request_id", at_s), {})
    requests = requests.sort_values(["system", "repetition", "request_id"], ignore_index=True)
    requests["count"] = requests.groupby(["system", "repetition"]).cumcount() + 1
    return requests[["system", "repetition", "request_id", "at_s", "count"]]


def draw_instants(axes: "Axes", requests: "pd.DataFrame") -> None:
    """One row a system, one mark an admitted request; those within 50 ms stand side by side."""
    for place, (system, name) in enumerate(SYSTEMS.items()):
        part = requests[requests.system == system]
        clump = (part.at_s.diff() > 0.05).cumsum()
        shift = part.groupby(clump).cumcount() * 0.22
        at_s = part.groupby(clump).at_s.transform("first") + shift
        marks(axes, at_s, [place] * len(part), style_of(name)._replace(marker="o"))
    categories(axes, [style_of(name).label for name in SYSTEMS.values()], "y")
    axes.set_xlabel("time (s)")
