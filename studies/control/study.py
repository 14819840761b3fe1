"""The study of controllers: a topic runs on fixed brokers while a control protocol moves its sub-buckets.

Publishers stay where they are, in equal blocks of ids; the workload shifts traffic between them.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from core.errors import SpecError
from core.registry import configure
from core.units import duration_ns
from studies.api import Journal, Point, Study, deployed
from studies.distribution.asked import Deployment, DeploymentConfig
from studies.distribution.study import histogram_rows
from systems.api import Report, SetBucket


@dataclass(frozen=True)
class Config(DeploymentConfig):
    """Options of the study."""

    duration: str = "120s"  # ours
    window: str = "5s"  # ours: the histogram's ``round`` counts windows of this length from 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if duration_ns(self.window) <= 0 or duration_ns(self.duration) < duration_ns(self.window):
            raise SpecError(
                f"study control: duration {self.duration}, window {self.window}", "give at least one window"
            )


def configured(point: Point) -> Config:
    """The study's options; SpecError where system, workload and topology do not fit it."""
    if point.system.nodes is None or Report not in point.system.inputs:
        raise SpecError(f"system {point.system.key!r} controls no brokers", "choose tb-adaptor")
    config = configure("study control", Config, point.spec.study_options)
    point.backend.check(point.topology, point.schedule, point.spec, config)
    return config


def run(point: Point, config: Config) -> Journal:
    """Run the controller of ``point`` on its topic."""
    with deployed(point, config) as deployment:
        return _controlled(point, config, deployment)


def _controlled(point: Point, config: Config, deployment: Deployment) -> Journal:
    names = [broker.name for broker in deployment.brokers]
    count = point.schedule.population.count
    assignment = (np.arange(count) * len(names) // count).astype(np.int32)
    envelope = deployment.envelope_for(0, duration_ns(config.duration))
    parts = deployment.start(0, assignment, envelope)
    system_config = replace(point.system_config, splits={deployment.topic: dict(zip(names, parts, strict=True))})
    found = deployment.control(
        point.system,
        system_config,
        point.topology,
        duration_ns(config.duration),
        duration_ns(config.window),
        point.spec.seed,
    )
    windows = [
        histogram_rows(number, {"end_to_end_latency": latency, "access_delay": access_delay})
        for number, (latency, access_delay) in enumerate(found.windows, start=1)
    ]
    tables: dict[str, dict[str, Any]] = {
        "latency_histogram": {key: np.concatenate([window[key] for window in windows]) for key in windows[0]},
        "samples": found.samples,
    }
    messages = deployment.messages()
    if messages:
        tables["messages"] = dict(messages)
    commands = _commands(found.commands, names)
    if commands["at_ns"]:
        tables["decisions"] = commands
    return Journal(tables, "done", envelope.rate_rps, envelope.burst_count, deployment.evidence())


def _commands(commands: list[tuple[int, str, Any]], names: list[str]) -> dict[str, list[Any]]:
    """Rows of ``decisions`` for the buckets that were set; columns that mean nothing here stay empty."""
    columns: dict[str, list[Any]] = {
        key: [] for key in ("at_ns", "kind", "broker", "bucket_rate_rps", "bucket_burst_count")
    }
    for at_ns, node, command in commands:
        if isinstance(command, SetBucket):
            row = (at_ns, "set_bucket", names.index(node), command.rate_rps, command.burst_count)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    return columns


STUDY = Study(configured, run)
