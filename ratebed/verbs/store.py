"""``ratebed store``: what the table store of a folder of results holds."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import SpecError
from core.records import Json
from ratebed import interrupts
from ratebed import options as o

if TYPE_CHECKING:
    from analysis.spark import Starter
    from collectors.store.keeping import Store

Build = Annotated[bool, typer.Option("--build", help="bring in every finished run that is not in it")]
Push = Annotated[
    str, typer.Option("--push", metavar="URL", help="bring finished runs, in packs, to a Hadoop file system or folder")
]
Pull = Annotated[str, typer.Option("--pull", metavar="URL", help="fetch the runs that are there and not here")]
Rebuild = Annotated[bool, typer.Option("--rebuild", help="make all of it anew from the run folders")]
Packs = Annotated[
    str, typer.Option("--packs", metavar="URL", help="the store beside the packs there, not that in --out")
]


def store(
    out: o.Out = Path("out"),
    build: Build = False,
    rebuild: Rebuild = False,
    push: Push = "",
    pull: Pull = "",
    packs: Packs = "",
    spark_master: o.SparkMaster = "",
    spark_conf: o.SparkConf = None,
    as_json: o.AsJson = False,
) -> int:
    """What the table store in --out holds: the rows of finished runs, in few files that Spark reads.

    Figures bring in what they ask for; it may be deleted at any time, and is made again.
    """
    from harness.campaign import finished_runs

    interrupts.writes_to(out)
    on, conf = o.spark_on(spark_master, spark_conf), o.spark_settings(spark_conf or ())
    if push or pull:
        alone = {"--build": build, "--rebuild": rebuild, "--packs": packs, "--json": as_json}
        if given := [name for name, is_given in alone.items() if is_given]:
            raise SpecError(f"{' and '.join(given)} with {'--push' if push else '--pull'}", "give two commands")
        return _exchanged(out, push, pull, conf)
    own = o.store_of(out, packs, conf)
    if not finished_runs(out) and not own.state().parts:
        raise SpecError(f"{out}: no finished runs there", "ratebed run makes some; --out names another folder")
    if build or rebuild:
        _brought_in(own, out, rebuild, bool(spark_master), on)
    contents = described(own, out)
    if as_json:
        print(json.dumps(contents, indent=2))
    else:
        for line in _told(contents):
            print(line)
    return int(bool(contents["damaged"]))


def _brought_in(own: "Store", out: Path, anew: bool, on_cluster: bool, on: "Starter") -> None:
    """On Spark where there is much to do, or a cluster: ``on`` starts it for that alone."""
    from analysis.compaction import RUNS_HERE, writer
    from analysis.spark import java_answers
    from collectors.store.keeping import write_here
    from ratebed.behind import readable_runs

    folders, there = readable_runs(out), {} if anew else own.state().of_run
    count = sum(folder.name not in there for folder in folders)
    bring = own.rebuild if anew else own.keep
    with own.in_use():
        if not own.is_near or (count <= RUNS_HERE and not on_cluster):
            bring(folders, write_here, 1)
            return
        with java_answers():
            spark = on()
            bring(folders, *writer(spark, count))
            spark.stop()


def _exchanged(out: Path, push: str, pull: str, spark_conf: Mapping[str, str]) -> int:
    """Fetch runs from where packs are, then bring to where packs are wanted; 1 where not all that were there came."""
    from collectors.integrity import is_whole
    from collectors.packs import RunPacks
    from harness.campaign import finished_runs, prepare_folder
    from ratebed.behind import readable_runs

    packs = {url: RunPacks(o.hadoop_place(url, spark_conf)) for url in (pull, push) if url}  # of both, before either
    lacking = 0
    if pull:
        prepare_folder(out / "runs")
        there = packs[pull]
        wanted = there.state().of_run
        there.fetch(wanted, out / "runs")
        lacking = sum(not is_whole(out / "runs" / run_id) for run_id in wanted)
        told = f"; of {len(wanted):,} that were there {lacking:,} could not be fetched" if lacking else ""
        print(f"{pull}: {len(there.state().of_run):,} runs there, {len(finished_runs(out)):,} here{told}")
    if push:
        there = packs[push]
        there.bring(readable_runs(out))
        there.tidy()
        print(f"{push}: {len(there.state().of_run):,} runs there, {len(finished_runs(out)):,} here")
    return int(lacking > 0)


def described(own: "Store", out: Path) -> Json:
    """What is there, and what is wrong with it, for machines."""
    from collectors.store.claims import files_there
    from harness.campaign import finished_runs

    state = own.state()
    files = [file for part in state.parts.values() for file in part.files]
    runs = {folder.name for folder in finished_runs(out)}
    garbage = set(files_there(own.root)) - {file.path for file in files}
    return {
        "folder": str(own.root),
        "commit": state.number,
        "run_count": len(state.of_run),
        "missing_run_count": len(runs - state.of_run.keys()),
        "gone_run_count": len(state.of_run.keys() - runs),
        "part_count": len(state.parts),
        "file_count": len(files),
        "bytes": sum(file.bytes for file in files),
        "garbage_file_count": len(garbage),
        "tables": {
            table: {
                "rows": sum(file.rows for file in files if file.table == table),
                "bytes": sum(file.bytes for file in files if file.table == table),
            }
            for table in sorted({file.table for file in files})
        },
        "damaged": [what for part in state.parts.values() if (what := own.damage(part))],
    }


def _told(contents: Json) -> list[str]:
    """The same for people."""
    lines = [
        f"{table:<20}{of['rows']:>14,} rows{of['bytes'] / 1e6:>10,.1f} MB" for table, of in contents["tables"].items()
    ]
    lines += [f"damaged: {what}; the next command that asks for its runs makes it anew" for what in contents["damaged"]]
    lines.append(
        f"{contents['folder']}: {contents['run_count']:,} runs in {contents['file_count']:,} files, "
        f"{contents['bytes'] / 1e6:,.1f} MB, after commit {contents['commit']}"
    )
    for count, what in (
        (contents["missing_run_count"], "finished runs are not in it: figures bring in those that they ask for"),
        (contents["gone_run_count"], "runs are in it whose folders are gone: `ratebed clean` takes them out"),
        (
            contents["garbage_file_count"],
            "files belong to nobody: the next command that reads nothing else removes them",
        ),
    ):
        lines += [f"{count:,} {what}"] if count else []
    return lines
