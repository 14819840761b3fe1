"""The study that only measures links: every path of a topology, requested against found.  Nothing is offered."""

from dataclasses import dataclass

from core.registry import configure
from studies.api import Journal, Point, Study


@dataclass(frozen=True)
class Config:
    """Options of the study: none."""


def configured(point: Point) -> Config:
    """SpecError for any option."""
    config: Config = configure("study links", Config, point.spec.study_options)
    return config


def run(point: Point, config: Config) -> Journal:
    """Make the links, measure them, and take them down; LinkError where one is out of tolerance."""
    return Journal({}, "done", evidence=point.backend.verify(point.topology, point.spec.seed))


STUDY = Study(configured, run)
