"""Where a figure's runs were made and how its source was read, and what its results are called then.

A figure on its own testbed keeps its plain name.  Elsewhere, or at scale small, whose rates and SLO are
not the paper's, it has a name of its own, so that both stand side by side: ``srtm-fig4@mininet-small``;
and so it has on other ground, a real server's, say: ``epulsar-fig7@mininet+pulsar``.
So it has under other readings than those of the cell of record, ``srtm-fig7~envelope=literal~margin=1.1``, and with
options that a user has set: ``srtm-fig7~system.band=0.5``.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from analysis.verdicts import readings_text
from core.records import Options
from harness.experiment import GroundOption, Option, Reading

VIRTUAL = "virtual"
SMALL = "small"  # the scale that changes the physics
_UNNAMED = re.compile(r"[^\w.+-]")  # what is no part of a folder's name


@dataclass(frozen=True)
class FigureSetting:
    """The testbed of one figure in one command."""

    own: frozenset[str]  # testbeds that the figure's grid names
    testbed: str  # where its runs are made; of a grid that compares testbeds, the live one
    suffix: str  # "" or "@mininet-small", "@mininet+pulsar"
    text: str  # for titles: "" or "mininet, scale small"
    readings: Options = field(default_factory=dict)  # other than those of record
    settings: Options = field(default_factory=dict)  # of its points, other than the figure has them

    def name(self, key: str) -> str:
        """What the figure's results are called."""
        others = {**self.readings, **self.settings}
        return key + self.suffix + "".join(f"~{name}={_UNNAMED.sub('_', str(value))}" for name, value in others.items())

    @property
    def title(self) -> str:
        """What stands beside the figure's title; empty: nothing does."""
        return "; ".join(filter(None, [self.text, readings_text(self.readings), readings_text(self.settings)]))


def setting_of(own: Collection[str], asked: str, scale: str, ground: str = "") -> FigureSetting:
    """The setting of a figure whose grid names the testbeds ``own`` (none: it is analytic), as the user ``asked``.

    ``ground``: other than the figure's own (``other_ground``).
    """
    if not own:
        return FigureSetting(frozenset(), VIRTUAL, "", "")
    live = sorted(set(own) - {VIRTUAL})
    home = live[0] if live else VIRTUAL
    testbed = asked or home
    small = scale == SMALL and not live  # a live figure has the physics of its machine at every scale
    if testbed == home and not small and not ground:
        return FigureSetting(frozenset(own), testbed, "", "")
    suffix, text = f"@{testbed}", f"testbed {testbed}"
    if ground:
        suffix, text = f"{suffix}+{_UNNAMED.sub('_', ground)}", f"{text}, {ground}"
    return FigureSetting(frozenset(own), testbed, suffix + f"-{SMALL}" * small, text + f", scale {SMALL}" * small)


def moved(where: str, testbed: str) -> str:
    """The same scale and ground on another testbed: ``virtual+pulsar-small`` for ``mininet+pulsar-small``."""
    return testbed + re.sub(rf"^[^+]*?(?=\+|-{SMALL}$|$)", "", where)


def readings_among(options: Iterable[Option]) -> list[Reading]:
    """Those of a figure's options that are readings."""
    return [option for option in options if isinstance(option, Reading)]


def other_ground(options: Iterable[Option], values: Mapping[str, object]) -> str:
    """On what else than its own a figure is made, as it declares."""
    grounds = [option for option in options if isinstance(option, GroundOption) and option.of(values) != option.default]
    return ", ".join(str(ground.of(values)) for ground in grounds)


def other_readings(options: Iterable[Option], values: Mapping[str, object]) -> dict[str, object]:
    """The readings among ``values`` that a figure declares and that are not those of record, by name."""
    return {
        reading.name: reading.of(values)
        for reading in sorted(readings_among(options), key=lambda reading: reading.name)
        if reading.of(values) != reading.default
    }
