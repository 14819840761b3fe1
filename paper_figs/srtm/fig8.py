"""Fig. 8: Max-Min forced to SRTM's number of brokers (a Poisson, b periodic); otherwise as Fig. 7.

How many brokers SRTM takes is known only after its run.  So Max-Min is run with every number of
brokers (a fresh minute each, no search), and the table picks, for each group size and repetition,
the one that SRTM took in the same repetition.
"""

import numpy as np

from analysis.verdicts import Claim, Evidence, Tables, above
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.light import Data, Drawing, Frame
from paper_figs.series import samples, where
from paper_figs.srtm.grids import arrivals, at, group_sizes, grouped, most_brokers
from paper_figs.srtm.grouped import FEWER, GROUP_SIZE, by_arrivals, draw_cases, main_points
from paper_figs.srtm.series import ENVELOPE_NOTE, per_run, summary
from paper_figs.srtm.strips import STRIPS_NOTE, TAIL_NOTE

FORCED = "max-min-forced"
SYSTEMS = ("srtm", "max-min", FORCED)
KEY = ["arrivals", "group_size", "repetition"]


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Fig. 7's points, and Max-Min on 1 to 6 brokers."""
    forced = [
        grouped("max-min", kind, size, brokers=count)
        for kind in arrivals(scale)
        for size in group_sizes(scale)
        for count in range(1, most_brokers(scale) + 1)
    ]
    return main_points(scale) + at(scale, forced, FEWER)


def tables(data: Data) -> FigureTables:
    """``runs``: one row a run, the forced ones chosen by SRTM's number of brokers; ``p99``: over the repetitions."""
    runs = chosen(per_run(data, {"group_size": "workload.group_size", "forced_count": "system.brokers"}))
    return {"runs": runs, "p99": summary(runs, ["arrivals", "system", "group_size"])}


def chosen(runs: Frame) -> Frame:
    """Keep the searches, and of the forced runs those with SRTM's number of brokers, as system ``FORCED``."""
    import pandas as pd

    free = runs[runs.forced_count.isna()]
    wanted = free[free.system == "srtm"][[*KEY, "broker_count"]].rename(columns={"broker_count": "forced_count"})
    forced = runs[runs.forced_count.notna()].merge(wanted, on=[*KEY, "forced_count"]).assign(system=FORCED)
    return pd.concat([free, forced], ignore_index=True).drop(columns="forced_count")


def draw(tables: FigureTables) -> Drawing:
    """Two panels, one a kind of arrivals."""
    return draw_cases(by_arrivals(tables["runs"]), "group_size", GROUP_SIZE, SYSTEMS)


def measure_r14(tables: Tables) -> Evidence:
    """Paired ratios of the p99 (log2), averaged over the group sizes for which SRTM took more brokers than Max-Min.

    Elsewhere the forced and the free Max-Min are the same.
    """
    runs = tables["srtm-fig8/runs"]
    runs = runs[runs.system.isin(SYSTEMS)]
    exact = []
    for kind in sorted(set(runs.arrivals), reverse=True):
        part = where(runs, arrivals=kind)
        wide = part.pivot(index=["repetition", "group_size"], columns="system", values=["p99_ms", "broker_count"])
        p99, count = wide["p99_ms"], wide["broker_count"]
        apart = p99[count["srtm"] > count["max-min"]]
        for other, name in (("srtm", "SRTM"), ("max-min", "Max-Min")):
            worse = np.log2(apart[FORCED] / apart[other]).groupby("repetition").mean()
            exact.append(above(f"{kind}: log2 p99, forced Max-Min over {name}", samples(worse), 0.0, "doublings"))
    return Evidence(tuple(exact))


R14 = "Max-Min forced to SRTM's number of brokers is worse than SRTM, and worse still than Max-Min left to itself."
WHY_R14 = (
    "With batches of 10 and synchronised groups nearly all access delay comes from groups that blind assignment "
    "spreads unevenly; how much that is depends on the slack of the envelope, which differs by window."
)
CLAIMS = (Claim("R14", "Fig. 8, VI-D", R14, ("srtm-fig8",), measure_r14, why=WHY_R14),)
EXPERIMENT = Experiment("srtm-fig8", "Max-Min forced to SRTM's number of brokers", "SRTM, Fig. 8", points)
FORCED_NOTE = "The forced Max-Min has the number that SRTM took in the same repetition."
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, f"{TAIL_NOTE} {STRIPS_NOTE} {FORCED_NOTE} {ENVELOPE_NOTE}")
