"""Fig. 5.14: users over time in data set C, and ours: the memory that each user costs.

(a) Users that have sent a request so far.  (b) Memory of a node against that number, as long as new
users come (our users come once, and none in the last five minutes).  The runs are those of Fig. 5.13.
"""

from typing import TYPE_CHECKING

from analysis.verdicts import Claim, Evidence, Tables, above, at_least
from core.units import SECOND_NS
from harness.experiment import Experiment
from paper_figs.crdt.fig5_13 import VARIANTS, points
from paper_figs.crdt.grids import COUNTER, FL
from paper_figs.crdt.runs import points_of
from paper_figs.figure import Figure, FigureTables
from paper_figs.series import by_repetition, samples
from paper_figs.style import letter, panels, style_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

STEP_S = 5
CORRELATION = 0.9  # ours, set before results were seen: what "follows" means


def tables(data: "Data") -> FigureTables:
    """``users``: user_count and memory by ``STEP_S`` seconds, a row a run; ``runs``: correlation and slope of a run."""
    from analysis import limiting, usage
    from analysis.spark import collect

    step_ns = STEP_S * SECOND_NS
    seen = limiting.users_seen_over_time(data.requests, step_ns)
    held = usage.usage_over_time(data.table("usage"), step_ns).select("run_id", "t_ns", "state_bytes")
    rows = collect(seen.join(held, ["run_id", "t_ns"], "left"), ["run_id", "t_ns"])
    found = rows.merge(points_of(data), on="run_id")
    found = found.assign(t_s=found.t_ns / SECOND_NS)[["variant", "repetition", "t_s", "user_count", "state_bytes"]]
    return {"users": found, "runs": slopes(found)}


def slopes(users: "pd.DataFrame") -> "pd.DataFrame":
    """variant, repetition, correlation of memory with users seen, and bytes_each: the slope of the line through it."""
    import pandas as pd

    rows = []
    for (variant, repetition), part in users.groupby(["variant", "repetition"], sort=True):
        if variant not in VARIANTS:
            continue
        part = while_they_come(part).dropna(subset="state_bytes")
        slope = part.user_count.cov(part.state_bytes) / part.user_count.var()
        rows.append({"variant": variant, "repetition": repetition,
                     "correlation": part.user_count.corr(part.state_bytes), "bytes_each": slope})  # fmt: skip
    return pd.DataFrame(rows, columns=["variant", "repetition", "correlation", "bytes_each"])


def while_they_come(users: "pd.DataFrame") -> "pd.DataFrame":
    """The rows of a run up to its last new user."""
    return users[users.t_s <= users.t_s[users.user_count == users.user_count.max()].min()]


def draw(found: FigureTables) -> "Drawing":
    """Two panels."""
    drawing, axes = panels(1, 2)
    users = found["users"]
    any_variant = users[users.variant == users.variant.min()]
    for _, part in any_variant.groupby("repetition"):
        axes[0][0].plot(part.t_s, part.user_count, color="#555555", linewidth=0.8, alpha=0.6)
    axes[0][0].set_xlabel("time (s)")
    axes[0][0].set_ylabel("users so far")
    axes[0][0].set_ylim(bottom=0)
    letter(axes[0][0], "(a) users, a line a repetition")
    for variant in VARIANTS:
        look = style_of(variant)
        for n, (_, part) in enumerate(users[users.variant == variant].groupby("repetition")):
            part = while_they_come(part)
            axes[0][1].plot(part.user_count, part.state_bytes / 1e3, color=look.colour, linewidth=0.8, alpha=0.7,
                            label=look.label if n == 0 else None)  # fmt: skip
    axes[0][1].set_xlabel("users so far")
    axes[0][1].set_ylabel("memory of a node (kB)")
    axes[0][1].set_ylim(bottom=0)
    axes[0][1].legend(fontsize=6.5)
    letter(axes[0][1], "(b) memory against users")
    return drawing


def measure_t27(tables: Tables) -> Evidence:
    """Correlation of memory with users seen; bytes that another user costs, counter minus queue."""
    runs = tables["crdt-fig5.14/runs"]
    with_users = {variant: samples(by_repetition(runs, "correlation", variant=variant)) for variant in VARIANTS}
    steeper = by_repetition(runs, "bytes_each", variant=COUNTER) - by_repetition(runs, "bytes_each", variant=FL)
    slope = above("memory for each further user, counter minus queue", samples(steeper), 0.0, "bytes")
    exact = [at_least(f"{variant}: correlation of memory with users so far", found, CORRELATION)
             for variant, found in with_users.items()]  # fmt: skip
    direction = [above(f"{variant}: correlation of memory with users so far", found, 0.0)
                 for variant, found in with_users.items()]  # fmt: skip
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
