"""How late limits follow demand: the lag at which a throttler's limits are what its rule makes of the demand then."""

import numpy as np

from analysis.spark import collect
from paper_figs.dst.published import CYCLE
from paper_figs.light import Data, Frame
from paper_figs.series import frame_of
from systems.parts.throttling import Array
from systems.parts.throttling_graphs import graph_named, laplacian

LAGS = range(1, 8)
EXACT = 1e-6  # of l_total: rounding


def reaction(data: Data, runs: Frame) -> Frame:
    """A row a run with one kind of delay at most: who, trouble, repetition, ``lag_cycles``.

    Centralised: the smallest d with x_i(k + d) = l_total r_i(k) / sum r(k) at all remote servers.  A graph: the
    smallest d with x_i(k + d) - x_i(k + d - 1) = g sum_j w_ij (p_i(k) - p_j(k - s)) for some staleness s of the
    neighbours, that is, when a server's own p_i(k) counts.  NaN where no lag fits: messages were lost.
    """
    from pyspark.sql import functions as f

    chosen = runs[runs.trouble.isin({"none"}) | runs.trouble.str.startswith("late")]
    kept = data.table("cycles").where(f.col("run_id").isin([str(run_id) for run_id in chosen.run_id]))
    values = collect(kept.select("run_id", "cycle", "server", "demand", "limit"), ["run_id", "cycle"])
    rows = []
    for row in chosen.itertuples():
        of_run = values[values.run_id == row.run_id]
        demand, limit = (_matrix(of_run, name) for name in ("demand", "limit"))
        lag = _centralised(demand, limit) if row.who == "centralised" else _graph(demand, limit, str(row.who))
        rows.append((row.who, row.trouble, row.repetition, lag))
    return frame_of(rows, ["who", "trouble", "repetition", "lag_cycles"])


def _matrix(values: Frame, name: str) -> Array:
    """One column by cycle and server; servers n1, n2, … in the order of their numbers."""
    wide = values.pivot(index="cycle", columns="server", values=name)
    return np.asarray(wide[sorted(wide.columns, key=lambda name: int(str(name)[1:]))], float)


def _centralised(demand: Array, limit: Array) -> float:
    total = limit[0].sum()
    shares = total * demand / demand.sum(axis=1, keepdims=True)
    # Server n1 is the centre itself.
    fits = (lag for lag in LAGS if np.abs(limit[lag:, 1:] - shares[:-lag, 1:]).max() <= EXACT * total)
    return float(next(fits, np.nan))


def _graph(demand: Array, limit: Array, graph: str) -> float:
    weights = -laplacian(graph_named(graph, demand.shape[1]))
    np.fill_diagonal(weights, 0.0)
    degree, p, total = weights.sum(axis=1), demand - limit, limit[0].sum()
    settled = 2 * max(LAGS)
    for lag in LAGS:
        at = np.arange(settled, len(p) - lag)
        for stale in range(max(LAGS)):
            change = CYCLE * (p[at] * degree - p[at - stale] @ weights)
            if np.abs(limit[at + lag] - limit[at + lag - 1] - change).max() <= EXACT * total:
                return float(lag)
    return float("nan")
