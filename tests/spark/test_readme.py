"""The README's door for Spark, run as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.testing import Broker

pytest.importorskip("pyspark", reason="needs the extra spark")
README = (Path(__file__).parents[2] / "README.md").read_text()


def test_who_works_with_spark_counts_a_thousand(spark, capsys):
    part = README[README.index("**You work with Spark.**") :]
    found = re.search(r"```python\n(.*?)```", part, re.S)
    assert found is not None
    with Broker() as broker:
        code = found[1].replace("localhost:9092", broker.bootstrap)
        exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.split()[-1] == "1000"
