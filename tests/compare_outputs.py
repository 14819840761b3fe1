"""Are two ``out`` folders equal?  ``python -m tests.compare_outputs OUT_A OUT_B [--figures KEY …]``.

(a) Figure tables, by name and content: schema and texts equal, integers equal, floats within ``--tolerance``
(relative, or absolute below 1), and every verdict on a claim.  (b) Tables of runs, by resolved spec: two runs are the
same that were asked the same, under whatever names (``RENAMED``); ``run_id`` is left out, for it hashes the code.
Schema, order and values are equal if the SHA-256 of the Arrow IPC form is.

Prints every table that differs, or that one side alone has; exit code 1 if there are any.
"""

import argparse
import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# What was called otherwise before: keys of a spec, values of a key, prefixes of factors, figures' and tables' names.
RENAMED: dict[str, dict[str, str]] = {
    "keys": {"procedure": "study", "procedure_options": "study_options"},
    "study": {
        "distribute": "distribution",
        "adapt": "control",
        "requests": "limiting",
        "cycles": "throttling",
        "place": "placement",
        "placement-study": "policies",
    },
    "factors": {"procedure.": "study."},
}
TOLERANCE = 1e-9
ORDER_DIGITS = 6  # after the point
LEFT_OUT = ("run_id", "schema_version")


# --- figure tables and verdicts -------------------------------------------------------------------


def figure_differences(ours: Path, theirs: Path, figures: list[str], tolerance: float) -> Iterator[str]:
    """A line for each figure table, or verdict, that differs or is new."""
    sides = [{str(path.relative_to(out / "tables")): path for path in out.glob("tables/*/*.parquet")}
             for out in (ours, theirs)]  # fmt: skip
    if figures:
        sides = [{name: path for name, path in side.items() if name.split("/")[0] in figures} for side in sides]
    for name in sorted({*sides[0], *sides[1]}):
        paths = [side.get(name) for side in sides]
        if paths[0] is None or paths[1] is None:
            yield f"figure table {name}: only in {theirs if paths[0] is None else ours}"
            continue
        for line in frame_differences(pq.read_table(paths[0]), pq.read_table(paths[1]), tolerance):
            yield f"figure table {name}: {line}"
    if not figures:
        yield from verdict_differences(ours, theirs)


def frame_differences(ours: pa.Table, theirs: pa.Table, tolerance: float) -> Iterator[str]:
    """A line for each column that is missing, of another type, or further off than allowed.

    Rows are put in order first, by all but their floats: figures that order by run have another order by other ids.
    """
    ours, theirs = (_in_order(table) for table in (ours, theirs))
    if ours.num_rows != theirs.num_rows:
        yield f"{ours.num_rows} rows against {theirs.num_rows}"
        return
    for name in sorted({*ours.column_names, *theirs.column_names}):
        if name not in ours.column_names or name not in theirs.column_names:
            yield f"column {name}: on one side only"
            continue
        a, b = ours.column(name), theirs.column(name)
        if a.type != b.type:
            yield f"column {name}: {a.type} against {b.type}"
        elif pa.types.is_floating(a.type):
            worst = _off(a.to_numpy(), b.to_numpy())
            if not worst <= tolerance:
                yield f"column {name}: off by up to {worst:.3g}"
        elif not a.equals(b):
            count = sum(x != y for x, y in zip(a.to_pylist(), b.to_pylist(), strict=True))
            yield f"column {name}: {count} of {len(a)} values differ"


def _in_order(table: pa.Table) -> pa.Table:
    table = table.drop_columns([name for name in LEFT_OUT if name in table.column_names])
    exact = sorted(field.name for field in table.schema if not pa.types.is_floating(field.type))
    floats = sorted(set(table.column_names) - set(exact))
    flat = [name for name in (*exact, *floats) if not pa.types.is_nested(table.schema.field(name).type)]
    blurred = table.select(flat)  # floats that differ in their last digits only must not change the order
    for name in floats:
        place = blurred.column_names.index(name)
        blurred = blurred.set_column(place, name, pc.round(blurred.column(name), ndigits=ORDER_DIGITS))
    return table.take(pc.sort_indices(blurred, [(name, "ascending") for name in flat]))


def _off(a: np.ndarray, b: np.ndarray) -> float:
    """The worst difference, of the larger value, or of 1 where both are smaller; infinite where one is not a number."""
    missing = np.isnan(a), np.isnan(b)
    if (missing[0] != missing[1]).any():
        return float("inf")
    a, b = a[~missing[0]], b[~missing[1]]
    same = a == b  # infinite values, too
    a, b = a[~same], b[~same]
    return float((np.abs(a - b) / np.maximum(1.0, np.maximum(np.abs(a), np.abs(b)))).max(initial=0.0))


def verdict_differences(ours: Path, theirs: Path) -> Iterator[str]:
    """A line for each claim that is judged otherwise."""
    sides = [_verdicts(out) for out in (ours, theirs)]
    for claim in sorted({*sides[0], *sides[1]}):
        a, b = sides[0].get(claim), sides[1].get(claim)
        if a != b:
            yield f"claim {claim}: {a} against {b}"


def _verdicts(out: Path) -> dict[str, str]:
    """By claim, and testbed where there are several: judged by today's claims, from the figures' tables."""
    from ratebed.judging import in_order, results_by_setting

    found: dict[str, str] = {}
    for result in in_order(results_by_setting(out)):
        name = result.claim.id
        found[name] = ", ".join(filter(None, [found.get(name, ""), result.judgement.value]))
    return found


# --- tables of runs -------------------------------------------------------------------------------


def run_differences(ours: Path, theirs: Path) -> Iterator[str]:
    """A line for each run of one side alone, and one for each table, with the number of runs in which it differs."""
    sides = [runs_by_spec(out) for out in (ours, theirs)]
    for side, other, out in ((0, 1, ours), (1, 0, theirs)):
        alone = sides[side].keys() - sides[other].keys()
        if alone:
            yield f"{len(alone)} runs only in {out}, one is {sides[side][min(alone)].name}"
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    examples: dict[tuple[str, str], str] = {}
    for spec in sides[0].keys() & sides[1].keys():
        study = json.loads(spec)["study"]
        for table, what in table_differences(sides[0][spec], sides[1][spec]):
            found[f"{study}: table {table}"][what] += 1
            examples.setdefault((f"{study}: table {table}", what), f"{sides[0][spec].name}, {sides[1][spec].name}")
    for table in sorted(found):
        for what, count in sorted(found[table].items()):
            yield f"{table}: {what} in {count} runs, as {examples[table, what]}"


def table_differences(ours: Path, theirs: Path) -> Iterator[tuple[str, str]]:
    """(table, how it differs) of two run folders."""
    sides = [{path.stem: path for path in folder.glob("*.parquet")} for folder in (ours, theirs)]
    for table in sorted({*sides[0], *sides[1]}):
        if table not in sides[0] or table not in sides[1]:
            yield table, f"only on the {'second' if table not in sides[0] else 'first'} side"
        elif digest(sides[0][table]) != digest(sides[1][table]):
            yield table, "differs"


def runs_by_spec(out: Path) -> dict[str, Path]:
    """The folders of finished runs by what was asked of them."""
    found = {}
    for folder in sorted((out / "runs").glob("[!.]*")):
        if "." not in folder.name and (folder / "manifest.json").is_file():
            spec = json.loads((folder / "manifest.json").read_bytes())["spec"]
            found[json.dumps(renamed(spec), sort_keys=True)] = folder
    return found


def renamed(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec in today's words."""
    found = {RENAMED["keys"].get(key, key): value for key, value in spec.items()}
    found["study"] = RENAMED["study"].get(found["study"], found["study"])
    return found


def digest(path: Path) -> str:
    """SHA-256 of a table's Arrow IPC form, in today's words and without what hashes the code."""
    table = pq.ParquetFile(path).read()
    table = table.drop_columns([name for name in LEFT_OUT if name in table.column_names]).combine_chunks()
    if "factors" in table.column_names:
        rows = [sorted((_factor(name), value) for name, value in row) for row in table["factors"].to_pylist()]
        place = table.column_names.index("factors")
        table = table.set_column(place, "factors", pa.array(rows, table.schema.field("factors").type))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=1 << 30):
            writer.write_batch(batch)
    return hashlib.sha256(sink.getvalue()).hexdigest()


def _factor(name: str) -> str:
    for before, now in RENAMED["factors"].items():
        if name.startswith(before):
            return now + name.removeprefix(before)
    return name


def main(words: list[str]) -> int:
    """Print the differences; 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tests.compare_outputs", description=__doc__.split("\n")[0])
    parser.add_argument("ours", type=Path)
    parser.add_argument("theirs", type=Path)
    parser.add_argument("--figures", nargs="+", default=[], help="these figures' tables alone, and no runs")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="of floats in figure tables")
    asked = parser.parse_args(words)
    lines = list(figure_differences(asked.ours, asked.theirs, asked.figures, asked.tolerance))
    if not asked.figures:
        lines += run_differences(asked.ours, asked.theirs)
    print("\n".join(lines) or "equal")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
