"""Our own share consumer beside a real broker: accepted, released, rejected, given back, shared."""

import threading

import pytest

from ottla import Admin, Producer, ShareConsumer
from ottla.client.errors import IllegalState, SettingError
from ottla.client.share_consumer import Acknowledge
from ottla.client.unused_settings import SHARE_REFUSED
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.errors import GroupIdNotFound, InvalidConfig, InvalidRequest, ShareSessionNotFound
from ottla.testing import Broker, Cluster

TOPIC, GROUP = "work", "queue"
PATIENCE_S = 30.0


@pytest.fixture
def broker():
    with Broker() as broker:
        broker.create_topic(TOPIC, 2)
        from_the_start(broker)
        yield broker


def from_the_start(broker, **more):
    settings = {
        "share.auto.offset.reset": "earliest",
        **{name.replace("_", "."): v for name, v in more.items()},
    }
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_configs("group", GROUP, set_=settings)


def member(broker, mode="implicit", topic=TOPIC):
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "share.acknowledgement.mode": mode}
    consumer = ShareConsumer(settings)
    consumer.subscribe([topic])
    return consumer


def send(broker, *numbers):
    for number in numbers:
        broker.send(TOPIC, str(number), key=str(number))


def take(consumer, count):
    taken = []
    while len(taken) < count:
        records = consumer.poll(PATIENCE_S)
        assert records, f"only {len(taken)} of {count} records came"
        taken += records
    return taken


def values(records):
    return sorted(int(record.value) for record in records)


def test_records_are_accepted_by_the_next_poll_and_do_not_come_again(broker):
    send(broker, *range(20))
    with member(broker) as consumer:
        assert values(take(consumer, 20)) == list(range(20))
        assert consumer.poll(0.2) == []
        send(broker, 20)
        assert values(take(consumer, 1)) == [20]
    with member(broker) as consumer:
        assert consumer.poll(0.5) == []


def test_a_released_record_comes_again_and_a_rejected_one_does_not(broker):
    send(broker, 1)
    with member(broker, "explicit") as consumer:
        (record,) = take(consumer, 1)
        assert consumer.delivery_count(record) == 1
        consumer.acknowledge(record, Acknowledge.RELEASE)
        (record,) = take(consumer, 1)
        assert consumer.delivery_count(record) == 2
        consumer.acknowledge(record, Acknowledge.REJECT)
        consumer.commit()
        assert consumer.poll(0.3) == []


def test_an_explicit_member_decides_about_every_record_before_it_polls_again(broker):
    send(broker, 1)
    with member(broker, "explicit") as consumer:
        (record,) = take(consumer, 1)
        with pytest.raises(IllegalState, match="acknowledge every record"):
            consumer.poll(0.1)
        consumer.acknowledge(record)
        with pytest.raises(IllegalState, match="not among the records"):
            consumer.acknowledge(record)
        assert consumer.poll(0.2) == []


def test_what_a_member_did_not_acknowledge_goes_to_another_when_it_closes(broker):
    send(broker, 1)
    first = member(broker, "explicit")
    take(first, 1)
    first.close()
    with member(broker) as second:
        assert values(take(second, 1)) == [1]


def test_what_was_locked_too_long_goes_to_another(broker):
    from_the_start(broker, share_record_lock_duration_ms="15000")
    broker.create_topic("one", 1)  # so that both members have it
    broker.send("one", "1")
    slow, quick = member(broker, "explicit", "one"), member(broker, topic="one")
    (record,) = take(slow, 1)
    assert quick.poll(0.3) == []
    broker.advance(seconds=16)
    assert values(take(quick, 1)) == [1]
    slow.acknowledge(record)
    with pytest.raises(Exception, match=r"(?i)state"):
        slow.commit()
    quick.close()
    slow.close()


def test_members_share_one_partition(broker):
    broker.create_topic("one", 1)
    taken: list[int] = []
    lock, done = threading.Lock(), threading.Event()

    def work():
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "max.poll.records": 5}
        with ShareConsumer(settings) as consumer:
            consumer.subscribe("one")
            while not done.is_set():
                records = consumer.poll(0.2)
                with lock:
                    taken.extend(int(record.value) for record in records)
                    if len(taken) >= 100:
                        done.set()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(100):
        broker.send("one", str(number))
    assert done.wait(PATIENCE_S)
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(100))


def test_an_accepted_record_does_not_come_back_from_the_next_leader():
    with Cluster(brokers=3) as cluster:
        cluster.create_topic(TOPIC, 3)
        from_the_start(cluster)
        for number in range(30):
            cluster.send(TOPIC, str(number), key=str(number))
        with member(cluster) as consumer:
            assert values(take(consumer, 30)) == list(range(30))
            consumer.commit()
            cluster.kill(cluster.leader(TOPIC, 1).broker_id)
            for number in range(30, 60):
                cluster.send(TOPIC, str(number), key=str(number))
            again = set(values(take(consumer, 30)))
        assert again == set(range(30, 60))


def test_a_new_group_of_a_deleted_ones_name_begins_at_its_own_start(broker):
    send(broker, 1)
    with member(broker) as consumer:
        take(consumer, 1)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.delete_group(GROUP)
    with member(broker) as consumer:
        assert values(take(consumer, 1)) == [1]


def test_a_group_that_begins_below_the_first_record_is_behind_by_all_records(broker):
    """Anybody may ask for such a start: the difference would not fit into an answer."""
    broker.create_topic("one", 1)
    broker.send("one", "1")
    place = TopicPartition("one", 0)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        for start in (0, -(2**63)):
            admin.alter_share_offsets(GROUP, {place: start})
            assert admin.share_progress(GROUP)[place].lag == 1


def test_a_renewed_record_stays_with_its_member_until_it_is_decided_about(broker):
    broker.create_topic("one", 1)
    broker.send("one", "1")
    slow, quick = member(broker, "explicit", "one"), member(broker, topic="one")
    (record,) = take(slow, 1)
    for _ in range(3):
        broker.advance(seconds=20)
        slow.acknowledge(record, Acknowledge.RENEW)
        slow.commit()
        assert quick.poll(0.1) == []
    slow.acknowledge(record)
    slow.close()
    assert quick.poll(0.2) == []
    quick.close()


def test_locks_are_renewed_only_where_the_group_allows_it(broker):
    from_the_start(broker, share_renew_acknowledge_enable="false")
    send(broker, 1)
    consumer = member(broker, "explicit")
    (record,) = take(consumer, 1)
    consumer.acknowledge(record, Acknowledge.RENEW)
    with pytest.raises(InvalidRequest):
        consumer.commit()
    consumer.close()


def test_a_group_is_needed_and_a_mode_that_exists():
    with pytest.raises(SettingError, match=r"group\.id"):
        ShareConsumer(bootstrap_servers="localhost:1")
    with pytest.raises(SettingError, match="implicit or explicit"):
        ShareConsumer({"group.id": "g", "share.acknowledgement.mode": "maybe"})


@pytest.mark.parametrize("name", SHARE_REFUSED)
def test_settings_that_would_mean_nothing_are_refused_as_by_kafkas_share_consumer(name):
    with pytest.raises(SettingError, match=f"{name.replace('_', '.')} cannot be set of a share consumer: "):
        ShareConsumer({"group.id": "g", name.replace("_", "."): "1"})


def test_the_same_with_await(broker):
    import asyncio

    from ottla import aio

    send(broker, *range(5))

    async def work():
        async with aio.ShareConsumer(bootstrap_servers=broker.bootstrap, group_id=GROUP) as consumer:
            await consumer.subscribe(TOPIC)
            taken = []
            while len(taken) < 5:
                records = await consumer.poll(PATIENCE_S)
                assert records
                taken += records
            await consumer.commit()
            return values(taken)

    assert asyncio.run(work()) == list(range(5))
    with member(broker) as consumer:
        assert consumer.poll(0.3) == []


def test_a_commit_whose_session_has_ended_is_an_error_not_a_success(tmp_path):
    with Broker(data=tmp_path) as broker:
        broker.create_topic(TOPIC, 1)
        from_the_start(broker)
        broker.send(TOPIC, "1")
        with member(broker, "explicit") as consumer:
            (record,) = take(consumer, 1)
            broker.restart()
            consumer._core._sessions.clear()  # a fetch has met the broker that is new
            consumer.acknowledge(record)
            with pytest.raises(ShareSessionNotFound):
                consumer.commit()
            (record,) = take(consumer, 1)  # it was not accepted, so it comes again
            consumer.acknowledge(record)


def test_offsets_of_a_share_group_cannot_be_committed(broker):
    send(broker, 1)
    with member(broker) as consumer, Admin(bootstrap_servers=broker.bootstrap) as admin:
        take(consumer, 1)
        with pytest.raises(GroupIdNotFound):
            admin.alter_group_offsets(GROUP, {TopicPartition(TOPIC, 0): OffsetAndMetadata(0)})
        assert [(group.id, group.type.lower()) for group in admin.list_groups()] == [(GROUP, "share")]


def test_delivery_counts_are_those_of_the_last_poll(broker):
    """A member that takes records for months remembers no more than one poll."""
    send(broker, 0)
    with member(broker) as consumer:
        (first,) = take(consumer, 1)
        consumer.commit()
        assert consumer.delivery_count(first) == 1
        send(broker, 1)
        take(consumer, 1)
        assert len(consumer._open_core().delivery_counts) == 1


def test_a_member_that_acknowledges_nothing_gets_no_more_than_the_group_may_lock(broker):
    from_the_start(broker, share_partition_max_record_locks="100")
    with pytest.raises(InvalidConfig, match=r"must be less than or equal to group\.share\.max"):
        from_the_start(broker, share_partition_max_record_locks="1000000")
    for number in range(150):
        broker.send(TOPIC, str(number), key="one partition")
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "max.poll.records": 30}
    with ShareConsumer(settings, share_acknowledgement_mode="explicit", holds=True) as consumer:
        consumer.subscribe(TOPIC)
        taken = take(consumer, 100)
        assert values(taken) == list(range(100))
        assert consumer.poll(0.3) == []
        for record in taken[:10]:
            consumer.acknowledge(record)
        consumer.commit()
        assert values(take(consumer, 10)) == list(range(100, 110))


@pytest.mark.parametrize(("mode", "taken"), [("record_limit", 3), ("batch_optimized", 10)])
def test_a_poll_brings_whole_batches_or_keeps_to_its_limit(broker, mode, taken):
    with Producer(bootstrap_servers=broker.bootstrap, linger_ms=60_000) as producer:
        for number in range(10):
            producer.send(TOPIC, str(number).encode(), key=b"one batch")
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "max.poll.records": 3}
    with ShareConsumer(settings, share_acquire_mode=mode) as consumer:
        consumer.subscribe(TOPIC)
        assert values(consumer.poll(PATIENCE_S)) == list(range(taken))
