"""``python -m paper_figs.srtm.consistency search|map|show``: see the package."""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from core.records import Json, Row
from core.writing import replace_file
from harness.code_version import commit, id_of
from harness.experiment import repeated
from paper_figs import load_figure
from paper_figs.srtm import readings
from paper_figs.srtm.consistency import bound, cells, fitting
from paper_figs.srtm.consistency.runs import carried_out, row_of
from paper_figs.srtm.published import BATCH
from studies.spec import RunSpec
from testbed.brokers.model import CALIBRATIONS

ROOT = Path(__file__).resolve().parents[3]
RESULT, RECORD = ROOT / "results" / "srtm-consistency.json", ROOT / "results" / "srtm-calibrations.json"
ROWS = ROOT / "out" / "srtm-consistency.jsonl"  # a row a run that is done: what a map goes on from
CHUNK = 8  # runs handed to a process at a time
Known = dict[str, Row]


def run_one(spec: RunSpec) -> tuple[str, Row]:
    """A run's id and row."""
    return id_of(spec), row_of(spec, carried_out(spec))


def known(path: Path) -> Known:
    """The runs that are done; a last line that an interruption cut short is none."""
    rows: Known = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            name, row = json.loads(line)
        except ValueError:
            continue
        rows[name] = row
    return rows


def make(specs: Iterable[RunSpec], rows: Known, path: Path, jobs: int) -> None:
    """Carry out what is not known yet; each row is kept as soon as it is there."""
    missing = {name: spec for spec in specs if (name := id_of(spec)) not in rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    cut_short = path.is_file() and path.read_bytes()[-1:] not in (b"", b"\n")
    with path.open("a", encoding="utf-8") as file, ProcessPoolExecutor(jobs) as pool:
        file.write("\n" * cut_short)
        for name, row in pool.map(run_one, missing.values(), chunksize=CHUNK):
            rows[name] = row
            file.write(json.dumps([name, row]) + "\n")
            file.flush()


def fill(arguments: argparse.Namespace) -> None:
    """The map: seed by seed, all cells, so that an interrupted one has as many seeds everywhere."""
    rows = known(arguments.rows)
    grids = {cell: cells.points(cell, arguments.figures) for cell in cells.cells()}
    chosen = list(grids)[slice(*arguments.cells)]
    for repetition in range(arguments.seeds):
        specs = [spec for cell in chosen for spec in repeated(grids[cell], repetition + 1, arguments.seed)]
        make((spec for spec in specs if spec.repetition == repetition), rows, arguments.rows, arguments.jobs)
        say(f"seed {repetition + 1} of {arguments.seeds} done: {len(rows):,} runs")
        write(grids, rows, arguments)


def write(grids: dict[cells.Cell, list[RunSpec]], rows: Known, arguments: argparse.Namespace) -> None:
    """The result, of all runs that there are: each verdict says on how many seeds it is, and of which commit.

    What the file has on more seeds stays.
    """
    before = {_place(cell): cell["claims"] for cell in _result(arguments.result).get("cells", ())}
    judged, now = [], {"commit": commit()}
    for cell, specs in grids.items():
        there = [
            rows[name] for spec in repeated(specs, arguments.seeds, arguments.seed) if (name := id_of(spec)) in rows
        ]
        new = cells.verdicts(cell, there) if there else {}
        said = merged(before.get(_place(cell.options), {}), {name: {**one, **now} for name, one in new.items()})
        if any(one["seeds"] for one in said.values()):
            counts = Counter(one["verdict"] for one in said.values())
            judged.append({**cell.options, "fitted_on": sorted(cell.fitted), "counts": counts, "claims": said})
    bounds = {str(margin): round(bound.split_delay_ms(margin=margin), 3) for margin in (1.0, 1.5, 2.0)}
    result = {
        "command": f"python -m paper_figs.srtm.consistency map --seeds {arguments.seeds} --seed {arguments.seed}",
        "left_out": cells.LEFT_OUT,
        "second_broker_ms": {"publishers": bound.PUBLISHERS, "batch": BATCH, "p99_by_margin": bounds},
        "exclusion": bound.EXCLUSION,
        "cells": judged,
    }
    replace_file(arguments.result, msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


def merged(old: Json, new: Json) -> Json:
    """Claim -> what is said of it on more seeds, in the order of the figures."""
    every = dict(old)
    for name, one in new.items():
        if name not in old or one["seeds"] >= old[name]["seeds"]:
            every[name] = one
    order = [claim.id for key in cells.KEYS for claim in load_figure(key).claims]
    return {name: every[name] for name in order if name in every}


def _place(options: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(options[name] for name in ("margin", "mcap", "costs", "pump"))


def _result(path: Path) -> Json:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def search(arguments: argparse.Namespace) -> None:
    """The calibration srtm-searched, or srtm-shared, and the record of how it was found."""
    shared = arguments.pump == readings.SHARED
    keep(fitting.searched_costs(shared, arguments.candidates, arguments.seed, say))


def keep(record: Json) -> None:
    """Write a record beside the other pump's, and its calibration."""
    others = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else []
    records = [one for one in others if one["pump"] != record["pump"]] + [record]
    records.sort(key=lambda one: str(one["pump"]))
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(records), indent=0) + b"\n")
    name = "srtm-shared" if record["pump"] == readings.SHARED else "srtm-searched"
    (CALIBRATIONS / f"{name}.toml").write_text(fitting.calibration_text(record), encoding="utf-8")


def say(line: str) -> None:
    """A line of progress."""
    print(line, flush=True)


def shown(result: Json) -> Iterator[str]:
    """The map as text: a line a cell, a letter a claim."""
    letters = {"reproduced": "R", "direction only": "d", "contradicted": "C", "undecided": "?"}
    yield "R reproduced, d direction only, C contradicted, ? undecided, - not run; ' fitted; seeds: fewest and most"
    names = list(result["cells"][0]["claims"])
    yield f"{'margin':>6} {'mcap':<12}{'costs':<15}{'pump':<7}{'seeds':<7}" + " ".join(f"{name:<3}" for name in names)
    for cell in result["cells"]:
        said = [cell["claims"].get(name, {"verdict": "-", "seeds": 0}) for name in names]
        words = [one["verdict"].removesuffix(", fitted") for one in said]
        marks = [letters.get(word, "-") + "'" * (word != one["verdict"]) for word, one in zip(words, said, strict=True)]
        seeds = [one["seeds"] for one in said if one["seeds"]]
        line = f"{cell['margin']:>6} {cell['mcap']:<12}{cell['costs']:<15}{cell['pump']:<7}"
        yield f"{line}{min(seeds)}-{max(seeds):<5}" + " ".join(f"{mark:<3}" for mark in marks)
    yield result["exclusion"]


def main() -> None:
    """Read the words and do one thing."""
    parser = argparse.ArgumentParser(prog="python -m paper_figs.srtm.consistency")
    verbs = parser.add_subparsers(dest="verb", required=True)
    maps = verbs.add_parser("map", help="fill the map; goes on where it was interrupted")
    maps.add_argument("--seeds", type=int, default=20)
    maps.add_argument("--seed", type=int, default=7, help="root of all randomness; not the one of judgement")
    maps.add_argument("--jobs", type=int, default=1)
    maps.add_argument("--cells", type=int, nargs=2, default=(0, None), help="make runs of these alone: from, to")
    maps.add_argument("--figures", nargs="+", choices=cells.KEYS, default=cells.KEYS, help="and of these figures")
    maps.add_argument("--rows", type=Path, default=ROWS)
    maps.add_argument("--result", type=Path, default=RESULT)
    find = verbs.add_parser("search", help="find the calibration of a reading")
    find.add_argument("--pump", choices=readings.PUMP.values, default=readings.FREE)
    find.add_argument("--candidates", type=int, default=160)
    find.add_argument("--seed", type=int, default=101)
    verbs.add_parser("show", help="print the map")
    arguments = parser.parse_args()
    if arguments.verb == "show":
        print("\n".join(shown(_result(RESULT))))
    else:
        {"map": fill, "search": search}[arguments.verb](arguments)


if __name__ == "__main__":
    main()
