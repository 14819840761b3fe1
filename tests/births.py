"""What births in milliseconds that may collide do to the queue's convergence (thesis 4.2.2, 5.1.3, 5.2.5).

``python -m tests.births``: the barely limited user at c = 150 with 30 seeds, and data set A with 5 (claim T5), each run
until nothing is left to say, 10 simulated minutes after the load at most; under every reading of what the sender of
a message is not sent back.  ``results/births.json`` keeps every run's numbers.
"""

import json
import statistics
import sys
from collections.abc import Iterator
from typing import NamedTuple

from core.records import Options
from core.units import SECOND_NS
from harness.code_version import ROOT, commit
from harness.experiment import RunSpec, repeated
from harness.run import asked_of, resolve
from paper_figs.crdt.grids import limited
from paper_figs.crdt.readings import IDENTITY
from paper_figs.crdt.variants import COUNTER, EXTENSIONS, FL
from studies.limiting.asked import Limiting
from studies.limiting.virtual import run as run_virtually

LEDGER = ROOT / "results" / "births.json"
SEED, SEEDS, SEEDS_A = 1, 30, 5
CAP_S = 660.0  # barely: the minute and ten more


class Rest(NamedTuple):
    """One run: how many requests had the millisecond of another of their user, when all was at rest, bytes of a node.

    ``rest_s`` is null where that never was.
    """

    pair_count: int
    rest_s: float | None
    sent_bytes: float


def rests(spec: RunSpec, seeds: int) -> Iterator[Rest]:
    """One run a seed."""
    for run in repeated([spec], seeds, SEED):
        _, asked = asked_of(resolve(run))
        assert isinstance(asked, Limiting)
        requests = [(one.user, one.at_ns) for offered in asked.requests().values() for one in offered]
        journal = run_virtually(asked).journal
        sent = sum(value for _, _, metric, value in journal.samples if metric == "sent_bytes")
        at_rest = [value / SECOND_NS for _, _, metric, value in journal.samples if metric == "convergence_ns"]
        pairs = len(requests) - len(set(requests))
        yield Rest(pairs, at_rest[0] if at_rest else None, round(sent / len(asked.topology.node_names())))


def barely(variant: str, **options: object) -> list[Rest]:
    """The barely limited user at c = 150, under readings."""
    return list(rests(limited(variant, "B-barely", {"capacity": 150, **options}), SEEDS))


def spread_s(runs: list[Rest]) -> float:
    """The standard deviation of convergence; a run that never came to rest counts as if it had at the cap."""
    return statistics.stdev(CAP_S if run.rest_s is None else run.rest_s for run in runs)


def on_a(options: Options) -> dict[str, list[Rest]]:
    """Variant -> its runs on data set A."""
    return {variant: list(rests(limited(variant, "A", options), SEEDS_A)) for variant in EXTENSIONS}


def main() -> None:
    """Write the ledger."""
    counter = barely(COUNTER)
    ledger: dict[str, object] = {"command": "python -m tests.births", "commit": commit(), "counter": counter}
    ledger["counter_spread_s"] = round(spread_s(counter), 2)
    for identity in map(str, IDENTITY.values):
        ms, unique = (barely(FL, identity=identity, births=births) for births in ("ms", "unique"))
        alike = all(one == other for one, other in zip(ms, unique, strict=True) if not one.pair_count)
        spread = {"spread_s": round(spread_s(ms), 2), "spread_of_unique_s": round(spread_s(unique), 2)}
        ledger[identity] = {
            "barely": {"births_ms": ms, "births_unique": unique, "equal_without_pairs": alike, **spread},
            "A": on_a({"identity": identity}),
        }
        print(identity, alike, spread, file=sys.stderr)
    LEDGER.write_text(json.dumps(ledger, indent=1) + "\n")


if __name__ == "__main__":
    main()
