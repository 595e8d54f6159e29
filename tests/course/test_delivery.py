"""What is promised when something crashes in between: at most once, at least once, exactly once."""

from __future__ import annotations

import time
from collections.abc import Callable

import confluent_kafka

import ottla
from tests.conftest import Target
from tests.course.faces import DEADLINE_S, Api, Confluent, Ours, members, read, until
from tests.oracle.transactions import wait_for_markers

Unique = Callable[[str], str]
Rows = list[tuple[str | None, str | None]]
TEN: Rows = [(None, str(i)) for i in range(10)]


def values(count: int, first: int = 0) -> list[str]:
    return [str(i) for i in range(first, count)]


def test_messages_processed_twice_are_exactly_those_after_the_commit(api: Api, unique: Unique) -> None:
    topic, group = unique("twice"), unique("g")
    api.create(topic)
    api.produce(topic, TEN)
    first = api.member(group, [topic])
    with members(first):
        processed = [e.value for e in read(first, 10)]
        first.commit_at(topic, 0, 4)  # committed at 4, processed up to 10, then it crashes
    second = api.member(group, [topic])
    with members(second):
        again = [e.value for e in read(second, 6)]
    assert processed == values(10)
    assert again == values(10, first=4)  # exactly [4, 10)


def test_messages_missed_are_exactly_those_committed_and_not_processed(api: Api, unique: Unique) -> None:
    topic, group = unique("missed"), unique("g")
    api.create(topic)
    api.produce(topic, TEN)
    first = api.member(group, [topic])
    with members(first):
        batch = read(first, 10)
        first.commit()  # all ten are committed
        processed = [e.value for e in batch[:3]]  # and it crashes after three
    api.produce(topic, [(None, "10")])
    second = api.member(group, [topic])
    with members(second):
        processed += [e.value for e in read(second, 1)]
    assert [v for v in values(11) if v not in processed] == values(10, first=3)  # exactly [3, 10)


def run_with_crash(api: Api, topic: str, group: str, *, commit_first: bool) -> list[str | None]:
    """Two lives of a worker that handles record by record and crashes at the fifth between its two steps."""
    done: list[str | None] = []
    for life in (1, 2):
        member = api.member(group, [topic])
        with members(member):
            waiting = read(member, 10 if life == 1 else 10 - (api.committed(group, topic, 0) or 0))
            for record in waiting:
                crashes = life == 1 and record.offset == 4
                if commit_first:
                    member.commit_at(topic, 0, record.offset + 1)
                    if crashes:
                        break
                    done.append(record.value)
                else:
                    done.append(record.value)
                    if crashes:
                        break
                    member.commit_at(topic, 0, record.offset + 1)
    return done


def test_commit_then_process_is_at_most_once(api: Api, unique: Unique) -> None:
    topic = unique("at-most")
    api.create(topic)
    api.produce(topic, TEN)
    assert run_with_crash(api, topic, unique("g"), commit_first=True) == [*values(4), *values(10, first=5)]


def test_process_then_commit_is_at_least_once(api: Api, unique: Unique) -> None:
    topic = unique("at-least")
    api.create(topic)
    api.produce(topic, TEN)
    assert run_with_crash(api, topic, unique("g"), commit_first=False) == [*values(5), *values(10, first=4)]


def test_a_transaction_is_exactly_once(target: Target, unique: Unique) -> None:
    """Read, write and commit as one: the crash before the end leaves nothing, the second life does it all."""
    bootstrap = target.bootstrap
    source, sink, group, name = unique("source"), unique("sink"), unique("g"), unique("tx")
    api = Ours(bootstrap)
    api.create(source)
    api.create(sink)
    api.produce(source, TEN)
    for life in (1, 2):
        consumer = ottla.Consumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        producer = ottla.Producer(bootstrap_servers=bootstrap, transactional_id=name)
        producer.init_transactions()
        consumer.subscribe(source)
        records: list[ottla.ConsumerRecord] = []
        while len(records) < 10:
            records += consumer.poll(0.5)
        producer.begin_transaction()
        for record in records:
            producer.send(sink, b"done " + record.value)
        producer.flush()
        if life == 2:
            positions = {p: consumer.position(p) for p in consumer.assignment()}
            producer.send_offsets_to_transaction(positions, consumer.group_metadata())
            producer.commit_transaction()
        consumer.close()
        producer.close(0)  # life 1: in the middle of its transaction
    assert committed_values(bootstrap, sink) == [f"done {v}" for v in values(10)]
    assert len(api.records(sink)) == 20  # both lives wrote
    assert api.committed(group, source, 0) == 10


def test_a_transaction_is_exactly_once_with_confluent_kafka(target: Target, unique: Unique) -> None:
    source, sink, group, name = unique("source"), unique("sink"), unique("g"), unique("tx")
    api = Confluent(target.bootstrap)
    api.create(source)
    api.create(sink)
    api.produce(source, TEN)
    for life in (1, 2):
        member = api.member(group, [source], **{"isolation.level": "read_committed"})
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": target.bootstrap, "transactional.id": name, "log_level": 0}
        )
        producer.init_transactions(DEADLINE_S)
        with members(member):
            seen = read(member, 10)
            producer.begin_transaction()
            for record in seen:
                producer.produce(sink, f"done {record.value}")
            producer.flush(DEADLINE_S)
            if life == 2:  # life 1 ends in the middle of its transaction
                consumer = member.consumer
                positions = consumer.position(consumer.assignment())
                producer.send_offsets_to_transaction(
                    positions, consumer.consumer_group_metadata(), DEADLINE_S
                )
                producer.commit_transaction(DEADLINE_S)
    assert committed_values(target.bootstrap, sink) == [f"done {v}" for v in values(10)]
    assert len(api.records(sink, **{"isolation.level": "read_uncommitted"})) == 20  # both lives wrote
    assert api.committed(group, source, 0) == 10


def committed_values(bootstrap: str, topic: str) -> list[str | None]:
    """As both clients read them."""
    wait_for_markers(bootstrap, topic)
    ours, theirs = (
        [each.value for each in api.records(topic, **{"isolation.level": "read_committed"})]
        for api in (Ours(bootstrap), Confluent(bootstrap))
    )
    assert ours == theirs
    return ours


def test_auto_commit_every_five_seconds_on_a_controlled_clock(target: Target, unique: Unique) -> None:
    api, topic, group = Ours(target.bootstrap), unique("auto"), unique("g")
    api.create(topic)
    api.produce(topic, TEN)
    now = [0.0]
    consumer = ottla.Consumer(
        bootstrap_servers=target.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        clock=lambda: now[0],
    )
    where = ottla.TopicPartition(topic, 0)
    with consumer:
        consumer.subscribe(topic)
        seen = 0
        while seen < 5:
            seen += len(consumer.poll(0.5, max_records=5 - seen))
        now[0] = 4.9
        consumer.poll(0, max_records=1)
        assert consumer.committed([where]) == {}  # not yet
        now[0] = 5.1
        consumer.poll(0, max_records=1)  # commits what was handed out before it: 6
        deadline = time.monotonic() + DEADLINE_S
        while not consumer.committed([where]):
            assert time.monotonic() < deadline, "nothing was committed"
        assert consumer.committed([where])[where].offset == 6
        consumer.poll(0)
        assert consumer.committed([where])[where].offset == 6  # the next one is due at 10.1
    assert api.committed(group, topic, 0) == 10  # and one at close


def test_auto_commit_with_confluent_kafka(target: Target, unique: Unique) -> None:
    api, topic, group = Confluent(target.bootstrap), unique("auto"), unique("g")
    api.create(topic)
    api.produce(topic, TEN)
    member = api.member(group, [topic], **{"enable.auto.commit": True, "auto.commit.interval.ms": 500})
    with members(member):
        read(member, 10)
        until(lambda: api.committed(group, topic, 0) == 10, [member])
