"""Which broken systems take which claims away: ``python -m tests.broken [FIGURE …] [--write FILE]``.

A row a claim and broken system: the verdict on the intact figure and on the broken one, both at the quick scale with
seeds of their own (see ``tests/paper_figs/broken``).  With figures named, the file's rows of other claims stay.  Exit
code 1 where a claim that held does not fall.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from tests.paper_figs.broken.machine import Verdict, verdicts
from tests.paper_figs.broken.table import PLAYS

HEAD = "| claim | broken system | intact | broken | |\n|---|---|---|---|---|"


def line(row: Verdict) -> str:
    """A row of the table."""
    word = "flips" if row.is_flipped else "STANDS"
    word = word if row.says_something else "nothing to take away"
    return f"| {row.claim} | {row.broken} | {row.intact.value} | {row.verdict.value} | {word} |"


def merged(rows: Sequence[Verdict], file: Path) -> str:
    """The table with these rows, and those of ``file`` that they do not replace, in the order of the plays."""
    old = file.read_text().splitlines()[2:] if file.is_file() else []
    lines = {key_of(text): text for text in [*old, *map(line, rows)]}
    order = [(claim, broken.name) for play in PLAYS for claim, names in play.breaks.items()
             for broken in play.broken if broken.name in names]  # fmt: skip
    return "\n".join([HEAD, *(lines[key] for key in order if key in lines)]) + "\n"


def key_of(text: str) -> tuple[str, str]:
    """Claim and broken system of a line."""
    _, claim, broken, *_ = (part.strip() for part in text.split("|"))
    return claim, broken


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.broken")
    parser.add_argument("figures", nargs="*", help="only these")
    parser.add_argument("--write", type=Path, help="a file for the table")
    given = parser.parse_args(arguments)
    rows: list[Verdict] = []
    print(HEAD, flush=True)
    for play in PLAYS:
        if given.figures and not set(given.figures) & set(play.figures):
            continue
        began = perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            for row in verdicts(play, Path(folder), os.cpu_count() or 1):
                rows.append(row)
                print(line(row), flush=True)
        print(f"{', '.join(play.figures)}: {perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    if given.write:
        given.write.write_text(merged(rows, given.write))
    return int(any(row.says_something and not row.is_flipped for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
