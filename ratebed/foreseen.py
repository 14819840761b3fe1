"""What a plan will take: runs, time, memory and disk."""

from typing import NamedTuple

from harness.campaign import finished_runs
from harness.estimate import KILOBYTES_PER_RUN, MEGABYTES_PER_WORKER, campaign_seconds, paces
from ratebed.options import RunRequest
from ratebed.pipeline import CampaignPlan

# Of one core, measured at scale quick as ``harness.paces`` were; they are used while runs go on, too.
SECONDS_OF_SPARK = 8.0  # to start it, and to load what its first queries need
SECONDS_PER_FIGURE = 3.4  # its queries, and its drawing
SECONDS_PER_WORKER = 4.0  # to start one


class ForeseenFigure(NamedTuple):
    """Of one figure alone; runs that it shares with others count here, too."""

    figure: str
    runs: int
    to_do: int
    seconds: float  # of the clock
    skipped: str  # why it has no runs
    lacking: list[str]  # what this machine lacks for some


class ForeseenTotal(NamedTuple):
    """Of all."""

    runs: int
    to_do: int
    seconds: float  # of the clock, for the runs
    drawing_seconds: float  # of the clock, for the figures
    memory_megabytes: int
    disk_megabytes: float


class Foreseen(NamedTuple):
    """What a plan will take."""

    figures: list[ForeseenFigure]
    total: ForeseenTotal


def foreseen(plan: CampaignPlan, request: RunRequest) -> Foreseen:
    """What a plan will take, as runs of the same kinds say that are there."""
    missing, jobs = plan.campaign.missing(), request.jobs
    learned = paces(finished_runs(request.out))
    figures = [
        ForeseenFigure(
            key,
            len(ids),
            sum(run_id in missing for run_id in ids),
            round(campaign_seconds([missing[run_id] for run_id in {*ids} if run_id in missing], jobs, learned), 1),
            plan.skipped.get(key, ""),
            plan.lacking.get(key, []),
        )
        for key, ids in plan.run_ids.items()
    ]
    seconds = campaign_seconds(missing.values(), jobs, learned) + SECONDS_PER_WORKER * bool(missing)
    drawn = len(plan.run_ids.keys() & request.figure_options.keys() - plan.skipped.keys())
    total = ForeseenTotal(
        len(plan.campaign.wanted),
        len(missing),
        round(seconds, 1),
        round(SECONDS_OF_SPARK + SECONDS_PER_FIGURE * drawn / jobs, 1),
        MEGABYTES_PER_WORKER * jobs + 2_000,
        round(len(missing) * KILOBYTES_PER_RUN / 1000, 1),
    )
    return Foreseen(figures, total)
