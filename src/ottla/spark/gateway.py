"""Starts Spark's JVM itself instead of through Spark's launcher: one JVM less, and any Java will do."""

import os
import re
import shutil
import struct
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.spark.errors import SparkError
from ottla.spark.java import Java

_PORT = "PYSPARK_GATEWAY_PORT"
_SECRET = "PYSPARK_GATEWAY_SECRET"
_OF_ONE_MACHINE = {
    "SPARK_LOCAL_IP": "127.0.0.1",  # nobody else need reach it
    # Memory that is free goes back: with arenas for each thread and a pool of Arrow's own a worker keeps twice as much.
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "1000000",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
_OPTION = re.compile(rb"(?:--add-opens=|--enable-native-access=|-D[a-z])[\w./=:-]+")


class Gateway:
    """The JVM that PySpark talks to. It ends when its standard input is closed, so it cannot outlive us."""

    def __init__(
        self,
        java: Java,
        spark_home: Path,
        java_options: Sequence[str],
        settings: Mapping[str, str],
    ) -> None:
        """Starts it; `wait_ready` before anything else."""
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-spark-"))
        self._connection_file = self._folder / "connection"
        paths = [settings.get("spark.driver.extraClassPath", ""), str(spark_home / "jars" / "*")]
        command = [
            str(java.program),
            *module_options(spark_home),
            *java_options,
            *settings.get("spark.driver.extraJavaOptions", "").split(),
            "-cp",
            os.pathsep.join(path for path in paths if path),
            "org.apache.spark.deploy.SparkSubmit",
            # Jars and packages are fetched before the session is there.
            *[part for name, value in settings.items() for part in ("--conf", f"{name}={value}")],
            "pyspark-shell",
        ]
        environment = {
            # With SPARK_HOME local workers would import PySpark from the zip beside the jars and compile it in every
            # process, 0.7 s of processor time each; without it they import what is installed, compiled already. A
            # cluster's workers have a SPARK_HOME of their own.
            **{name: value for name, value in os.environ.items() if name != "SPARK_HOME"},
            "JAVA_HOME": str(java.home),
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._connection_file),
        }
        if settings.get("spark.master", "local").startswith("local"):
            environment = {**_OF_ONE_MACHINE, **environment}
        # A session of its own: Ctrl-C is for Python, which then stops Spark in good order.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, env=environment, start_new_session=True
        )

    def wait_ready(self, timeout_s: float = 120) -> None:
        try:
            self.port, self.secret = self._read_connection(timeout_s)
        except BaseException:
            self._process.kill()
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def announce(self) -> None:
        """PySpark connects to a JVM that these name, instead of starting one."""
        os.environ[_PORT], os.environ[_SECRET] = str(self.port), self.secret

    def conceal(self) -> None:
        for name in (_PORT, _SECRET):
            os.environ.pop(name, None)

    def close(self, timeout_s: float = 120) -> bool:
        """Ends the JVM and waits for it; whether it ended by itself."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout_s)
            well = self._process.returncode == 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            well = False
        shutil.rmtree(self._folder, ignore_errors=True)
        return well

    def _read_connection(self, timeout_s: float) -> tuple[int, str]:
        deadline = time.monotonic() + timeout_s
        while not self._connection_file.exists():
            if self._process.poll() is not None:
                raise SparkError(f"Spark's JVM ended with {self._process.returncode} before it was ready")
            if time.monotonic() > deadline:
                raise SparkError(f"Spark's JVM was not ready after {timeout_s} s")
            time.sleep(0.01)
        data = self._connection_file.read_bytes()
        port, size = struct.unpack_from(">ii", data)
        return port, data[8 : 8 + size].decode()


def module_options(spark_home: Path) -> list[str]:
    """What Spark's launcher would add, read from the launcher: it differs between versions.

    Without the incubating vector module, which small runtimes lack and only machine learning uses.
    """
    (jar,) = (spark_home / "jars").glob("spark-launcher_*.jar")
    with zipfile.ZipFile(jar) as opened:
        constants = opened.read("org/apache/spark/launcher/JavaModuleOptions.class")
    options = [match.decode() for match in _OPTION.findall(constants)]
    return ["-XX:+IgnoreUnrecognizedVMOptions", *dict.fromkeys(options)]
