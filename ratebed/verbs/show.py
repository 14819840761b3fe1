"""``ratebed show RUN``: the timeline of one run."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import SpecError
from core.units import SECOND_NS
from ratebed import options as o

Run = Annotated[str, typer.Argument(metavar="RUN", help="a run's id, or the beginning of it")]


def show(run: Run, out: o.Out = Path("out"), as_json: o.AsJson = False) -> None:
    """Spec, rounds, decisions and result of one run, in the order in which they happened."""
    folder = _find(out / "runs", run)
    from collectors.writer import read_manifest

    manifest = read_manifest(folder)
    rows = _decisions(folder)
    if as_json:
        print(json.dumps({"manifest": manifest, "decisions": rows}, indent=2))
        return
    spec = manifest["spec"]
    print(f"run {manifest['run_id']}  {spec['system']} on {spec['workload']}, {spec['topology']}, {spec['testbed']}")
    for axis in ("system", "workload", "topology", "procedure"):
        for key, value in spec[f"{axis}_options"].items():
            print(f"  {axis}.{key} = {value}")
    print(f"  seed {spec['seed']}, repetition {spec['repetition']}")
    if "error" in manifest:
        print(f"FAILED: {manifest['error']}")
        return
    print(f"  {manifest['wall_seconds']} s on {manifest['started_at']}, outcome: {manifest['outcome']}")
    for line in [*_verdicts(folder), *_timeline(rows)]:
        print(line)


def _find(runs: Path, start: str) -> Path:
    found = sorted(path for path in runs.glob(f"{start}*") if path.is_dir() and ".partial" not in path.name)
    if not found:
        raise SpecError(f"no run {start!r} in {runs}", "the ids are the folders' names")
    if len(found) > 1 and found[0].name != start:
        raise SpecError(f"{start!r} names {len(found)} runs", f"write more of it: {found[0].name}, {found[1].name} …")
    return found[0]


def _decisions(folder: Path) -> list[dict[str, Any]]:
    path = folder / "decisions.parquet"
    if not path.exists():
        return []
    import pyarrow.parquet as parquet

    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return sorted(rows, key=lambda row: (row["kind"] == "final", row["at_ns"], row["broker"] or 0))


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


def _timeline(rows: list[dict[str, Any]]) -> list[str]:
    """One line a round of a search, or a command of a controller."""
    lines = []
    for key in dict.fromkeys((row["at_ns"], row["kind"]) for row in rows):
        group = [row for row in rows if (row["at_ns"], row["kind"]) == key]
        first = group[0]
        at_s = first["at_ns"] / SECOND_NS
        if first["kind"] == "fault":
            lines += [f"{at_s:9.1f} s  {row['note']}" for row in group]
            continue
        if first["kind"] == "set_bucket":
            parts = [
                f"{row['broker'] + 1}: {row['bucket_rate_rps']:.0f}/s b={row['bucket_burst_count']:.1f}"
                for row in group
            ]
            lines.append(f"{at_s:9.1f} s  set_bucket  {'  '.join(parts)}")
            continue
        used = [row for row in group if row["publisher_count"]]
        parts = [
            f"{row['broker'] + 1}: {row['publisher_count']} pub {_milliseconds(row['seen_p99_ns'])}" for row in used
        ]
        name = "fresh round" if first["kind"] == "final" else f"round {first['round']} (iteration {first['iteration']})"
        note = f"  {first['note']}" if first["note"] else ""
        pooled = _milliseconds(first["seen_topic_p99_ns"])
        lines.append(f"{at_s:9.1f} s  {name:<24} p99 {pooled}  brokers {'  '.join(parts)}{note}")
    return lines


def _milliseconds(span_ns: int | None) -> str:
    return "-" if span_ns is None else "infinite" if span_ns >= 2**62 else f"{span_ns / 1e6:.3f} ms"
