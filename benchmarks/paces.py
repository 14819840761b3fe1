"""``python -m benchmarks.paces [OUT]``: what runs took beside what was foreseen, and ``harness.paces`` anew.

OUT is the folder of a whole campaign on an otherwise idle machine: ``make figures``.
"""

import argparse
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from collectors.integrity import verified
from harness.campaign import finished_runs
from harness.estimate import expected_seconds, paces
from harness.experiment import ROUND, RunSpec
from ratebed.pipeline import sections
from ratebed.rows import columns
from ratebed.wording import span
from testbed import load_testbed


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paces", description=__doc__)
    parser.add_argument("out", nargs="?", default="out", type=Path, help="the folder of results (default out)")
    for line in report(parser.parse_args().out):
        print(line)


def report(out: Path) -> Iterator[str]:
    """Every figure with what its runs took and would have been foreseen to take, then the table of paces."""
    folders = {folder.name: folder for folder in finished_runs(out)}
    yield from compared({name: _both(folder) for name, folder in folders.items()}, _figures(out, folders.keys()))
    virtual_paces = {
        kind: pace
        for kind, pace in paces(folders.values(), least=1).items()
        if not load_testbed(kind.testbed).real_time
    }
    plain = {kind[1:4]: pace for kind, pace in virtual_paces.items() if kind.round == ROUND}
    short = {kind[1:]: pace for kind, pace in virtual_paces.items() if kind.round != ROUND}
    yield "\nPACES: dict[tuple[str, str, str], float] = {  # study, system, workload -> pace, in virtual time"
    yield from _entries(plain)
    yield "SHORT_PACES: dict[tuple[str, str, str, str], float] = {  # study, system, workload, round -> pace"
    yield from _entries(short)


def _entries(paces: Mapping[Any, float]) -> Iterator[str]:
    for kind, pace in sorted(paces.items()):
        yield f"    {json.dumps(kind).replace('[', '(').replace(']', ')')}: {pace:.2g},"
    yield "}"


def compared(runs: dict[str, tuple[float, float]], figures: dict[str, list[str]]) -> list[str]:
    """Lines for figures and all runs; ``runs``: run -> seconds foreseen and taken, ``figures``: figure -> its runs."""
    groups: dict[str, Sequence[str]] = {**figures, "all runs": list(runs)}
    rows = []
    for name, ids in groups.items():
        foreseen, took = (sum(runs[run_id][place] for run_id in ids) for place in (0, 1))
        rows.append((name, str(len(ids)), span(foreseen, 3), span(took, 3), f"{foreseen / took:.2f}" if took else ""))
    return columns(("figure", "runs", "foreseen", "took", "foreseen / took"), rows)


def _figures(out: Path, there: Collection[str]) -> dict[str, list[str]]:
    run_ids = {name: [i for i in section["run_ids"] if i in there] for name, section in sections(out).items()}
    return {name: ids for name, ids in run_ids.items() if ids}


def _both(folder: Path) -> tuple[float, float]:
    manifest = verified(folder)
    return expected_seconds(msgspec.convert(manifest["spec"], RunSpec)), manifest["wall_seconds"]


if __name__ == "__main__":
    main()
