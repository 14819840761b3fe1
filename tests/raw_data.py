"""What raw tables hold: ``python -m tests.raw_data OUT``.

Rows by table, summed over the manifests of the runs in OUT, and each text column with a value that is no single name.
Exit code 1 where there is one, or where ``samples`` of a quick set has too many rows.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from collectors.integrity import FILES
from collectors.schema import MANIFEST
from harness.campaign import finished_runs

SAMPLES_MOST = 6_000_000  # rows of the quick set
# Texts that people write: sentences, and whatever a service's users are called.
SENTENCES = {("decisions", "note"), ("skipped_lines", "reason"), ("requests", "user")}
SEVERAL = re.compile(r"\s").pattern


def row_counts(runs: Iterable[Path]) -> Counter[str]:
    """Rows by table, as the manifests say."""
    counts = Counter[str]()
    for run in runs:
        for name, file in json.loads((run / MANIFEST).read_bytes())[FILES].items():
            if name.endswith(".parquet"):
                counts[Path(name).stem] += file["rows"]
    return counts


def packed_texts(run: Path) -> Iterator[tuple[str, str, str]]:
    """(table, column, value): the first value of each text column that is more than one word, as of a record."""
    for path in sorted(run.glob("*.parquet")):
        table = pq.read_table(path)
        for field in table.schema:
            if field.type == pa.string() and (path.stem, field.name) not in SENTENCES:
                values = table[field.name].unique()
                packed = values.filter(pc.match_substring_regex(values, SEVERAL))
                if len(packed):
                    yield path.stem, field.name, packed[0].as_py()


def main(words: list[str]) -> int:
    """Print it; 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.raw_data", description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    runs = finished_runs(parser.parse_args(words).out)
    counts = row_counts(runs)
    print(f"{len(runs)} runs")
    for table, count in counts.most_common():
        print(f"{count:>14,}  {table}")
    complaints = {(table, column): text for run in runs for table, column, text in packed_texts(run)}
    for (table, column), text in complaints.items():
        print(f"{table}.{column} holds {text!r}")
    if counts["samples"] >= SAMPLES_MOST:
        print(f"samples: {counts['samples']:,} rows, wanted fewer than {SAMPLES_MOST:,}")
    return 1 if complaints or counts["samples"] >= SAMPLES_MOST else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
