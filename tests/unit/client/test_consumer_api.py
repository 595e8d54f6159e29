"""`ottla.Consumer` on a real broker: listeners, commits, pauses, threads, patterns, Arrow."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla
from ottla.client.errors import IllegalState, TimedOut, WakeUp
from ottla.errors import InvalidTopicException
from ottla.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {"group.consumer.min.heartbeat.interval.ms": 100, "group.consumer.heartbeat.interval.ms": 200}
    with Broker(settings, offsets_topic_num_partitions=2) as running:
        yield running


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = f"t{abs(hash(request.node.name)) % 10**9}"
    broker.create_topic(name, 2)
    with ottla.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for i in range(10):
            producer.send(name, str(i), partition=0)
    return name


def a_consumer(broker: Broker, group: str | None = None, **more: Any) -> ottla.Consumer:
    settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, **more}
    if group is not None:
        settings["group.id"] = group
    return ottla.Consumer(settings, bootstrap_servers=broker.bootstrap)


def read(consumer: ottla.Consumer, count: int) -> list[int]:
    seen: list[int] = []
    deadline = time.monotonic() + 60
    while len(seen) < count and time.monotonic() < deadline:
        seen += [record.offset for record in consumer.poll(0.2)]
    return seen


def test_a_listener_may_commit_what_it_loses(broker: Broker, topic: str) -> None:
    consumer = a_consumer(broker, topic)
    kept: list[object] = []
    consumer.subscribe(topic, on_revoked=lambda _: kept.append(consumer.commit()))
    assert read(consumer, 10) == list(range(10))
    consumer.close()
    assert kept
    with a_consumer(broker, topic) as again:
        assert again.committed([(topic, 0)])[ottla.TopicPartition(topic, 0)].offset == 10


def test_asynchronous_commits_stay_in_order_and_call_back_inside_poll(broker: Broker, topic: str) -> None:
    where = ottla.TopicPartition(topic, 0)
    told: list[tuple[int, str]] = []

    def callback(offsets: dict[ottla.TopicPartition, ottla.OffsetAndMetadata], error: object) -> None:
        assert error is None
        told.append((offsets[where].offset, threading.current_thread().name))

    with a_consumer(broker, topic) as consumer:
        consumer.subscribe(topic)
        read(consumer, 10)
        for offset in (1, 2, 3):
            consumer.commit_async({where: offset}, callback)
        consumer.commit({where: 7})  # waits for those before it
        assert [offset for offset, _ in told] == [1, 2, 3]
        assert {name for _, name in told} == {threading.current_thread().name}
        assert consumer.committed([where])[where].offset == 7


def test_an_asynchronous_commit_that_fails_tells_so_and_is_not_tried_again(
    broker: Broker, topic: str
) -> None:
    told: list[Exception | None] = []
    with a_consumer(broker, topic) as consumer:
        consumer.subscribe(topic)
        read(consumer, 10)
        broker.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED")
        consumer.commit_async(callback=lambda offsets, error: told.append(error))
        deadline = time.monotonic() + 60
        while not told and time.monotonic() < deadline:
            consumer.poll(0.05)
        assert told[0] is not None
        assert consumer.metrics()["failed-commit-total"] == 1
        assert not consumer.committed([(topic, 0)])


def test_a_commit_in_a_loop_covers_exactly_the_records_seen(broker: Broker, topic: str) -> None:
    with a_consumer(broker, topic) as consumer:
        consumer.subscribe(topic)
        for record in consumer:
            if record.offset == 3:
                break
        assert consumer.commit()[ottla.TopicPartition(topic, 0)].offset == 4


def test_two_threads_are_told_apart(broker: Broker, topic: str) -> None:
    with a_consumer(broker, "two-threads") as consumer:
        consumer.assign([(topic, 1)])
        ended: list[type[Exception]] = []

        def other() -> None:
            while not ended:
                try:
                    consumer.poll(60.0)
                except WakeUp:
                    ended.append(WakeUp)
                except IllegalState:
                    pass  # the first thread was quicker

        thread = threading.Thread(target=other)
        thread.start()
        _until_refused(lambda: consumer.commit({}))  # from here on the other one polls
        for call in (
            lambda: consumer.poll(0),
            consumer.committed,
            consumer.end_offsets,
            lambda: consumer.partitions_for(topic),
            lambda: consumer.position((topic, 1)),
            lambda: consumer.seek((topic, 1), 0),
        ):
            with pytest.raises(IllegalState, match="another thread"):
                call()
        consumer.wakeup()
        thread.join()
        assert ended == [WakeUp]
        consumer.poll(0)  # and afterwards it is free again


def _until_refused(call: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            call()
        except IllegalState:
            return
    raise AssertionError("never refused")


def test_wakeup_ends_a_poll(broker: Broker, topic: str) -> None:
    with a_consumer(broker) as consumer:
        consumer.assign([(topic, 1)])
        threading.Timer(0.1, consumer.wakeup).start()
        with pytest.raises(WakeUp):
            consumer.poll(60.0)
        assert consumer.poll(0) == []


def test_what_is_paused_is_not_handed_out_even_if_it_was_fetched_already(broker: Broker, topic: str) -> None:
    with a_consumer(broker) as consumer:
        consumer.assign([(topic, 0)])
        while not (first := consumer.poll(0.5, max_records=4)):
            pass
        assert [record.offset for record in first] == [0, 1, 2, 3]
        consumer.pause()
        assert consumer.paused() == {(topic, 0)}
        assert consumer.poll(0.3) == []
        assert consumer.position((topic, 0)) == 4
        consumer.resume()
        assert read(consumer, 6) == [4, 5, 6, 7, 8, 9]


def test_a_pattern_given_as_text_is_the_brokers_to_evaluate(broker: Broker, topic: str) -> None:
    with a_consumer(broker, topic) as consumer:
        consumer.subscribe(pattern=f"{topic}.*")
        assert read(consumer, 10) == list(range(10))
        consumer.subscribe(pattern="(")  # what is no regular expression is refused by the broker
        with pytest.raises(ottla.OttlaError):
            for _ in range(600):
                consumer.poll(0.1)


def test_a_compiled_pattern_is_ours(broker: Broker, topic: str) -> None:
    import re

    with a_consumer(broker, topic) as consumer:
        consumer.subscribe(pattern=re.compile(f"(?={topic}).*"))  # RE2 knows no look-ahead
        assert read(consumer, 10) == list(range(10))
        assert consumer.subscription() == {topic}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_who_polls_too_late_loses_its_partitions_and_comes_back(
    broker: Broker, topic: str, protocol: str
) -> None:
    lost: list[frozenset[ottla.TopicPartition]] = []
    settings = {"max.poll.interval.ms": 3000, "heartbeat.interval.ms": 100, "group.protocol": protocol}
    group = f"{topic}-{protocol}"
    with a_consumer(broker, group, **settings) as consumer:
        consumer.subscribe(topic, on_lost=lost.append)
        read(consumer, 10)
        broker.wait_until(lambda: not broker.group(group).members, 60, "the member to leave")
        with pytest.raises(ottla.OttlaError, match=r"max\.poll\.interval\.ms"):
            consumer.commit()
        assert read(consumer, 10) == list(range(10))  # nothing was committed
        assert lost and (topic, 0) in lost[0]


def test_static_members_keep_their_partitions_over_a_restart(broker: Broker, topic: str) -> None:
    settings = {"group.instance.id": "one"}
    first = a_consumer(broker, topic, **settings)
    first.subscribe(topic)
    read(first, 10)
    first.close()
    seen: list[int] = []
    with a_consumer(broker, topic, **settings) as second:
        second.subscribe(topic)
        seen = read(second, 10)
    assert seen == list(range(10))


def test_seek_by_time(broker: Broker, topic: str) -> None:
    now = int(time.time() * 1000)
    with ottla.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for i in range(3):
            producer.send(topic, "old", partition=1, timestamp=now - 10_000 + i)
    with a_consumer(broker) as consumer:
        consumer.assign([(topic, 1)])
        consumer.seek_to_time(now - 10_000 + 1)
        assert read(consumer, 2) == [1, 2]
        consumer.seek_to_time(now + 60_000)  # nothing is as young as that: the end
        assert consumer.position((topic, 1)) == 3


def test_arrow_and_records_may_be_mixed(broker: Broker, topic: str) -> None:
    pytest.importorskip("pyarrow")
    with a_consumer(broker) as consumer:
        consumer.assign([(topic, 0)])
        while not (first := consumer.poll(0.5, max_records=3)):
            pass
        rows = consumer.poll_arrow(10)
        assert rows.column("offset").to_pylist() == list(range(len(first), 10))
        assert rows.column("value").to_pylist() == [str(i).encode() for i in range(len(first), 10)]
        assert consumer.position((topic, 0)) == 10
        assert consumer.poll_arrow(0).num_rows == 0


def test_errors_say_what_to_do() -> None:
    with pytest.raises(ottla.OttlaError, match=r"did you mean group\.id"):
        ottla.Consumer({"grup.id": "x"})
    with ottla.Consumer(bootstrap_servers="127.0.0.1:1") as consumer:
        with pytest.raises(IllegalState, match=r"needs the setting group\.id"):
            consumer.subscribe("t")
        with pytest.raises(IllegalState, match="is not assigned"):
            consumer.seek(("t", 0), 1)


def test_importing_ottla_imports_no_client(run_python: Callable[[str], str]) -> None:
    code = "import sys, ottla; print(any(name.startswith('ottla.client') for name in sys.modules))"
    assert run_python(code) == "False"


@pytest.fixture
def run_python() -> Callable[[str], str]:
    import subprocess
    import sys

    return lambda code: subprocess.check_output([sys.executable, "-c", code], text=True).strip()


@pytest.mark.parametrize("topics", ["test.*", ["t", "test[0-9]"], "a|b", "", ["."]])
def test_a_name_that_no_topic_can_have_points_to_pattern(broker: Broker, topics: object) -> None:
    with (
        ottla.Consumer(bootstrap_servers=broker.bootstrap, group_id="patterns") as consumer,
        pytest.raises(InvalidTopicException, match="pattern="),
    ):
        consumer.subscribe(topics)  # type: ignore[arg-type]


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_nobody_begins_at_a_position_that_an_open_transaction_is_about_to_replace(
    broker: Broker, topic: str, isolation_level: str
) -> None:
    group, where = f"{topic}-{isolation_level}", ottla.TopicPartition(topic, 0)
    options = {"isolation.level": isolation_level, "retry.backoff.ms": 20, "default.api.timeout.ms": 500}
    with (
        a_consumer(broker, group, **options) as consumer,
        ottla.Admin(bootstrap_servers=broker.bootstrap) as admin,
        ottla.Producer(bootstrap_servers=broker.bootstrap, transactional_id=group) as producer,
    ):
        admin.alter_group_offsets(group, {where: ottla.OffsetAndMetadata(2)})
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({where: 7}, group)
        with pytest.raises(TimedOut, match="UNSTABLE_OFFSET_COMMIT"):
            consumer.assign([where])
        assert admin.group_offsets(group, [where])[where].offset == 2  # who only looks does not wait
        committing = threading.Timer(0.1, producer.commit_transaction)
        committing.start()
        consumer.assign([where])
        committing.join()
        assert read(consumer, 3) == [7, 8, 9]


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_what_is_committed_is_told_once_no_open_transaction_can_replace_it(
    broker: Broker, topic: str, isolation_level: str
) -> None:
    group, where = f"{topic}-told-{isolation_level}", ottla.TopicPartition(topic, 0)
    options = {"isolation.level": isolation_level, "retry.backoff.ms": 20}
    with (
        a_consumer(broker, group, **options, **{"default.api.timeout.ms": 500}) as impatient,
        a_consumer(broker, group, **options) as consumer,
        ottla.Admin(bootstrap_servers=broker.bootstrap) as admin,
        ottla.Producer(bootstrap_servers=broker.bootstrap, transactional_id=group) as producer,
    ):
        admin.alter_group_offsets(group, {where: ottla.OffsetAndMetadata(2)})
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({where: 7}, group)
        with pytest.raises(TimedOut):
            impatient.committed([where])
        producer.commit_transaction()
        assert consumer.committed([where])[where].offset == 7
