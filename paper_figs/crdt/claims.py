"""Claims of the thesis that span figures."""

from itertools import pairwise
from typing import TYPE_CHECKING

from analysis.verdicts import Check, Claim, Evidence, Tables, above, at_least, at_most, below
from paper_figs.crdt.grids import COUNTER, FL, F
from paper_figs.crdt.usage import AREAS, BANDWIDTH, MEMORY, ratio
from paper_figs.series import by_repetition, samples

if TYPE_CHECKING:
    import pandas as pd

FALLING = (("crdt-fig5.6", "extreme", FL), ("crdt-fig5.8", "substantial", FL), ("crdt-fig5.10", "barely limited", FL),
           ("crdt-fig5.12", "not limited", F))  # fmt: skip
DEBTS = (("crdt-fig5.5", "extreme"), ("crdt-fig5.7", "substantial"))
STEADY = 0.95  # ours: a mean that is not below 95 % of an earlier one has not fallen


def measure_t16(tables: Tables) -> Evidence:
    """Queue over counter, memory and bandwidth: each load's ratio less that of the next lighter load."""
    checks = []
    for area in (MEMORY, BANDWIDTH):
        found = [(name, ratio(tables[f"{key}/runs"], area, variant)) for key, name, variant in FALLING]
        for (heavier, one), (lighter, other) in pairwise(found):
            label = f"{AREAS[area].split()[0]}, queue over counter, {heavier} minus {lighter}"
            checks.append(above(label, samples(one - other)))
    return Evidence(tuple(checks))


def measure_t17(tables: Tables) -> Evidence:
    """The counter's debt, the spread of convergence, and memory in the second half of the load."""
    checks: list[Check] = []
    for key, load in DEBTS:
        runs = tables[f"{key}/runs"]
        above_envelope = by_repetition(runs, "excess_tokens", variant=COUNTER)
        late = by_repetition(runs, "late_admitted_count", variant=COUNTER)
        central = by_repetition(runs, "late_admitted_count", variant="centralised")
        checks += [
            above(f"{load}: worst excess of the counter", samples(above_envelope), 0.0, "tokens"),
            at_most(f"{load}: requests of the second half that the counter admits", samples(late), 0.0),
            above(f"{load}: requests of the second half that the centralised limiter admits", samples(central)),
        ]
    for key, load, variant in FALLING:
        runs = tables[f"{key}/runs"]
        checks.append(at_least(f"{load}: memory of the counter, end over middle of the load",
                               samples(by_repetition(runs, "memory_kept", variant=COUNTER)), STEADY))  # fmt: skip
        if variant == FL:
            spread = deviation(runs, variant) - deviation(runs, COUNTER)
            checks.append(above(f"{load}: deviation of convergence from its median, queue minus counter",
                                samples(spread), 0.0, "s"))  # fmt: skip
            checks.append(below(f"{load}: memory of the queue, end over middle of the load",
                                samples(by_repetition(runs, "memory_kept", variant=variant)), 1.0))  # fmt: skip
    return Evidence(tuple(checks))


def deviation(runs: "pd.DataFrame", variant: str) -> "pd.Series":
    """How far each run's convergence is from the median of its variant: a spread with one value a repetition."""
    rest_s = by_repetition(runs, "rest_s", variant=variant)
    found: pd.Series = (rest_s - rest_s.median()).abs()
    return found


CLAIMS = (
    Claim(
        "T16", "5.2.2-5.2.3, chapter 7",
        "The queue's memory and bandwidth over the counter's fall with the request rate, over the four loads of data "
        "set B.", tuple(key for key, _, _ in FALLING), measure_t16, substitute=True,
    ),
    Claim(
        "T17", "5.2.5",
        "The counter admits too much, is then in debt and rejects everything; its memory does not fall during the "
        "load, the queue's does; the queue's convergence varies widely between runs, the counter's does not.",
        tuple(key for key, _ in DEBTS) + tuple(key for key, _, _ in FALLING), measure_t17, substitute=True,
        why="The counter's debt is there under both loads. Its memory falls where delta states are flushed, once all "
        "nodes are in debt, at about half a minute of the substantial load. The queues are at rest within seconds "
        "of the load's end in all runs (see T5 and T10), so that their convergence varies no more than the "
        "counter's; their memory does not decay within a minute, in which only 0.06 c tokens come back.",
    ),
)  # fmt: skip
