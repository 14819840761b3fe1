"""Fig. 2: the migration of one topic as a sequence diagram, of recorded runs: ePulsar's, and beside it Pulsar's.

Arrows go from the instant at which a message is sent to that at which it arrives.  Numbers are the paper's steps; the
baseline has neither step 3's address nor step 4, and two round trips to the cloud in their place.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.epulsar.runs import placed
from paper_figs.figure import Figure, FigureTables
from paper_figs.style import SERIES, letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

SYSTEMS = ("pulsar", "epulsar")
CLIENT, TOPIC = "producer-1-1", "topic-1"
LIFELINES = ("client", "old broker", "new broker", "store", "load manager")
WAN = "40ms"  # one way: that of Fig. 7b
MIGRATION, DOWNTIME = SERIES[5], SERIES[0]
TEXT_AT = {"Released": 0.82}  # shares of long arrows: beside "acquire topic" there is no room
BEFORE_HEAD = 0.15  # of a step's circle, in distances between lifelines


class Kind(NamedTuple):
    """A message: the paper's step (0: it has none), and what is written at its arrow."""

    step: int
    text: str


KINDS = {
    "Release": Kind(1, "release topic"),
    "Delete": Kind(2, "give up ownership"),
    "Close": Kind(3, "close"),
    "Acquire": Kind(4, "acquire topic"),
    "Released": Kind(5, "release complete"),
    "Create": Kind(6, "acquire ownership"),
    "Connect": Kind(7, "connect"),
    "Done": Kind(0, "done"),
    "Lookup": Kind(0, "look up"),
    "Found": Kind(0, "new broker"),
    "Connected": Kind(0, "connected"),
}


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """One topic with one client (5.7), moved once, every message kept."""
    load = {"topics": 1, "producers": 1, "consumers": 0, "sites": 2, "rate_rps": 10.0}
    bundles = {"pulsar": {"bundles": 0}}  # one topic each, as ePulsar has them
    return [
        placed(
            system,
            ("static-topics", load),
            ("city-mec", {"sites": 2, "cloud_delay": WAN}),
            {"duration": "8s", "record": True},
            periodic="6s",
            bound="10s",
            first="hash",
            **bundles.get(system, {}),
        )
        for system in SYSTEMS
    ]


def tables(data: "Data") -> FigureTables:
    """``arrows``, a row a message: system, message, step, source, target (lifelines), sent_ms, got_ms.

    Times count from the release command.  ``spans``: system, downtime_ms and migration_ms as the nodes sampled them.
    """
    from pyspark.sql import functions as f

    from analysis.spark import collect

    systems = data.runs.where(f.col("repetition") == 0).select("run_id", "system")
    found = collect(_messages(data).join(systems, "run_id"), ["system", "sent_at_ns", "got_at_ns", "source"])
    mine = data.samples.where(f.col("metric").isin("client_downtime_ns", "migration_ns")).join(systems, "run_id")
    spans = mine.groupBy("system").pivot("metric", ["client_downtime_ns", "migration_ns"]).agg(f.first("value"))
    spans = spans.selectExpr("system", "client_downtime_ns / 1e6 downtime_ms", "migration_ns / 1e6 migration_ms")
    return {"arrows": _arrows(found), "spans": collect(spans, ["system"])}


def _messages(data: "Data") -> Any:
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


def _arrows(found: "pd.DataFrame") -> "pd.DataFrame":
    """The messages of the first migration, from its release to the client's connection."""
    import pandas as pd

    columns = ["system", "message", "step", "source", "target", "sent_ms", "got_ms"]
    parts = []
    for system, part in found.rename(columns={"kind": "message"}).groupby("system"):
        release = part[part.message == "Release"].iloc[0]
        roles = {CLIENT: "client", release.target: "old broker", release.broker: "new broker",
                 "store": "store", release.source: "load manager"}  # fmt: skip
        since = part[(part.sent_at_ns >= release.sent_at_ns) & part.message.isin(KINDS)]
        end_ns = since[since.message == "Connected"].got_at_ns.min()
        shown = since[since.sent_at_ns <= end_ns]
        parts.append(
            pd.DataFrame(
                {
                    "system": system,
                    "message": shown.message,
                    "step": [KINDS[message].step for message in shown.message],
                    "source": shown.source.map(roles),
                    "target": shown.target.map(roles),
                    "sent_ms": (shown.sent_at_ns - release.sent_at_ns) / 1e6,
                    "got_ms": (shown.got_at_ns - release.sent_at_ns) / 1e6,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


# --- drawing -------------------------------------------------------------------------------------


def draw(found: FigureTables) -> "Drawing":
    """Lifelines from left to right, time downwards, a panel a system."""
    arrows = found["arrows"]
    drawing, axes = panels(1, len(SYSTEMS), sharey=True)
    drawing.set_size_inches(10.4, 6.4)
    last_ms = float(arrows.got_ms.max()) if len(arrows) else 1.0
    for number, (system, panel) in enumerate(zip(SYSTEMS, axes[0], strict=True)):
        part = arrows[arrows.system == system]
        for _, arrow in part.iterrows():
            _draw_arrow(panel, arrow, number == 0)
        _draw_lifelines(panel, last_ms)
        _draw_spans(panel, part)
        title = "its topics one to a bundle" if system == "pulsar" else "steps (1) to (7) of the paper"
        letter(panel, f"({'ab'[number]}) {style_of(system).label}: {title}")
        panel.set_xlim(-0.75, len(LIFELINES) - 0.4)
        panel.set_ylim(1.03 * last_ms, -0.075 * last_ms)
        panel.xaxis.set_visible(False)
        panel.spines["bottom"].set_visible(False)
        panel.grid(visible=False)
        panel.grid(visible=True, axis="y", linewidth=0.4, color="#eeeeee")
        panel.set_axisbelow(True)
    axes[0][0].set_ylabel("since the load manager's command (ms)")
    return drawing


def _draw_lifelines(axes: "Axes", last_ms: float) -> None:
    for x, name in enumerate(LIFELINES):
        axes.plot([x, x], [-0.02 * last_ms, 1.02 * last_ms], color="#777777", linewidth=0.9, zorder=1)
        axes.annotate(name, (x, -0.045 * last_ms), ha="center", va="center", fontsize=7.5,
                      bbox={"facecolor": "#f2f2f2", "edgecolor": "#777777", "linewidth": 0.6, "pad": 2.5})  # fmt: skip


def _draw_arrow(axes: "Axes", arrow: "pd.Series", is_baseline: bool) -> None:
    """An arrow with its words along it, and the paper's step in a circle before its head."""
    kind = KINDS[arrow.message]
    start, end = LIFELINES.index(arrow.source), LIFELINES.index(arrow.target)

    def along(share: float) -> tuple[float, float]:
        return start + share * (end - start), arrow.sent_ms + share * (arrow.got_ms - arrow.sent_ms)

    colour = "#222222" if kind.step else "#888888"
    axes.annotate("", along(1), along(0), zorder=3,
                  arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0,
                              "mutation_scale": 8})  # fmt: skip
    text = "close: go to new" if arrow.message == "Close" and not is_baseline else kind.text
    share = 0.45 if abs(end - start) < 2 else TEXT_AT.get(arrow.message, 0.30)
    paper = {"facecolor": "#ffffff", "alpha": 0.75, "pad": 0.2, "linewidth": 0}
    axes.annotate(text, along(share), xytext=(0, 2.5), textcoords="offset points", ha="center", va="bottom",
                  fontsize=6.2, color=colour, zorder=4, bbox=paper)  # fmt: skip
    if kind.step:
        circle = {"boxstyle": "circle,pad=0.15", "facecolor": "#222222", "linewidth": 0}
        axes.annotate(str(kind.step), along(1 - BEFORE_HEAD / abs(end - start)), ha="center", va="center", fontsize=6,
                      color="#ffffff", zorder=6, bbox=circle)  # fmt: skip


def _draw_spans(axes: "Axes", part: "pd.DataFrame") -> None:
    """Per-topic migration time at the load manager, from (1) to (5); downtime at the client."""
    at = part.set_index("message")
    if not {"Release", "Released", "Close", "Connected"} <= set(at.index):
        return
    migration = at.sent_ms["Release"], at.got_ms["Released"]
    downtime = at.got_ms["Close"], at.got_ms["Connected"]
    last = len(LIFELINES) - 1
    for (from_ms, to_ms), x, side, colour, text in (
        (migration, last, 1, MIGRATION, "per-topic\nmigration time"),
        (downtime, 0, -1, DOWNTIME, "client downtime"),
    ):
        axes.plot([x, x], [from_ms, to_ms], color=colour, linewidth=4, alpha=0.45, solid_capstyle="butt", zorder=2)
        edge = x + 0.16 * side
        axes.plot([x + 0.08 * side, edge, edge, x + 0.08 * side], [from_ms, from_ms, to_ms, to_ms], color=colour,
                  linewidth=1.1)  # fmt: skip
        axes.annotate(f"{text}\n{to_ms - from_ms:.0f} ms", (edge + 0.08 * side, (from_ms + to_ms) / 2), rotation=90,
                      ha="left" if side > 0 else "right", va="center", multialignment="center", fontsize=7,
                      color=colour)  # fmt: skip


EXPERIMENT = Experiment(
    "epulsar-fig2", "The migration of a topic, message by message", "ePulsar, Fig. 2", points,
    repetitions={"tiny": 1, "quick": 1, "paper": 1},
)  # fmt: skip
FIGURE = Figure(
    EXPERIMENT, tables, draw,
    notes="The paper's figure is a drawing; this one is drawn from a run of each system in virtual time that kept "
    "every message. Two sites 30 ms (round trip) apart, the cloud with load manager and store 40 ms (one way) from "
    "both, the client 8 ms (ours) from the new broker's site. The store takes 1 ms for a write. Its notifications to "
    "the load manager are left out. Under Pulsar (3) names no broker and (4) does not exist: the client asks the load "
    "manager first, and the new broker acquires the topic only when the client comes (7). Per-topic migration time "
    "is (1) to (5) and does not differ.",
)  # fmt: skip
