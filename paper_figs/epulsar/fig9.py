"""Fig. 9: how late one player hears of the others in its area of interest, in a game over five cities.

One line an avatar, drawn while it is in the area of interest of the avatar that stands for all; a message counts until
the last of its subscribers has it.  Topics must move for the figure to say anything: they do where pings are the
delays between cities, or where sums of round trips are held against the bound (``readings``).
"""

from analysis.verdicts import Claim, Evidence, Tables, above, at_least, t_interval
from core.records import Json
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.drawing import GREY, categories, curve, interval_bars, label, log_axis, panels, rule
from paper_figs.epulsar.latency_table import ACCESS, OPTION, measured
from paper_figs.epulsar.published import GAME_BOUND_MS, GAME_CITIES, GAME_RUN_MIN
from paper_figs.epulsar.readings import CITY_DELAYS, SUMS, summed
from paper_figs.epulsar.runs import BROKER, is_on_pulsar, on_pulsar, placed
from paper_figs.epulsar.windows import clients, ends_after, excursions, in_bound, owned, windows
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.light import Axes, Data, Drawing, Frame
from paper_figs.series import by_repetition, samples, where, with_point
from paper_figs.style import style_of

BOUND_MS = float(GAME_BOUND_MS)
SETTLED_S = 10  # the first connections are made by then
SHOWN = "avatar-1"
SYSTEMS = ("pulsar", "epulsar")
# What two cores carry beside five brokers, and, by the model, two topics a minute that move; of half as many 0.8 did.
FEW_ON_PULSAR: Json = {"avatars": 32, "groups": 16, "rate_rps": 10.0}
FEWEST_MOVES = 1.0  # ours: topics a minute that must move for ePulsar to be seen at work


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """64 avatars in 5 cities; at scale small 6 avatars in 2."""
    if is_on_pulsar(options):
        return _points_on_pulsar(scale, options)
    duration = scale.pick(tiny="40s", small="120s", quick="60s", paper=f"{60 * GAME_RUN_MIN}s")
    small = scale.physics == "small"
    cities, edge_sites = (2, 1) if small else (GAME_CITIES, 3)
    table = measured(options)
    topology, places = table.topology(cities)
    access = "0ms"
    if table.has_names:
        places = {**places, "edge_sites": edge_sites}
    else:  # a place of a nameless matrix is a site, and nothing but the access lies between it and its broker
        edge_sites, access = 1, ACCESS
    load: Json = {"sites": cities * edge_sites}
    if small:
        load |= {"avatars": 6, "groups": 2, "rate_rps": 20.0}
    study = {"duration": duration, "access": access, "warm_up_rounds": 60 if small else 600}
    how: dict[str, Json] = {"pulsar": {}, "epulsar": summed(options)}
    where_ = (topology, places)
    return [placed(system, ("mmog", load), where_, study, **how[system]) for system in SYSTEMS]


def _points_on_pulsar(scale: Scale, options: Options) -> list[RunSpec]:
    """Half of the avatars, in groups of two or so, at a thirtieth of the rate; 5 cities with a broker each."""
    minutes = scale.pick(tiny=1, small=3, quick=3, paper=GAME_RUN_MIN)
    table = measured(options)
    topology, places = table.topology(GAME_CITIES)
    if table.has_names:
        places = {**places, "edge_sites": 1}
    load: Json = {"sites": GAME_CITIES, **FEW_ON_PULSAR}
    access = "0ms" if table.has_names else ACCESS
    study = {"duration": f"{60 * minutes}s", "access": access, "warm_up_rounds": 60}
    how: dict[str, Json] = {"pulsar": {"bundles": 0}, "epulsar": summed(options)}
    points = [placed(system, ("mmog", load), (topology, places), study, **how[system]) for system in SYSTEMS]
    return [on_pulsar(point, persistent=False) for point in points]


def tables(data: Data) -> FigureTables:
    """``runs``: a row a run; ``lines``: system, topic, second, max_ms, while in the area of interest, repetition 0.

    ``runs``: shares of topics' seconds (``in_bound``: no message late) and of messages in the bound after
    ``SETTLED_S``; ``moves_per_minute``: of topics, after the first placement; ``ended_by_change``: of excursions above
    the bound, the share that ended with a migration of their topic, or as its clients came or went; ``worst_ms``.
    """
    import pandas as pd

    every, spells, changes = windows(data), owned(data), clients(data, "joined", "left")
    named = with_point(data, data.runs.select("run_id"), {}).set_index("run_id")
    rows = []
    for run_id, part in every[every.second >= SETTLED_S].groupby("run_id"):
        mine = spells[spells.run_id == run_id]
        minutes = (part.second.max() + 1 - SETTLED_S) / 60
        row = {"run_id": run_id, **in_bound(part), "worst_ms": float(part.max_ms.max())}
        row |= {"ended_by_change": _ended_share(part, mine, changes[changes.run_id == run_id])}
        rows.append({**row, "moves_per_minute": float((mine.at_s > SETTLED_S).sum() / minutes)})
    runs = pd.DataFrame(rows).set_index("run_id").join(named[["system", "repetition"]])
    first = runs[runs.repetition == 0].reset_index()[["run_id", "system"]]
    pairs = first.itertuples(index=False)
    lines = [_in_interest(every, changes, run_id).assign(system=system) for run_id, system in pairs]
    return {"runs": runs.sort_values(["system", "repetition"]).reset_index(drop=True), "lines": pd.concat(lines)}


def _ended_share(seconds: Frame, spells: Frame, changes: Frame) -> float:
    """Of a run's excursions, the share that a migration or a change of their topic's clients ended; nan of none."""
    until_s, ended = int(seconds.second.max()) + 1, []
    for topic, part in seconds.sort_values("second").groupby("topic"):
        moves_s, changes_s = (list(rows[rows.topic == topic].at_s) for rows in (spells, changes))
        every = excursions(zip(part.second, part.late_count, strict=True), until_s)
        ended += [ends_after(one, moves_s, changes_s) for one in every if one.start_s > SETTLED_S]
    return sum(ended) / len(ended) if ended else float("nan")


def _in_interest(every: Frame, changes: Frame, run_id: str) -> Frame:
    """Seconds of the topics that the avatar shown subscribes to, while it does: topic, spell, second, max_ms."""
    import pandas as pd

    mine = changes[(changes.run_id == run_id) & (changes.client == SHOWN) & (changes.role == "consumer")]
    of_run, spells = every[every.run_id == run_id], []
    for topic, part in mine.sort_values("at_s").groupby("topic"):
        ends = [*part[part.kind == "left"].at_s, float("inf")]
        for spell, (start_s, end_s) in enumerate(zip(part[part.kind == "joined"].at_s, ends, strict=False)):
            inside = of_run[(of_run.topic == topic) & (of_run.second >= start_s) & (of_run.second < end_s)]
            spells.append(inside[["topic", "second", "max_ms"]].assign(spell=spell))
    return pd.concat(spells) if spells else every[[]].assign(topic=[], second=[], max_ms=[], spell=[])


def draw(tables: FigureTables) -> Drawing:
    """Lines under each system, on a log axis, so that spikes have a value; beside them how much is late at all."""
    titles = (*(style_of(system).label for system in SYSTEMS), "all topics, all repetitions")
    drawing, axes = panels(1, 3, titles, inches=(9.6, 2.7), widths=(1, 1, 0.8))
    lines = tables["lines"]
    most_ms = max(1.3 * BOUND_MS, 1.2 * float(lines.max_ms.max() if len(lines) else 0.0))
    for panel, system in zip(axes, SYSTEMS, strict=False):
        log_axis(panel)
        look = style_of(system)._replace(dashes="-")
        for _, line in lines[(lines.system == system) & (lines.second > 0)].groupby(["topic", "spell"]):
            curve(panel, line.second, line.max_ms, look, width=0.8, alpha=0.7)
        rule(panel, BOUND_MS)
        panel.set_xlabel("time (s)")
        panel.set_ylim(20, most_ms)
    label(axes[1], f"bound, {BOUND_MS:g} ms", (axes[1].get_xlim()[1] / 2, BOUND_MS), GREY)
    axes[0].set_ylabel("latency in the area of interest (ms)", fontsize=8)
    _draw_late(axes[2], tables["runs"])
    return drawing


def _draw_late(axes: Axes, runs: Frame) -> None:
    """Shares of topics' seconds with a late message, with intervals; above them how often topics move."""
    most = 0.1
    for place, system in enumerate(SYSTEMS):
        part = runs[runs.system == system]
        late = t_interval(list(100 * (1 - part.in_bound)))
        top = late.mean if late.count < 2 else late.high
        most = max(most, top)
        interval_bars(axes, [place], [late], style_of(system), width=0.6)
        text = f"{late.mean:.2g} %\n{part.moves_per_minute.mean():.1f} moves\na minute"
        label(axes, text, (place, top), points=(0, 3))
    categories(axes, [style_of(system).label for system in SYSTEMS])
    axes.set(ylabel="seconds with a late\nmessage (%)", ylim=(0, 1.6 * most))


def measure_e11(tables: Tables) -> Evidence:
    """Almost all of topics' seconds are in the bound, more than Pulsar's, and what is not is over when it is mended.

    KeyError where ePulsar moves nothing.
    """
    runs = tables["epulsar-fig9/runs"]
    ours = where(runs, system="epulsar")
    if not ours.moves_per_minute.mean() >= FEWEST_MOVES:
        raise KeyError(f"{FEWEST_MOVES:g} migration a minute under ePulsar, which has nothing to mend here")
    seconds, messages = (samples(by_repetition(ours, column)) for column in ("in_bound", "messages_in_bound"))
    share = at_least("share of topics' seconds in the bound", seconds, 0.95)
    transient = "excursions that end within 5 s of a migration, or as clients come or go"
    ended = at_least(transient, samples(by_repetition(ours, "ended_by_change")), 0.95)
    more = by_repetition(ours, "in_bound") - by_repetition(runs, "in_bound", system="pulsar")
    contrast = above("topics' seconds in the bound, ePulsar minus Pulsar", samples(more))
    return Evidence((share, at_least("share of messages in the bound", messages, 0.99), ended), (contrast,))


E11 = "Game: latency stays under 100 ms although areas of interest change often; there are transient spikes only."
CLAIMS = (Claim("E11", "5.8.2, Fig. 9", E11, ("epulsar-fig9",), measure_e11),)
NOTES = (
    "One line an avatar in the area of interest of avatar-1. The five cities are the largest of the shipped table (the "
    "paper names none but New York), delays fitted to WonderNetwork's pings unless a table is given; game server to "
    "broker 5 ms one way. A ping is read as the delay of a link, each way: of half a ping any broker of these cities "
    "meets the bound of 100 ms, and nothing would move, whoever places the topics. At quick scale one minute, at paper "
    "scale ten; with --broker pulsar three: 32 avatars in 16 groups, 10 messages a second each, topics that are not "
    "persistent, on Apache Pulsar or its model, a broker a city. (c): after the first 10 s; error bars are 95 % "
    "intervals over repetitions."
)
TITLE = "Online game: latency in one player's area of interest"
OPTIONS = (OPTION, CITY_DELAYS, SUMS, BROKER)
EXPERIMENT = Experiment("epulsar-fig9", TITLE, "ePulsar, Fig. 9", points, OPTIONS, repetitions={"quick": 20})
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
