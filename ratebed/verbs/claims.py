"""``ratebed claims``: what of the papers was reproduced."""

import json
from pathlib import Path

from ratebed import options as o


def claims(out: o.Out = Path("out"), as_json: o.AsJson = False) -> int:
    """The verdict on every claim, from the figures' tables; 1 = some contradicted, 3 = some undecided, else 0."""
    from analysis.report import claims_json
    from analysis.verdicts import Judgement
    from ratebed.judging import counts, in_order, results_by_setting, summary_line

    results = in_order(results_by_setting(out))
    if as_json:
        print(json.dumps(claims_json(results), indent=2))
    else:
        for result in results:
            print(summary_line(result))
    judgements = {result.judgement for result in results if counts(result)}
    return 1 if Judgement.CONTRADICTED in judgements else 3 if Judgement.UNDECIDED in judgements else 0
