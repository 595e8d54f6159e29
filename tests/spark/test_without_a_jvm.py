"""Source and sink called as Spark calls them, without Spark: quick, so every corner has its test."""

from __future__ import annotations

import time
import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

pytest.importorskip("pyspark", reason="needs the extra spark")
pa = pytest.importorskip("pyarrow")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows  # noqa: E402

from ottla.client import Admin  # noqa: E402
from ottla.client.columnar import DataLost, TopicChanged  # noqa: E402
from ottla.client.columnar.partitioning import BadRow  # noqa: E402
from ottla.client.exactly_once import FENCED, Marker, group_of  # noqa: E402
from ottla.errors import ProducerFenced, UnknownTopicOrPartition  # noqa: E402
from ottla.spark import clients  # noqa: E402
from ottla.spark.errors import (  # noqa: E402
    CheckpointBehind,
    ContinuousTrigger,
    MarkerError,
    MarkerMissing,
    OtherQuery,
    TasksChanged,
    TransactionTimedOut,
)
from ottla.spark.options import ReadOptions, WriteOptions  # noqa: E402
from ottla.spark.sink import StreamWriter, write_once  # noqa: E402
from ottla.spark.source import BatchReader, StreamReader  # noqa: E402
from tests.oracle.leaders import wait_for_leaders  # noqa: E402

ALL = ReadAllAvailable()


@pytest.fixture(autouse=True, scope="module")
def _close_clients():
    yield
    for client in list(clients._cached.values()):
        clients.dropped(client)


@pytest.fixture
def readers(target):
    made = []

    def make(**options):
        given = {"kafka.bootstrap.servers": target.bootstrap, "startingOffsets": "earliest", **options}
        made.append(
            StreamReader(ReadOptions.parse({k: str(v) for k, v in given.items()}, streaming=True), None)
        )
        return made[-1]

    yield make
    for reader in made:
        reader.stop()


def produce(target, topic, values, partition=0):
    producer = Producer({"bootstrap.servers": target.bootstrap})
    for value in values:
        producer.produce(topic, str(value).encode(), partition=partition)
    assert producer.flush(60) == 0


def rows_between(reader, start, end):
    batches = [batch for task in reader.partitions(start, end) for batch in reader.read(task)]
    return sorted(int(value) for batch in batches for value in batch.column("value").to_pylist())


# -- the source ------------------------------------------------------------------------------------


def test_a_micro_batch_is_what_lies_between_its_offsets(target, readers, make_topic):
    topic = make_topic()
    produce(target, topic, range(10), partition=0)
    produce(target, topic, range(10, 20), partition=2)
    reader = readers(subscribe=topic)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert end[topic] == {"0": 10, "1": 0, "2": 10}
    assert rows_between(reader, start, end) == list(range(20))
    assert rows_between(readers(subscribe=topic), start, end) == list(range(20))  # and again after a restart
    assert reader.latestOffset(end, ALL) == end


def test_limits_are_kept(target, readers, make_topic):
    topic = make_topic()
    produce(target, topic, range(100))
    reader = readers(subscribe=topic, maxOffsetsPerTrigger=30)
    start = reader.initialOffset()
    limit = reader.getDefaultReadLimit()
    assert (type(limit), limit.max_rows) == (ReadMaxRows, 30)
    taken = []
    for _ in range(4):
        end = reader.latestOffset(start, limit)
        taken.append(len(rows_between(reader, start, end)))
        start = end
    assert taken == [30, 30, 30, 10]


def test_too_little_waits_for_more(target, readers, make_topic):
    topic = make_topic()
    reader = readers(subscribe=topic, minOffsetsPerTrigger=10, maxTriggerDelay="1h")
    start = reader.initialOffset()
    produce(target, topic, range(9))
    assert reader.latestOffset(start, ALL) == start
    produce(target, topic, [9])
    assert reader.latestOffset(start, ALL)[topic]["0"] == 10


def test_available_now_ends_where_the_topic_ended_at_its_start(target, readers, make_topic):
    topic = make_topic()
    produce(target, topic, range(5))
    reader = readers(subscribe=topic)
    reader.prepareForTriggerAvailableNow()
    produce(target, topic, range(5, 10))
    assert reader.latestOffset(reader.initialOffset(), ALL)[topic]["0"] == 5


def test_partitions_and_topics_that_are_new_are_read_from_their_beginning(target, readers, make_topic):
    stem = f"n{uuid.uuid4().hex[:6]}"
    make_topic(name=f"{stem}-a", partitions=1)
    produce(target, f"{stem}-a", [0, 1])
    reader = readers(subscribePattern=f"{stem}-.*", startingOffsets="latest")
    start = reader.initialOffset()
    make_topic(name=f"{stem}-b", partitions=1)
    produce(target, f"{stem}-b", [2])
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    admin.create_partitions([NewPartitions(f"{stem}-a", 2)])[f"{stem}-a"].result(60)
    wait_for_leaders(target.bootstrap, f"{stem}-a", 2)
    produce(target, f"{stem}-a", [3], partition=1)
    again = readers(subscribePattern=f"{stem}-.*")  # as after a restart: nothing is known
    end = again.latestOffset(start, ALL)
    assert rows_between(again, start, end) == [2, 3]
    assert rows_between(again, end, again.latestOffset(end, ALL)) == []


def test_two_lives_of_a_topic_are_never_mixed(target, readers, make_topic):
    topic = make_topic(partitions=1)
    produce(target, topic, range(5))
    reader = readers(subscribe=topic)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    admin.delete_topics([topic])[topic].result(60)
    gone = readers(subscribe=topic)
    with pytest.raises(TopicChanged, match="is gone"):
        while True:
            gone.latestOffset(end, ALL)  # until the deletion is through
    make_topic(name=topic, partitions=1)
    produce(target, topic, range(100, 120))
    for now in (False, True):
        anew = readers(subscribe=topic)
        if now:
            anew.prepareForTriggerAvailableNow()
        with pytest.raises(TopicChanged, match="re-created"):
            anew.latestOffset(end, ALL)
    with pytest.raises(TopicChanged):
        rows_between(readers(subscribe=topic), start, end)  # a replay of the old micro-batch
    tolerant = readers(subscribe=topic, failOnDataLoss="false")
    assert rows_between(tolerant, start, end) == []
    later = tolerant.latestOffset(end, ALL)
    assert rows_between(tolerant, end, later) == list(range(100, 120))


def test_a_topic_that_does_not_exist_is_an_error_that_names_it(target, readers, make_topic):
    topic = make_topic(partitions=1)
    produce(target, topic, range(3))
    for given, text in (
        ({"subscribe": "ordres"}, "topic ordres does not exist"),
        ({"subscribe": f"{topic},ordres"}, "topic ordres does not exist"),
        (
            {"subscribe": "ordres,costumers", "failOnDataLoss": "false"},
            "topics costumers, ordres do not exist",
        ),
        ({"assign": '{"ordres": [0]}'}, "topic ordres does not exist"),
        ({"assign": f'{{"{topic}": [0, 7]}}'}, f"topic {topic} has no partition 7"),
    ):
        with pytest.raises(UnknownTopicOrPartition, match=text):
            readers(**given).initialOffset()
        options = {"kafka.bootstrap.servers": target.bootstrap, **given}
        with pytest.raises(UnknownTopicOrPartition, match=text):
            BatchReader(ReadOptions.parse(options, streaming=False), None).partitions()
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    assert not {"ordres", "costumers"} & {
        *admin.list_topics(timeout=30).topics
    }  # asking has not created them
    before = readers(subscribe=topic).initialOffset()
    for now in (False, True):  # a topic that is added after a restart
        added = readers(subscribe=f"{topic},ordres")
        if now:
            added.prepareForTriggerAvailableNow()
        with pytest.raises(UnknownTopicOrPartition, match="topic ordres does not exist"):
            added.latestOffset(before, ALL)
    assert readers(subscribePattern="no-such-topic-.*").initialOffset()["@ids"] == {}


def test_progress_names_what_is_read_and_says_how_far_it_is_behind(target, readers, make_topic):
    topic = make_topic(partitions=2)
    produce(target, topic, range(10))
    reader = readers(subscribe=topic, maxOffsetsPerTrigger=4)
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    told = reader.reportLatestOffset()
    assert (told["@source"], told["@behind"]) == (f"ottla[subscribe: {topic}]", 6)


def test_a_task_of_a_batch_has_no_more_records_than_asked_for(target, make_topic):
    topic = make_topic(partitions=2)
    produce(target, topic, range(10))
    options = {"kafka.bootstrap.servers": target.bootstrap, "subscribe": topic, "maxRecordsPerPartition": "3"}
    reader = BatchReader(ReadOptions.parse(options, streaming=False), None)
    sizes = [sum(batch.num_rows for batch in reader.read(task)) for task in reader.partitions()]
    assert sum(sizes) == 10 and max(sizes) <= 3


def test_records_that_expired_before_they_were_read_are_reported(target, readers, make_topic):
    topic = make_topic(partitions=1)
    produce(target, topic, range(10))
    reader = readers(subscribe=topic)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    next(iter(admin.delete_records([TopicPartition(topic, 0, 4)]).values())).result(60)
    with pytest.raises(DataLost, match="the log begins at 4"):
        rows_between(reader, start, end)
    assert rows_between(readers(subscribe=topic, failOnDataLoss="false"), start, end) == list(range(4, 10))


def test_the_group_shows_how_far_the_last_finished_micro_batch_was(target, readers, make_topic):
    topic = make_topic(partitions=1)
    produce(target, topic, range(7))
    reader = readers(subscribe=topic)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    group = end["@group"]
    assert group.startswith("spark-ottla-")
    again = readers(subscribe=topic)  # the group's name comes with the offsets
    again.prepareForTriggerAvailableNow()
    again.latestOffset(end, ALL)
    consumer = Consumer({"bootstrap.servers": target.bootstrap, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    assert found.offset == 7


def test_the_number_of_tasks_outlives_a_change_of_machines(target, readers, make_topic, monkeypatch):
    topic = make_topic(partitions=4)
    produce(target, topic, range(5))
    monkeypatch.setattr("ottla.spark.source._cores", lambda: 3)
    start = readers(subscribe=topic).initialOffset()
    monkeypatch.setattr("ottla.spark.source._cores", lambda: 16)
    reader = readers(subscribe=topic)
    end = reader.latestOffset(start, ALL)
    assert len(reader.partitions(start, end)) == 3
    more = readers(subscribe=topic, minPartitions=5)
    assert len(more.partitions(start, more.latestOffset(start, ALL))) == 5
    assert len(more.partitions(start, end)) == 3  # a replay keeps what was planned


def test_a_batch_reads_between_its_bounds(target, make_topic):
    topic = make_topic(partitions=2)
    produce(target, topic, range(10))
    options = {"kafka.bootstrap.servers": target.bootstrap, "subscribe": topic}
    reader = BatchReader(ReadOptions.parse(options, streaming=False), None)
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    assert sum(batch.num_rows for batch in batches) == 10


# -- the sink --------------------------------------------------------------------------------------


class Query:
    """A streaming query's sink, as the driver and its tasks see it."""

    def __init__(self, target, topic, tasks=2, **options):
        self.target, self.topic, self.tasks = target, topic, tasks
        self.id = str(uuid.uuid4())
        given = {"kafka.bootstrap.servers": target.bootstrap, "topic": topic}
        self.given = {**given, **{k.replace("__", "."): str(v) for k, v in options.items()}}

    def write(self, batch, task, values, **options):
        return write_once(self.options(**options), iter([rows(values)]), task, self.id, batch)

    def commit(self, batch, messages, **options):
        self.writer(**options).commit(messages, batch)

    def writer(self, **options):
        writer = StreamWriter.__new__(StreamWriter)
        writer._options = self.options(**options)
        return writer

    def run(self, batch, *shares, **options):
        """A whole micro-batch, a share for each task."""
        self.commit(batch, [self.write(batch, t, v, **options) for t, v in enumerate(shares)], **options)

    def options(self, **more):
        return WriteOptions.parse({**self.given, **{k: str(v) for k, v in more.items()}}, streaming=True)

    def settle(self):
        """Until the tasks' markers can be read: they are part of the transactions."""
        with Admin({"bootstrap.servers": self.target.bootstrap}) as admin:
            for task in range(self.tasks):
                admin.group_offsets(group_of(f"spark-ottla-{self.id}-{task}"), require_stable=True)

    def shows(self, expected):
        """Apache Kafka answers the end of a transaction some moments before its records can be read."""
        deadline = time.monotonic() + 60
        while (found := self.values()) != expected:
            assert len(found) <= len(expected) and time.monotonic() < deadline, (found, expected)

    def values(self):
        options = {"kafka.bootstrap.servers": self.target.bootstrap, "subscribe": self.topic}
        reader = BatchReader(ReadOptions.parse(options, streaming=False), None)
        batches = [batch for task in reader.partitions() for batch in reader.read(task)]
        return sorted(value.decode() for batch in batches for value in batch.column("value").to_pylist())


def rows(values):
    return pa.record_batch({"value": pa.array([str(v) for v in values], pa.string())})


@pytest.fixture
def query(target, make_topic):
    return Query(target, make_topic())


def test_rows_show_when_the_driver_has_committed(query):
    messages = [query.write(0, 0, ["a"]), query.write(0, 1, ["b"])]
    query.shows([])
    query.commit(0, messages)
    query.shows(["a", "b"])


def test_a_task_that_is_done_again_replaces_what_it_wrote_before(query):
    query.write(0, 0, ["a", "half"])
    query.run(0, ["a"], ["b"])
    query.shows(["a", "b"])


def test_a_micro_batch_that_is_done_again_writes_nothing(query):
    query.run(0, ["a"], ["b"])
    query.run(0, ["a"], ["b"])
    query.run(1, ["c"], [])
    query.shows(["a", "b", "c"])


def test_what_was_left_between_two_commits_is_completed(query):
    first, second = query.write(0, 0, ["a"]), query.write(0, 1, ["b"])
    from ottla.spark.sink import end_transactions

    end_transactions(query.options(), [first], Marker(1, query.id, 2))  # and here the driver dies
    query.shows(["a"])
    query.run(0, ["a"], ["b"])
    query.shows(["a", "b"])
    assert second.transaction is not None


def test_a_zombie_cannot_commit(query):
    zombie = [query.write(0, 0, ["old"]), query.write(0, 1, ["old"])]
    query.run(0, ["new"], ["new"])
    with pytest.raises(Exception) as caught:
        query.commit(0, zombie)
    assert isinstance(caught.value, ProducerFenced) or "epoch" in str(caught.value).lower()
    query.shows(["new", "new"])


def test_a_failing_driver_leaves_nothing_open(query):
    messages = [query.write(0, 0, ["a"]), query.write(0, 1, ["b"])]
    writer = StreamWriter.__new__(StreamWriter)
    writer._options = query.options()
    writer.abort([messages[0], None], 0)
    query.run(0, ["a"], ["b"])
    query.shows(["a", "b"])


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_commit_of_tasks_that_wrote_nothing_is_refused(query, guarantee):
    """Spark's continuous trigger: it hands a sink in Python no rows and has no messages from its tasks."""
    writer = StreamWriter.__new__(StreamWriter)
    writer._options = query.options(guarantee=guarantee)
    with pytest.raises(ContinuousTrigger, match="processingTime"):
        writer.commit([None, None], 0)


def test_a_marker_never_looks_like_lag(query, target):
    for batch in range(3):
        query.run(batch, [batch], [])
    query.shows(["0", "1", "2"])
    groups = [group_of(f"spark-ottla-{query.id}-{task}") for task in range(2)]
    with Admin({"bootstrap.servers": target.bootstrap}) as admin:
        for group in groups:
            ((where, offset),) = admin.group_offsets(group, require_stable=True).items()
            (end,) = admin.list_offsets({where: -1}).values()
            assert (offset.offset, end.offset) == (0, 0)
            assert '"next_batch": 3' in offset.metadata


def test_markers_stand_in_no_ones_way_in_the_list_of_groups(query, target, capsys):
    from ottla.cli.main import main

    query.run(0, ["a"], ["b"])
    query.settle()
    marker = group_of(f"spark-ottla-{query.id}-0")
    servers = ["--bootstrap-server", target.bootstrap]
    for command in (["list"], ["describe", "--all-groups"]):
        assert main(["groups", *command, *servers]) == 0
        shown = capsys.readouterr()
        assert marker not in shown.out
        assert "exactly-once markers of Spark queries are not shown; --all shows them" in shown.err
        assert main(["groups", *command, "--all", *servers]) == 0
        assert marker in capsys.readouterr().out
    assert main(["groups", "describe", marker, *servers]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if marker in line]
    assert line.split()[1:6] == ["__spark_ottla_markers", "0", "0", "0", "0"]


def test_a_marker_topic_with_records_is_refused(target, make_topic):
    filled = make_topic(partitions=1)
    produce(target, filled, range(3))
    query = Query(target, make_topic(), markerTopic=filled)
    with pytest.raises(MarkerError, match="Choose a topic that stays empty"):
        query.run(0, ["a"], ["b"])


def test_a_micro_batch_of_foreach_batch_is_written_once(query, target, monkeypatch):
    from types import SimpleNamespace

    from ottla.spark import sink

    task = SimpleNamespace(partitionId=lambda: 0)
    monkeypatch.setattr(sink, "_context", lambda: task)
    schema = SimpleNamespace(fields=[])
    monkeypatch.setattr(sink, "columns", lambda *_, **__: ["value"])

    def write(batch, value):
        options = WriteOptions.parse(
            {**query.given, "queryId": query.id, "batchId": str(batch)}, streaming=False
        )
        writer = sink.BatchWriter(options, schema)
        writer.commit([writer.write(iter([rows([value])]))])

    write(0, "a")
    write(0, "a")
    write(1, "b")
    query.shows(["a", "b"])
    with pytest.raises(CheckpointBehind):
        write(0, "c")
    query.shows(["a", "b"])


def test_another_query_writes_its_own_micro_batch_0(query, target):
    """A deleted checkpoint makes a new query: its rows must not be taken for written."""
    query.run(0, ["a"], ["b"])
    Query(target, query.topic).run(0, ["a"], ["b"])
    query.shows(["a", "a", "b", "b"])


def test_the_marker_of_another_query_is_an_error(query):
    query.run(0, ["a"], ["b"])
    other = [query.write(1, task, ["c"]) for task in range(2)]
    from dataclasses import replace

    foreign = [replace(each, marker=replace(each.marker, query="another")) for each in other]
    with pytest.raises(OtherQuery):
        query.commit(1, foreign)
    query.shows(["a", "b"])


def test_an_expired_marker_is_an_error_that_can_be_overridden_once(query, target):
    query.run(0, ["a"], ["b"])
    query.settle()  # or the markers would come behind the deletion
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    for task in range(2):
        group = group_of(f"spark-ottla-{query.id}-{task}")
        admin.delete_consumer_groups([group])[group].result(60)
    with pytest.raises(MarkerMissing, match="assumeNotWritten=1"):
        query.run(1, ["c"], ["d"])
    query.shows(["a", "b"])  # and nothing is left open
    query.run(1, ["c"], ["d"], assumeNotWritten=1)
    query.run(2, ["e"], ["f"], assumeNotWritten=1)
    query.shows(["a", "b", "c", "d", "e", "f"])


def test_every_micro_batch_may_have_a_number_of_tasks_of_its_own(query):
    query.run(0, ["a"], ["b"])
    query.run(1, ["c"])
    query.run(2, ["d"], ["e"], ["f"])
    query.run(2, ["d"], ["e"], ["f"])  # and may be done again
    query.run(3, [], ["g"])
    query.shows(["a", "b", "c", "d", "e", "f", "g"])


@pytest.mark.parametrize("shares", [(["c", "d"],), (["c"], ["d"], [])])
def test_another_number_of_tasks_is_an_error_once_the_micro_batch_is_committed_in_part(query, shares):
    from ottla.spark.sink import end_transactions

    query.run(0, ["a"], ["b"])
    first, _ = query.write(1, 0, ["c"]), query.write(1, 1, ["d"])
    end_transactions(query.options(), [first], Marker(2, query.id, 2))  # and here the driver dies
    with pytest.raises(TasksChanged, match="minPartitions=2"):
        query.run(1, *shares)
    query.run(1, ["c"], ["d"])
    query.shows(["a", "b", "c", "d"])


def test_a_dead_drivers_tasks_are_fenced_when_the_micro_batch_has_fewer(query):
    query.run(0, ["a"], ["b"])
    zombie = [query.write(1, 0, ["old"]), query.write(1, 1, ["old"])]
    query.run(1, ["c"])
    query.shows(["a", "b", "c"])  # the open transaction of task 1 would hold back readers
    with pytest.raises(FENCED):
        query.commit(1, zombie)
    query.shows(["a", "b", "c"])


def test_a_checkpoint_that_went_back_is_an_error(query):
    for batch in range(3):
        query.run(batch, [batch], [])
    with pytest.raises(CheckpointBehind):
        query.run(0, ["x"], ["y"])
    query.shows(["0", "1", "2"])


def test_a_micro_batch_that_takes_too_long_is_a_named_error(target, make_topic):
    query = Query(target, make_topic(), kafka__transaction__timeout__ms=60_000)
    messages = [query.write(0, task, ["a"]) for task in range(2)]
    from dataclasses import replace

    late = [replace(m, transaction=(*m.transaction[:2], m.transaction[2] - 60_000)) for m in messages]
    with pytest.raises(TransactionTimedOut, match=r"kafka\.transaction\.timeout\.ms"):
        query.commit(0, late)
    query.shows([])


def test_a_row_that_cannot_be_written_leaves_nothing_open(query):
    with pytest.raises(BadRow, match="row 1: the record takes"):
        query.write(0, 0, ["a", "x" * 2_000_000])
    query.run(0, ["a"], ["b"])
    query.shows(["a", "b"])
