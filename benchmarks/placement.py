"""Placement of topics: Algorithm 1 over arrays beside plain Python, and the whole policy study.

Both sides must give the same answer before either is timed.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np

from benchmarks.process_tree import own_peak_mib
from core.records import Float64
from core.seeds import generator
from harness.experiment import SCALES, RunSpec
from harness.run import carried_out, resolve
from paper_figs.epulsar import fig4, fig5, fig9
from systems.parts import topic_placement as tp
from systems.parts.coordinates import Coordinates, one_of
from systems.parts.topic_placement_twin import BrokerLoad, Move, expected_s, placed

ROOT = Path(__file__).resolve().parents[1]
GAME = "game"  # the word for Fig. 9 alone
TOPICS, BROKERS, WANTED_S = 10_000, 100, 1.0
TWIN_TOPICS = 1_000  # the twin's cost grows with the square
STUDY_WANTED_S = 60.0  # on two cores
GAME_WANTED_S = 120.0  # Fig. 9 at the paper's rate: 19,200 messages a second for ten minutes, groups of 8


def report(repeats: int = 5) -> None:
    """Print both."""
    print("\nPlacement of topics")
    _compare(TWIN_TOPICS)
    _compare(TWIN_TOPICS, tight=True)
    for tight in (False, True):
        spans = [_arrays_s(TOPICS, tight) for _ in range(repeats)]
        print(
            f"  {TOPICS:,} topics, {BROKERS} brokers{_kind(tight)}: {median(spans):.2f} s (wanted: under {WANTED_S:g})"
        )
    _report_study()
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "benchmarks.placement", GAME], check=True, cwd=ROOT)  # its peak is its own


def _kind(tight: bool) -> str:
    return ", all full" if tight else ""


def _problem(count: int, tight: bool) -> tuple[tp.Summaries, tp.Topics, Coordinates, Float64]:
    """Topics that all violate their bounds; ``tight``: brokers have room for a hundredth more than there is."""
    rng = generator(1, "placement", count)

    def places(number: int) -> Coordinates:
        return Coordinates(
            rng.normal(0, 0.03, (number, 8)), rng.uniform(0, 0.01, number), np.zeros(number), np.ones(number)
        )

    there = np.ones(count, bool)
    in_rps, out_rps = (rng.integers(1, 100, count).astype(float) for _ in range(2))
    worst_s, brokers = np.full(count, 0.3), places(BROKERS)
    summaries = tp.Summaries(
        places(count), places(count), there, there, rng.uniform(0, 0.02, count), worst_s, in_rps, out_rps
    )
    topics = tp.Topics(rng.integers(0, BROKERS, count), np.full(count, 0.12), worst_s, in_rps, out_rps)
    limit_rps = 1.01 * out_rps.sum() / BROKERS if tight else np.inf
    return summaries, topics, brokers, np.full(BROKERS, limit_rps)


def _arrays_s(count: int, tight: bool) -> float:
    summaries, topics, brokers, marks = _problem(count, tight)
    began = perf_counter()
    tp.place(topics, tp.expected_s(summaries, brokers), marks)
    return perf_counter() - began


def _compare(count: int, tight: bool = False) -> None:
    summaries, topics, brokers, marks = _problem(count, tight)
    single = [one_of(brokers, number) for number in range(BROKERS)]
    reports = [
        tp.Summary(one_of(summaries.producers, n), one_of(summaries.consumers, n), float(summaries.deviation_s[n]), 0.3)
        for n in range(count)
    ]
    unheld = np.zeros(count, bool)
    rows = [Move(*(value.item() for value in row)) for row in zip(*topics, unheld, strict=True)]
    began = perf_counter()
    theirs = placed(
        rows, [expected_s(one, single) for one in reports], BrokerLoad(marks.tolist(), [True] * BROKERS), tp.POLICY
    )
    twin_s = perf_counter() - began
    ours = tp.place(topics, tp.expected_s(summaries, brokers), marks)
    assert ours.tolist() == theirs, "the twins differ"
    arrays_s = _arrays_s(count, tight)
    print(
        f"  {count:,} topics, {BROKERS} brokers{_kind(tight)}: {arrays_s:.3f} s, plain Python {twin_s:.2f} s: "
        f"{twin_s / arrays_s:.0f}x  same answer"
    )


def _report_study() -> None:
    """Every topology of Figs. 4 and 5 once, with 1,000 placements each."""
    paper = SCALES["paper"]
    specs = [*fig4.points(paper, {}), *fig5.points(paper, {})]
    _run(specs[0])  # compiles
    began, wall = process_time(), perf_counter()
    rows = sum(_run(spec) for spec in specs)
    print(
        f"  policy study, {len(specs)} runs of 1,000 placements ({rows:,} rows): {process_time() - began:.1f} s of "
        f"processor time, {perf_counter() - wall:.1f} s (wanted: under {STUDY_WANTED_S:g} on two cores)"
    )


def _report_game() -> None:
    """Fig. 9 at paper scale: the control plane and every message's fate, one run on one core."""
    spec = next(spec for spec in fig9.points(SCALES["paper"], {"latency-table": ""}) if spec.system == "epulsar")
    began = perf_counter()
    windows = carried_out(resolve(spec)).tables["topic_windows"]
    seconds = perf_counter() - began
    pairs = int(windows["pair_count"].sum())
    print(
        f"  Fig. 9 at the paper's rate, {pairs / 1e6:,.0f} M deliveries: {seconds:.1f} s "
        f"(wanted: under {GAME_WANTED_S:g}), largest memory {own_peak_mib() / 2**10:.1f} GiB"
    )


def _run(spec: RunSpec) -> int:
    """One run, without its files; returns its rows, one a placement and policy."""
    return len(carried_out(resolve(spec)).tables["policies"]["policy"])


def main(words: Sequence[str]) -> None:
    """Print all, or what Fig. 9 takes."""
    if list(words) not in ([], [GAME]):
        sys.exit(f"usage: python -m benchmarks.placement [{GAME}]")
    if words:
        _report_game()
    else:
        report()


if __name__ == "__main__":
    main(sys.argv[1:])
