"""What is wrapped around PySpark's writer, with a JVM that agrees to everything; tests/spark has the real one."""

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

from pyspark.sql.streaming.readwriter import DataStreamWriter

from ottla.spark.driver import install
from ottla.spark.errors import OptionError


class Agreeable:
    """Stands for the JVM's writer."""

    def __getattr__(self, name):
        return lambda *_: self


def a_writer():
    install()
    writer = DataStreamWriter.__new__(DataStreamWriter)
    writer._jwrite = Agreeable()
    return writer


@pytest.mark.parametrize(
    "start",
    [
        lambda writer: writer.format("ottla").outputMode("update").start(),
        lambda writer: writer.outputMode(outputMode="Update").format(source="Ottla").start("path"),
        lambda writer: writer.format("ottla").start(outputMode="update"),
        lambda writer: writer.start(None, "ottla", "update", queryName="q"),
        lambda writer: (
            writer.format("parquet").format("ottla").outputMode("append").outputMode("update").start()
        ),
    ],
)
def test_updates_of_this_format_are_refused_however_they_are_asked_for(start):
    with pytest.raises(OptionError, match=r"ottla\.spark\.write_update\(frame, options\)"):
        start(a_writer())


@pytest.mark.parametrize(
    "start",
    [
        lambda writer: writer.start(),
        lambda writer: writer.format("ottla").start(),
        lambda writer: writer.format("ottla").outputMode("complete").start(),
        lambda writer: writer.format("kafka").outputMode("update").start(),
        lambda writer: writer.format("ottla").outputMode("update").format("memory").start(),
        lambda writer: writer.format("ottla").outputMode("update").start(outputMode="append"),
    ],
)
def test_every_other_stream_starts(start):
    assert start(a_writer()).__class__.__name__ == "StreamingQuery"


def test_installing_again_changes_nothing():
    install()
    before = dict(vars(DataStreamWriter))
    install()
    assert dict(vars(DataStreamWriter)) == before
    assert DataStreamWriter.start.__doc__.startswith("Streams the contents")
