"""What agents import is in the image: nothing of what only the harness has."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, cast

import pytest
from docker.errors import ImageNotFound

from core.errors import MachineError
from testbed.hosts.docker import image

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


class _Images:
    """Of a daemon that makes an image of all that comes until the end."""

    def __init__(self) -> None:
        self.there: dict[str, bytes] = {}

    def import_image_from_data(self, data: IO[bytes], repository: str, tag: str, changes: list[str]) -> str:
        self.there[f"{repository}:{tag}"] = data.read()
        return "done"

    def get(self, tag: str) -> bytes:
        if tag not in self.there:
            raise ImageNotFound("no such image")
        return self.there[tag]

    def remove(self, tag: str, force: bool) -> None:
        if not force or tag not in self.there:
            raise ImageNotFound("no such image")
        del self.there[tag]


@pytest.mark.parametrize("is_whole", [True, False])
def test_an_image_that_is_not_whole_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    files = [tmp_path / "a.py", tmp_path / "b.pyc"]
    for file in files if is_whole else files[:1]:
        file.write_text("x = 1\n")
    for name, value in (("contents", tuple(files)), ("key", "1"), ("code_key", "2")):
        monkeypatch.setattr(image, name, lambda value=value: value)
    images = _Images()
    client = cast("Any", SimpleNamespace(api=images, images=images))
    if is_whole:
        assert b"b.pyc" in images.there[image.node_image(client)]
    else:
        with pytest.raises(MachineError, match=r"not whole: .*b\.pyc"):
            image.node_image(client)
        assert images.there == {}
