"""``python -m benchmarks [--figures]``: prints a table; ``--figures`` also times whole figure campaigns."""

import argparse
import sys

from benchmarks import (
    coordinates,
    deployed,
    ingress,
    limiters,
    links,
    messages,
    pipeline,
    placement,
    publishers,
    verifying,
)

MESSAGE_RUNS = 100  # 1e7 rows; `python -m benchmarks.messages` takes 1e8


def main() -> None:
    """Run the benchmarks that were asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--figures", choices=["quick", "paper"], help="time the whole figure set at this scale, too")
    parser.add_argument("--repeats", type=int, default=5, help="medians of so many, where they are of five (default 5)")
    arguments = parser.parse_args()
    pipeline.report(arguments.repeats)
    limiters.report()
    coordinates.report(arguments.repeats)
    placement.report(arguments.repeats)
    ingress.report()
    links.report()
    publishers.report()
    messages.report_rows(MESSAGE_RUNS)
    verifying.report(arguments.repeats)
    deployed.report()
    pipeline.report_start_up(arguments.repeats)
    if arguments.figures:
        sys.stdout.flush()
        pipeline.report_figures(arguments.figures)


if __name__ == "__main__":
    main()
