"""``ratebed claims``: what of the papers was reproduced."""

import json
from pathlib import Path

from paper_figs import CLAIM_LETTERS, PAPERS
from ratebed import options as o


def claims(out: o.Out = Path("out"), as_json: o.AsJson = False) -> int:
    """The verdict on every claim, from the figures' tables.

    The exit code: 1 = some contradicted, or all runs invalid; 3 = some undecided; else 0.
    """
    from analysis.report import claims_json
    from analysis.verdicts import Judgement
    from ratebed.judging import counts, in_order, joint_counts, results_by_setting, summary_line
    from ratebed.pipeline import sections
    from ratebed.validity import standings_of, told

    results = in_order(results_by_setting(out))
    if as_json:
        print(json.dumps(claims_json(results), indent=2))
    else:
        for result in results:
            print(summary_line(result))
        for letter, text in joint_counts(results).items():
            print(f"{PAPERS[CLAIM_LETTERS[letter]]}: {text}")
    runs = {run_id: each for section in sections(out).values() for run_id, each in standings_of(section).items()}
    judgements = {result.judgement for result in results if counts(result)}
    if told(runs) or Judgement.CONTRADICTED in judgements:
        return 1
    return 3 if Judgement.UNDECIDED in judgements else 0
