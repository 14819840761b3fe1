"""What mutated inputs reach: all names of the registries, limits, what is behind a first reader; and what Go's take."""

import json
import random

import pytest

from core import limits
from core.errors import HarnessError, MachineError
from harness.matrix import settings_of
from studies import STUDIES
from systems import SYSTEMS
from testbed.topologies.topology import TOPOLOGIES
from tests.fuzz import broker, parsers
from tests.fuzz.__main__ import enter
from tests.fuzz.mutate import NUMBERS, words_mutated
from tests.fuzz.parsers import PARSERS, REPLICAS, seeds
from tests.fuzz.worker import Outcome
from workloads import WORKLOADS


def _points() -> list[list[str]]:
    """The kept words of ``--set`` that are any, each with its first line."""
    texts = [data.decode(errors="replace").split("\n") for data in seeds("set")]
    return [lines for lines in texts if len(lines[0].split()) == 3]


def test_kept_points_are_of_all_systems_workloads_topologies_and_studies():
    points = _points()
    systems, workloads, topologies = (
        set(column) for column in zip(*(head.split() for head, *_ in points), strict=True)
    )
    studies = {word.removeprefix("study=") for _, *words in points for word in words if word.startswith("study=")}
    assert (systems, workloads, topologies, studies) == (set(SYSTEMS), set(WORKLOADS), set(TOPOLOGIES), set(STUDIES))


def test_kept_points_with_all_their_options_are_right(tmp_path):
    wrong = []
    for lines in _points():
        try:
            PARSERS["set"].read("\n".join(lines).encode(), tmp_path)
        except MachineError:  # it has no Pulsar
            continue
        except HarnessError as error:
            wrong.append(f"{lines[0]}: {error}")
    assert wrong == []


def test_what_is_just_allowed_is_tried_and_what_just_is_not():
    for limit in (500, limits.CLIENTS, limits.SUBSCRIPTIONS, limits.ROWS, 1 << 30):
        assert {str(limit - 1), str(limit), str(limit + 1)} <= set(NUMBERS)


def test_a_name_is_exchanged_for_one_of_its_registry():
    made = [words_mutated([b"srtm poisson star\nstudy=links"], random.Random(seed)) for seed in range(1_500)]
    for names in (SYSTEMS, WORKLOADS, TOPOLOGIES, STUDIES):
        assert sum(any(name.encode() in data for data in made) for name in names) == len(names)


def test_most_mutated_faults_are_read_as_rows(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(parsers, "read_faults", lambda rows: read.append(rows) or ())
    for seed in range(400):
        try:
            PARSERS["faults"].read(PARSERS["faults"].mutated(seeds("faults"), random.Random(seed)), tmp_path)
        except HarnessError:
            continue
    assert sum(map(bool, read)) > 200


def test_most_mutated_words_are_settings_with_other_values():
    others, kept = 0, seeds("set")
    for seed in range(400):
        _, *words = PARSERS["set"].mutated(kept, random.Random(seed)).split(b"\n")
        try:
            others += len(settings_of([word.decode(errors="surrogateescape") for word in words if word])) > 0
        except HarnessError:
            continue
    assert others > 200


def test_a_trace_is_played_in_one_copy_and_in_many(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(parsers, "_point", lambda study, system, workload, options, *of: asked.append(options))
    for number in range(50):
        PARSERS["trace-csv"].read(str(number).encode(), tmp_path)
    assert {options["replicas"] for options in asked} == set(REPLICAS)


@pytest.mark.parametrize(
    ("used_bytes", "failures"), [(187 << 20, {}), (1025 << 20, {"brokerd-control": "takes 1025 MB"})]
)
def test_a_broker_takes_at_most_what_an_input_may(tmp_path, monkeypatch, used_bytes, failures):
    monkeypatch.setattr(broker, "_alone", lambda target, time: (0, "execs: 7 (1/sec)", 2.5, used_bytes))
    outcome = broker.run_go("brokerd-control", 1.0)
    assert outcome == Outcome(0, inputs=7, seconds=2.5, megabytes=used_bytes >> 20, failures=failures)
    enter(tmp_path / "fuzz.json", "brokerd-control", outcome)
    (kept,) = json.loads((tmp_path / "fuzz.json").read_text())["parsers"].values()
    assert "slowest_seconds" not in kept  # nobody says
