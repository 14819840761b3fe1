"""What agents import is in the image: nothing of what only the harness has."""

import subprocess
import sys

import pytest

OF_THE_HARNESS = {"pyarrow", "pandas", "pyspark", "matplotlib", "seaborn", "scipy", "paramiko", "docker"}
AGENTS = (
    "testbed.nodes.host",
    "testbed.brokers.publish_host",
    "testbed.brokers.subscribe_host",
    "testbed.hosts.mininet.delayer",
    "studies.limiting.users",
    "studies.placement.servers",  # what stands in for the managers and the store of a placement
)


@pytest.mark.parametrize("module", AGENTS)
def test_an_agent_imports_what_the_image_has(module: str) -> None:
    code = f"import {module}, sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not OF_THE_HARNESS & set(done.stdout.split())
