"""Claims about a figure that is there already: what its tables say, and nobody asked.

An example of claims in one file.

    ratebed run dst-table2 --claims docs/examples/more_claims.py:CLAIMS
"""

from analysis.verdicts import Claim, Evidence, Tables, above


def measure(tables: Tables) -> Evidence:
    """One computed value stands for all repetitions: chance has no part in it."""
    weights = tables["dst-table2/weights"].set_index("graph").theorem_weight
    more = float(weights["star-5"] - weights["complete-5"])
    return Evidence((above("weight on the star minus weight on the complete graph", (more, more)),))


CLAIMS = (
    Claim(
        "links-1", "docs/extending.md", "A star of five servers, which has fewer links, puts more weight on each.",
        ("dst-table2",), measure, minimum_repetitions=2,
    ),
)  # fmt: skip
