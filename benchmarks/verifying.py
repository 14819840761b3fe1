"""``python -m benchmarks.verifying [RUNS]``: what the verification of finished runs adds to a redraw.

So many runs are written, whole folders with ids of their own, from those of a tiny figure.  A campaign is asked what
is missing, which is what a redraw asks first: once where nothing has been verified yet, and once more, where all has.
The difference is what verifying adds.  The peer is ``sha256sum`` over the same files, which must give the digests that
the manifests have; it is told no sizes, looks for no file too many and decodes no manifest.
"""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.store import copies
from collectors.integrity import FILES, check_run, forget
from core.digests import DIGEST
from harness.campaign import Campaign, finished_runs
from harness.executors.local import LocalExecutor
from ratebed.options import SEED, make_request
from ratebed.pipeline import make_plan

MODELS = "srtm-fig5"
RUNS, WANTED_S = 1_000, 5.0
FILES_A_COMMAND = 2_000


def models(out: Path) -> list[Path]:
    """The folders of a tiny figure's runs, made in ``out``."""
    plan = make_plan(make_request([MODELS], False, "tiny", SEED, 1, out, ()))
    assert not plan.campaign.run(LocalExecutor(1), lambda finished: None)
    return finished_runs(out)


def asked(runs: Path, run_ids: list[str]) -> float:
    """Seconds until a campaign knows that none of these is missing; AssertionError where one is."""
    campaign = Campaign(runs, wanted=dict.fromkeys(run_ids))  # type: ignore[arg-type]  # nobody asks what they are
    began = perf_counter()
    missing = campaign.missing()
    seconds = perf_counter() - began
    assert not missing, f"{len(missing)} of {len(run_ids)} runs are not as they were written"
    return seconds


def added(runs: Path, run_ids: list[str]) -> float:
    """Seconds that verifying these runs adds, once a command."""
    forget()
    first = asked(runs, run_ids)
    return first - asked(runs, run_ids)


def digests_of(folders: list[Path]) -> dict[Path, str]:
    """What the manifests say: file -> SHA-256."""
    return {folder / name: written[DIGEST] for folder in folders for name, written in check_run(folder)[FILES].items()}


def peer(digests: dict[Path, str]) -> float:
    """Seconds that ``sha256sum`` takes for these files; AssertionError where it says something else."""
    files, lines, began = [*map(str, digests)], list[str](), perf_counter()
    for start in range(0, len(files), FILES_A_COMMAND):
        words = ["sha256sum", *files[start : start + FILES_A_COMMAND]]
        lines += subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    seconds = perf_counter() - began
    assert [line.split()[0] for line in lines] == [*digests.values()], "the digests differ"
    return seconds


def report(repeats: int, count: int = RUNS) -> None:
    """Print what verifying so many runs adds, beside the peer; medians of ``repeats``."""
    with tempfile.TemporaryDirectory() as temporary:
        runs = Path(temporary) / "out" / "runs"
        copies(models(Path(temporary) / "models"), runs, count)
        folders = finished_runs(runs.parent)
        digests = digests_of(folders)
        size = sum(path.stat().st_size for path in digests)
        ours = median(added(runs, [folder.name for folder in folders]) for _ in range(repeats))
        line = f"verifying {len(folders):,} finished runs, {size / 1e6:.1f} MB, adds {ours:.2f} s to a redraw"
        print(f"\n{line} (wanted: below {WANTED_S * count / RUNS:g}), median of {repeats}")
        if shutil.which("sha256sum") is None:
            print("no sha256sum here: no peer")
            return
        theirs = median(peer(digests) for _ in range(repeats))
        print(f"sha256sum over their {len(digests):,} files: {theirs:.2f} s, ratio {ours / theirs:.1f}; same answer")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verifying", description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=RUNS)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    report(arguments.repeats, arguments.runs)


if __name__ == "__main__":
    main()
