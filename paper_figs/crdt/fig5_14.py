"""Fig. 5.14: users over time in data set C, and ours: the memory that each user costs.

(a) Users that have sent a request so far.  (b) Memory of a node against that number, as long as new
users come (our users come once, and none in the last five minutes).  The runs are those of Fig. 5.13.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import Claim, Evidence, Tables, above, at_least
from core.units import SECOND_NS
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt.grids import COUNTER, FL, on_c
from paper_figs.crdt.runs import points_of
from paper_figs.drawing import GREY, curve, panels
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import key, legend_above
from paper_figs.series import by_repetition, samples
from paper_figs.style import Style, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

VARIANTS = (COUNTER, FL)
STEP_S = 5
CORRELATION = 0.9  # ours, set before results were seen: what "follows" means


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Those of Fig. 5.13."""
    return on_c(scale)


def tables(data: "Data") -> FigureTables:
    """``users``: user_count and memory by ``STEP_S`` seconds, a row a run; ``runs``: correlation and slope of a run."""
    from analysis import limiting, usage
    from analysis.spark import collect

    step_ns = STEP_S * SECOND_NS
    seen = limiting.users_seen_over_time(data.requests, step_ns)
    held = usage.usage_over_time(data.samples, step_ns).select("run_id", "t_ns", "state_bytes")
    rows = collect(seen.join(held, ["run_id", "t_ns"], "left"), ["run_id", "t_ns"])
    users = rows.merge(points_of(data), on="run_id")
    users = users.assign(t_s=users.t_ns / SECOND_NS)[["variant", "repetition", "t_s", "user_count", "state_bytes"]]
    return {"users": users, "runs": slopes(users)}


def slopes(users: "pd.DataFrame") -> "pd.DataFrame":
    """variant, repetition, correlation of memory with users seen, and bytes_each: the slope of the line through it."""
    import pandas as pd

    rows = []
    for (variant, repetition), part in users.groupby(["variant", "repetition"], sort=True):
        if variant not in VARIANTS:
            continue
        part = while_they_come(part).dropna(subset="state_bytes")
        slope = part.user_count.cov(part.state_bytes) / part.user_count.var()
        rows.append((variant, repetition, part.user_count.corr(part.state_bytes), slope))
    return pd.DataFrame(rows, columns=["variant", "repetition", "correlation", "bytes_each"])


def while_they_come(users: "pd.DataFrame") -> "pd.DataFrame":
    """The rows of a run up to its last new user."""
    return users[users.t_s <= users.t_s[users.user_count == users.user_count.max()].min()]


def draw(tables: FigureTables) -> "Drawing":
    """Two panels."""
    titles = ("users, a line a repetition", "memory against users, a line a repetition")
    drawing, (seen, memory) = panels(1, 2, titles)
    users = tables["users"]
    for _, part in users[users.variant == users.variant.min()].groupby("repetition"):
        curve(seen, part.t_s, part.user_count, Style("", GREY, "", "-"), width=0.8, alpha=0.6)
    seen.set(xlabel="time (s)", ylabel="users so far")
    for (variant, _), part in users[users.variant.isin(VARIANTS)].groupby(["variant", "repetition"]):
        part = while_they_come(part)
        curve(memory, part.user_count, part.state_bytes / 1e3, style_of(variant), width=0.8, alpha=0.7)
    memory.set(xlabel="users so far", ylabel="memory of a node (kB)")
    for panel in (seen, memory):
        panel.set_ylim(bottom=0)
    legend_above(drawing, [key(style_of(variant), marker=False) for variant in VARIANTS])
    return drawing


def measure_t27(tables: Tables) -> Evidence:
    """Correlation of memory with users seen; bytes that another user costs, counter minus queue."""
    runs = tables["crdt-fig5.14/runs"]
    with_users = {variant: samples(by_repetition(runs, "correlation", variant=variant)) for variant in VARIANTS}
    steeper = by_repetition(runs, "bytes_each", variant=COUNTER) - by_repetition(runs, "bytes_each", variant=FL)
    slope = above("memory for each further user, counter minus queue", samples(steeper), 0.0, "bytes")
    exact, direction = [], []
    for variant, correlation in with_users.items():
        label = f"{variant}: correlation of memory with users so far"
        exact.append(at_least(label, correlation, CORRELATION))
        direction.append(above(label, correlation, 0.0))
    return Evidence((*exact, slope), (*direction, slope))


CLAIMS = (
    Claim(
        "T27", "5.3, Fig. 5.14",
        "Data set C: memory goes up with the number of users seen so far, the counter's much more for each user than "
        "the queue's.", ("crdt-fig5.14",), measure_t27, substitute=True,
        why="Most of a counter's memory is what waits for 29 neighbours, of the users that are active: as ours come "
        "for five minutes, it levels off when as many leave as come. The local state alone grows with all users seen.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment("crdt-fig5.14", "Users over time in data set C", "CRDT thesis, Fig. 5.14", points)
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes="Our stand-in for data set C has each user come once, so that their number grows steadily. A user whose "
    "elements have died takes room until its queue is next touched: a refill happens on a request of that user and "
    "after a merge, not by the clock (4.2).",
)  # fmt: skip
