"""The study of controllers: a topic runs on fixed brokers while a control protocol moves its sub-buckets.

Publishers stay where they are, in equal blocks of ids; the workload shifts traffic between them.
"""

from typing import Any

import numpy as np

from core.units import SECOND_NS, duration_ns
from studies.api import Journal, Point, Study
from studies.control.asked import Config, Controlled, Controlling
from studies.distribution.study import SECONDS_PER_MESSAGE, deployed, histogram_rows, messages_a_round
from studies.spec import RunSpec
from systems.api import Report, SetBucket, System
from workloads.api import Offer


def asked(point: Point, config: Config) -> Controlling:
    """What is asked of the testbed."""
    duration, window = duration_ns(config.duration), duration_ns(config.window)
    return Controlling(point.system, point.system_config, deployed(point, config, duration), duration, window)


def journal(point: Point, asked: Controlling, shown: Controlled) -> Journal:
    """The tables of a run."""
    windows = [
        histogram_rows(number, {"end_to_end_latency": latency, "access_delay": access_delay})
        for number, (latency, access_delay) in enumerate(shown.windows, start=1)
    ]
    names = ("at_ns", "node", "metric", "value")
    tables: dict[str, dict[str, Any]] = {
        "latency_histogram": {key: np.concatenate([window[key] for window in windows]) for key in windows[0]},
        "samples": {name: [row[number] for row in shown.samples] for number, name in enumerate(names)},
    }
    if shown.messages:
        tables["messages"] = dict(shown.messages)
    commands = _commands(shown.commands, shown.names)
    if commands["at_ns"]:
        tables["decisions"] = commands
    return Journal(tables, "done", shown.envelope.rate_rps, shown.envelope.burst_count, shown.evidence)


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


def fits(system: System) -> bool:
    """Whether its nodes take the measurements of brokers."""
    return system.nodes is not None and Report in system.inputs


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Live its length, else its messages."""
    if real_time:
        return duration_ns(str(spec.study_options.get("duration", Config.duration))) / SECOND_NS
    return messages_a_round(spec) * SECONDS_PER_MESSAGE


STUDY = Study(
    "control",
    "a topic on fixed brokers while a controller moves its sub-buckets",
    Config,
    Offer.MESSAGES,
    fits,
    asked,
    journal,
    expected_seconds,
    "studies.control.virtual:BODY",
    "studies.control.live:BODY",
)
