"""What a coordinate agent costs: real Serf agents in network namespaces, asked for their coordinate every five seconds.

They count from the middle of a run: an agent's heap grows for the first half minute.
"""

import msgspec

from analysis.tables import collect
from analysis.verdicts import Claim, Evidence, Tables, below
from core.records import Json
from core.units import SECOND_NS
from harness.experiment import LIVE_REPETITIONS, Experiment, RunSpec, Scale
from paper_figs.drawing import log_axis, marks, panels, rule
from paper_figs.epulsar.estimates import draw_columns
from paper_figs.epulsar.published import AGENT_CPU_PERCENT, AGENT_MEMORY_MB, QUERY_S
from paper_figs.epulsar.runs import idle
from paper_figs.figure import Figure, FigureTables, Options
from paper_figs.keys import key, key_above, rule_key
from paper_figs.light import Column, Data, Drawing, SparkFrame
from paper_figs.series import at_each, plain, where
from paper_figs.style import series

COUNTS = (2, 8, 32)  # the paper says 2 to 128; two cores carry 32 beside the processes that measure links
ROUNDS = 90  # seconds
DELAY = "0ms"  # ours: to wait for an answer costs an agent nothing, but the machine that must delay it
MEBI = 1.048576  # MB, in which ps, top and docker count memory
FEWEST = 3
AGENT = series("an agent of a run", 0, "o")
CPU = {"cpu_percent": series("mean", 0, "o")}
MEMORY = {
    "memory_mb": series("mean", 0, "o"),
    "most_mb": series("at most", 5, "v", ":"),
    "anonymous_mb": series("without the program's pages", 2, "s"),
}
TRAFFIC = {"sent_bytes": series("sent", 0, "o"), "received_bytes": series("received", 1, "s")}
DRAWN = {  # a panel's label -> the column of the agents' own marks, and the means'
    "processor time (% of a core)": ("cpu_percent", CPU),
    "resident memory (MB)": ("memory_mb", MEMORY),
    "bytes a second": ("", TRAFFIC),
}


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Node counts on a star."""
    grid = [(2, 6)] if scale.name == "tiny" else [(nodes, ROUNDS) for nodes in COUNTS]
    star, every = {"depth": 1, "delay": DELAY}, {"every": QUERY_S}
    cases = [({**star, "fanout": nodes}, {**every, "rounds": rounds}) for nodes, rounds in grid]
    return [msgspec.structs.replace(idle("coordinates", "tree", *case), testbed="mininet") for case in cases]


def tables(data: Data) -> FigureTables:
    """``agents``: a row a run and agent; ``runs``: their means over the agents, a row a run.

    Columns: nodes, repetition, agent; cpu_percent, of a core; memory_mb, resident, and most_mb, its largest sample;
    anonymous_mb, what of it is no file's; sent_bytes and received_bytes, a second.
    """
    from pyspark.sql import functions as f

    factors = f.col("factors")
    length_ns = (factors["study.rounds"].cast("long") * SECOND_NS).alias("length_ns")
    named = data.runs.select("run_id", "repetition", factors["topology.fanout"].alias("nodes"), length_ns)

    pairs = data.table("coordinates")
    agents_of = pairs.selectExpr("run_id", "a as agent").union(pairs.selectExpr("run_id", "b as agent")).distinct()

    def late(table: str, node: Column, *measures: Column) -> SparkFrame:
        """Of each agent, whose rows in the table are those of ``node``."""
        own = agents_of.withColumn("node", node)
        rows = data.table(table).join(own, ["run_id", "node"]).join(named, "run_id")
        second_half = f.col("at_ns").between(f.col("length_ns") / 2, f.col("length_ns"))
        return rows.where(second_half).groupBy("run_id", "nodes", "repetition", "agent").agg(*measures)

    def per_second(name: str, unit: float) -> Column:
        """By how much a counter grew, a second."""
        value, at = f.col(name), f.when(f.col(name).isNotNull(), f.col("at_ns"))
        return (f.max(value) - f.min(value)) / (f.max(at) - f.min(at)) * (SECOND_NS * unit)

    processes = late(
        "processes",
        f.concat(f.lit("serf-"), "agent"),
        per_second("cpu_ns", 100 / SECOND_NS).alias("cpu_percent"),
        (f.mean("rss_bytes") / 1e6).alias("memory_mb"),
        (f.max("rss_bytes") / 1e6).alias("most_mb"),
        (f.mean("anonymous_bytes") / 1e6).alias("anonymous_mb"),
    )
    traffic = [per_second(f"interface_{name}", 1.0).alias(name) for name in TRAFFIC]
    network = late("network", f.col("agent"), *traffic)
    wide = processes.where("memory_mb is not null").join(network, ["run_id", "nodes", "repetition", "agent"], "left")
    keys = ["nodes", "repetition", "agent"]
    agents = plain(collect(wide.drop("run_id"), keys), ["nodes"]).sort_values(keys, ignore_index=True)
    return {"agents": agents, "runs": agents.drop(columns="agent").groupby(keys[:2], as_index=False).mean()}


def draw(tables: FigureTables) -> Drawing:
    """Processor, memory, traffic of an agent, against the number of agents."""
    drawing, axes = panels(1, 3, ("processor", "memory", "traffic"), inches=(10.5, 3.3))
    runs, agents = tables["runs"], tables["agents"]
    for n, (text, (column, looks)) in enumerate(DRAWN.items()):
        log_axis(axes[n], "x", at=sorted(set(runs.nodes)))
        if column:
            marks(axes[n], agents.nodes, agents[column], AGENT, size=2, alpha=0.25)
        draw_columns(axes[n], runs, "nodes", looks)
        axes[n].set(xlabel="agents", ylabel=text)
    rule(axes[0], AGENT_CPU_PERCENT, text=f"published: < {AGENT_CPU_PERCENT} %")
    for unit in (1.0, MEBI):
        rule(axes[1], AGENT_MEMORY_MB * unit)
    for panel in axes:
        panel.set_ylim(bottom=0)
    key_above(axes[0], [key(AGENT, line=False), *map(key, CPU.values())])
    published = rule_key(f"published: < {AGENT_MEMORY_MB} MB, or MiB")
    key_above(axes[1], [*map(key, MEMORY.values()), published])
    key_above(axes[2], [*map(key, TRAFFIC.values())])
    return drawing


def measure_e3(tables: Tables) -> Evidence:
    """At each number of agents, the mean over them: processor time, and resident memory in millions of bytes.

    Direction: the same, with the memory in units of 2^20 bytes.
    """
    runs = where(tables["epulsar-overhead/runs"])
    in_mib = runs.assign(memory_mb=runs.memory_mb / MEBI)
    cpu = at_each(below, "processor time, {} agents", runs, "cpu_percent", "nodes", AGENT_CPU_PERCENT, "%")
    label, of_memory = "resident memory, {} agents", ("memory_mb", "nodes", AGENT_MEMORY_MB)
    memory, lenient = at_each(below, label, runs, *of_memory, "MB"), at_each(below, label, in_mib, *of_memory, "MiB")
    return Evidence((*cpu, *memory), (*cpu, *lenient))


E3 = "A coordinate agent takes less than 1 % of a processor and less than 15 MB of memory."
WHY_E3 = (
    "The processor time is far below. Resident memory settles at 15 MB of a million bytes each, and just above where "
    "there are several agents; in units of 2^20 bytes, as Linux's tools have them, it is below. More than half of it "
    "are pages of the program, which all agents of a machine share."
)
LIVE: Json = {"needs": "mininet", "testbed": "mininet", "minimum_repetitions": FEWEST}
CLAIMS = (Claim("E3", "ePulsar, 5.3", E3, ("epulsar-overhead",), measure_e3, **LIVE, why=WHY_E3),)
NOTES = (
    "Real Serf agents (Debian's 0.9.4, profile lan) around a switch, without delays, each asked for its coordinate "
    "every five seconds, over the second half of 90 seconds. Error bars: 95 % intervals over repetitions. Processor"
    " time is counted in ticks of 10 ms, memory once a second; bytes are those of the host's interface with all "
    "headers. The paper says 2 to 128 nodes; 32 are what two cores carry beside the processes that measure links."
)
TITLE = "What a coordinate agent costs"
EXPERIMENT = Experiment("epulsar-overhead", TITLE, "ePulsar, 5.3", points, repetitions=LIVE_REPETITIONS)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
