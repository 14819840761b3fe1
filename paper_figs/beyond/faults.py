"""What goes wrong in a run from one instant to another, and which scenario of a figure a run is."""

import json
from collections.abc import Mapping, Sequence

from core.records import Json
from paper_figs.drawing import INK, interval_curve
from paper_figs.light import Axes, Series
from paper_figs.style import Style

Faults = Sequence[Json]
NO_FAULT = "none"
SPREAD = Style("darker: 95 % interval of an area's end", INK, "", "-")


def crash(node: str, from_s: int, until_s: int | None = None, **restart: str) -> Faults:
    """A node crashes, for good or to restart; ``restart``: how (``copy_from="n2"``; else empty)."""
    down = {"kind": "crash", "at": f"{from_s}s", "node": node}
    return [down, {"kind": "restart", "at": f"{until_s}s", "node": node, **restart}] if until_s else [down]


def cut(side: list[str], from_s: int, until_s: int | None = None) -> Faults:
    """The nodes of ``side`` are cut off from all others, for good or to be joined to them again."""
    changes = {"partition": from_s, **({"heal": until_s} if until_s else {})}
    return [{"kind": kind, "at": f"{at_s}s", "side": side} for kind, at_s in changes.items()]


def first_site(topics: int, sites: int) -> list[str]:
    """Who is at site 1 of a city whose topics are dealt to the sites in turn: its broker and proxy, and clients."""
    clients = [f"{role}-{topic}-1" for topic in range(1, topics + 1, sites) for role in ("producer", "consumer")]
    return ["broker1", "proxy1", *clients]


def scenario_of(text: str, scenarios: Mapping[str, Faults]) -> str:
    """Which one a run's faults, as its factor has them, are."""
    wanted = json.loads(text)
    return next(key for key, faults in scenarios.items() if list(faults) == wanted)


def lasts_s(bad: Series, step_s: int, since_s: int) -> float | None:
    """From ``since_s`` to the end of the last bad step (of an index in s); None where that is the run's."""
    if not bad.any():
        return 0.0
    last = int(bad[bad].index.max())
    return None if last == bad.index.max() else float(last + step_s - since_s)


def held(values: Series) -> list[float]:
    """Of the stairs at ``edges``: the last interval's value holds to its end."""
    return [*values, values.iloc[-1]]


def edges(starts_s: Series, step_s: int) -> list[float]:
    """Of the stairs of intervals that begin at ``starts_s``."""
    return [*starts_s, starts_s.iloc[-1] + step_s]


def end_band(axes: Axes, steps: Sequence[float], mean: Series, low: Series, high: Series) -> None:
    """The 95 % interval of an area's end, a value a step between ``edges``; see ``SPREAD``."""
    interval_curve(axes, steps, held(mean), held(low), held(high), SPREAD, width=0.0, stairs=True)
