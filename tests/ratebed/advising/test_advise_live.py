"""One prediction on real links: what ``advise`` says of the winner is what it does between network namespaces."""

import pytest

from harness.code_version import id_of
from harness.experiment import repeated
from ratebed.advising.answer import MEASURES, measured_of, run_all
from ratebed.advising.grid import oracle_of, usual
from ratebed.options import make_request
from ratebed.pipeline import adapted
from tests.live import needs
from tests.ratebed.advising.first_principles import LOGS, derived
from tests.ratebed.advising.test_advise import answered

LIVE_MARGIN = 0.02  # of the requests, set before any live run: what clocks and a busy machine may add


@pytest.mark.live
@pytest.mark.night
@pytest.mark.long
@needs("root", "mininet")
def test_a_prediction_holds_on_real_links(tmp_path):
    """The winner of bursts is the derived one; on real sockets between network namespaces its errors are those."""
    log = LOGS["bursts"](1)
    advice = answered(tmp_path, log, 1)
    assert advice.base.ranking.best == derived(log, 1)
    best = advice.base.outcome(advice.base.ranking.best)
    request = make_request([], False, "quick", 1, 1, tmp_path / "out", [], repetitions=2, testbed="mininet")
    specs = repeated([best.spec], 2, 1)
    run_all(specs, request, "live")

    live = [id_of(adapted(spec, request)) for spec in specs]
    oracles = repeated([oracle_of(advice.question, usual(advice.question.limits[0]), judges=True)], 2, 1)
    rows = measured_of([*live, *map(id_of, oracles)], request).set_index("run_id").loc[live]
    for measure in MEASURES[:2]:
        assert abs(rows[measure].mean() - best.interval(measure).mean) <= LIVE_MARGIN
