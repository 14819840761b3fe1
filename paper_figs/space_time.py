"""A soaked schedule as a space-time diagram: nodes are lines, messages arrows, and where it breaks is marked.

Time runs to the right.  A line that is missing is a node that is down; grey bands are partitions, with who is cut off;
bars on top are disturbed links.  Of too many messages the most frequent kinds are left out, and named below.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from core.units import MILLISECOND_NS, SECOND_NS
from harness.soak.trial import Played
from paper_figs.drawing import GREY, INK, SMALL, categories, label, marks, sheet
from paper_figs.keys import key, legend_above
from paper_figs.light import Artist, Axes
from paper_figs.saving import save
from paper_figs.style import SERIES, Dashes, Style, series
from systems.api import Decide, Delivery, Message, Send, Step, Verdict
from testbed.faults import (
    EVERY,
    ClockSkew,
    Crash,
    Handover,
    Heal,
    LinkDelay,
    LinkDuplication,
    LinkFault,
    LinkLoss,
    LinkReordering,
    Partition,
    Restart,
)

ARROWS_MAXIMUM, KINDS_MAXIMUM = 160, 12
PERIODIC = {"Ping", "Ack", "WhereAmI", "Here", "Beat", "Write", "ClientLocation", "Noted"}
DASHES: tuple[Dashes, ...] = ("-", "--")  # after all colours, all colours again
WIDTH_INCHES, ROW_INCHES = 7.0, 0.42
BROKEN = Style("broken here", "#D55E00", "*", "-")
ADMITTED = Style("admitted", INK, "^", "-")
REJECTED = Style("rejected", INK, "v", "-", is_open=True)
CRASHED = Style("crash", INK, "x", "-")
RESTARTED = Style("restart", INK, "o", "-", is_open=True)
CHANGED = Style("handover, clock set", "#997700", "D", "-", is_open=True)


class Flight(NamedTuple):
    """A message: sent, and received unless it was lost; instants of true time."""

    kind: str
    source: str
    target: str
    sent_ns: int
    received_ns: int | None


def flights(steps: Sequence[Step]) -> list[Flight]:
    """All messages, each delivery matched with the oldest that is equal and under way, or with its double."""
    under_way: dict[tuple[str, str], list[tuple[int, Message]]] = defaultdict(list)
    last: dict[tuple[str, str], tuple[int, Message]] = {}
    every: list[Flight] = []
    for step in steps:
        if isinstance(step.event, Delivery):
            path, message = (step.event.source, step.node), step.event.message
            match = next((one for one in under_way[path] if one[1] == message), None)
            if match is not None:
                under_way[path].remove(match)
                last[path] = match
                every[match[0]] = every[match[0]]._replace(received_ns=step.true_ns)
            elif path in last and last[path][1] == message:
                every.append(every[last[path][0]]._replace(received_ns=step.true_ns))
        for effect in step.effects:
            if isinstance(effect, Send):
                under_way[step.node, effect.target].append((len(every), effect.message))
                kind = type(effect.message).__name__
                every.append(Flight(kind, step.node, effect.target, step.true_ns, None))
    return every


def draw_space_time(played: Played, stem: Path) -> list[Path]:
    """Draw a trial into ``stem``.svg and ``stem``.png; returns these."""
    from_s, to_s = _window(played)
    steps = [step for step in played.steps if from_s <= step.true_ns / SECOND_NS <= to_s]
    within = [one for one in flights(played.steps) if from_s <= one.sent_ns / SECOND_NS <= to_s]
    shown, left_out = _chosen(within)
    names = _names(played, shown)
    rows = {name: float(place) for place, name in enumerate(names)}
    drawing = sheet(WIDTH_INCHES, 1.6 + ROW_INCHES * len(names))
    axes = drawing.subplots()
    categories(axes, names, "y", between=False)
    axes.set_xlim(from_s - 0.01 * (to_s - from_s), to_s + 0.01 * (to_s - from_s))
    has_bars = any(isinstance(fault, Partition | LinkFault) for fault in played.schedule.faults())
    axes.set_ylim(len(names) - 0.4, -1.4 if has_bars else -0.6)
    entries = [
        *_troubles(axes, played, rows, (from_s, to_s)),
        *_messages(axes, shown, rows, to_s),
        *_requests(axes, steps, rows),
    ]
    entries += _breaches(axes, played, rows, (from_s, to_s))
    note = f"  (not drawn: {', '.join(f'{count} {kind}' for kind, count in left_out.items())})" if left_out else ""
    axes.set_xlabel(f"time, s{note}", fontsize=SMALL + 1)
    axes.tick_params(axis="y", length=0)
    legend_above(drawing, entries, columns=6)
    return save(drawing, stem.parent, stem.name)


def _window(played: Played) -> tuple[float, float]:
    """From the first that happens to the last, or to what breaks."""
    schedule = played.schedule
    instants = schedule.instants_ns()
    last_ns = max([*instants, *(breach.at_ns for breach in played.breaches)])
    if played.breaches:
        last_ns = min(last_ns, max(breach.at_ns for breach in played.breaches))
    first_ns = min(*instants, last_ns)  # an error may end a trial before anything happens to it
    room_ns = max((last_ns - first_ns) // 20, 4 * (schedule.delay_ns + schedule.jitter_ns), SECOND_NS // 100)
    return max(0, first_ns - room_ns) / SECOND_NS, (last_ns + room_ns) / SECOND_NS


def _names(played: Played, shown: Sequence[Flight]) -> list[str]:
    """The nodes that anything drawn happens at, in the order of the deployment."""
    seen = {name for flight in shown for name in (flight.source, flight.target)}
    seen |= {breach.node for breach in played.breaches} | {one.node for one in played.schedule.requests}
    struck = [fault.node for fault in played.schedule.faults() if isinstance(fault, Crash | Restart | ClockSkew)]
    seen.update(struck)
    every = list(dict.fromkeys([*played.schedule.nodes, *(step.node for step in played.steps), *struck]))
    return [name for name in every if name in seen] or every


def _chosen(every: Sequence[Flight]) -> tuple[list[Flight], dict[str, int]]:
    """At most so many arrows and kinds; the kinds that are left out, with their numbers: those of periods first."""
    left_out: dict[str, int] = {}
    counts = Counter(flight.kind for flight in every)
    often = [kind for kind, _ in counts.most_common()]
    for kind in sorted(often, key=lambda kind: kind not in PERIODIC):
        few = sum(counts.values()) - sum(left_out.values()) <= ARROWS_MAXIMUM
        if len(counts) <= 3 or (few and len(counts) - len(left_out) <= KINDS_MAXIMUM):
            break
        left_out[kind] = counts[kind]
    return [flight for flight in every if flight.kind not in left_out], left_out


def _troubles(axes: Axes, played: Played, rows: Mapping[str, float], window: tuple[float, float]) -> list[Artist]:
    """Lines of nodes that are up, crashes, partitions, disturbed links."""
    down: dict[str, float] = {}
    since = dict.fromkeys(rows, window[0])
    cut: dict[tuple[str, ...], float] = {}
    seen: dict[str, Style] = {}
    for fault in played.schedule.faults():
        at_s = fault.at_ns / SECOND_NS
        match fault:
            case Crash(_, node):
                _life(axes, rows[node], (since[node], at_s))
                down[node] = at_s
                marks(axes, [at_s], [rows[node]], CRASHED, 5.0)
                seen["crash"] = CRASHED
            case Restart(_, node, _):
                since[node] = at_s
                down.pop(node, None)
                marks(axes, [at_s], [rows[node]], RESTARTED, 4.0)
                seen["restart"] = RESTARTED
            case Partition(_, side):
                cut[side] = at_s
            case Heal(_, side) if side in cut:
                _band(axes, rows, side, (cut.pop(side), at_s), window)
            case Handover(_, node, _) | ClockSkew(_, node, _) if node in rows:
                marks(axes, [at_s], [rows[node]], CHANGED, 4.0)
                seen["changed"] = CHANGED
    for node, row in rows.items():
        if node not in down and node in rows:
            _life(axes, row, (since[node], window[1]))
    _bars(axes, played, window)
    return [key(look, line=False) for look in seen.values()]


def _life(axes: Axes, row: float, span: tuple[float, float]) -> None:
    axes.plot(span, [row, row], color=INK, linewidth=0.8, zorder=2)


def _band(
    axes: Axes, rows: Mapping[str, float], side: Sequence[str], span: tuple[float, float], window: tuple[float, float]
) -> None:
    """A partition: both sides shaded, the one that is cut off darker."""
    axes.axvspan(*span, color="#dddddd", alpha=0.5, linewidth=0, zorder=0)
    for name in side:
        if name in rows:
            axes.fill_between(
                span, rows[name] - 0.4, rows[name] + 0.4, color="#999999", alpha=0.4, linewidth=0, zorder=0
            )
    begin, end = max(span[0], window[0]), min(span[1], window[1])
    if begin < end:
        label(axes, f"cut off: {', '.join(side)}" if len(side) < 4 else "partition", ((begin + end) / 2, -0.55), GREY)


def _bars(axes: Axes, played: Played, window: tuple[float, float]) -> None:
    """Disturbed links, a bar from when on to when again all is well, on top of each other."""
    begun: dict[tuple[type, frozenset[str]], tuple[float, str]] = {}
    level = 0
    for fault in played.schedule.faults():
        if not isinstance(fault, LinkFault):
            continue
        kind, link = type(fault), frozenset((fault.a, fault.b))
        for wrong in [of for of in begun if of[0] is kind and link in (of[1], {EVERY})]:
            since_s, text = begun.pop(wrong)
            _bar(axes, (since_s, fault.at_ns / SECOND_NS), text, level, window)
            level += 1
        if said := _disturbance(fault):
            begun[kind, link] = fault.at_ns / SECOND_NS, said
    for at_s, text in begun.values():
        _bar(axes, (at_s, window[1]), text, level, window)
        level += 1


def _disturbance(fault: LinkFault) -> str:
    """What becomes of packets from now on; empty where all is well again."""
    if isinstance(fault, LinkDelay):
        return f"{fault.hold_ns / MILLISECOND_NS:.3g} ms longer" if fault.hold_ns else ""
    names = {LinkLoss: "lost", LinkDuplication: "doubled", LinkReordering: "held back"}
    (chance,) = (value for name, value in vars(fault).items() if name.endswith("_probability"))
    return f"{100 * chance:.3g} % {names[type(fault)]}" if chance else ""


def _bar(axes: Axes, span: tuple[float, float], text: str, level: int, window: tuple[float, float]) -> None:
    begin, end = max(span[0], window[0]), min(span[1], window[1])
    if begin < end:
        y = -0.9 - 0.16 * level
        axes.plot([begin, end], [y, y], color=GREY, linewidth=2.5, solid_capstyle="butt", clip_on=False)
        label(axes, text, (begin, y), GREY, (0.0, 2.0), "left")


def _messages(axes: Axes, shown: Sequence[Flight], rows: Mapping[str, float], to_s: float) -> list[Artist]:
    """Arrows, a colour a kind; a lost message ends in a small cross, one still under way at the edge."""
    kinds = list(dict.fromkeys(flight.kind for flight in shown))
    looks = {kind: series(kind, place, dashes=DASHES[place // len(SERIES) % 2]) for place, kind in enumerate(kinds)}
    for flight in shown:
        colour, sent_s = looks[flight.kind].colour, flight.sent_ns / SECOND_NS
        source, target = rows[flight.source], rows.get(flight.target, rows[flight.source])
        if flight.received_ns is None:
            middle = source + 0.35 * (target - source)
            axes.plot([sent_s, sent_s], [source, middle], color=colour, linewidth=0.7, linestyle=":", zorder=3)
            axes.plot([sent_s], [middle], color=colour, marker="x", markersize=3, linestyle="none", zorder=3)
            continue
        received_s = flight.received_ns / SECOND_NS
        part = 1.0 if received_s <= to_s else (to_s - sent_s) / (received_s - sent_s)
        end = sent_s + part * (received_s - sent_s), source + part * (target - source)
        style = {"arrowstyle": "-|>" if part == 1.0 else "-", "linestyle": looks[flight.kind].dashes, "shrinkA": 0}
        line = {"color": colour, "linewidth": 0.7, "capstyle": "butt", "mutation_scale": 6, "shrinkB": 1}
        axes.annotate("", end, (sent_s, source), arrowprops=style | line, zorder=3)
    return [key(look, marker=False) for look in looks.values()]


def _requests(axes: Axes, steps: Sequence[Step], rows: Mapping[str, float]) -> list[Artist]:
    """Verdicts, above the line of the node that gave them."""
    places: dict[Verdict, list[tuple[float, float]]] = defaultdict(list)
    for step in steps:
        for effect in step.effects:
            if isinstance(effect, Decide):
                places[effect.verdict].append((step.true_ns / SECOND_NS, rows[step.node] - 0.16))
    looks = {Verdict.ADMIT: ADMITTED, Verdict.REJECT: REJECTED}
    for verdict, points in places.items():
        x, y = zip(*points, strict=True)
        marks(axes, x, y, looks[verdict], 3.0)
    return [key(looks[verdict], line=False) for verdict in looks if verdict in places]


def _breaches(axes: Axes, played: Played, rows: Mapping[str, float], window: tuple[float, float]) -> list[Artist]:
    """A star where an invariant breaks, and below the lines what it says."""
    for breach in played.breaches[:1]:
        at_s = min(max(breach.at_ns / SECOND_NS, window[0]), window[1])
        row = rows.get(breach.node, max(rows.values()) / 2)
        axes.axvline(at_s, color=BROKEN.colour, linewidth=0.6, linestyle=":", zorder=1)
        marks(axes, [at_s], [row], BROKEN, 9.0)
        text = f"{breach.invariant}: {breach.node} {breach.what}"
        axes.set_title(text if len(text) < 110 else text[:110] + " …", loc="left", fontsize=7.5, color=BROKEN.colour)
    return [key(BROKEN, line=False)] if played.breaches else []
