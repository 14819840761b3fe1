"""``ratebed diff``: two folders of results, two commits, or a system at two versions."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from core.errors import SpecError
from ratebed import options as o

One = Annotated[str, typer.Argument(help="a folder of results (--out), or a commit of this checkout")]
Other = Annotated[str, typer.Argument(help="another; or the same, with --systems")]
Figures = Annotated[list[str] | None, typer.Argument(metavar="FIGURE...", help="those to compare; of commits, to make")]
Systems = Annotated[
    str, typer.Option("--systems", metavar="OLD=NEW", help="runs of OLD on one side against runs of NEW on the other")
]


def diff(
    one: One,
    other: Other,
    keys: Figures = None,
    systems: Systems = "",
    scale: o.ScaleName = "quick",
    seed: o.Seed = o.SEED,
    repetitions: o.Repetitions = 0,
    jobs: o.Jobs = 0,
    out: o.Out = Path("out"),
    spark_master: o.SparkMaster = "",
    spark_conf: o.SparkConf = None,
    plot_invalid: o.PlotInvalid = False,
    as_json: o.AsJson = False,
) -> int:
    """First why runs differ; then paired differences with intervals, changed figures, claims with another verdict.

    The exit code is 1 where a difference is significant at 5 % after Holm's correction; where a claim has another
    verdict, or runs failed on one side alone, though every seed is the same, in virtual time; where a commit's runs
    failed; or where nothing is compared, as each pair has an invalid run.
    """
    from ratebed.at_commit import commit_of, results_at
    from ratebed.difference_page import write_difference
    from ratebed.difference_words import as_json as found_json
    from ratebed.difference_words import lines
    from ratebed.differing import differences
    from ratebed.pairing import Side, side_of
    from ratebed.validity import told

    options = {"--scale": scale, "--seed": seed, "--repetitions": repetitions, "--jobs": jobs}
    words = [*(keys or ()), *(str(word) for pair in options.items() for word in pair)]
    figures = o.chosen_figures(keys or ())
    failed: list[str] = []  # commits

    def side(name: str) -> Side:
        if Path(name).is_dir():
            return side_of(name, Path(name), figures)
        commit = commit_of(name)
        if not commit:
            raise SpecError(f"{name!r} is no folder of results and no commit", "name two of --out, or two commits")
        if not keys:
            raise SpecError(f"commit {name}: no figures", f"name them: ratebed diff {one} {other} srtm-fig9")
        o.make_request(keys, False, scale, seed, jobs, out, [], repetitions=repetitions)
        results, has_failed = results_at(commit, out, words)
        failed.extend([name] * has_failed)
        return side_of(f"{name} ({commit[:10]})", results)

    if Path(one).is_dir() and Path(other).is_dir() and (scale, seed, repetitions, jobs) != ("quick", o.SEED, 0, 0):
        what = "--scale, --seed, --repetitions and --jobs are for commits, whose figures are made"
        raise SpecError(what, "leave them out: both sides are folders")
    on = o.spark_on(spark_master, spark_conf)
    old, equals, new = systems.partition("=")
    if systems and not (old and equals and new):
        raise SpecError(f"--systems {systems!r}", "write OLD=NEW, as in srtm=mine.py:SYSTEM")
    compared = differences(side(one), side(other), {old: new} if systems else {}, on, plot_invalid)
    if not compared.pairing.pairs and not compared.one.sections:
        raise SpecError(f"{one}, {other}: no run of one has a counterpart in the other", "run the same figures in both")
    page = write_difference(compared)
    print(
        json.dumps({**found_json(compared), "failed_commits": failed}, indent=2)
        if as_json
        else "\n".join([*lines(compared), f"page: {page.resolve()}"])
    )
    for name in failed:
        print(f"ratebed: at {name} something failed, see above", file=sys.stderr)
    return max(told(compared.standings), int(compared.differs or compared.is_void), int(bool(failed)))
