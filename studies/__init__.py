"""What is asked of a testbed.  Registry: ``STUDIES``, name -> "module:OBJECT", imported on use."""

from typing import TYPE_CHECKING

from core.errors import SpecError
from core.registry import lookup

if TYPE_CHECKING:
    from studies.api import Asked, Study

STUDIES = {
    "distribution": "studies.distribution.study:STUDY",
    "sharing": "studies.sharing.study:STUDY",
    "control": "studies.control.study:STUDY",
    "moving": "studies.moving.study:STUDY",
    "topics": "studies.topics.study:STUDY",
    "limiting": "studies.limiting.study:STUDY",
    "erlang": "studies.erlang.study:STUDY",
    "throttling": "studies.throttling.study:STUDY",
    "links": "studies.links.study:STUDY",
    "placement": "studies.placement.study:STUDY",
    "placement-on-pulsar": "studies.placement_on_pulsar.study:STUDY",
    "quota": "studies.quota.study:STUDY",
    "policies": "studies.policies.study:STUDY",
    "coordinates": "studies.coordinates.study:STUDY",
    "profile": "studies.profile.study:STUDY",
    "profile-on-pulsar": "studies.profile_on_pulsar.study:STUDY",
}


def load_study(name: str) -> "Study[object, Asked, object]":
    """The study called ``"limiting"`` or ``"path.py:STUDY"`` (``:STUDY`` may be left out).

    SpecError names the file, line or attribute that is wrong, or the closest registered name.
    """
    from studies.api import Study

    study = lookup("study", STUDIES, name)
    if not isinstance(study, Study):
        raise SpecError(f"{name} is a {type(study).__name__}", "it must be a studies.api.Study")
    return study
