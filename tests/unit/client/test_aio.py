"""`ottla.aio`: the same clients with `await`, and an event loop that is never blocked."""

import asyncio
import inspect
import threading
from collections.abc import Iterator

import pytest

import ottla
from ottla import aio
from ottla.client.errors import IllegalState
from ottla.client.values import TopicPartition
from ottla.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=2) as running:
        yield running


def test_a_tour(broker: Broker) -> None:
    async def tour() -> None:
        async with aio.Admin(bootstrap_servers=broker.bootstrap) as admin:
            await admin.create_topic("tour", 2)
            assert "tour" in await admin.list_topics()
        async with aio.Producer(bootstrap_servers=broker.bootstrap) as producer:
            sent = [await producer.send("tour", str(i), partition=i % 2) for i in range(20)]
            places = [await each for each in sent]
            assert [place.offset for place in places if place.partition == 0] == list(range(10))
            assert (await producer.send_and_wait("tour", "last", partition=0)).offset == 10
        settings = {"group.id": "tour", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        committed: list[object] = []
        async with aio.Consumer(settings, bootstrap_servers=broker.bootstrap) as consumer:

            async def on_revoked(partitions: frozenset[TopicPartition]) -> None:
                committed.append(await consumer.commit())  # from inside poll or close, on the loop

            await consumer.subscribe("tour", on_revoked=on_revoked)
            seen = 0
            async for _ in consumer:
                seen += 1
                if seen == 21:
                    break
        assert committed

    asyncio.run(tour())


def test_two_tasks_are_told_apart(broker: Broker) -> None:
    async def two() -> None:
        settings = {"bootstrap.servers": broker.bootstrap, "auto.offset.reset": "earliest"}
        async with aio.Consumer(settings) as consumer:
            await consumer.assign([("quiet", 0)])
            first = asyncio.ensure_future(consumer.poll(120.0))
            await asyncio.sleep(0.1)
            with pytest.raises(IllegalState, match="another thread or task"):
                await consumer.poll(0)
            await asyncio.to_thread(broker.send, "quiet", "x")
            assert [record.value for record in await first] == [b"x"]

    broker.create_topic("quiet")
    asyncio.run(two())


def test_the_loop_goes_on_while_a_poll_waits(broker: Broker) -> None:
    async def both() -> int:
        async with aio.Consumer(bootstrap_servers=broker.bootstrap) as consumer:
            await consumer.assign([("quiet-too", 0)])
            waiting = asyncio.ensure_future(consumer.poll(1.0))
            turns = 0
            while not waiting.done():
                turns += 1
                await asyncio.sleep(0.01)
            return turns

    broker.create_topic("quiet-too")
    assert asyncio.run(both()) > 5  # some hundred on a quiet machine; one or two if the poll blocks the loop


def test_what_an_awaited_admin_changes_has_changed(broker: Broker) -> None:
    """Methods that return nothing were never awaited."""

    async def work() -> None:
        async with aio.Admin(bootstrap_servers=broker.bootstrap) as admin:
            await admin.create_topic("changed", 1)
            await admin.add_partitions("changed", 3)
            assert len((await admin.describe_topics(["changed"]))["changed"].partitions) == 3
            await admin.alter_configs("topic", "changed", set_={"retention.ms": "1000"})
            assert (await admin.describe_configs("topic", "changed"))["retention.ms"].value == "1000"
            await admin.delete_topics(["changed"])
            assert "changed" not in await admin.list_topics()

    asyncio.run(work())


def test_no_client_starts_a_thread(broker: Broker) -> None:
    async def work() -> None:
        before = set(threading.enumerate())
        broker.create_topic("threadless")
        async with aio.Producer(bootstrap_servers=broker.bootstrap) as producer:
            await producer.send_and_wait("threadless", b"x")
        async with aio.Admin(bootstrap_servers=broker.bootstrap) as admin:
            await admin.list_topics()
        async with aio.Consumer(
            bootstrap_servers=broker.bootstrap, group_id="threadless", auto_offset_reset="earliest"
        ) as consumer:
            await consumer.subscribe("threadless")
            while not await consumer.poll(1.0):
                pass
            await consumer.commit()
            # asyncio itself asks for the addresses of a name in a thread of the loop's own pool.
            started = {each.name for each in set(threading.enumerate()) - before}
            assert not {name for name in started if "ottla" in name}

    asyncio.run(work())


def test_nothing_runs_on_after_the_close(broker: Broker) -> None:
    async def work() -> set[str]:
        broker.create_topic("left")
        async with (
            aio.Producer(bootstrap_servers=broker.bootstrap) as producer,
            aio.Consumer(bootstrap_servers=broker.bootstrap, group_id="left") as consumer,
            aio.Admin(bootstrap_servers=broker.bootstrap) as admin,
        ):
            await producer.send("left", b"x")
            await consumer.subscribe("left")
            await consumer.poll(0.1)
            await admin.list_topics()
        await asyncio.sleep(0)
        return {str(task) for task in asyncio.all_tasks() - {asyncio.current_task()}}

    assert asyncio.run(work()) == set()


def test_a_cancelled_poll_takes_no_record_with_it(broker: Broker) -> None:
    async def work() -> list[bytes]:
        broker.create_topic("cancelled", 1)
        seen: list[bytes] = []
        async with (
            aio.Producer(bootstrap_servers=broker.bootstrap, linger_ms=0) as producer,
            aio.Consumer(
                bootstrap_servers=broker.bootstrap, group_id="c", auto_offset_reset="earliest"
            ) as consumer,
        ):
            await consumer.subscribe("cancelled")
            for number in range(40):
                await producer.send("cancelled", str(number))
                try:
                    async with asyncio.timeout(0.003 * (number % 5)):
                        seen += [record.value for record in await consumer.poll(1.0)]
                except TimeoutError:
                    pass
            while len(seen) < 40:
                seen += [record.value for record in await consumer.poll(1.0)]
        return seen

    assert asyncio.run(work()) == [str(number).encode() for number in range(40)]


def test_sends_wait_for_room_and_a_callback_may_send(broker: Broker) -> None:
    async def work() -> None:
        broker.create_topic("room", 1)
        told: list[object] = []
        async with aio.Producer(
            bootstrap_servers=broker.bootstrap, buffer_memory=3000, batch_size=1000
        ) as producer:
            for _ in range(30):
                await producer.send("room", bytes(900), callback=lambda *outcome: told.append(outcome))
            await producer.flush()
            assert len(told) == 30
        assert len(broker.records("room")) == 30

    asyncio.run(work())


def test_transactions_commit_and_abort(broker: Broker) -> None:
    async def work() -> None:
        broker.create_topic("money", 1)
        async with aio.Producer(bootstrap_servers=broker.bootstrap, transactional_id="aio") as producer:
            await producer.init_transactions()
            for value, commits in ((b"kept", True), (b"dropped", False), (b"kept too", True)):
                producer.begin_transaction()
                await producer.send("money", value)
                await (producer.commit_transaction() if commits else producer.abort_transaction())
        assert [record.value for record in broker.records("money")] == [b"kept", b"kept too"]

    asyncio.run(work())


@pytest.mark.parametrize("arrow", [False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_a_record_that_waited_for_room_joins_no_later_transaction(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, commits: bool, arrow: bool
) -> None:
    pa = pytest.importorskip("pyarrow")
    topic = f"waited-{commits}-{arrow}"

    async def work() -> None:
        broker.create_topic(topic, 1)
        settings = {"transactional.id": topic, "linger.ms": 60_000, "buffer.memory": 10_000}
        async with aio.Producer(settings, bootstrap_servers=broker.bootstrap) as producer:
            waiting = asyncio.Event()
            changed = producer._room.changed

            async def watched() -> None:
                waiting.set()
                await changed()

            monkeypatch.setattr(producer._room, "changed", watched)
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send(topic, bytes(4_000))
            rows = pa.record_batch({"value": [bytes(7_000)]})
            late = asyncio.ensure_future(
                producer.send_batch(rows, topic) if arrow else producer.send(topic, bytes(7_000))
            )
            await waiting.wait()
            await (producer.commit_transaction() if commits else producer.abort_transaction())
            with pytest.raises(IllegalState, match=r"waited for room|being ended"):
                await late
            producer.begin_transaction()
            await producer.send(topic, b"next")
            await producer.commit_transaction()
        values = [record.value for record in broker.records(topic)]
        assert values == [bytes(4_000)] * commits + [b"next"]

    asyncio.run(work())


def test_arrow_rows_are_sent_and_read(broker: Broker) -> None:
    pa = pytest.importorskip("pyarrow")

    async def work() -> None:
        broker.create_topic("rows", 1)
        async with aio.Producer(bootstrap_servers=broker.bootstrap) as producer:
            where = await producer.send_batch(pa.record_batch({"value": [b"a", b"b"]}), "rows")
            assert [(each.topic, each.offset) for each in where] == [("rows", 0)]
        async with aio.Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([("rows", 0)])
            rows = await consumer.poll_arrow(20)
            assert rows.column("value").to_pylist() == [b"a", b"b"]

    asyncio.run(work())


def test_every_method_of_admin_is_there_to_be_awaited_with_the_same_parameters() -> None:
    blocking = {name: method for name, method in vars(ottla.Admin).items() if not name.startswith("_")}
    for name, method in blocking.items():
        awaited = getattr(aio.Admin, name)
        assert inspect.iscoroutinefunction(awaited), name
        assert inspect.signature(awaited) == inspect.signature(method) or name == "close", name
