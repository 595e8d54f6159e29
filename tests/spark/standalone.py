"""Spark's own cluster manager: a master and some workers as processes."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.oracle.ports import free_ports

# Executors run for seconds here: what the second compiler would win, it does not win back.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@contextmanager
def standalone(folder: Path, memory: str = "640m", workers: int = 2) -> Iterator[str]:
    """Gives the master's address. Each worker has a core and `memory` for executors."""
    import pyspark

    from ottla.spark.gateway import module_options
    from ottla.spark.java import find_java

    java, home = find_java(), Path(pyspark.__file__).parent
    command = [str(java.program), "-Xmx256m", *QUICK.split(), *module_options(home)]
    command += ["-cp", str(home / "jars" / "*")]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java.home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Spark's scripts set it. Without it a worker cannot start an executor, and says so only in its log.
        "SPARK_SCALA_VERSION": "2.13",
        # Executors unpickle what tests define.
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]),
    }
    (port,) = free_ports(1)
    master = f"spark://127.0.0.1:{port}"
    package = "org.apache.spark.deploy"
    parts = [[f"{package}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for number in range(workers):
        work = ["--work-dir", str(folder / f"worker-{number}"), "--webui-port", "0", "--host", "127.0.0.1"]
        parts.append([f"{package}.worker.Worker", "--cores", "1", "--memory", memory, *work, master])
    running: list[subprocess.Popen[bytes]] = []
    with (folder / "cluster.log").open("ab") as log:
        try:
            for part in parts:
                running.append(
                    subprocess.Popen([*command, *part], env=environment, stdout=log, stderr=log, cwd=folder)
                )
                if len(running) == 1:
                    _wait_for_port(port)
            yield master
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait(30)


def _wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the master did not start")
