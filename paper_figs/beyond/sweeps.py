"""What is varied in ``limiters-plane``, one factor at a time, and the means along it."""

from typing import NamedTuple

from harness.experiment import Scale
from paper_figs.beyond.limiters import CLOSED, LIMITERS, NEAR, PERIOD, order_of, usual_setting
from paper_figs.intervals import interval_table
from paper_figs.light import Frame

NODES = 8
_SHARES = tuple(f"{kind}_share" for kind in ("over_admission", "false_rejection", "lost", "excess"))
MEASURES = (*_SHARES, "bytes_per_request", "messages_per_request", "p99_ms")
SHOWN = tuple(name for name in LIMITERS if name != CLOSED)


class Sweep(NamedTuple):
    """One factor varied: its column in ``measured``, its title, the value of the base, and who is affected.

    ``quick`` and ``paper``: the values beside the base's, by scale.
    """

    column: str
    title: str
    base: object
    quick: tuple[str | float, ...]
    paper: tuple[str | float, ...]
    systems: tuple[str, ...]


_SENDING = tuple(name for name in SHOWN if name not in ("static-split", *NEAR))
_OVERLAID = tuple(name for name in _SENDING if LIMITERS[name].overlay)
_SPREAD = tuple(name for name in _SENDING if name != "centralised")
_COUNTED = tuple(name for name in SHOWN if name not in NEAR)
SWEEPS = (
    Sweep("nodes", "nodes", NODES, (), (), _COUNTED),
    Sweep("overlay", "overlay", "full-mesh", ("star",), ("random", "tree", "ring", "star"), _OVERLAID),
    Sweep("loss", "loss between cities", 0.0, (0.1,), (0.01, 0.03, 0.1, 0.3), _SENDING),
    Sweep("delay", "distances", 1.0, (4.0,), (0.0, 0.25, 0.5, 2.0, 4.0), _SENDING),
    Sweep("skew", "clocks off by up to", "0ms", ("3s",), ("10ms", "100ms", "1s", "3s", "10s"), _SPREAD),
)


def node_counts(scale: Scale, nodes: int) -> tuple[int, ...]:
    """Other numbers of nodes: half and half as many more, at the paper scale double and three times too."""
    half = max(1, nodes // 2)
    counts: tuple[int, ...] = scale.pick(
        tiny=(half,), quick=(half, half + nodes), paper=(half, half + nodes, 2 * nodes)
    )
    return counts


def sweep_means(runs: Frame) -> Frame:
    """One row a sweep, value (as text), limiter and measure: mean, low, high, count.

    A run belongs to a sweep if it is of the usual load, with the usual period and knobs, and has the base's value of
    every other factor, or is of a limiter that has none.  The usual load and the base's number of nodes are the most
    frequent ones.
    """
    runs = runs[runs.name.isin(order_of(runs.name))]
    bases = {sweep.column: sweep.base for sweep in SWEEPS}
    if len(runs):
        bases["nodes"] = runs.nodes.mode().iloc[0]
        usual = runs.setting == runs.name.map(usual_setting)
        runs = runs[(runs.load == runs.load.mode().iloc[0]) & runs.period.isin([PERIOD, ""]) & usual]
    rows = []
    for varied, base in bases.items():
        part = runs
        for column in bases.keys() - {varied}:
            part = part[part[column].isin([bases[column], ""])]
        for (name, value), group in part.groupby(["name", varied], sort=True):
            for measure in MEASURES:
                point = varied, name, str(value), measure, value in ("", base)
                rows.append((point, list(group[measure].dropna().astype(float))))
    table = interval_table(["sweep", "name", "value", "measure", "is_base"], rows)
    return table.astype({"is_base": bool, "mean": float})
