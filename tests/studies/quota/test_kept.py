"""A campaign of live runs on Pulsar: those of a repetition that want the same brokers have one cluster."""

from pathlib import Path

import msgspec
import pytest

from collectors.integrity import read_manifest
from harness.campaign import Campaign
from harness.executors.local import LocalExecutor
from harness.experiment import SCALES
from paper_figs.drl import quota
from tests.live import needs
from tests.pulsar_cluster import NETWORK

pytestmark = [needs("pulsar", *NETWORK), pytest.mark.long, pytest.mark.night, pytest.mark.slow]


def test_the_second_run_has_the_cluster_of_the_first(tmp_path: Path) -> None:
    points = [spec for spec in quota.points(SCALES["tiny"], {}) if spec.study_options["interval"] == "1s"][:2]
    short = {"duration": "10s"}
    specs = [msgspec.structs.replace(spec, study_options={**spec.study_options, **short}) for spec in points]
    campaign = Campaign(tmp_path)
    ids = campaign.add(specs)
    assert not campaign.run(LocalExecutor(1), lambda finished: None)
    manifests = [read_manifest(tmp_path / run_id) for run_id in ids]
    carried = [note for told in manifests for note in told["testbed_notes"] if "carried before" in note]
    assert carried == ["runs that these servers carried before: 1"]
    assert {told["validity"] for told in manifests} <= {"valid", "degraded"}
