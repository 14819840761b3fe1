"""What a testbed says about a run besides its results: whether it can be trusted, its paths, its logs.

In virtual time there is nothing to say: ``NOTHING``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.hosts.site import PathMeasure

LEAST_VALID_LAST = VALID, DEGRADED, INVALID = "valid", "degraded", "invalid"


@dataclass(frozen=True)
class Fidelity:
    """How far a run did what it was asked to do.  Made by ``testbed.trust.fidelity.judge``."""

    validity: str = VALID  # valid | degraded | invalid: those are not plotted unless asked for
    reasons: tuple[str, ...] = ()  # why it is not valid, a sentence each
    numbers: Mapping[str, float] = field(default_factory=dict)  # everything that was judged, unit in the name


EXACT = Fidelity()


@dataclass(frozen=True)
class RunEvidence:
    """What comes home with a run's tables; ``harness.run`` puts it into the run folder."""

    fidelity: Fidelity = EXACT  # virtual time keeps its schedule exactly
    paths: "Sequence[PathMeasure]" = ()  # the table ``paths``
    samples: Sequence[tuple[int, str, str, float]] = ()  # further rows of ``samples``: at_ns, node, metric, value
    logs: Mapping[str, bytes] = field(default_factory=dict)  # what the processes printed: collectors.writer.read_logs
    epoch_ns: int | None = None  # CLOCK_REALTIME of the run's time 0
    notes: Sequence[str] = ()  # what of the topology the testbed does not give, a sentence each
    versions: Mapping[str, str] = field(default_factory=dict)  # of the programs of others that were run

    def path_columns(self) -> dict[str, list[object]]:
        """Columns of the table ``paths``, without ``run_id``."""
        from collectors.schema import TABLES  # heavy

        names = TABLES["paths"].names[1:]
        return {name: [getattr(path, name) for path in self.paths] for name in names}


NOTHING = RunEvidence()
