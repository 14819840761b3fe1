"""Fig. 8: end-to-end latency of eight swarms of drones that fly over four zones of a city, topic by topic over time.

A message counts until the last of its subscribers has it.  A topic's latency is the worst of each second.  Where a
swarm enters another zone it rises above the bound, until ePulsar has moved its topics to the new zone's broker.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Check, Claim, Evidence, Tables, above, at_least
from harness.experiment import Experiment, Option, RunSpec, Scale
from paper_figs.epulsar.runs import placed
from paper_figs.epulsar.windows import clients, ends_after, excursions, owned, starts_at, windows
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import by_repetition, samples, where, with_point
from paper_figs.style import letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

BOUND_MS = 40.0
SETTLED_S = 20  # first placements, by clients that have not said where they are, are over by then
SHOWN = "follow-leader"  # the topic of each swarm that is drawn
SYSTEMS = ("pulsar", "epulsar")
SMALL_CITY_KM = 8.0  # of scale small: swarms that cross a border now and then within its three minutes
PUBLIC_CODE = {"locate": "1s", "report": "1500ms", "place": "2500ms"}  # its periods, with which scale small reacts


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Swarms over a city of four zones; at scale small two zones, two swarms of three."""
    duration = scale.pick(tiny="60s", small="180s", quick="120s", paper="600s")
    small = scale.physics == "small"
    swarms: dict[str, Any] = {"zones": 4}
    if small:
        swarms = {"swarms": 2, "members": 3, "zones": 2, "rate_rps": 25.0, "city_km": SMALL_CITY_KM}
    load: dict[str, Any] = {**swarms, "towers": options["towers"]}
    inputs = (options["towers"],) if options["towers"] else ()
    where_ = ("city-mec", {"sites": swarms["zones"]})
    warm_up, periods = (60, PUBLIC_CODE) if small else (600, {})
    study = {"duration": duration, "access": options["access-delay"], "warm_up_rounds": warm_up}
    specs = [placed(system, ("uav-swarms", load), where_, study, **periods) for system in SYSTEMS]
    import msgspec

    return [msgspec.structs.replace(spec, inputs=inputs) for spec in specs]


def tables(data: "Data") -> FigureTables:
    """``seconds``: drawn topics' worst latency, of repetition 0; ``runs``, a row a run; ``changes``, of repetition 0.

    ``runs``: shares of topics' seconds (``in_bound``: no message late) and of messages in the bound after
    ``SETTLED_S``; ``excursion_count``, and what share of them began at a handover and ended with a migration.
    ``changes``: kind (handover, owned), topic, at_s, broker.
    """
    every, changes = windows(data), _changes(data)
    runs = with_point(data, data.runs.select("run_id"), {"duration": "study.duration"}).set_index("run_id")
    rows = []
    for run_id, part in every.groupby("run_id"):
        rows.append({"run_id": run_id, **_of_run(part, changes[changes.run_id == run_id])})
    import pandas as pd

    found = (
        pd.DataFrame(rows)
        .set_index("run_id")
        .join(runs[["system", "repetition"]])
        .sort_values(["system", "repetition"])
    )
    first = found[found.repetition == 0].reset_index()[["run_id", "system"]]
    shown = every[every.topic.str.startswith(SHOWN)][["run_id", "topic", "second", "max_ms", "mean_ms"]]
    return {
        "runs": found.reset_index(drop=True),
        "seconds": shown.merge(first, on="run_id").drop(columns="run_id"),
        "changes": _named(changes).merge(first, on="run_id").drop(columns="run_id"),
    }


def swarm_of(name: str) -> str:
    """The swarm's number, of a topic (``follow-leader-3``) or a client (``uav-3-1``)."""
    return name.split("-")[1] if name.startswith("uav-") else name.rsplit("-", 1)[1]


def _changes(data: "Data") -> "pd.DataFrame":
    """Handovers (name: the client, to: the site's number) and spans of ownership (the topic, the broker), by time."""
    import pandas as pd

    moved = clients(data, "handover").rename(columns={"client": "name", "site": "to"})
    moved["to"] = moved["to"].astype(int).astype(str)
    had = owned(data).rename(columns={"topic": "name", "broker": "to"}).assign(kind="owned")
    columns = ["run_id", "kind", "name", "to", "at_s", "duration_s"]
    every = pd.concat([moved.assign(duration_s=float("nan"))[columns], had[columns]])
    return every.sort_values(["run_id", "at_s", "kind", "name", "to"], ignore_index=True)


def _named(changes: "pd.DataFrame") -> "pd.DataFrame":
    """One handover a swarm, whose members fly together."""
    found = changes.assign(swarm=changes.name.map(swarm_of))
    one = found.name.str.startswith(SHOWN) | found.name.str.endswith("-1")
    return found[one & ~((found.kind == "owned") & ~found.name.str.startswith(SHOWN))]


def _of_run(seconds: "pd.DataFrame", changes: "pd.DataFrame") -> dict[str, float]:
    later = seconds[seconds.second >= SETTLED_S]
    until_s = int(seconds.second.max()) + 1
    leaders = changes.name.str.endswith("-1") & (changes.kind == "handover")
    handovers, moves = changes[leaders], changes[changes.kind == "owned"]
    at_s = {swarm: list(part.at_s) for swarm, part in handovers.groupby(handovers.name.map(swarm_of))}
    begun = ended = count = 0
    for topic, part in later.sort_values("second").groupby("topic"):
        moves_s = list(moves[moves.name == topic].at_s)
        changes_s = at_s.get(swarm_of(str(topic)), [])
        for one in excursions(zip(part.second, part.late_count, strict=True), until_s):
            if one.start_s > SETTLED_S:
                count += 1
                begun += starts_at(one, changes_s)
                ended += ends_after(one, moves_s, changes_s)
    return {
        "in_bound": float((later.late_count == 0).mean()),
        "messages_in_bound": 1.0 - float(later.late_count.sum() / later.message_count.sum()),
        "lost_count": float(seconds.lost_count.sum()),
        "handover_count": float(sum(map(len, at_s.values()))),
        "excursion_count": float(count),
        "begun_at_handover": begun / count if count else float("nan"),
        "ended_by_migration": ended / count if count else float("nan"),
    }


def draw(found: FigureTables) -> "Drawing":
    """A panel a swarm; the last one has the shares of time in the bound."""
    swarms = sorted(set(found["seconds"].topic.map(swarm_of)), key=int)
    rows = (len(swarms) + 1 + 2) // 3
    drawing, axes = panels(rows, 3)
    drawing.set_size_inches(9.6, 1.75 * rows + 0.3)
    flat = list(axes.flat)
    for number, (panel, swarm) in enumerate(zip(flat, swarms, strict=False)):
        _draw_swarm(panel, found, swarm)
        letter(panel, f"swarm {swarm}")
        if number % 3 == 0:
            panel.set_ylabel("latency (ms)")
    for panel in flat[len(swarms) + 1 :]:
        panel.set_visible(False)
    handles, labels = flat[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=7)
    _draw_shares(flat[len(swarms)], found["runs"])
    for panel in flat[max(0, len(swarms) - 3) : len(swarms)]:
        panel.set_xlabel("time (s)")
    return drawing


def _draw_swarm(axes: "Axes", found: FigureTables, swarm: str) -> None:
    seconds, changes = found["seconds"], found["changes"]
    for system in SYSTEMS:
        style = style_of(system)
        part = seconds[(seconds.topic == f"{SHOWN}-{swarm}") & (seconds.system == system)].sort_values("second")
        axes.step(part.second, part.max_ms, where="post", color=style.colour, linewidth=1.0, label=style.label,
                  alpha=1.0 if system == "epulsar" else 0.55)  # fmt: skip
    mine = changes[(changes.swarm == swarm) & (changes.system == "epulsar")]
    axes.axhline(BOUND_MS, color="#555555", linewidth=0.8, linestyle=(0, (4, 3)), label="bound")
    for kind, mark, colour, label in (
        ("handover", "|", "#000000", "enters a zone"),
        ("owned", ".", "#CC79A7", "topic at new broker"),
    ):
        at_s = mine[(mine.kind == kind) & (mine.at_s > 0.5)].at_s
        axes.plot(at_s, [2.0] * len(at_s), mark, color=colour, markersize=6, linestyle="none", label=label)
    axes.axvspan(0, SETTLED_S, color="#eeeeee", zorder=0)
    axes.set_ylim(0, 140)


def _draw_shares(axes: "Axes", runs: "pd.DataFrame") -> None:
    """Shares of topics' seconds without a late message, with intervals over repetitions."""
    from analysis.verdicts import t_interval

    for place, system in enumerate(SYSTEMS):
        style, of = style_of(system), t_interval(list(runs[runs.system == system].in_bound))
        axes.bar(place, 100 * of.mean, color=style.colour, width=0.6)
        if of.count > 1:
            axes.errorbar(
                place,
                100 * of.mean,
                [[100 * (of.mean - of.low)], [100 * (of.high - of.mean)]],
                color="#000000",
                capsize=3,
            )
        axes.annotate(f"{100 * of.mean:.1f}", (place, 3), ha="center", fontsize=7, color="white")
    axes.set_xticks(range(len(SYSTEMS)), [style_of(system).label for system in SYSTEMS])
    axes.set_ylim(0, 105)
    axes.set_ylabel("seconds in bound (%)")
    letter(axes, "all topics, all repetitions")


def measure_e10(tables: Tables) -> Evidence:
    """In the bound most of the time, more than Pulsar; excursions begin at handovers and end with migrations."""
    runs = tables["epulsar-fig8/runs"]
    ours = where(runs, system="epulsar")
    checks: list[Check] = [
        at_least("share of topics' seconds in the bound", samples(by_repetition(ours, "in_bound")), 0.5),
        at_least(
            "excursions that begin within 2 s of a handover", samples(by_repetition(ours, "begun_at_handover")), 0.95
        ),
        at_least(
            "excursions that end within 5 s of a migration", samples(by_repetition(ours, "ended_by_migration")), 0.95
        ),
    ]
    more = by_repetition(ours, "in_bound") - by_repetition(runs, "in_bound", system="pulsar")
    return Evidence(tuple(checks), (above("seconds in the bound, ePulsar minus Pulsar", samples(more)),))


CLAIMS = (
    Claim(
        "E10", "5.8.1, Fig. 8",
        "Drones: latency is under 40 ms for most of the run; spikes at zone changes end when the topic has migrated.",
        ("epulsar-fig8",), measure_e10,
    ),
)  # fmt: skip
EXPERIMENT = Experiment(
    "epulsar-fig8", "Drone swarms: end-to-end latency over time", "ePulsar, Fig. 8", points,
    options=(
        Option("towers", "CSV file of cell towers, latitude and longitude; zones are their k-means centres", ""),
        Option("access-delay", "one way, drone to site (not given in the paper)", "8ms"),
    ),
)  # fmt: skip
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes="Latency is the worst of each second, until all subscribers have a message; one topic a swarm is drawn, as "
    "in the paper, and both count. The city is a SYNTHETIC one of 20 km unless towers are given (data for Atlanta, the "
    "paper's city, has 14 towers; New York or Melbourne can stand for it). Access delay 8 ms one way at each end "
    "(ours). A handover breaks no connection. The first 20 s (grey), in which topics find their first broker, are not "
    "judged. Reaction time is that of the paper's three periods of 5 s; at scale small those of the public code (1, "
    "1.5 and 2.5 s), in a city of 8 km.",
)  # fmt: skip
