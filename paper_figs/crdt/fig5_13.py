"""Fig. 5.13: memory and bandwidth of counter and queue for 5,000 users within one hour (data set C).

(a), (b) Means over nodes and repetitions, the counter's peak as 100 %.  (c) Areas under the curves over the
counter's, with the thesis' numbers.  (d) Ours: errors of both kinds against the centralised limiter.

At the quick scale a smaller C stands in: 120 users and 12,000 requests in eight minutes, which
leaves each user's traffic as it is; the figure says which.  The queue has both extensions (A17).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analysis.verdicts import RATIO_TOLERANCE, Check, Claim, Evidence, Tables, below, within
from harness.experiment import Experiment, RunSpec, Scale
from paper_figs.crdt.grids import C_USERS, COUNTER, FL, ORACLE, on_c
from paper_figs.crdt.published import AREAS
from paper_figs.crdt.runs import PRECISION_NOTE, curves
from paper_figs.crdt.usage import BANDWIDTH, MEMORY, USAGE_NOTE, draw_ratios, draw_usage, ratio, ratios, usage_of
from paper_figs.drawing import categories, mean_bars, panels
from paper_figs.figure import Figure, FigureTables
from paper_figs.keys import key, legend_above
from paper_figs.series import samples
from paper_figs.style import looks_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from analysis.spark import Data

VARIANTS = (COUNTER, FL)
LOOKS = looks_of(VARIANTS)
ERRORS = {"false_admit_share": "admitted wrongly", "false_reject_share": "rejected wrongly"}
ERROR_NAMES = list(ERRORS.values())
ABOUT_EQUAL = (0.5, 2.0)  # the direction of "equal"


def points(scale: Scale, options: Mapping[str, Any]) -> list[RunSpec]:
    """Centralised limiter, counter and queue with both extensions."""
    return on_c(scale)


def tables(data: "Data") -> FigureTables:
    """``runs``: one row a run, with users and duration; ``curves`` by second; ``ratios``: areas over the counter's."""
    runs, rows = usage_of(data, more={"users": "workload.users"})
    runs["users"] = runs["users"].fillna(C_USERS).astype(int)
    limiters = runs[runs.variant != ORACLE]
    over_time = curves(rows, limiters, "state_bytes", "sent_bytes", zero_after_end=True)
    return {"runs": runs, "curves": over_time, "ratios": ratios(limiters)}


def draw(tables: FigureTables) -> "Drawing":
    """Four panels."""
    runs = tables["runs"]
    size = f"{runs.users.max():,} users, {runs.offered_count.max():,} requests"
    titles = (f"memory of a node: {size}", "bandwidth of a node", "areas under the curves", "errors of both kinds")
    drawing, (memory, bandwidth, areas, errors) = panels(2, 2, titles, inches=(7.6, 5.2))
    draw_usage(memory, tables["curves"], "state_bytes", VARIANTS, runs.load_end_s.max())
    draw_usage(bandwidth, tables["curves"], "sent_bytes", VARIANTS, runs.load_end_s.max())
    draw_ratios(areas, tables["ratios"], [FL], AREAS["C"])
    shares = runs.rename(columns=ERRORS).melt(["variant", "repetition"], list(ERRORS.values()), "error", "share")
    mean_bars(errors, shares.assign(share=100 * shares["share"]), "error", "share", "variant", LOOKS, ERROR_NAMES)
    errors.set_ylabel("of all requests (%)")
    categories(errors, ERROR_NAMES)
    legend_above(drawing, [key(look) for look in LOOKS.values()])
    return drawing


def measure_t18(tables: Tables) -> Evidence:
    """Areas of the queue over the counter's."""
    runs = tables["crdt-fig5.13/runs"]
    memory, bandwidth = samples(ratio(runs, MEMORY, FL)), samples(ratio(runs, BANDWIDTH, FL))
    printed = AREAS["C"][FL]
    exact = (
        within("memory of the queue over the counter's", memory, printed[MEMORY].value, RATIO_TOLERANCE),
        within("bandwidth of the queue over the counter's", bandwidth, printed[BANDWIDTH].value, RATIO_TOLERANCE),
    )
    low, high = ABOUT_EQUAL
    equal = Check("bandwidth of the queue over the counter's, equal within a factor of 2", tuple(bandwidth), low, high)
    return Evidence(exact, (below("memory of the queue over the counter's", memory, 1.0), equal))


CLAIMS = (
    Claim(
        "T18", "5.3, Fig. 5.13, chapter 7",
        "Data set C: the queue takes 13.6 % of the counter's memory, and about the same bandwidth (0.0025 % more).",
        ("crdt-fig5.13",), measure_t18, substitute=True,
        why="Memory is far below the counter's, but less so the longer it takes (0.2 in a quarter of an hour, 0.42 in "
        "the hour): a user's last elements stay until its queue is touched again, and our users come once. A queue "
        "sends 16 bytes a request, a counter its whole bucket, however little of it is new: the ratio is that of a "
        "user's requests to the rounds in which it is active (for data set B the thesis prints 8.83 down to 0.23). How "
        "many requests the 5,000 users sent is secret, ours send 100 each; nor is Erlang's encoding of either known.",
    ),
)  # fmt: skip
EXPERIMENT = Experiment(
    "crdt-fig5.13", "Memory and bandwidth with thousands of users", "CRDT thesis, Fig. 5.13", points
)
FIGURE = Figure(
    EXPERIMENT, tables, draw, CLAIMS,
    notes="Data set C is a stand-in (heavy-tailed users, sessions of five minutes), at the quick scale a smaller one "
    f"with the same traffic for each user; panel (a) says its size. {USAGE_NOTE} {PRECISION_NOTE}",
)  # fmt: skip
