"""How far the limit can be exceeded, against the number of nodes (section 3.1.1 says so, and measures it nowhere).

Data set B, substantial load.  Ours: the sweep.  The queue's window is a node's share of the bucket, c / n.
"""

from analysis.verdicts import Claim, Evidence, Tables
from core.records import Options
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt.grids import at, limited
from paper_figs.crdt.readings import OF_RUNS
from paper_figs.crdt.runs import EXTENSIONS_NOTE, per_run
from paper_figs.crdt.usage import with_seconds
from paper_figs.crdt.variants import COUNTER, FL, ORACLE
from paper_figs.drawing import mean_lines, panels, rule
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import key, legend_above
from paper_figs.light import Data, Drawing
from paper_figs.series import steps, where
from paper_figs.style import looks_of

DATA_SET = "B-substantial"
VARIANTS = (COUNTER, FL)


def points(scale: Scale, options: Options) -> list[RunSpec]:
    """Numbers of nodes x variants."""
    counts = scale.pick(tiny=[3, 10], quick=[3, 10, 30], paper=[2, 5, 10, 20, 30, 60])
    specs = [limited(variant, DATA_SET, options, nodes=nodes) for nodes in counts for variant in VARIANTS]
    return at(scale, [limited(ORACLE, DATA_SET, options), *specs])


def tables(data: Data) -> FigureTables:
    """``runs``: one row a run but the oracle's."""
    runs = with_seconds(per_run(data))
    return {"runs": runs[runs.variant != ORACLE].sort_values(["variant", "nodes", "repetition"], ignore_index=True)}


def draw(tables: FigureTables) -> Drawing:
    """Excess, the thesis' percentage, bytes."""
    drawing, axes = panels(1, 3, ("worst excess", "rejections", "bytes"), inches=(9.0, 2.7))
    runs = tables["runs"]
    values = (100 * runs.excess_share, 100 * runs.rejected_ratio.astype(float), runs.sent_bytes.astype(float) / 1e3)
    labels = ("above the envelope (% of c)", "of centralised rejections (%)", "sent by a node (kB)")
    for panel, value, label in zip(axes, values, labels, strict=True):
        mean_lines(panel, runs.assign(value=value), "nodes", "value", "variant", looks_of(VARIANTS), apart_points=2)
        panel.set_xticks(sorted(set(runs.nodes)))
        panel.set(xlabel="nodes", ylabel=label)
    rule(axes[1], 100, reference=True)
    axes[0].set_ylim(bottom=0)
    axes[2].set_ylim(bottom=0)
    legend_above(drawing, [key(look) for look in looks_of(VARIANTS).values()])
    return drawing


def measure_t25(tables: Tables) -> Evidence:
    """The counter's worst excess over the envelope, between neighbouring numbers of nodes."""
    runs = where(tables["crdt-nodes/runs"], variant=COUNTER)
    checks = steps(runs, "excess_tokens", "nodes", unit="tokens")
    if not checks:
        raise KeyError("two numbers of nodes")
    return Evidence(tuple(checks))


CLAIMS = (
    Claim(
        "T25", "3.1.1", "The more nodes serve a user, the further the user can exceed the limit.", ("crdt-nodes",),
        measure_t25,
    ),
)  # fmt: skip
NOTES = (
    f"{EXTENSIONS_NOTE} The claim is about any user above the limit, so B's stand-in for "
    "one serves as well as the recording. Error bars: 95 % intervals over repetitions."
)
EXPERIMENT = Experiment("crdt-nodes", "Excess against the number of nodes", "ours; CRDT 3.1.1", points, OF_RUNS)
FIGURE = Figure(EXPERIMENT, tables, draw, CLAIMS, NOTES)
