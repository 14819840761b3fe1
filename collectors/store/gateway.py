"""The Java of Hadoop's paths: a small process beside ours, and the line to it.  To be imported on use: py4j is slow."""

import os
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayClient, GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import get_return_value, is_error
from pyspark.find_spark_home import _find_spark_home

from core.java import find_java

_JAVA_OPTIONS = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


class _Client(GatewayClient):
    """Reads this Java's errors itself.

    As soon as a process has a Spark session, py4j hands every Java's errors to PySpark, which asks Spark's Java about
    them by their numbers.  Where that has something else under such a number, what is told is nonsense: of a file that
    is not there, that ``exceptionString`` of a Spark context does not exist.
    """

    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        answer = super().send_command(command, retry, binary)
        if not binary and is_error(answer)[0]:
            get_return_value(answer, self)  # py4j's own, which raises
        return answer


def start_gateway() -> JavaGateway:
    """A Java that ends with this process."""
    jars = Path(_find_spark_home()) / "jars"  # on a worker Python has PySpark from an archive, without them
    configured, further = (os.environ.get(name, "") for name in ("HADOOP_CONF_DIR", "HADOOP_CLASSPATH"))
    classpath = os.pathsep.join(filter(None, [configured, f"{jars}/*", further]))
    port, token = launch_gateway(
        jarpath=str(next(jars.glob("py4j-*.jar"))), classpath=classpath,
        javaopts=_JAVA_OPTIONS, die_on_exit=True, java_path=str(find_java() / "bin" / "java"), enable_auth=True,
        create_new_process_group=True,
    )  # fmt: skip
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
    gateway.set_gateway_client(_Client(gateway_parameters=gateway.gateway_parameters))
    return gateway
