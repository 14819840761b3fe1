"""Which files a run opens that are not the tree's: what is in them is part of its identity, whoever made its spec."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from core.digests import digest_of_file, run_id_of
from core.files import files_of, is_file
from core.reading import reading
from core.registry import files_named, lookup
from studies import STUDIES, load_study
from studies.spec import RunSpec
from systems import SYSTEMS
from systems.loader import declared_files, load_system
from testbed import load_testbed
from testbed.brokers.model import calibration_path
from testbed.topologies.topology import TOPOLOGIES
from workloads import WORKLOADS
from workloads import load as load_workload

_OURS = {"system": SYSTEMS, "workload": WORKLOADS, "topology": TOPOLOGIES, "study": STUDIES}


def run_id(spec: RunSpec, code_hash: str) -> str:
    """See ``core.digests.run_id_of``; SpecError as ``input_digests`` has it."""
    return run_id_of(spec, input_digests(spec), code_hash)


def input_digests(spec: RunSpec) -> dict[str, str]:
    """Each of ``inputs_of`` -> SHA-256 of what is in it; SpecError for one that cannot be read."""
    digests = {}
    for name in inputs_of(spec):
        with reading(name, "give a readable file"):
            digests[name] = digest_of_file(name)
    return digests


def factories_of(spec: RunSpec) -> dict[str, Callable[..., object]]:
    """Axis -> what is made with its options."""
    return {
        "system": load_system(spec.system).config,
        "workload": load_workload(spec.workload).config,
        "topology": lookup("topology", TOPOLOGIES, spec.topology),
        "study": load_study(spec.study).config,
    }


def inputs_of(spec: RunSpec) -> list[str]:
    """The paths, each once.

    A calibration; what the options of its testbed, and those that ``core.registry.files_named`` knows, name; what the
    spec's own ``inputs`` are.  Of what is from outside the tree also the files that it is made of, ``path.py:WORKLOAD``
    and what its text names beside it, and every option that is the path of a file; on real hosts those of the servers
    that the system declares, wherever they are.  SpecError for a name that nothing has, and for a file that names
    others and cannot be read.
    """
    testbed = load_testbed(spec.testbed)
    files = [*spec.inputs, *testbed.input_files(spec.testbed_options)]
    if spec.calibration.endswith(".toml"):
        files.append(str(calibration_path(spec.calibration)))
    for axis, factory in factories_of(spec).items():
        name, options = getattr(spec, axis), getattr(spec, f"{axis}_options")
        files += files_named(factory, options)
        if is_file(name):
            files += map(str, files_of(name))
        if name not in _OURS[axis]:
            files += filter(os.path.isfile, _texts(options))
    if testbed.real_time:
        there = set(map(os.path.realpath, files))
        files += [str(file) for file in files_declared(spec.system) if os.path.realpath(file) not in there]
    return list(dict.fromkeys(files))


def files_declared(system: str) -> list[Path]:
    """What the files are made of that a system names for real hosts; see ``inputs_of``."""
    return [file for place in declared_files(load_system(system)) for file in files_of(str(place))]


def _texts(options: object) -> Iterator[str]:
    """Every text among the values of options, in whatever depth."""
    if isinstance(options, str):
        yield options
    elif isinstance(options, dict | list | tuple):
        for value in options.values() if isinstance(options, dict) else options:
            yield from _texts(value)
