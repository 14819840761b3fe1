"""``ratebed show RUN``: the timeline of one run; of a schedule of ``ratebed soak``, its space-time diagram."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from core.errors import SpecError
from core.records import Row
from ratebed import options as o
from ratebed import timeline
from ratebed.verbs.soak import soak

Run = Annotated[str, typer.Argument(metavar="RUN", help="a run's id, or the beginning of it; or a schedule, FILE.json")]


def show(run: Run, out: o.Out = Path("out"), as_json: o.AsJson = False) -> int:
    """Spec, validity, paths, rounds, decisions, telling lines of logs and the result of one run, by time.

    The exit code is 1 where the run is invalid.  A schedule is replayed, as by ``ratebed soak``.
    """
    if run.endswith(".json"):
        return soak(schedule=run, out=out, as_json=as_json)
    folder = _find(out / "runs", run)
    from collectors.integrity import Damage, read_manifest, verified
    from collectors.writer import FAILED
    from ratebed.validity import standing_of, told

    if folder.suffix == FAILED:  # it kept no tables
        manifest = read_manifest(folder)
        if manifest.get("run_id") != folder.stem or any(folder.glob("*.parquet")):
            raise Damage(folder, "what is in it is of another run")
    else:
        manifest = verified(folder)
    code = 0 if "error" in manifest else told({manifest["run_id"]: standing_of(manifest)})
    decisions, paths = _decisions(folder), _rows(folder, "paths")
    happenings = {table: _rows(folder, table) for table in timeline.HAPPENINGS}
    lines, more = timeline.log_lines(folder, manifest.get("epoch_ns"))
    if as_json:
        logs = [line._asdict() for line in lines]
        story = {"manifest": manifest, "decisions": decisions, **happenings, "paths": paths, "logs": logs}
        print(json.dumps(story, indent=2))
        return code
    spec = manifest["spec"]
    print(f"run {manifest['run_id']}  {spec['system']} on {spec['workload']}, {spec['topology']}, {spec['testbed']}")
    for axis in ("system", "workload", "topology", "study"):
        for key, value in spec[f"{axis}_options"].items():
            print(f"  {axis}.{key} = {value}")
    print(f"  seed {spec['seed']}, repetition {spec['repetition']}")
    if "error" in manifest:
        print(f"FAILED: {manifest['error']}")
    else:
        print(f"  {manifest['wall_seconds']} s on {manifest['started_at']}, outcome: {manifest['outcome']}")
        if chosen := manifest.get("environment"):
            print(f"  with {', '.join(f'{name}={value}' for name, value in chosen.items())}")
        for line in [*timeline.validity_lines(manifest), *timeline.path_lines(paths), *_verdicts(folder)]:
            print(line)
    for line in [*timeline.merged(decisions, happenings, lines), *timeline.unstamped(lines, more)]:
        print(line)
    return code


def _find(runs: Path, start: str) -> Path:
    from collectors.partials import is_partial
    from collectors.writer import DAMAGED

    there = [path for path in runs.iterdir() if path.name.startswith(start) and path.is_dir()] if runs.is_dir() else []
    folders = sorted(path for path in there if not is_partial(path) and DAMAGED not in path.name)
    if not folders:
        raise SpecError(f"no run {start!r} in {runs}", "the ids are the folders' names")
    if len(folders) > 1 and folders[0].name != start:
        raise SpecError(
            f"{start!r} names {len(folders)} runs", f"write more of it: {folders[0].name}, {folders[1].name} …"
        )
    return folders[0]


def _decisions(folder: Path) -> list[Row]:
    rows = _rows(folder, "decisions")
    return sorted(rows, key=lambda row: (row["kind"] == "final", row["at_ns"], row["broker"] or 0))


def _rows(folder: Path, table: str) -> list[Row]:
    path = folder / f"{table}.parquet"
    if not path.exists():
        return []
    import pyarrow.parquet as parquet

    rows: list[Row] = parquet.read_table(path).to_pylist()
    return rows


def _verdicts(folder: Path) -> list[str]:
    """What became of a limiter's requests, by node: one line each, and one for all."""
    path = folder / "requests.parquet"
    if not path.exists():
        return []
    import pyarrow.parquet as parquet

    table = parquet.read_table(path, columns=["node", "decision"])
    counts = Counter(zip(table["node"].to_pylist(), table["decision"].to_pylist(), strict=True))
    lines = []
    for node in [*sorted({node for node, _ in counts}, key=lambda name: (len(name), name)), ""]:
        parts = [
            f"{sum(n for (at, what), n in counts.items() if what == decision and node in ('', at)):>9,} {decision}"
            for decision in ("admit", "reject", "lost")
        ]
        lines.append(f"  {node or 'all':<12}{''.join(parts)}")
    return lines
