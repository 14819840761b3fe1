"""``ratebed calibrate FILE``: measure a real broker of this machine, for ``--calibration FILE``."""

import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from core.errors import MachineError, SpecError
from core.units import SECOND_NS, duration_ns, duration_text
from core.writing import replace_file
from ratebed import options as o
from ratebed.validity import Standing, told
from testbed.trust.evidence import INVALID

File = Annotated[Path, typer.Argument(metavar="FILE.toml", help="where to write the calibration")]
Bed = Annotated[str, typer.Option("--testbed", help="where the broker runs: local or mininet")]
Span = Annotated[str, typer.Option("--span", help="length of each trial")]
Slo = Annotated[str, typer.Option("--slo", help="on the p99; empty = found from this machine")]
LEAST_SPAN_NS = 2 * SECOND_NS  # two hundred messages at the lowest rate: those of shorter trials are too few


def calibrate(
    file: File,
    testbed: Bed = "local",
    span: Span = "5s",
    slo: Slo = "",
    seed: o.Seed = o.SEED,
    as_json: o.AsJson = False,
) -> int:
    """Measure a real broker: its costs, its capacity under the SLO, the machine's timers.  Takes some minutes.

    What was measured by invalid trials is not written; the exit code is 1 then.
    """
    from testbed import load_testbed

    if file.suffix != ".toml":
        raise SpecError(f"{file}: a calibration ends in .toml", f"write {file}.toml")
    place = load_testbed(testbed)
    if not place.real_time:
        raise SpecError(f"testbed {testbed} has no real brokers", "use --testbed local, or mininet")
    try:
        span_ns, slo_ns = duration_ns(span), duration_ns(slo) if slo else 0
    except ValueError as error:
        raise SpecError(str(error), "give a length, as in 5s") from None
    if span_ns < LEAST_SPAN_NS:
        raise SpecError(f"--span {span}", f"give at least {duration_text(LEAST_SPAN_NS)}")
    if file.is_dir() or not file.parent.is_dir() or not os.access(file.parent, os.W_OK):  # before minutes of measuring
        raise MachineError(f"{file}: it cannot be written there", "choose another file, in a folder that is there")
    from studies.distribution.calibrate import measure
    from testbed.hosts.lock import machine_lock

    with machine_lock():
        calibration = measure(place, span_ns, seed, slo_ns, say=lambda text: print(text) if not as_json else None)
    standing = Standing(calibration.validity, tuple(calibration.validity_reasons))
    if as_json:
        print(json.dumps(asdict(calibration), indent=2))
    if code := told({f"{file}{', which is not written' * (standing.validity == INVALID)}": standing}):
        return code
    try:
        replace_file(file, calibration.toml(_provenance(testbed, span, seed, standing)).encode())
    except OSError as error:
        raise MachineError(f"{file}: {error.strerror}", "choose another file") from None
    if not as_json:
        print(f"written: {file} ({standing.validity}); use it with --calibration {file}")
    return 0


def _provenance(testbed: str, span: str, seed: int, standing: Standing) -> str:
    cores = o.core_count()
    machine = f"{platform.machine()}, {cores} cores, {platform.system()} {platform.release()}"
    return (
        f"Measured by ratebed calibrate --testbed {testbed} --span {span} --seed {seed} on {machine}.\n"
        "Publishers, broker and subscriber share these cores; mcap is what they do together.\n"
        f"The trials were {standing.text()}."
    )
