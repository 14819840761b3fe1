"""What a coordinate agent costs: real Serf agents in network namespaces, asked for their coordinate every five seconds.

Processor time and memory are the kernel's, by process; bytes are those of the host's interface, all headers included.
They count from the middle of a run: an agent's heap grows for the first half minute.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from analysis.verdicts import Claim, Evidence, Tables, below
from core.units import SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.epulsar.estimates import draw_curve, point
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import by_repetition, plain, samples
from paper_figs.style import SERIES, letter, panels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

COUNTS = (2, 8, 32)  # the paper says 2 to 128; two cores carry 32 beside the processes that measure links
ROUNDS = 90  # seconds
QUERY_S = 5  # an agent is asked for its coordinate so often (ePulsar, 5.3)
DELAY = "0ms"  # ours: to wait for an answer costs an agent nothing, but the machine that must delay it
CPU_PERCENT, MEMORY_MB = 1.0, 15.0  # published
MEBI = 1.048576  # MB, in which ps, top and docker count memory
REPETITIONS = {"tiny": 1, "small": 3, "quick": 3, "paper": 5}  # runs take the time that they measure
FEWEST = 3


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Node counts on a star."""
    grid = [(2, 6)] if scale.name == "tiny" else [(nodes, ROUNDS) for nodes in COUNTS]
    return [_star(nodes, rounds) for nodes, rounds in grid]


def _star(nodes: int, rounds: int) -> RunSpec:
    star = {"depth": 1, "fanout": nodes, "delay": DELAY}
    return msgspec.structs.replace(point("tree", star, rounds=rounds, every=min(QUERY_S, rounds)), testbed="mininet")


def tables(data: "Data") -> FigureTables:
    """``agents``: a row a run and agent; ``runs``: their means over the agents, a row a run.

    Columns: nodes, repetition, agent; cpu_percent, of a core; memory_mb, resident, and most_mb, its largest sample;
    anonymous_mb, what of it is no file's; sent_bytes and received_bytes, a second.
    """
    from pyspark.sql import functions as f

    from analysis.spark import collect

    factors = f.col("factors")
    named = data.runs.select(
        "run_id", "repetition", factors["topology.fanout"].alias("nodes"),
        (factors["study.rounds"].cast("long") * SECOND_NS).alias("length_ns"),
    )  # fmt: skip

    def late(table: str, agent: Any) -> Any:
        rows = data.table(table).withColumn("agent", agent).join(named, "run_id").where("agent != ''")
        second_half = f.col("at_ns").between(f.col("length_ns") / 2, f.col("length_ns"))
        return rows.where(second_half).groupBy("run_id", "nodes", "repetition", "agent")

    def per_second(name: str, unit: float) -> Any:
        """By how much a counter grew, a second."""
        value, at = f.col(name), f.when(f.col(name).isNotNull(), f.col("at_ns"))
        return (f.max(value) - f.min(value)) / (f.max(at) - f.min(at)) * (SECOND_NS * unit)

    processes = late("processes", f.regexp_extract("node", "^serf-(.*)$", 1)).agg(
        per_second("cpu_ns", 100 / SECOND_NS).alias("cpu_percent"),
        (f.mean("rss_bytes") / 1e6).alias("memory_mb"),
        (f.max("rss_bytes") / 1e6).alias("most_mb"),
        (f.mean("anonymous_bytes") / 1e6).alias("anonymous_mb"),
    )
    probed = f.when(f.isnull("received_packet_count"), f.col("node"))  # not the testbed's own, at the run's end
    network = late("network", probed).agg(
        *(per_second(f"interface_{name}", 1.0).alias(name) for name in ("sent_bytes", "received_bytes"))
    )
    found = processes.where("memory_mb is not null").join(network, ["run_id", "nodes", "repetition", "agent"], "left")
    keys = ["nodes", "repetition", "agent"]
    agents = plain(collect(found.drop("run_id"), keys), ["nodes"])
    agents = agents.sort_values(keys, ignore_index=True)
    runs = agents.drop(columns="agent").groupby(keys[:2], as_index=False).mean()
    return {"agents": agents, "runs": runs}


def draw(found: FigureTables) -> "Drawing":
    """Processor, memory, traffic of an agent, against the number of agents."""
    drawing, axes = panels(1, 3)
    runs, agents = found["runs"], found["agents"]
    _draw_processor(axes[0][0], runs, agents)
    _draw_memory(axes[0][1], runs, agents)
    _draw_traffic(axes[0][2], runs)
    titles = ("(a) processor", "(b) memory", "(c) traffic")
    for panel, text in zip(axes[0], titles, strict=True):
        letter(panel, text)
        counts = sorted(set(runs.nodes))
        panel.set_xscale("log", base=2)
        panel.set_xticks(counts, [str(count) for count in counts])
        panel.minorticks_off()
        panel.set_ylim(bottom=0)
        panel.set_xlabel("agents")
        if panel.get_legend_handles_labels()[0]:
            between = {"loc": "center", "bbox_to_anchor": (0.5, 0.65)} if panel is axes[0][1] else {}
            panel.legend(fontsize=6.5, **between)
    return drawing


def _dots(axes: "Axes", agents: "pd.DataFrame", column: str) -> None:
    axes.plot(agents.nodes, agents[column], ".", color=SERIES[0], alpha=0.25, markersize=3, label="an agent of a run")


def _draw_processor(axes: "Axes", runs: "pd.DataFrame", agents: "pd.DataFrame") -> None:
    _dots(axes, agents, "cpu_percent")
    draw_curve(axes, runs, "nodes", "cpu_percent", color=SERIES[0], marker="o", label="mean")
    axes.axhline(CPU_PERCENT, color="#000000", linewidth=0.9, linestyle="--", label=f"published: < {CPU_PERCENT:g} %")
    axes.set_ylabel("processor time (% of a core)")


def _draw_memory(axes: "Axes", runs: "pd.DataFrame", agents: "pd.DataFrame") -> None:
    _dots(axes, agents, "memory_mb")
    draw_curve(axes, runs, "nodes", "memory_mb", color=SERIES[0], marker="o", label="mean")
    draw_curve(axes, runs, "nodes", "most_mb", color=SERIES[5], marker="v", linestyle=":", label="at most")
    draw_curve(axes, runs, "nodes", "anonymous_mb", color=SERIES[2], marker="s", label="without the program's pages")
    for unit, name, dashes in ((1.0, "MB", "--"), (MEBI, "MiB", ":")):
        axes.axhline(MEMORY_MB * unit, color="#000000", linewidth=0.9, linestyle=dashes,
                     label=f"published: < {MEMORY_MB:g} {name}")  # fmt: skip
    axes.set_ylabel("resident memory (MB)")


def _draw_traffic(axes: "Axes", runs: "pd.DataFrame") -> None:
    for column, label, marker, colour in (
        ("sent_bytes", "sent", "o", SERIES[0]),
        ("received_bytes", "received", "s", SERIES[1]),
    ):
        draw_curve(axes, runs, "nodes", column, color=colour, marker=marker, label=label)
    axes.set_ylabel("bytes a second")


def measure_e3(tables: Tables) -> Evidence:
    """At each number of agents, the mean over them: processor time, and resident memory in millions of bytes.

    Direction: the same, with the memory in units of 2^20 bytes.
    """
    runs = tables["epulsar-overhead/runs"]
    counts = sorted(set(runs.nodes))
    if not counts:
        raise KeyError("no runs")
    cpu, memory, lenient = [], [], []
    for nodes in counts:
        cpu_percent = by_repetition(runs, "cpu_percent", nodes=nodes)
        memory_mb = by_repetition(runs, "memory_mb", nodes=nodes)
        cpu.append(below(f"processor time, {nodes} agents", samples(cpu_percent), CPU_PERCENT, "%"))
        memory.append(below(f"resident memory, {nodes} agents", samples(memory_mb), MEMORY_MB, "MB"))
        lenient.append(below(f"resident memory, {nodes} agents", samples(memory_mb / MEBI), MEMORY_MB, "MiB"))
    return Evidence((*cpu, *memory), (*cpu, *lenient))


CLAIMS = (
    Claim(
        "E3", "ePulsar, 5.3", "A coordinate agent takes less than 1 % of a processor and less than 15 MB of memory.",
        ("epulsar-overhead",), measure_e3, needs="mininet", testbed="mininet", minimum_repetitions=FEWEST,
        why="The processor time is far below. Resident memory settles at 15 MB of a million bytes each, and just above "
        "where there are several agents; in units of 2^20 bytes, as Linux's tools have them, it is below. More than "
        "half of it are pages of the program, which all agents of a machine share.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment(
    "epulsar-overhead", "What a coordinate agent costs", "ePulsar, 5.3", points, repetitions=REPETITIONS
)
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes="Real Serf agents (Debian's 0.9.4, profile lan) around a switch, without delays, each asked for its "
    "coordinate every five seconds, over the second half of 90 seconds. Intervals: 95 % over repetitions. Processor "
    "time is counted in ticks of 10 ms, memory once a second; bytes are those of the host's interface with all "
    "headers. The paper says 2 to 128 nodes; 32 are what two cores carry beside the processes that measure links.",
)  # fmt: skip
