"""What processes of live runs used over time, as was counted from outside while they ran.

Counters are read about once a second; here they become rates between two reads.  Nothing is aggregated.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup, escape

from analysis.report.numbers import number
from collectors.integrity import NoRun, OtherVersion, verified
from core.units import SECOND_NS

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("run_id", "process", "at_s", "cpu_cores", "rss_bytes", "sent_bytes_per_s")
_MEASURES = {"cpu_cores": "processor, cores", "rss_bytes": "memory, MB", "sent_bytes_per_s": "sent, kB a second"}
_SCALES = {"cpu_cores": 1.0, "rss_bytes": 1e6, "sent_bytes_per_s": 1e3}
_WIDTH, _HEIGHT = 200.0, 56.0  # pixels of a small drawing


class SmallPlot(NamedTuple):
    """One measure of one run: a line a kind of process."""

    title: str
    most: str  # in words
    drawing: Markup


class RunUsage(NamedTuple):
    """What one live run used."""

    run_id: str
    plots: list[SmallPlot]


def usage_over_time(folders: Mapping[str, Path]) -> "pd.DataFrame | None":
    """A row a process and read, of those runs in ``folders`` (id -> folder) that have counted; None where none has.

    ``COLUMNS``: process (of bytes: the host that sent them, "n1 (host)", or the node, as it counts itself where hosts
    share a network), at_s since the run's time 0, cpu_cores and sent_bytes_per_s since the read before, rss_bytes.
    Runs with tables of another version are left out: their rows among the figure's runs say so.  ``Damage`` where a run
    is not as it was written.
    """
    import pandas as pd

    parts = []
    for run_id, folder in folders.items():
        try:
            verified(folder)
        except (NoRun, OtherVersion):
            continue
        frames = [frame for frame in (_processes(folder), _network(folder)) if frame is not None]
        if frames:
            parts.append(pd.concat(frames).assign(run_id=run_id))
    if not parts:
        return None
    return pd.concat(parts, ignore_index=True).reindex(columns=list(COLUMNS))


def _read(folder: Path, table: str, names: Sequence[str]) -> "pd.DataFrame | None":
    import pandas as pd

    path = folder / f"{table}.parquet"
    if not path.is_file():
        return None
    frame = pd.read_parquet(path, columns=["at_ns", "node", *names])
    frame = frame[frame[list(names)].notna().any(axis=1)].sort_values(["node", "at_ns"], kind="stable")
    return None if frame.empty else frame.assign(at_s=frame.at_ns / SECOND_NS)


def _rate(frame: "pd.DataFrame", name: str) -> "pd.Series":
    """Growth of a counter a nanosecond since the node's read before; one that fell has begun anew."""
    by_node = frame.groupby("node", sort=False)
    growth, span = by_node[name].diff(), by_node.at_ns.diff()
    return growth.where(growth >= 0, frame[name].where(growth.notna())) / span.where(span > 0)


def _processes(folder: Path) -> "pd.DataFrame | None":
    frame = _read(folder, "processes", ("cpu_ns", "rss_bytes"))
    if frame is None:
        return None
    return frame.assign(process=frame.node, cpu_cores=_rate(frame, "cpu_ns"))[
        ["process", "at_s", "cpu_cores", "rss_bytes"]
    ]


def _network(folder: Path) -> "pd.DataFrame | None":
    frame = _read(folder, "network", ("interface_sent_bytes",))
    if frame is None:
        return None
    frame = frame.assign(
        process=frame.node + " (host)", sent_bytes_per_s=_rate(frame, "interface_sent_bytes") * SECOND_NS
    )
    return frame[["process", "at_s", "sent_bytes_per_s"]]


# --- small drawings, for readers without scripts -------------------------------------------------------


def run_usages(usage: "pd.DataFrame") -> list[RunUsage]:
    """Small drawings of each run: a line a kind of process ("node-n1" is a node), that of the one that used most."""
    kinds = usage.assign(kind=usage.process.map(_kind))
    return [
        RunUsage(str(run_id), [_plot(part, measure) for measure in _MEASURES])
        for run_id, part in kinds.groupby("run_id", sort=False)
    ]


def _kind(process: str) -> str:
    return re.sub(r"[-_]?[a-z]?\d+( \(host\))?$", "", process) or "host"


def _plot(part: "pd.DataFrame", measure: str) -> SmallPlot:
    known = part.dropna(subset=[measure])
    if known.empty:
        return SmallPlot(_MEASURES[measure], "not counted", Markup(""))
    scale = _SCALES[measure]
    most = known.loc[known[measure].idxmax()]
    steps = known.assign(step=known.at_s.round())
    largest = steps.groupby(["kind", "step"], sort=True)[measure].max()
    start, end, top = float(steps.step.min()), float(steps.step.max()), float(known[measure].max()) or 1.0
    lines = []
    for n, (kind, values) in enumerate(largest.groupby(level="kind", sort=True)):
        points = " ".join(
            f"{_WIDTH * (step - start) / ((end - start) or 1):.0f},{_HEIGHT * (1 - value / top):.0f}"
            for step, value in zip(values.index.get_level_values("step"), values, strict=True)
        )
        lines.append(f'<polyline class="line{n % 6}" points="{points}"><title>{escape(kind)}</title></polyline>')
    words = f"at most {number(float(most[measure]) / scale)}: {most.process} at {number(float(most.at_s))} s"
    size = f'width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}" viewBox="0 -1 {_WIDTH:.0f} {_HEIGHT + 2:.0f}"'
    label = escape(f"{_MEASURES[measure]} over time, a line a kind of process; {words}")
    drawing = Markup(f'<svg class="small" role="img" aria-label="{label}" {size}>{"".join(lines)}</svg>')
    return SmallPlot(_MEASURES[measure], words, drawing)


def folders_there(runs: Path, run_ids: Iterable[str]) -> dict[str, Path]:
    """The folders of runs that are on this machine, by id."""
    return {run_id: runs / run_id for run_id in run_ids if (runs / run_id).is_dir()}
