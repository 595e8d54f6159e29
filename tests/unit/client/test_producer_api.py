"""`ottla.Producer` on a real broker: futures, callbacks, serializers, refusals, a broker that is away, Arrow."""

import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.client.errors import BufferFull, IllegalState, SettingError
from ottla.errors import MessageTooLarge, UnknownTopicOrPartition
from ottla.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(auto_create_topics_enable=False) as running:
        running.create_topic("t", 2)
        yield running


def a_producer(broker: Broker, **more: Any) -> ottla.Producer:
    return ottla.Producer(more, bootstrap_servers=broker.bootstrap)


def test_fire_and_forget_synchronous_and_asynchronous(broker: Broker) -> None:
    told: list[tuple[object, object]] = []
    with a_producer(broker) as producer:
        producer.send("t", "forgotten", partition=0)
        where = producer.send("t", "waited for", partition=0).result(60)
        producer.send("t", "told", partition=0, callback=lambda *outcome: told.append(outcome))
        producer.flush()
        assert (where.topic, where.partition) == ("t", 0)
    ((metadata, error),) = told
    assert error is None
    assert metadata == ottla.RecordMetadata("t", 0, where.offset + 1, metadata.timestamp)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("serializer", "value", "data"),
    [
        ("str", "ä", "ä".encode()),
        (bytes, b"x", b"x"),
        (int, 5, (5).to_bytes(8, "big")),
        (float, 0.5, b"\x3f\xe0" + bytes(6)),
        ("json", {"a": [1, None]}, b'{"a":[1,null]}'),
        (lambda value: value.upper().encode(), "own", b"OWN"),
    ],
    ids=["str", "bytes", "int", "float", "json", "own"],
)
def test_serializers_by_name_by_type_and_of_ones_own(
    broker: Broker, serializer: object, value: object, data: bytes
) -> None:
    with a_producer(broker, value_serializer=serializer, key_serializer=serializer) as producer:
        where = producer.send("t", value, value, partition=1).result(60)
    back = None if callable(serializer) and not isinstance(serializer, type) else serializer
    with ottla.Consumer(
        bootstrap_servers=broker.bootstrap, value_deserializer=back, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([("t", 1)])
        consumer.seek(("t", 1), where.offset)
        while not (records := consumer.poll(1)):
            pass
    assert records[0].key == data
    assert records[0].value == (data if back is None else value)


def test_what_no_serializer_takes_says_what_to_set(broker: Broker) -> None:
    with a_producer(broker) as producer, pytest.raises(SettingError, match=r"value\.serializer"):
        producer.send("t", {"a": 1})


def test_refusals_say_what_to_do(broker: Broker) -> None:
    with a_producer(broker, max_block_ms=300, max_request_size=1000) as producer:
        with pytest.raises(ottla.OttlaError, match="create it first"):
            producer.send("nowhere", "x")
        with pytest.raises(UnknownTopicOrPartition, match="2 partitions"):
            producer.send("t", "x", partition=7)
        with pytest.raises(MessageTooLarge, match=r"max\.request\.size"):
            producer.send("t", "x" * 2000)
        with pytest.raises(IllegalState, match=r"transactional\.id"):
            producer.begin_transaction()


def test_a_callback_must_not_wait_for_itself(broker: Broker) -> None:
    failures: list[Exception] = []
    with a_producer(broker) as producer:

        def callback(*_: object) -> None:
            try:
                producer.flush()
            except IllegalState as error:
                failures.append(error)

        producer.send("t", "x", callback=callback).result(60)
        producer.flush()
    assert "would wait for itself" in str(failures[0])


def test_memory_is_bounded_while_the_broker_is_away() -> None:
    with Broker() as away:
        away.create_topic("t", 1)
        settings = {"buffer.memory": 200_000, "max.block.ms": 200, "delivery.timeout.ms": 60_000}
        producer = ottla.Producer(settings, bootstrap_servers=away.bootstrap)
        producer.send("t", "first").result(60)
        away.crash()
        tracemalloc.start()
        sent = 0
        with pytest.raises(BufferFull, match=r"buffer\.memory=200000"):
            for sent in range(100_000):  # noqa: B007
                producer.send("t", b"x" * 100)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert sent < 2_000
        assert held < 3_000_000  # objects around the bytes included
        assert producer.metrics()["buffer-available-bytes"] < 200
        away.restart()
        producer.flush(60)  # and nothing that was taken is lost
        assert producer.metrics()["record-send-total"] == sent + 1
        assert producer.metrics()["buffer-available-bytes"] == 200_000
        producer.close()


def test_threads_may_share_a_producer(broker: Broker) -> None:
    with a_producer(broker) as producer:
        threads = [
            threading.Thread(target=lambda: [producer.send("t", "x") for _ in range(500)]) for _ in range(4)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        producer.flush()
        assert producer.metrics()["record-send-total"] == 2_000


def test_a_topic_that_grew_is_noticed(broker: Broker) -> None:
    broker.create_topic("growing", 1)
    settings = {"metadata.max.age.ms": 100, "partitioner": "round_robin"}
    with a_producer(broker, **settings) as producer, ottla.Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert producer.send("growing", "x").result(60).partition == 0
        admin.add_partitions("growing", 3)
        deadline = time.monotonic() + 60
        seen = {0}
        while seen != {0, 1, 2} and time.monotonic() < deadline:
            seen.add(producer.send("growing", "x").result(60).partition)
        assert seen == {0, 1, 2}


def test_arrow_rows_go_where_send_puts_their_keys(broker: Broker) -> None:
    pa = pytest.importorskip("pyarrow")
    broker.create_topic("rows", 5)
    keys = [f"key-{i}".encode() for i in range(50)]
    with a_producer(broker) as producer:
        plain = [producer.send("rows", b"v", key).result(60).partition for key in keys]
        rows = pa.record_batch({"key": keys, "value": [b"arrow"] * len(keys)})
        sent = producer.send_batch(rows, "rows")
        places = sent.result(60)
        assert sent.done() and {each.partition for each in places} == set(plain)
        with pytest.raises(SettingError, match="no topic"):
            producer.send_batch(rows)
    found = {r.key: r.partition for r in broker.records("rows") if r.value == b"arrow"}
    assert [found[key] for key in keys] == plain


def test_a_delivery_callback_may_send_also_to_a_new_topic_and_with_a_full_buffer(broker: Broker) -> None:
    broker.create_topic("answers", 1)
    done = threading.Event()
    sent: list[object] = []
    size = 1000

    def answer(metadata: object, error: object) -> None:
        sent.append(producer.send("answers", bytes(size)))  # neither known nor room for it
        if len(sent) == 20:
            done.set()

    with a_producer(broker, buffer_memory=3 * size, batch_size=size) as producer:
        for _ in range(20):
            producer.send("t", bytes(size), callback=answer)
        assert done.wait(30)
        producer.flush()
        assert all(delivery.done() for delivery in sent)  # type: ignore[attr-defined]
    assert len(broker.records("answers")) == 20


def test_a_delivery_callback_cannot_wait_for_itself(broker: Broker) -> None:
    refusals: list[Exception] = []

    def flush(metadata: object, error: object) -> None:
        try:
            producer.flush()
        except IllegalState as refusal:
            refusals.append(refusal)

    with a_producer(broker) as producer:
        producer.send("t", b"x", callback=flush)
        producer.flush()
    assert ["wait for itself" in str(refusal) for refusal in refusals] == [True]


def test_a_flush_does_not_wait_for_records_that_are_sent_after_it(broker: Broker) -> None:
    """Its callback sends the next record, for ever: a flush that waits for all of them would never return."""
    stopped = threading.Event()

    def again(metadata: object, error: object) -> None:
        if not stopped.is_set():
            producer.send("t", b"again", partition=0, callback=again)

    with a_producer(broker, linger_ms=0) as producer:
        first = producer.send("t", b"first", partition=0, callback=again)
        for _ in range(5):
            producer.flush(timeout_ms=30_000)
            assert first.done()
        stopped.set()


def test_a_transaction_takes_no_records_while_it_is_being_committed(broker: Broker) -> None:
    refused: list[str] = []

    def late(metadata: object, error: object) -> None:
        try:
            producer.send("t", b"late")
        except IllegalState as refusal:
            refused.append(str(refusal))

    with a_producer(broker, transactional_id="closing", linger_ms=60_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"x", callback=late)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send("t", b"y")
        producer.commit_transaction()
    assert ["being ended" in text for text in refused] == [True]


@pytest.mark.parametrize("next_begins", [False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_a_record_that_waited_for_room_joins_no_later_transaction(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, commits: bool, next_begins: bool
) -> None:
    """Its thread is slow to wake: the transaction has ended, maybe the next one has begun."""
    topic = f"waited-{commits}-{next_begins}"
    broker.create_topic(topic, 1)
    waiting, resumed = threading.Event(), threading.Event()
    refused: list[str] = []

    def send_late() -> None:
        try:
            producer.send(topic, bytes(7_000))
        except IllegalState as refusal:
            refused.append(str(refusal))

    settings = {"transactional.id": topic, "linger.ms": 60_000, "buffer.memory": 10_000}
    late = threading.Thread(target=send_late)
    with a_producer(broker, **settings) as producer:
        room: Any = producer._accumulator._room
        wait_for = room.wait_for

        def wait_longer(predicate: Any, timeout: float | None = None) -> Any:
            if threading.current_thread() is late:
                waiting.set()
                wait_for(resumed.is_set)
            return wait_for(predicate, timeout)

        monkeypatch.setattr(room, "wait_for", wait_longer)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, bytes(4_000))
        late.start()
        assert waiting.wait(60)
        (producer.commit_transaction if commits else producer.abort_transaction)()
        if next_begins:
            producer.begin_transaction()
        with room:
            resumed.set()
            room.notify_all()
        late.join(60)
        if next_begins:
            producer.send(topic, b"next")
            producer.commit_transaction()
    assert len(refused) == 1
    assert "waited for room" in refused[0]
    values = [record.value for record in broker.records(topic)]
    assert values == [bytes(4_000)] * commits + [b"next"] * next_begins


def test_arrow_rows_that_waited_for_room_join_no_later_transaction(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = pytest.importorskip("pyarrow")
    broker.create_topic("rows-waited", 1)
    waiting = threading.Event()
    refused: list[Exception] = []

    def send_late() -> None:
        try:
            producer.send_batch(pa.record_batch({"value": [bytes(7_000)]}), "rows-waited")
        except IllegalState as refusal:
            refused.append(refusal)

    settings = {"transactional.id": "rows-waited", "linger.ms": 60_000, "buffer.memory": 10_000}
    late = threading.Thread(target=send_late)
    with a_producer(broker, **settings) as producer:
        room: Any = producer._accumulator._room
        wait_for = room.wait_for

        def watched(predicate: Any, timeout: float | None = None) -> Any:
            if threading.current_thread() is late:
                waiting.set()
            return wait_for(predicate, timeout)

        monkeypatch.setattr(room, "wait_for", watched)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("rows-waited", bytes(4_000))
        late.start()
        assert waiting.wait(60)
        producer.abort_transaction()
        late.join(60)
    assert len(refused) == 1
    assert broker.records("rows-waited") == []
