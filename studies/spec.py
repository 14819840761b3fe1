"""``RunSpec``: everything that decides a run's result, and nothing else.

Two figures that ask for the same point share its run.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from core.digests import digest_of, run_id_of
from core.files import files_of, is_file
from core.reading import reading
from core.records import Json

SLO = "1ms"  # 99th percentile of end-to-end latency (SRTM VI, footnote 10)
CALIBRATED = "calibrated"  # as the SLO of a spec: the one that the calibration gives
ROUND = "60s"  # SRTM VI-E

AXES = ("system", "workload", "topology", "testbed", "calibration", "study", "slo", "round")  # what a grid may vary
CONFIGURED = ("system", "workload", "topology", "testbed", "study")  # those with options of their own: system_options


class RunSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One point of a grid, with one seed.  Spans are written as text, ``"60s"``."""

    system: str
    workload: str
    system_options: Json = {}
    workload_options: Json = {}
    topology: str = "srtm-lan"
    topology_options: Json = {}
    testbed: str = "virtual"
    testbed_options: Json = {}  # where its hosts are; files among them are in ``inputs`` as well
    calibration: str = "srtm-paper"
    study: str = "distribution"  # what is asked of the testbed: see studies/
    study_options: Json = {}
    slo: str = SLO
    round: str = ROUND
    seed: int = 1
    repetition: int = 0
    keep: tuple[str, ...] = ()  # optional tables to keep: "messages"
    inputs: tuple[str, ...] = ()  # files read by the run, hashed into its id

    def to_json(self) -> bytes:
        """Canonical bytes: sorted keys.  SpecError for text that is no UTF-8, which no manifest could hold."""
        with reading(f"the options of {self.system!r} on {self.workload!r}", "write them in UTF-8, and flat"):
            return msgspec.json.encode(self, order="sorted")

    def run_id(self, code_hash: str) -> str:
        """See ``core.digests.run_id_of``; SpecError for an input file that cannot be read."""
        return run_id_of(self, self.input_digests(), code_hash)

    def input_digests(self) -> dict[str, str]:
        """Input file -> SHA-256 of what is in it; SpecError for one that cannot be read.

        To the inputs belong the files outside the tree that the spec names, ``path.py:WORKLOAD``, and what they use:
        files beside them that their text names, and files that are given as their options.
        """
        digests = {}
        for name in dict.fromkeys([*self.inputs, *self._outside()]):
            with reading(name, "give a readable file"):
                digests[name] = digest_of(Path(name).read_bytes())
        return digests

    def _outside(self) -> Iterator[str]:
        for axis in ("system", "workload", "topology", "study"):
            if is_file(name := getattr(self, axis)):
                yield from map(str, files_of(name))
                texts = (value for value in getattr(self, f"{axis}_options").values() if isinstance(value, str))
                yield from (text for text in texts if len(text) < 256 and text.isprintable() and Path(text).is_file())

    def factors(self) -> dict[str, str]:
        """Every option as text, prefixed with its axis: ``workload.publishers`` -> ``4000``."""
        return {
            f"{axis}.{name}": value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for axis in CONFIGURED
            for name, value in sorted(getattr(self, f"{axis}_options").items())
        }
