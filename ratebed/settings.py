"""Where a figure's runs were made, and what its results are called then.

A figure on its own testbed keeps its plain name.  Elsewhere, or at scale small, whose rates and SLO are
not the paper's, it has a name of its own, so that both stand side by side: ``srtm-fig4@mininet-small``.
"""

from collections.abc import Collection
from dataclasses import dataclass

VIRTUAL = "virtual"
SMALL = "small"  # the scale that changes the physics


@dataclass(frozen=True)
class FigureSetting:
    """The testbed of one figure in one command."""

    own: frozenset[str]  # testbeds that the figure's grid names
    testbed: str  # where its runs are made; of a grid that compares testbeds, the live one
    suffix: str  # "" or "@mininet-small"
    text: str  # for titles: "" or "mininet, scale small"

    def name(self, key: str) -> str:
        """What the figure's results are called."""
        return key + self.suffix


def setting_of(own: Collection[str], asked: str, scale: str) -> FigureSetting:
    """The setting of a figure whose grid names the testbeds ``own`` (none: it is analytic), as the user ``asked``."""
    if not own:
        return FigureSetting(frozenset(), VIRTUAL, "", "")
    live = sorted(set(own) - {VIRTUAL})
    home = live[0] if live else VIRTUAL
    testbed = asked or home
    small = scale == SMALL and not live  # a live figure has the physics of its machine at every scale
    if testbed == home and not small:
        return FigureSetting(frozenset(own), testbed, "", "")
    suffix, text = f"@{testbed}", f"testbed {testbed}"
    return FigureSetting(frozenset(own), testbed, suffix + f"-{SMALL}" * small, text + f", scale {SMALL}" * small)
