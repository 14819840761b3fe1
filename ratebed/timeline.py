"""One run as a story: what is known of its validity, its paths, its decisions, and what its processes said.

A line of a process' log may begin with an instant, ``<CLOCK_REALTIME in ns> text``: it then has its place in
the timeline.  Of the other lines those that tell of trouble are shown, by process.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from core.records import Row
from core.units import SECOND_NS

LINES_A_LOG = 20  # stamped ones, and telling ones without a stamp
PATHS_SHOWN = 12
_STAMPED = re.compile(r"(\d{19}) (.*)")
_TELLING = re.compile(
    r"error|warn|fail|lost|kill|refused|broken|reset by|time[d ]?out|drop|fault|partition|crash|restart|exhaust|denied"
    r"|overrun|cannot|ended",
    re.I,
)
HAPPENINGS = {  # table -> the columns of its instant and of its kind, or the kind itself
    "faults": ("at_ns", "kind"),
    "clients": ("at_ns", "kind"),
    "ownership": ("start_ns", "owned"),
    "control_messages": ("at_ns", "way"),
    "move_steps": ("start_ns", "step"),
    "downtimes": ("start_ns", "cut off"),
}


class LogLine(NamedTuple):
    """A line worth showing; ``at_ns`` since the run's time 0, None where it has no stamp."""

    log: str
    at_ns: int | None
    text: str


def log_lines(folder: Path, epoch_ns: int | None) -> tuple[list[LogLine], dict[str, int]]:
    """The lines of a run's logs that are worth showing, and how many more each log has of them."""
    from collectors.schema import LOGS

    lines: list[LogLine] = []
    more = {}
    for path in sorted((folder / LOGS).glob("*")):
        written = list(_lines(path, epoch_ns))
        shown = written
        if len(written) > LINES_A_LOG:  # trouble first, then by place
            telling = [number for number, line in enumerate(written) if _TELLING.search(line.text)]
            others = [number for number in range(len(written)) if number not in set(telling)]
            shown = [written[number] for number in sorted([*telling, *others][:LINES_A_LOG])]
            more[path.name] = len(written) - len(shown)
        lines += shown
    return lines, more


def _lines(path: Path, epoch_ns: int | None) -> Iterator[LogLine]:
    for line in path.read_text(errors="replace").splitlines():
        stamped = _STAMPED.match(line)
        if stamped and epoch_ns is not None:
            yield LogLine(path.stem, int(stamped[1]) - epoch_ns, stamped[2])
        elif _TELLING.search(line) and not line.startswith(("{", "#")):  # counters, and what was started
            yield LogLine(path.stem, None, line.strip())


def validity_lines(manifest: Row) -> list[str]:
    """Valid, degraded or invalid, the reasons, and the numbers behind them."""
    numbers = manifest.get("fidelity") or {}
    lines = [f"  validity: {manifest['validity']}"]
    lines += [f"    because {reason}" for reason in manifest["validity_reasons"]]
    parts = [_number(name, value) for name, value in sorted(numbers.items()) if value or name.endswith("_ns")]
    return lines + ["    " + ", ".join(parts[start : start + 4]) for start in range(0, len(parts), 4)]


def _number(name: str, value: float) -> str:
    if name.endswith("_ns") and isinstance(value, int | float):
        return f"{name[:-3]} {value / 1e6:.3f} ms"
    return f"{name} {value:,.0f}" if float(value).is_integer() else f"{name} {value:.3g}"


def path_lines(paths: list[Row]) -> list[str]:
    """All paths in one line, and the worst ones."""
    if not paths:
        return []
    worst = sorted(paths, key=lambda row: -abs(_off_ns(row)))
    off_ms = [_off_ns(row) / 1e6 for row in paths]
    lost, probes = (sum(row[name] for row in paths) for name in ("lost_count", "probe_count"))
    lines = [
        f"  {len(paths)} paths measured: delays off by {min(off_ms):+.3f} to {max(off_ms):+.3f} ms, "
        f"{lost:,} of {probes:,} probes lost"
    ]
    for row in worst[:PATHS_SHOWN]:
        loss = f", lost {row['lost_count']} of {row['probe_count']}, wanted {row['requested_loss_probability']:.1%}"
        jitter = f" ± {row['requested_jitter_ns'] / 1e6:g}" if row["requested_jitter_ns"] else ""
        lines.append(
            f"    {row['source']} to {row['target']}: wanted {row['requested_delay_ns'] / 1e6:.3f}{jitter} ms, "
            f"found {row['measured_delay_ns'] / 1e6:.3f} ms{loss if row['lost_count'] else ''}"
        )
    hidden = len(paths) - PATHS_SHOWN
    return lines + [f"    and {hidden} more that are less off"] * (hidden > 0)


def _off_ns(row: Row) -> int:
    off: int = row["measured_delay_ns"] - row["requested_delay_ns"]
    return off


def decision_events(rows: list[Row]) -> list[tuple[int, str]]:
    """(at_ns, text): one a round of a search, or a command of a controller."""
    events: list[tuple[int, str]] = []
    for key in dict.fromkeys((row["at_ns"], row["kind"]) for row in rows):
        group = [row for row in rows if (row["at_ns"], row["kind"]) == key]
        first = group[0]
        if first["kind"] == "set_bucket":
            parts = [
                f"{row['broker'] + 1}: {row['bucket_rate_rps']:.0f}/s b={row['bucket_burst_count']:.1f}"
                for row in group
            ]
            events.append((key[0], f"set_bucket  {'  '.join(parts)}"))
        elif first["kind"] == "move":
            parts = [f"{row['publisher_count']} pub to broker {row['broker'] + 1}" for row in group]
            events.append((key[0], f"move  {'  '.join(parts)}"))
        else:
            events.append((key[0], _round(group)))
    return events


def happening_events(tables: Mapping[str, list[Row]]) -> list[tuple[int, str]]:
    """(at_ns, text): one a row of the tables ``HAPPENINGS``."""
    events = []
    for table, (at_ns, kind) in HAPPENINGS.items():
        for row in tables.get(table, ()):
            told = [_told(name, value) for name, value in row.items() if name not in ("run_id", at_ns, kind)]
            events.append((row[at_ns], "  ".join([row.get(kind, kind), *filter(None, told)])))
    return events


def _told(name: str, value: object) -> str:
    """A column and its value in words; nothing where there is none."""
    if value is None or value == []:
        return ""
    if name.endswith("_ns") and isinstance(value, int | float):
        return f"{name[:-3]} {value / SECOND_NS:.3f} s"
    return f"{name} {', '.join(value) if isinstance(value, list) else value}"


def _round(group: list[Row]) -> str:
    first, used = group[0], [row for row in group if row["publisher_count"]]
    parts = [f"{row['broker'] + 1}: {row['publisher_count']} pub {_milliseconds(row['seen_p99_ns'])}" for row in used]
    name = "fresh round" if first["kind"] == "final" else f"round {first['round']} (iteration {first['iteration']})"
    note = f"  {first['note']}" if first["note"] else ""
    return f"{name:<24} p99 {_milliseconds(first['seen_topic_p99_ns'])}  brokers {'  '.join(parts)}{note}"


def _milliseconds(span_ns: int | None) -> str:
    return "-" if span_ns is None else "infinite" if span_ns >= 2**62 else f"{span_ns / 1e6:.3f} ms"


def merged(decisions: list[Row], happenings: Mapping[str, list[Row]], lines: list[LogLine]) -> list[str]:
    """Decisions, what happened, and stamped lines of logs, by time; of equal instants in this order."""
    told = [*decision_events(decisions), *happening_events(happenings)]
    events = [(at_ns, 0, text) for at_ns, text in told]
    events += [(line.at_ns, 1, f"[{line.log}] {line.text}") for line in lines if line.at_ns is not None]
    return [f"{at_ns / SECOND_NS:9.1f} s  {text}" for at_ns, _, text in sorted(events, key=lambda event: event[:2])]


def unstamped(lines: list[LogLine], more: dict[str, int]) -> list[str]:
    """Telling lines without an instant, by log; and what is left out."""
    shown = [f"  [{line.log}] {line.text}" for line in lines if line.at_ns is None]
    return shown + [f"  [{Path(name).stem}] and {count} more lines: see logs/{name}" for name, count in more.items()]
