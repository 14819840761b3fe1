"""The study that only measures links: every path of a topology, requested against measured.  Nothing is offered."""

from dataclasses import dataclass

from studies.api import Journal, Point, Study
from studies.links.asked import Measuring
from studies.spec import RunSpec
from testbed.trust.evidence import RunEvidence


@dataclass(frozen=True)
class Config:
    """Options of the study: none."""


def asked(point: Point, config: Config) -> Measuring:
    """The topology's paths."""
    return Measuring(point.topology, point.spec.seed)


def journal(point: Point, asked: Measuring, evidence: RunEvidence) -> Journal:
    """The paths are evidence."""
    return Journal({}, evidence=evidence)


def expected_seconds(spec: RunSpec, real_time: bool) -> float:
    """Next to nothing beside making the site."""
    return 0.0


STUDY = Study(
    "links",
    "every path of a topology, requested against measured",
    Config,
    asked,
    journal,
    expected_seconds,
    virtual="studies.links.virtual",
    live="studies.links.live",
)
