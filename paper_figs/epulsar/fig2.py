"""Fig. 2: the migration of one topic as a sequence diagram, of recorded runs: ePulsar's, and beside it Pulsar's.

Arrows go from the instant at which a message is sent to that at which it arrives.  Numbers are the paper's steps; the
baseline has neither step 3's address nor step 4, and two round trips to the cloud in their place.

``--broker pulsar``: a topic of a real Apache Pulsar (study ``placement-on-pulsar``), which fences it, names the next
broker in the store, lets that own it, and closes clients last.  Both ends of an arrow are instants that somebody wrote
down: our nodes, the brokers' log, the client's.  In virtual time of a model of it, whose brokers log one step in all.
"""

from typing import Any

from analysis.tables import collect
from core.clients import Role
from core.records import Json
from core.units import MILLISECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.drawing import TEXT, curve, label, panels
from paper_figs.epulsar.published import WAN_MS
from paper_figs.epulsar.runs import BROKER, is_on_pulsar, on_pulsar, placed
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.light import Axes, Data, Drawing, Frame, SparkFrame
from paper_figs.series import frame_of
from paper_figs.style import Style, series, style_of

SYSTEMS = ("pulsar", "epulsar")
DOWNTIME_NS, MIGRATION_NS = "client_downtime_ns", "migration_ns"
CLIENT, TOPIC = "producer-1-1", "topic-1"
REQUEST, RELEASE, ASSIGN, DISCONNECT, UNLOAD = "request", "release", "assign", "disconnect", "unload"  # move_steps.step
AWAY, MOVED = "away", "moved"  # the client, by ``downtimes``; the topic, by ``MIGRATION_NS``
LIFELINES = ("client", "old broker", "new broker", "store", "load manager")
WAN = f"{WAN_MS}ms"  # one way: that of Fig. 7b
MIGRATION, DOWNTIME, LIFELINE = series("", 5), series("", 0), Style("", "#777777", "", "-")
# Share of an arrow so long at which there is room for its words.
TEXT_AT = {("Released", 2): 0.82, ("Released", 3): 0.8, ("Close", 1): 0.48, ("Create", 1): 0.42}
BEFORE_HEAD = 0.15  # of a step's circle, in distances between lifelines
KINDS = {  # of messages: the paper's step (0: it has none), and what is written at the arrow
    "Release": (1, "release topic"),
    "Delete": (2, "give up ownership"),
    "Close": (3, "close"),
    "Acquire": (4, "acquire topic"),
    "Released": (5, "release complete"),
    "Create": (6, "acquire ownership"),
    "Connect": (7, "connect"),
    "Done": (0, "done"),
    "Lookup": (0, "look up"),
    "Found": (0, "new broker"),
    "Connected": (0, "connected"),
    "Fence": (0, "fence, name the next"),
    "Own": (6, "acquire ownership"),
    "Unload": (0, "unload: fence, own"),
    "Return": (7, "find it, connect"),
}
OTHERWISE = {("Close", False): "close: go to new", ("Fence", True): "fence, free it"}  # whether it is the baseline's
BETWEEN = {  # on Pulsar
    "Release": ("load manager", "old broker"),
    "Fence": ("old broker", "store"),
    "Own": ("store", "new broker"),
    "Unload": ("old broker", "new broker"),
    "Close": ("old broker", "client"),
    "Return": ("client", "new broker"),
    "Released": ("old broker", "load manager"),
}
ARROWS = ["system", "message", "step", "source", "target", "sent_ms", "got_ms"]


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """One topic with one client (5.7), moved once, every message kept; on Pulsar with one that counts, too."""
    if is_on_pulsar(options):
        return [_on_pulsar(system) for system in SYSTEMS]
    load = {"topics": 1, "producers": 1, "consumers": 0, "sites": 2, "rate_rps": 10.0}
    systems: dict[str, Json] = {"pulsar": {"bundles": 0}, "epulsar": {}}  # one topic to a bundle, as ePulsar has them
    offered, city = ("static-topics", load), ("city-mec", {"sites": 2, "cloud_delay": WAN})
    study, more = {"duration": "8s", "record": True}, {"periodic": "6s", "bound": "10s", "first": "hash"}
    return [placed(system, offered, city, study, **{**own, **more}) for system, own in systems.items()]


def _on_pulsar(system: str) -> RunSpec:
    load = {"topics": 1, "producers": 1, "consumers": 1, "sites": 2, "rate_rps": 10.0, "bound": "10s"}
    own: Json = {"bundles": 0} if system == "pulsar" else {"executors": 1}
    city = ("city-mec", {"sites": 2, "cloud_delay": WAN})
    point = placed(system, ("static-topics", load), city, {"duration": "14s"}, periodic="8s", probe="5s", **own)
    return on_pulsar(point)


def tables(data: Data) -> FigureTables:
    """``arrows``, a row a message: system, message, step, source, target (lifelines), sent_ms, got_ms.

    Times count from the release command.  ``spans``: system, downtime_ms and migration_ms as the nodes sampled them.
    """
    from pyspark.sql import functions as f

    systems = data.runs.where(f.col("repetition") == 0).select("run_id", "system")
    messages = collect(_messages(data).join(systems, "run_id"), ["system", "sent_at_ns", "got_at_ns", "source"])
    away = data.table("downtimes").selectExpr(
        "run_id", "start_ns as at_ns", "role", f"'{DOWNTIME_NS}' as metric", "cast(end_ns - start_ns as double) value"
    )
    mine = data.samples.where(f.col("metric").isin(DOWNTIME_NS, MIGRATION_NS))
    mine = mine.selectExpr("run_id", "at_ns", "'' as role", "metric", "value").unionByName(away).join(systems, "run_id")
    first = f.min_by("value", f.struct("at_ns", "role"))
    spans = mine.groupBy("system").pivot("metric", [DOWNTIME_NS, MIGRATION_NS]).agg(first)
    spans = spans.selectExpr("system", f"{DOWNTIME_NS} / 1e6 downtime_ms", f"{MIGRATION_NS} / 1e6 migration_ms")
    told = collect(_told_on_pulsar(data).join(systems, "run_id").drop("run_id"), ["system", "start_ns", "end_ns"])
    is_pulsars = (told.what == REQUEST).any()
    return {"arrows": arrows_on_pulsar(told) if is_pulsars else _arrows(messages), "spans": collect(spans, ["system"])}


def _told_on_pulsar(data: Data) -> SparkFrame:
    """Of the topic's moves there: run_id, what (a step, ``AWAY`` or ``MOVED``), start_ns, end_ns."""
    steps = data.table("move_steps").where(f"topic = '{TOPIC}'")
    away = data.table("downtimes").where(f"topic = '{TOPIC}' and role = '{Role.PRODUCER}'")
    moved = data.samples.where(f"metric = '{MIGRATION_NS}'")
    return (
        steps.selectExpr("run_id", "step as what", "start_ns", "end_ns")
        .unionByName(away.selectExpr("run_id", f"'{AWAY}' as what", "start_ns", "end_ns"))
        .unionByName(
            moved.selectExpr(
                "run_id", f"'{MOVED}' as what", "at_ns - cast(value as long) as start_ns", "at_ns as end_ns"
            )
        )
    )


def _messages(data: Data) -> SparkFrame:
    """Each message once: run_id, source, target, kind, broker, sent_at_ns, got_at_ns; alike ones in order.

    Those about the topic, and the store's answers.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    said = ("kind", "subject", "broker", "ticket")
    alike = f.concat_ws(" ", *(f.coalesce(f.col(name).cast("string"), f.lit("-")) for name in said))
    order = Window.partitionBy("run_id", "source", "target", "text").orderBy("at_ns")
    about = (f.col("subject") == TOPIC) | f.col("subject").endswith(f"/{TOPIC}") | (f.col("kind") == "Done")
    ways = []
    for way, source, target in (("sent", "node", "peer"), ("got", "peer", "node")):
        rows = data.table("control_messages").where(about & (f.col("way") == way)).withColumn("text", alike)
        told = rows.withColumnsRenamed({source: "source", target: "target"})
        numbered = told.withColumn("number", f.row_number().over(order)).withColumnRenamed("at_ns", f"{way}_at_ns")
        ways.append(numbered)
    same = ["run_id", "source", "target", "text", "number"]
    return ways[0].join(ways[1].select(*same, "got_at_ns"), same)


def _arrows(messages: Frame) -> Frame:
    """The messages of the first migration, from its release to the client's connection."""
    import pandas as pd

    parts = []
    for _, part in messages.rename(columns={"kind": "message"}).groupby("system"):
        release = part[part.message == "Release"].iloc[0]
        roles = {CLIENT: "client", release.target: "old broker", release.broker: "new broker",
                 "store": "store", release.source: "load manager"}  # fmt: skip
        since = part[(part.sent_at_ns >= release.sent_at_ns) & part.message.isin(KINDS)]
        end_ns = since[since.message == "Connected"].got_at_ns.min()
        shown = since[since.sent_at_ns <= end_ns]
        named = shown.assign(step=[KINDS[message][0] for message in shown.message])
        named = named.assign(source=shown.source.map(roles), target=shown.target.map(roles))
        for end in ("sent", "got"):
            named[f"{end}_ms"] = (shown[f"{end}_at_ns"] - release.sent_at_ns) / 1e6
        parts.append(named)
    return pd.concat(parts, ignore_index=True)[ARROWS] if parts else pd.DataFrame(columns=ARROWS)


def arrows_on_pulsar(told: Frame) -> Frame:
    """The same of each system's first move on Pulsar, of rows of system, what, start_ns, end_ns.

    Steps are from the brokers' log; of the modelled Pulsar's, which has but one, that one is drawn.
    """
    arrows: list[tuple[str, str, str, str, float, float]] = []
    for system, rows in told.groupby("system"):
        asked_ns = rows[rows.what == REQUEST].start_ns.min()
        # A log may count a step from long before; who is away already is away for another move.
        since = rows[rows.start_ns.where(rows.what == AWAY, rows.end_ns) >= asked_ns].sort_values("end_ns")
        first = since.drop_duplicates("what").set_index("what")
        start_ns, end_ns = first.start_ns.to_dict(), first.end_ns.to_dict()
        steps = {"Fence": RELEASE, "Own": ASSIGN} if RELEASE in end_ns else {"Unload": UNLOAD}
        spans = {
            "Release": (start_ns[MOVED], asked_ns),
            **{message: (start_ns[name], end_ns[name]) for message, name in steps.items() if name in end_ns},
            "Close": (min(start_ns[AWAY], start_ns.get(DISCONNECT, start_ns[AWAY])), start_ns[AWAY]),
            "Return": (start_ns[AWAY], end_ns[AWAY]),
            "Released": (end_ns[REQUEST], end_ns[MOVED]),
        }
        for message, ends_ns in spans.items():
            ends_ms = ((at_ns - start_ns[MOVED]) / MILLISECOND_NS for at_ns in ends_ns)
            arrows.append((str(system), message, *BETWEEN[message], *ends_ms))
    frame = frame_of(arrows, ["system", "message", "source", "target", "sent_ms", "got_ms"])
    return frame.assign(step=[KINDS[message][0] for message in frame.message])[ARROWS]


def draw(tables: FigureTables) -> Drawing:
    """Lifelines from left to right, time downwards, a panel a system."""
    arrows = tables["arrows"]
    titles = (f"{style_of('pulsar').label}: its topics one to a bundle", "ePulsar: steps (1) to (7) of the paper")
    if "Connected" not in set(arrows.message):
        titles = ("plain unload, of Apache Pulsar", "ePulsar on Apache Pulsar: unload with the next broker")
    drawing, axes = panels(1, len(SYSTEMS), titles, inches=(10.4, 6.4), share_y=True)
    last_ms = float(arrows.got_ms.max()) if len(arrows) else 1.0
    for system, panel in zip(SYSTEMS, axes, strict=True):
        part = arrows[arrows.system == system]
        for arrow in part.itertuples():
            _draw_arrow(panel, arrow, system == "pulsar")
        for x, name in enumerate(LIFELINES):
            curve(panel, [x, x], [-0.02 * last_ms, 1.02 * last_ms], LIFELINE, width=0.9)
            _boxed(panel, name, (x, -0.045 * last_ms), 7.5, "#222222", {"fc": "#f2f2f2", "ec": "#777777", "lw": 0.6})
        _draw_spans(panel, part)
        panel.set(xlim=(-0.75, len(LIFELINES) - 0.4), ylim=(1.03 * last_ms, -0.075 * last_ms))
        panel.xaxis.set_visible(False)
        panel.spines["bottom"].set_visible(False)
        panel.grid(visible=False, axis="x")
        panel.set_axisbelow(True)
    axes[0].set_ylabel("since the load manager's command (ms)")
    return drawing


def _boxed(axes: Axes, text: str, at: tuple[float, float], size: float, colour: str, box: Json) -> None:
    middle: Json = {"ha": "center", "va": "center", "zorder": 6, "bbox": {"pad": 2.5, **box}}
    axes.annotate(text, at, fontsize=size, color=colour, **middle)


def _draw_arrow(axes: Axes, arrow: Any, is_baseline: bool) -> None:
    """An arrow with its words along it, and the paper's step in a circle before its head."""
    step, text = KINDS[arrow.message]
    start, end = LIFELINES.index(arrow.source), LIFELINES.index(arrow.target)

    def along(share: float) -> tuple[float, float]:
        return start + share * (end - start), arrow.sent_ms + share * (arrow.got_ms - arrow.sent_ms)

    colour = "#222222" if step else "#888888"
    head = {"arrowstyle": "-|>", "color": colour, "lw": 0.9, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 8}
    axes.annotate("", along(1), along(0), zorder=3, arrowprops=head)
    text = OTHERWISE.get((arrow.message, is_baseline), text)
    length = abs(end - start)
    share = TEXT_AT.get((arrow.message, length), 0.45 if length < 2 else 0.30)
    x, y = along(share)
    _boxed(axes, text, (x, y - 3.5), 6.2, colour, {"fc": "#ffffff", "alpha": 0.75, "pad": 0.2, "lw": 0})
    if step:
        circle = {"boxstyle": "circle,pad=0.15", "fc": "#222222", "lw": 0}
        _boxed(axes, str(step), along(1 - BEFORE_HEAD / abs(end - start)), 6, "#ffffff", circle)


def _draw_spans(axes: Axes, part: Frame) -> None:
    """Per-topic migration time at the load manager, from (1) to (5); downtime at the client."""
    at = part.set_index("message")
    back = "Connected" if "Connected" in at.index else "Return"  # on Pulsar the client says when it is
    if not {"Release", "Released", "Close", back} <= set(at.index):
        return
    spans = (
        (at.sent_ms["Release"], at.got_ms["Released"], len(LIFELINES) - 1, 1, "per-topic\nmigration time", MIGRATION),
        (at.got_ms["Close"], at.got_ms[back], 0, -1, "client downtime", DOWNTIME),
    )
    for from_ms, to_ms, x, side, text, look in spans:
        curve(axes, [x, x], [from_ms, to_ms], look, width=4, alpha=0.45)
        near, edge = x + 0.08 * side, x + 0.16 * side
        curve(axes, [near, edge, edge, near], [from_ms, from_ms, to_ms, to_ms], look, width=1.1)
        words, middle_ms = f"{text}\n{to_ms - from_ms:.0f} ms", (from_ms + to_ms) / 2
        at = (edge + 0.08 * side, middle_ms)
        label(axes, words, at, look.colour, (0.1 * side, 0), size=TEXT, rotation=90)


NOTES = (
    "The paper's figure is a drawing; this one is drawn from a run of each system in virtual time that kept every "
    "message. Two sites 30 ms (round trip) apart, the cloud with load manager and store 40 ms (one way) from both, the "
    "client 8 ms (ours) from the new broker's site. The store takes 1 ms for a write. Its notifications to the load "
    "manager are left out. Under Pulsar (3) names no broker and (4) does not exist: the client asks the load manager "
    "first, and the new broker acquires the topic only when the client comes (7). Per-topic migration time is (1) to "
    "(5) and does not differ. With --broker pulsar: a persistent topic; each end of an arrow is told by our "
    "nodes, the brokers' log or the client's; in virtual time of a model, that logs one step."
)
TITLE, ONCE = "The migration of a topic, message by message", {"tiny": 1, "small": 1, "quick": 1, "paper": 1}
EXPERIMENT = Experiment("epulsar-fig2", TITLE, "ePulsar, Fig. 2", points, (BROKER,), repetitions=ONCE)
FIGURE = Figure(EXPERIMENT, tables, draw, notes=NOTES)
