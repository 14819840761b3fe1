"""What goes to workers and comes back, as plain values: a class would be looked for where it is unpacked."""

from typing import Any, TypedDict


class Order(TypedDict):
    """What all tasks of a campaign have in common, as plain values."""

    archive: str  # the folder that it was unpacked to
    digest: str  # of what was packed
    versions: dict[str, str]  # of Python and of the libraries that results depend on, here
    runs: str  # the folder of all runs; empty: hosts share none, and runs go into packs
    packs: str  # where these are, or empty
    hadoop: dict[str, str]  # settings of Hadoop's for what is there
    strikes: str  # a folder of runs that were begun by themselves, and have not ended
    folder: str  # in which the command was given: relative paths mean files there


class Errand(TypedDict):
    """A run."""

    spec: str  # JSON
    run_id: str
    code: str  # hash


Told = dict[str, Any]  # {"run_id", "seconds", "error", "fatal"} of a run, or {"refused", "host"} of a whole task
