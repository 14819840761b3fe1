"""What is asked of one broker of a real Pulsar, and what is refused."""

import pytest

from core.errors import SpecError
from core.units import SECOND_NS
from harness.experiment import CALIBRATED, SCALES, RunSpec
from harness.run import asked_of, resolve
from paper_figs import load_figure
from paper_figs.epulsar.profile import CORE_SHARE, SHARE_ON_PULSAR
from studies.profile_on_pulsar.study import PulsarProfile

TOPICS, PRODUCERS, CONSUMERS, RATE_RPS, SECONDS = 2, 2, 3, 20.0, 2
SENT_COUNT = round(TOPICS * PRODUCERS * RATE_RPS * SECONDS)


def asked(**study: object) -> PulsarProfile:
    load = {"topics": TOPICS, "producers": PRODUCERS, "consumers": CONSUMERS, "rate_rps": RATE_RPS, "sites": 1}
    spec = RunSpec(
        system="pulsar",
        workload="static-topics",
        workload_options={**load, "size_bytes": 200},
        topology_options={"brokers": 1},
        calibration="small",
        slo=CALIBRATED,
        study="profile-on-pulsar",
        study_options={"duration": f"{SECONDS + 1}s", "warm_up": "1s", "heat": "1s", **study},
    )
    request = asked_of(resolve(spec))[1]
    assert isinstance(request, PulsarProfile)
    return request


@pytest.mark.parametrize(("study", "problem"), [({"heat": "soon"}, "heat"), ({"core_share": 2.0}, "core_share")])
def test_what_cannot_be_is_refused(study: dict[str, object], problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        asked(**study)


@pytest.mark.parametrize("scale", SCALES)
def test_the_figure_has_the_same_design_on_pulsar(scale: str) -> None:
    points = load_figure("epulsar-profile").experiment.points
    ours, pulsars = (points(SCALES[scale], {"broker": broker}) for broker in ("ours", "pulsar"))
    assert [one.workload_options for one in pulsars] == [one.workload_options for one in ours]
    for one in pulsars:
        request = asked_of(resolve(one))[1]
        assert isinstance(request, PulsarProfile) and request.core_share == SHARE_ON_PULSAR < CORE_SHARE
        assert (request.heat_ns, request.warm_up_ns) == (10 * SECOND_NS, 10 * SECOND_NS)
