"""`trigger(continuous=...)`: Spark hands no rows to sinks in Python, and ignores the errors of their commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark import jvm
from tests.spark.connectors import RECORDS, NothingCommitted, Scene, Side

pytest.importorskip("pyspark", reason="needs the extra spark")
if (reason := jvm.why_not()) is not None:
    pytest.skip(reason, allow_module_level=True)

CONTINUOUS = {"continuous": "1 second"}


@pytest.fixture
def scene(spark, ottla):
    scene = Scene(spark, ottla.bootstrap)
    yield scene
    scene.close()


def test_nothing_is_written_nothing_is_committed_and_the_checkpoint_cannot_hide_it(scene, checkpoint):
    topic = scene.make_topic()
    side = Side(scene, "ottla")
    rows = side.twelve_records()
    with pytest.raises(NothingCommitted):
        side.copy(rows, topic, checkpoint, CONTINUOUS, topic=topic)
    assert scene.records(topic) == []
    assert not list(Path(checkpoint, "commits").glob("[0-9]*"))
    with pytest.raises(Exception, match="MarkerMissing"):  # Spark would go on behind the rows that it dropped
        side.copy(rows, topic, checkpoint, {"availableNow": True}, topic=topic)
    assert scene.records(topic) == []
    side.copy(rows, topic, f"{checkpoint}/new", {"availableNow": True}, topic=topic)
    assert len(scene.records(topic)) == RECORDS


def test_a_source_in_python_is_refused_by_spark(scene):
    with pytest.raises(Exception, match=r"(?i)continuous processing"):
        Side(scene, "ottla").stream(CONTINUOUS)
