"""A site that is made, measured and taken down: what ``Backend.verify`` does on live testbeds."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from collectors.writer import read_logs
from testbed.evidence import Evidence
from testbed.live.site import Site
from testbed.topology import Topology


def verified(make_site: Callable[[Topology, Path], Site], topology: Topology) -> Evidence:
    """The paths of ``topology`` as ``make_site`` makes them; an error on the way brings the logs."""
    with tempfile.TemporaryDirectory(prefix="ratebed-") as name:
        folder = Path(name)
        site = make_site(topology, folder)
        try:
            paths = site.verify()
            samples = [(0, host, metric, value) for host, metric, value in site.counters()]
        except Exception as error:
            site.close()
            error.logs = read_logs(folder / "logs")  # type: ignore[attr-defined]
            raise
        site.close()
        return Evidence(paths=paths, samples=samples, logs=read_logs(folder / "logs"))
