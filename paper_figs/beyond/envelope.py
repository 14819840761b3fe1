"""Each limiter tuned: which of the settings that were tried are worth their bytes, and how those do on other seeds.

A limiter errs in two ways, and settings trade them; tuned is what makes the larger of both small.  Repetition 0 tunes:
of all settings, those stay whose larger error is below that of every one that sends less.  The other repetitions, with
other requests, judge them.
"""

import numpy as np

from paper_figs.beyond.limiters import is_tuned, order_of
from paper_figs.intervals import interval_table
from paper_figs.light import Frame
from paper_figs.series import frame_of

TUNING = 0  # the repetition that settings are chosen by
SETTING = ["load", "name", "period", "overlay", "setting"]
ERRORS = ("over_admission_share", "false_rejection_share")
MEASURES = (*ERRORS, "bytes_per_request")


def envelopes(runs: Frame) -> Frame:
    """One row a setting on a limiter's lower envelope and measure: mean, low, high, count of the judging repetitions.

    load, name, period, overlay, setting, step (0: the cheapest), measure, is_judged.  Of ``runs`` as
    ``limiters.measured`` makes them those count that have the base's nodes and network.  Where there is no other
    repetition, nothing is judged: the values are those of the tuning one.
    """
    runs = runs[runs.name.isin(order_of(runs.name)) & (runs.delay == 1) & (runs.loss == 0) & (runs["skew"] == "0ms")]
    runs = runs[runs.nodes == runs.nodes.mode().iloc[0]] if len(runs) else runs
    tuned = [is_tuned(*run) for run in zip(runs.name, runs.overlay, strict=True)]
    runs = runs[np.array(tuned, bool)]
    tuning, judging = runs[runs.repetition == TUNING], runs[runs.repetition != TUNING]
    is_judged = len(judging) > 0
    rows = []
    for setting in chosen(tuning).itertuples(index=False):
        key = [getattr(setting, column) for column in SETTING]
        judged = judging if is_judged else tuning
        for column, value in zip(SETTING, key, strict=True):
            judged = judged[judged[column] == value]
        rows += [((*key, setting.step, measure), list(judged[measure].astype(float))) for measure in MEASURES]
    return interval_table([*SETTING, "step", "measure"], rows).assign(is_judged=is_judged)


def chosen(tuning: Frame) -> Frame:
    """The settings on each limiter's lower envelope over bytes: ``SETTING``, step."""
    rows = []
    for _, tried in tuning.groupby(["load", "name"], sort=True):
        larger = tried[list(ERRORS)].max(axis=1)
        ordered = tried.assign(larger=larger).sort_values(["bytes_per_request", "larger", *SETTING])
        best, step = float("inf"), 0
        for row in ordered.itertuples():
            if row.larger < best:
                rows.append((*(getattr(row, column) for column in SETTING), step))
                best, step = float(row.larger), step + 1
    return frame_of(rows, [*SETTING, "step"])
