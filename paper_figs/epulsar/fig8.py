"""Fig. 8: end-to-end latency of eight swarms of drones that fly over four zones of a city, topic by topic over time.

A message counts until the last of its subscribers has it.  A topic's latency is the worst of each second.  Where a
swarm enters another zone it rises above the bound, until ePulsar has moved its topics to the new zone's broker.

``--broker pulsar``: the same on a real Apache Pulsar, of a broker a zone (study ``placement-on-pulsar``); in virtual
time on a model of it.
"""

from collections.abc import Mapping

from analysis.tables import collect
from analysis.verdicts import Claim, Evidence, Tables, above, at_least, t_interval
from core.records import Json
from harness.experiment import Experiment, Option, RunSpec, Scale
from paper_figs.drawing import categories, curve, interval_bars, label, log_axis, marks, panels, rule
from paper_figs.epulsar import published as paper
from paper_figs.epulsar.readings import PLACE, SUMS, placed_at, summed
from paper_figs.epulsar.runs import BROKER, PUBLIC_CODE, SWARMS_ON_PULSAR, is_on_pulsar, on_pulsar, placed
from paper_figs.epulsar.windows import clients, ends_after, excursions, in_bound, owned, starts_at, windows
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.keys import key, legend_above, rule_key
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import by_repetition, samples, where
from paper_figs.style import Style, style_of

BOUND_MS = float(paper.SWARM_BOUND_MS)
SETTLED_S = 20  # first placements, by clients that have not said where they are, are over by then
SHOWN = "follow-leader"  # the topic of each swarm that is drawn
SYSTEMS = ("pulsar", "epulsar")
SMALL_CITY_KM = 8.0  # of scale small: swarms that cross a border now and then within its three minutes
CHANGES = {
    "handover": Style("enters a zone", "#000000", "|", "-"),
    "owned": Style("topic at new broker", "#CC79A7", "o", "-"),
}


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Swarms over a city of four zones; at scale small two zones, two swarms of three."""
    if is_on_pulsar(options):
        return _points_on_pulsar(scale, options)
    duration = scale.pick(tiny="60s", small="180s", quick="120s", paper=f"{60 * paper.SWARM_RUN_MIN}s")
    small = scale.physics == "small"
    swarms: Json = {"zones": paper.SWARM_ZONES}
    if small:
        swarms = {"swarms": 2, "members": 3, "zones": 2, "rate_rps": 25.0, "city_km": SMALL_CITY_KM}
    load: Json = {**swarms, "towers": options["towers"]}
    where_ = ("city-mec", {"sites": swarms["zones"]})
    warm_up, periods = (60, PUBLIC_CODE) if small else (600, {})
    study = {"duration": duration, "access": options["access-delay"], "warm_up_rounds": warm_up}
    how = {"pulsar": periods, "epulsar": {**periods, **summed(options), **placed_at(options)}}
    return [placed(system, ("uav-swarms", load), where_, study, **how[system]) for system in SYSTEMS]


def _points_on_pulsar(scale: Scale, options: Options) -> list[RunSpec]:
    """Four zones, a swarm of three for each, at a tenth of the paper's rate; topics as the public clients have them."""
    minutes = scale.pick(tiny=1, small=3, quick=3, paper=paper.SWARM_RUN_MIN)
    towers = options["towers"]
    load: Json = {**SWARMS_ON_PULSAR, "city_km": SMALL_CITY_KM, "towers": towers}
    where_ = ("city-mec", {"sites": paper.SWARM_ZONES})
    study = {"duration": f"{60 * minutes}s", "access": options["access-delay"], "warm_up_rounds": 60}
    how = {"pulsar": {"bundles": 0}, "epulsar": {**summed(options), **placed_at(options)}}
    points = [placed(system, ("uav-swarms", load), where_, study, **PUBLIC_CODE, **how[system]) for system in SYSTEMS]
    return [on_pulsar(point, persistent=False) for point in points]


def tables(data: Data) -> FigureTables:
    """``seconds``: drawn topics' worst latency, of repetition 0; ``runs``, a row a run; ``changes``, of repetition 0.

    ``runs``: shares of topics' seconds (``in_bound``: no message late) and of messages in the bound after
    ``SETTLED_S``; ``excursion_count``, and what share of them began at a handover and ended with a migration.
    ``changes``: kind (handover, owned), topic, at_s, broker.
    """
    import pandas as pd

    every, swarms = windows(data), _swarms(data)
    changes = _changes(data, swarms)
    runs = collect(data.runs.select("run_id", "system", "repetition"), ["run_id"]).set_index("run_id")
    parts = {run_id: (part, changes[changes.run_id == run_id]) for run_id, part in every.groupby("run_id")}
    shares = pd.DataFrame({run_id: _of_run(*both, swarms) for run_id, both in parts.items()}).T.rename_axis("run_id")
    shares = shares.join(runs).sort_values(["system", "repetition"])
    first = shares[shares.repetition == 0].reset_index()[["run_id", "system"]]
    drawn = changes[(changes.kind == "handover") | changes.name.str.startswith(SHOWN)]
    shown = every[every.topic.str.startswith(SHOWN)][["run_id", "topic", "second", "max_ms", "mean_ms"]]
    return {
        "runs": shares.reset_index(drop=True),
        "seconds": shown.merge(first, on="run_id").drop(columns="run_id"),
        "changes": drawn.merge(first, on="run_id").drop(columns="run_id"),
    }


def _swarms(data: Data) -> dict[str, str]:
    """The number of the swarm that a topic, or a leader, is of."""
    from workloads.uav_swarms import UavSwarmsConfig, leader_of, topics_of

    swarms = f"coalesce(cast(factors['workload.swarms'] as int), {UavSwarmsConfig.swarms})"
    count = int(collect(data.runs.selectExpr(f"max({swarms}) as swarms"), ["swarms"]).swarms[0])
    return {name: str(n) for n in range(1, count + 1) for name in (*topics_of(n), leader_of(n))}


def _changes(data: Data, swarms: Mapping[str, str]) -> Frame:
    """Handovers (name: the client, to: the site's number) and spans of ownership (the topic, the broker), by time.

    One handover a swarm, whose members fly together.
    """
    import pandas as pd

    moved = clients(data, "handover").rename(columns={"client": "name", "site": "to"})
    moved = moved[moved.name.isin(swarms)].assign(to=moved.to.astype(int).astype(str), duration_s=float("nan"))
    had = owned(data).rename(columns={"topic": "name", "broker": "to"}).assign(kind="owned")
    columns = ["run_id", "kind", "name", "to", "at_s", "duration_s"]
    every = pd.concat([moved[columns], had[columns]])
    every = every.sort_values(["run_id", "at_s", "kind", "name", "to"], ignore_index=True)
    return every.assign(swarm=every.name.map(swarms))


def _of_run(seconds: Frame, changes: Frame, swarms: Mapping[str, str]) -> dict[str, float]:
    later = seconds[seconds.second >= SETTLED_S]
    until_s = int(seconds.second.max()) + 1
    handovers, moves = changes[changes.kind == "handover"], changes[changes.kind == "owned"]
    at_s = {swarm: list(part.at_s) for swarm, part in handovers.groupby("swarm")}
    begun = ended = count = 0
    for topic, part in later.sort_values("second").groupby("topic"):
        moves_s = list(moves[moves.name == topic].at_s)
        changes_s = at_s.get(swarms[str(topic)], [])
        for one in excursions(zip(part.second, part.late_count, strict=True), until_s):
            if one.start_s > SETTLED_S:
                count += 1
                begun += starts_at(one, changes_s)
                ended += ends_after(one, moves_s, changes_s)
    return {
        **in_bound(later),
        "lost_count": float(seconds.lost_count.sum()),
        "handover_count": float(sum(map(len, at_s.values()))),
        "excursion_count": float(count),
        "begun_at_handover": begun / count if count else float("nan"),
        "ended_by_migration": ended / count if count else float("nan"),
    }


def draw(tables: FigureTables) -> Drawing:
    """A panel a swarm, on a log axis, so that spikes have a value; the last one has the shares of time in the bound."""
    swarms = [str(n) for n in range(1, tables["seconds"].topic.nunique() + 1)]
    rows = (len(swarms) + 1 + 2) // 3
    titles = [*(f"swarm {swarm}" for swarm in swarms), "all topics, all repetitions"]
    drawing, axes = panels(rows, 3, titles, inches=(9.6, 1.75 * rows + 0.3))
    most_ms = float(tables["seconds"].max_ms.max()) if swarms else BOUND_MS
    for number, (panel, swarm) in enumerate(zip(axes, swarms, strict=False)):
        _draw_swarm(panel, tables, swarm)
        panel.set_ylim(10, 1.3 * most_ms)
        if number % 3 == 0:
            panel.set_ylabel("latency (ms)")
        if number >= len(swarms) - 3:
            panel.set_xlabel("time (s)")
    _draw_shares(axes[len(swarms)], tables["runs"])
    for panel in axes[len(swarms) + 1 :]:
        panel.set_visible(False)
    lines = [key(style_of(system)._replace(dashes="-"), marker=False) for system in SYSTEMS]
    changes = [key(look, line=False) for look in CHANGES.values()]
    legend_above(drawing, [*lines, rule_key(f"bound, {BOUND_MS:g} ms"), *changes])
    return drawing


def _draw_swarm(axes: Axes, tables: FigureTables, swarm: str) -> None:
    seconds, changes = tables["seconds"], tables["changes"]
    log_axis(axes)
    axes.axvspan(0, SETTLED_S, color="#eeeeee", zorder=0)
    for system in SYSTEMS:
        part = seconds[(seconds.topic == f"{SHOWN}-{swarm}") & (seconds.system == system)].sort_values("second")
        look = style_of(system)._replace(dashes="-")
        curve(axes, part.second, part.max_ms, look, width=1.0, alpha=1.0 if system == "epulsar" else 0.55, stairs=True)
    rule(axes, BOUND_MS)
    ours = changes[(changes.swarm == swarm) & (changes.system == "epulsar") & (changes.at_s > 0.5)]
    for kind, look in CHANGES.items():
        at_s = ours[ours.kind == kind].at_s
        marks(axes, at_s, [11.5] * len(at_s), look, size=5)


def _draw_shares(axes: Axes, runs: Frame) -> None:
    for place, system in enumerate(SYSTEMS):
        share = t_interval(list(100 * runs[runs.system == system].in_bound))
        interval_bars(axes, [place], [share], style_of(system), width=0.6)
        label(axes, f"{share.mean:.1f}", (place - 0.15, share.mean))
    categories(axes, [style_of(system).label for system in SYSTEMS])
    axes.set(ylim=(0, 115), yticks=(0, 50, 100), ylabel="seconds in bound (%)")


def measure_e10(tables: Tables) -> Evidence:
    """In the bound most of the time, more than Pulsar; excursions begin at handovers and end with migrations."""
    runs = tables["epulsar-fig8/runs"]
    ours = where(runs, system="epulsar")
    columns = ("in_bound", "begun_at_handover", "ended_by_migration")
    inside, begun, ended = (samples(by_repetition(ours, column)) for column in columns)
    exact = (
        at_least("share of topics' seconds in the bound", inside, 0.5),
        at_least("excursions that begin within 2 s of a handover", begun, 0.95),
        at_least("excursions that end within 5 s of a migration, or of a handover back", ended, 0.95),
    )
    more = by_repetition(ours, "in_bound") - by_repetition(runs, "in_bound", system="pulsar")
    return Evidence(exact, (above("seconds in the bound, ePulsar minus Pulsar", samples(more)),))


E10 = "Drones: latency is under 40 ms for most of the run; spikes at zone changes end when the topic has migrated."
WHY_E10 = (
    "Most of the run is judged as at least half of it (ours: the paper gives no share), and as more than Pulsar's."
)
CLAIMS = (Claim("E10", "5.8.1, Fig. 8", E10, ("epulsar-fig8",), measure_e10, why=WHY_E10),)
OPTIONS = (
    Option("towers", "CSV file of cell towers, latitude and longitude; zones are their k-means centres", ""),
    Option("access-delay", "one way, drone to site (not given in the paper)", "8ms"),
    PLACE,
    SUMS,
    BROKER,
)
NOTES = (
    "Latency is the worst of each second, until all subscribers have a message; one topic a swarm is drawn, as in "
    "the paper, and both count. The city is a SYNTHETIC one of 20 km unless towers are given (data for Atlanta, the"
    " paper's city, has 14 towers; New York or Melbourne can stand for it). Access delay 8 ms one way at each end "
    "(ours). A handover breaks no connection. The first 20 s (grey), in which topics find their first broker, are "
    "not judged; most of a run is at least half of it (ours). Reaction time is that of the paper's three periods of "
    "5 s; at scale small those of the public code (1, 1.5 and 2.5 s), in a city of 8 km, and so with --broker pulsar: "
    "four swarms of three, 20 messages a second a drone, topics that are not persistent, on Apache Pulsar or its "
    "model. Error bars: 95 % intervals over repetitions."
)
TITLE = "Drone swarms: end-to-end latency over time"
EXPERIMENT = Experiment("epulsar-fig8", TITLE, "ePulsar, Fig. 8", points, OPTIONS)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
