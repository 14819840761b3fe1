"""crowd: what limiters let through when a crowd comes, over the delay between their nodes; a figure with a claim.

The load and the links are those of ``flash_crowd.py`` and ``ring.py``, beside this file.

    ratebed run docs/examples/crowd_figure.py:FIGURE --scale tiny
"""

from pathlib import Path

from analysis.verdicts import Claim, Evidence, Tables, above
from core.records import Options
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs import drawing, keys
from paper_figs.figure import Figure, FigureTables
from paper_figs.light import Data, Drawing
from paper_figs.series import by_repetition, samples, with_point
from paper_figs.style import looks_of

CROWD = str(Path(__file__).with_name("flash_crowd.py"))
RING = str(Path(__file__).with_name("ring.py"))
SYSTEMS = ("centralised", "static-split", "crdt-counter")
LIMIT = {"capacity": 10, "rate": 2}  # of each user, over all nodes


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Systems x delays."""
    return [
        RunSpec(
            system=system, system_options=LIMIT, workload=CROWD, topology=RING, topology_options={"delay": delay},
            study="limiting", study_options={"duration": "15s"},
        )
        for system in SYSTEMS
        for delay in scale.pick(tiny=("1ms", "50ms"), quick=("1ms", "10ms", "50ms", "100ms"))
    ]  # fmt: skip


def tables(data: Data) -> FigureTables:
    """``admitted``: one row a run, the percentage of requests that were admitted."""
    share = data.requests.selectExpr("run_id", "if(decision = 'admit', 100.0, 0.0) as percent")
    frame = with_point(data, share.groupBy("run_id").avg("percent"), {"delay": "topology.delay"})
    frame["delay_ms"] = [float(text.removesuffix("ms")) for text in frame.delay]
    frame = frame.rename(columns={"avg(percent)": "percent"})
    return {"admitted": frame[["system", "delay_ms", "repetition", "percent"]].sort_values(["system", "delay_ms"])}


def draw(tables: FigureTables) -> Drawing:
    """One panel."""
    sheet, [panel] = drawing.panels(1, 1, inches=(4.2, 3.0))
    looks = looks_of(SYSTEMS)
    drawing.mean_lines(panel, tables["admitted"], "delay_ms", "percent", "system", looks)
    panel.set(xlabel="delay from node to node (ms)", ylabel="requests admitted (%)")
    panel.set_ylim(bottom=0)
    keys.legend_above(sheet, [keys.key(look) for look in looks.values()])
    return sheet


def more_than_one_bucket(tables: Tables) -> Evidence:
    """Paired by repetition: both were asked the same."""
    admitted = tables["crowd/admitted"]
    farthest = admitted[admitted.delay_ms == admitted.delay_ms.max()]
    counter, bucket = (by_repetition(farthest, "percent", system=name) for name in ("crdt-counter", "centralised"))
    return Evidence((above("counter minus one bucket", samples(counter - bucket), unit="%"),))


CLAIMS = (
    Claim(
        "crowd-1", "docs/extending.md", "A counter that gossips lets more of a crowd through than one bucket does.",
        ("crowd",), more_than_one_bucket, minimum_repetitions=2,
    ),
)  # fmt: skip
EXPERIMENT = Experiment("crowd", "What limiters let through when a crowd comes", "an example", points)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS)
