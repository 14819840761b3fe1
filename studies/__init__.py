"""What is asked of a testbed.  Registry: ``STUDIES``, name -> "module:OBJECT", imported on use."""

STUDIES = {
    "distribution": "studies.distribution.study:STUDY",
    "control": "studies.control.study:STUDY",
    "limiting": "studies.limiting.study:STUDY",
    "throttling": "studies.throttling.study:STUDY",
    "links": "studies.links.study:STUDY",
    "placement": "studies.placement.study:STUDY",
    "policies": "studies.policies.study:STUDY",
    "coordinates": "studies.coordinates.study:STUDY",
    "profile": "studies.profile.study:STUDY",
}
