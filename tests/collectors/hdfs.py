"""HDFS on this machine: a name node and a data node of Hadoop's own mini cluster, in a Java beside the tests.

``python -m tests.collectors.hdfs`` brings its jar (56 MB) into ``.hadoop/`` of the checkout; so does bootstrap.sh.
"""

import json
import os
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from collectors.store import hadoop
from core.errors import MachineError
from core.java import find_java
from testbed.hosts.capabilities import CHECKOUT
from testbed.maven import Artifact
from tests.live import demanded

# The version of Hadoop's client that PySpark brings.
JAR = Artifact(
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
    size_bytes=56_006_450,
    sha512=(
        "0f97b282f6af3f8cb2bed25645a091c0c4ee3e8892ca30701f131c8251f1fe12"
        "9e6df67c86007de464724c73154ad08d70b6aa9c58e4e813b7ff1bc3502d8586"
    ),
)
FOLDER = CHECKOUT / ".hadoop"
LOOPBACK = "127.0.0.1"
PERIOD_S = 1  # in which its counters are brought up to date, 10 otherwise


def jar() -> Path | None:
    """The mini cluster's, if it is here."""
    return next(FOLDER.glob("hadoop-client-minicluster-3.5.0.jar"), None)


def needs_hdfs() -> pytest.MarkDecorator:
    """Skip where it is not here; where it must be (``RATEBED_NEEDS``), MachineError."""
    reason = "this machine has no HDFS (RATEBED_NEEDS=hdfs ./bootstrap.sh test)"
    if jar() is None and "hdfs" in demanded():
        raise MachineError("tests of hdfs must not be skipped here", reason)
    return pytest.mark.skipif(jar() is None, reason=reason)


class Hdfs:
    """A file system that runs."""

    settings: Mapping[str, str] = MappingProxyType({})  # of Hadoop's, by which it is reached
    jars = ""  # that Hadoop's client lacks for it

    def __init__(self, java: JavaGateway, cluster: Any):
        self.java, self.cluster = java, cluster
        self.url = f"hdfs://{LOOPBACK}:{cluster.getNameNodePort()}"

    def counted(self) -> dict[str, int]:
        """What the name node has done so far: ``FilesCreated``, ``FilesRenamed``, ``FilesAppended``, …"""
        time.sleep(2 * PERIOD_S)
        port = str(self.cluster.getHttpUri(0)).rpartition(":")[2]
        question = f"http://{LOOPBACK}:{port}/jmx?qry=Hadoop:service=NameNode,name=NameNodeActivity"
        with urllib.request.urlopen(question, timeout=30) as answer:
            (bean,) = json.load(answer)["beans"]
        return {name: value for name, value in bean.items() if name.startswith("Files")}

    def stop(self) -> None:
        """Nobody answers any more."""
        self.cluster.shutdown()


def forget_java() -> None:
    """What is asked of Hadoop's file systems next starts another Java."""
    hadoop._started.cache_clear()
    hadoop._file_system.cache_clear()


@contextmanager
def hdfs(folder: Path) -> Iterator[Hdfs]:
    """One whose data are in ``folder``."""
    jars = Path(pyspark.__file__).parent / "jars"
    (folder / "hadoop-metrics2.properties").write_text(f"*.period={PERIOD_S}\n")
    port, token = launch_gateway(
        jarpath=str(next(jars.glob("py4j-*.jar"))),
        classpath=os.pathsep.join([str(folder), str(jar()), f"{jars}/*"]),
        javaopts=["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
        java_path=str(find_java() / "bin" / "java"),
        die_on_exit=True,
        enable_auth=True,
    )
    java = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        settings = java.jvm.org.apache.hadoop.conf.Configuration()
        settings.set("hdfs.minidfs.basedir", str(folder / "hdfs"))
        made = java.jvm.org.apache.hadoop.hdfs.MiniDFSCluster.Builder(settings).numDataNodes(1).build()
        made.waitActive()
        running = Hdfs(java, made)
        yield running
        running.stop()
    finally:
        java.shutdown()


def _brought() -> Path:
    FOLDER.mkdir(exist_ok=True)
    return jar() or JAR.fetched(FOLDER)


if __name__ == "__main__":
    print(_brought())
