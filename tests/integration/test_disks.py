"""Disks that fill up, fail or lose what was not synced: what was acknowledged stays, the rest goes on."""

import asyncio
import errno
import logging
import random

import pytest

from ottla.config.settings import Config
from ottla.errors import KafkaStorageError
from ottla.server.metrics.health import readiness
from ottla.server.node import Node
from ottla.storage.memory import MemoryDisk
from tests.integration.nodes import BROKER, SETTINGS, TOPIC, broker, connected, power_cut, run, running, until

STORAGE_ERROR = KafkaStorageError.code


def homes(node, topic):
    return {
        key[1]: node.broker.replicas.home(key).path
        for key in node.broker.replicas.partitions
        if key[0] == topic
    }


def test_partitions_are_spread_over_the_folders():
    async def scenario():
        async with broker([MemoryDisk(), MemoryDisk(), MemoryDisk()]) as (node, client):
            await client.create("t", partitions=9)
            found = list(homes(node, "t").values())
            assert {found.count(path) for path in set(found)} == {3}

    run(scenario())


@pytest.mark.parametrize("operation", ["append", "read"])
def test_a_failing_folder_takes_only_its_own_partitions_offline(operation):
    async def scenario():
        good, bad = MemoryDisk(), MemoryDisk()
        async with broker([good, bad]) as (node, client):
            await client.create("t", partitions=4)
            for index in range(4):
                assert (await client.produce("t", b"v", partition=index)).error_code == 0
            on_bad = {index for index, path in homes(node, "t").items() if path == "memory-1"}
            assert len(on_bad) == 2
            bad.fail(operation)
            one = min(on_bad)
            if operation == "append":
                assert (await client.produce("t", b"v", partition=one)).error_code == STORAGE_ERROR
            else:
                assert (await client.fetch("t", partition=one)).error_code == STORAGE_ERROR
            for index in range(4):
                code = STORAGE_ERROR if index in on_bad else 0
                assert (await client.produce("t", b"v", partition=index)).error_code == code
                assert (await client.fetch("t", partition=index)).error_code == code
            partitions = (await client.topic("t")).partitions
            assert {each.partition_index for each in partitions if each.offline_replicas == [1]} == on_bad
            folders = await client.folders()
            assert folders["memory-0"][0] == 0
            assert folders["memory-1"] == (STORAGE_ERROR, {})
            assert "offline log folders" in readiness(node).reasons[0]
            await client.create("u", partitions=2)  # new ones go where they can live
            assert set(homes(node, "u").values()) == {"memory-0"}

    run(scenario())


def test_a_sync_that_fails_is_not_acknowledged():
    async def scenario():
        disks = [MemoryDisk(), MemoryDisk()]
        async with broker(disks) as (node, client):
            await client.create("t", partitions=2, flush_messages=1)
            bad = next(index for index, path in homes(node, "t").items() if path == "memory-1")
            disks[1].fail("sync")
            assert (await client.produce("t", b"v", partition=bad)).error_code == STORAGE_ERROR
            assert (await client.produce("t", b"v", partition=1 - bad)).error_code == 0

    run(scenario())


def test_a_full_disk_refuses_and_goes_on_when_there_is_room_again():
    async def scenario():
        disk = MemoryDisk(capacity_bytes=100_000)
        acknowledged, refused = [], 0
        async with broker([disk], crash=True) as (node, client):
            await client.create("t", internal_segment_bytes=14_000)
            for number in range(300):
                value = b"%d " % number + bytes(1000)
                answer = await client.produce("t", value)
                if answer.error_code == 0:
                    acknowledged.append(value)
                    continue
                assert answer.error_code == STORAGE_ERROR
                assert "no space left" in answer.error_message
                refused += 1
                node.broker.housekeeping.checkpoint()  # finds no room either
                if refused % 7 == 0:
                    disk.capacity_bytes += 50_000
            assert refused >= 7
            assert acknowledged[-1].startswith(b"299")
            assert await client.read_all("t") == acknowledged
            assert not node.broker.replicas.folders[0].is_offline
        disk.capacity_bytes = None
        disk.crash(lose_unsynced=False)
        async with broker([disk]) as (node, client):
            assert await client.read_all("t") == acknowledged

    run(scenario())


def test_a_disk_that_is_full_for_a_moment_at_any_step_loses_nothing():
    """Whichever call meets it: creating the files, rolling, the snapshot, an index, a checkpoint."""

    async def scenario():
        chance = random.Random(1)
        disk = MemoryDisk()
        acknowledged = []
        full = OSError(errno.ENOSPC, "no space left on device")
        async with broker([disk], crash=True) as (node, client):
            await client.create("t", internal_segment_bytes=14_000, flush_messages=3)
            for number in range(400):
                operation = chance.choice(["open", "append", "write_at", "write_whole", "none", "none"])
                half = chance.randrange(60) if operation == "append" else 0  # a short write, then nothing
                disk.fail(
                    operation, full, after=chance.randrange(3), times=chance.randrange(1, 4), partial=half
                )
                value = b"%d " % number + bytes(chance.randrange(3000))
                answer = await client.produce("t", value)
                if answer.error_code == 0:
                    acknowledged.append(value)
                else:
                    assert answer.error_code == STORAGE_ERROR
                if number % 20 == 0:
                    node.broker.housekeeping.checkpoint()
                if number % 3 == 0:
                    disk.clear_faults()
            disk.clear_faults()
            assert 100 < len(acknowledged) < 400
            assert await client.read_all("t") == acknowledged
        disk.crash(lose_unsynced=False)
        async with broker([disk]) as (node, client):
            assert await client.read_all("t") == acknowledged

    run(scenario())


def test_metadata_that_cannot_be_written_is_refused_and_records_go_on():
    async def scenario():
        disks = [MemoryDisk(), MemoryDisk()]
        async with broker(disks, crash=True) as (_, client):
            await client.create("t", partitions=2)
            for operation, error in (("append", errno.ENOSPC), ("sync", errno.EIO)):
                disks[0].fail(operation, OSError(error, "no"), path_part="metadata/")
                with pytest.raises(AssertionError, match="error_code=56"):
                    await client.create("u")
                assert (await client.produce("t", b"v", partition=0)).error_code == 0
                assert (await client.produce("t", b"v", partition=1)).error_code == 0
                disks[0].clear_faults()
            await client.create("u")
            assert (await client.produce("u", b"v")).error_code == 0
        for disk in disks:
            disk.crash(lose_unsynced=False)
        async with broker(disks) as (_, client):
            assert await client.read_all("u") == [b"v"]
            assert await client.read_all("t", 0) == [b"v", b"v"]

    run(scenario())


def test_a_folder_missing_at_the_start_keeps_its_partitions_offline_until_it_is_back(tmp_path):
    async def scenario():
        one, two = tmp_path / "one", tmp_path / "two"
        dirs = f"{one},{two}"
        async with broker(log_dirs=dirs) as (node, client):
            await client.create("t", partitions=4)
            for index in range(4):
                await client.produce("t", b"v%d" % index, partition=index)
            on_two = {index for index, path in homes(node, "t").items() if path == str(two)}
        two.rename(tmp_path / "away")
        two.write_text("not a folder")
        async with broker(log_dirs=dirs) as (node, client):
            for index in range(4):
                code = STORAGE_ERROR if index in on_two else 0
                assert (await client.fetch("t", partition=index)).error_code == code
        two.unlink()
        (tmp_path / "away").rename(two)
        async with broker(log_dirs=dirs) as (node, client):
            for index in range(4):
                assert await client.read_all("t", index) == [b"v%d" % index]

    run(scenario())


def test_a_broker_whose_only_folder_cannot_be_read_does_not_start():
    """Too few handles, say: it would serve nothing, and the next start may go well."""

    async def scenario():
        disk = MemoryDisk()
        async with broker([disk]) as (_, client):
            await client.create("t")
            await client.produce("t", b"v")
        handles = OSError(errno.EMFILE, "too many open files")
        disk.fail("read", handles, path_part="log-start-offset-checkpoint")
        with pytest.raises(KafkaStorageError, match=r"memory-0: .*too many open files"):
            async with broker([disk]):
                pass
        disk.clear_faults()
        async with broker([disk]) as (_, client):
            assert await client.read_all("t") == [b"v"]

    run(scenario())


def test_a_moved_partition_loses_nothing_under_load():
    async def scenario():
        disks = [MemoryDisk(), MemoryDisk()]
        async with broker(disks, crash=True) as (node, client):
            await client.create("t", internal_segment_bytes=2_000_000)
            key = ("t", 0)
            sent = [b"%d " % i + bytes(12_000) for i in range(1000)]
            for start in range(0, 1000, 50):
                assert (await client.produce("t", *sent[start : start + 50])).error_code == 0
            source = node.broker.replicas.home(key).path
            target = "memory-1" if source == "memory-0" else "memory-0"
            futures = []
            async with connected(node) as other:
                assert await other.move("t", target) == 0
                while node.broker.replicas.home(key).path == source:
                    sent.append(b"%d " % len(sent))
                    assert (await client.produce("t", sent[-1])).error_code == 0
                    entries = (await other.folders())[target][1].get(key, [])
                    futures += [each for each in entries if each.is_future_key]
                for _ in range(20):
                    sent.append(b"%d " % len(sent))
                    assert (await client.produce("t", sent[-1])).error_code == 0
            assert futures and futures[0].offset_lag > futures[-1].offset_lag
            assert await client.read_all("t") == sent
            await until(lambda: not any(n.startswith("t-0") for n in disks[int(source[-1])].list("")))
        for disk in disks:
            disk.crash(lose_unsynced=False)
        async with broker(disks) as (node, client):
            assert homes(node, "t") == {0: target}
            assert await client.read_all("t") == sent

    run(scenario())


@pytest.mark.parametrize("records", [0, 1])
def test_a_partition_without_records_moves_with_its_offsets(records):
    async def scenario():
        disks = [MemoryDisk(), MemoryDisk()]
        async with broker(disks) as (node, client):
            await client.create("t")
            if records:
                await client.produce("t", b"v")
                await client.delete_before("t", 1)
                node.broker.replicas.partition("t", 0).log.roll_if_due(1 << 50)
            source = node.broker.replicas.home(("t", 0)).path
            target = "memory-1" if source == "memory-0" else "memory-0"
            assert await client.move("t", target) == 0
            await until(lambda: homes(node, "t") == {0: target})
            assert await client.bounds("t") == (records, records)
        async with broker(disks) as (node, client):
            assert await client.bounds("t") == (records, records)
            assert (await client.produce("t", b"v")).base_offset == records

    run(scenario())


@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_during_a_move_loses_nothing_acknowledged(seed):
    async def scenario():
        chance = random.Random(seed)
        disks = [MemoryDisk(), MemoryDisk()]
        acknowledged, cuts = [], []

        def cut():
            cuts.append((list(acknowledged), [disk.copy() for disk in disks]))

        async def keep_producing(node, name):
            async with connected(node) as client:
                for number in range(12):
                    await asyncio.sleep(chance.uniform(0, 0.03))
                    value = b"%d %d " % (name, number)
                    assert (await client.produce("t", value)).error_code == 0
                    acknowledged.append(value)
                    if chance.random() < 0.1:
                        cut()

        async with running(disks, crash=True, slow=True) as node, connected(node) as client:
            await client.create("t", flush_messages=1)
            for number in range(10):
                acknowledged.append(b"%d " % number + bytes(60_000))
                await client.produce("t", acknowledged[-1])
            replicas, moved = node.broker.replicas, node.broker.replicas.moved

            def watched(*arguments):
                moved(*arguments)
                asyncio.get_running_loop().call_soon(cut)  # the moment it has just moved

            replicas.moved = watched
            source = replicas.home(("t", 0)).path
            target = "memory-1" if source == "memory-0" else "memory-0"
            await client.move("t", target)
            await asyncio.gather(*(keep_producing(node, name) for name in range(4)))
            assert replicas.home(("t", 0)).path == target
        for known, copies in cuts:
            async with broker([power_cut(each) for each in copies]) as (_, client):
                assert set(known) <= set(await client.read_all("t"))

    run(scenario())


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_deleted_records_and_the_high_watermark_survive(how):
    async def scenario():
        disk = MemoryDisk()
        async with broker([disk], crash=how == "kill", slow=True) as (_, client):
            await client.create("t")
            for number in range(10):
                await client.produce("t", b"%d" % number)
            assert (await client.delete_before("t", 6)).low_watermark == 6
        if how == "kill":
            disk.crash(lose_unsynced=False)
        async with broker([disk]) as (_, client):
            assert await client.bounds("t") == (6, 10)
            assert await client.read_all("t") == [b"6", b"7", b"8", b"9"]
            assert (await client.fetch("t", 5)).error_code == 1  # OFFSET_OUT_OF_RANGE

    run(scenario())


@pytest.mark.parametrize("seed", range(2))
def test_with_flush_messages_1_a_power_cut_loses_nothing_acknowledged(seed):
    async def scenario():
        chance = random.Random(seed)
        disk = MemoryDisk()
        acknowledged, cuts = [], []

        async def keep_producing(node, name):
            async with connected(node) as client:
                for number in range(15):
                    value = b"%d %d " % (name, number) + bytes(chance.randrange(500))
                    assert (await client.produce("t", value)).error_code == 0
                    acknowledged.append(value)
                    if len(acknowledged) % 13 == 0:
                        cuts.append((list(acknowledged), disk.copy()))  # the power goes at this very moment

        async with running([disk], crash=True, slow=True) as node:
            async with connected(node) as client:
                await client.create("t", flush_messages=1, internal_segment_bytes=20_000)
            await asyncio.gather(*(keep_producing(node, name) for name in range(8)))
        for known, cut in cuts:
            async with broker([power_cut(cut)]) as (_, client):
                assert set(known) <= set(await client.read_all("t"))

    run(scenario())


def test_one_sync_serves_all_that_wait_for_it():
    async def scenario():
        disk = MemoryDisk()
        async with running([disk], slow=True) as node:
            clients = []
            async with connected(node) as client:
                await client.create("t", flush_messages=1)
                await client.produce("t", b"first")
                for _ in range(40):
                    clients.append(await type(client).connect(node.listeners[0].port))
                before = disk.syncs
                for _ in range(5):
                    answers = await asyncio.gather(*(each.produce("t", b"v") for each in clients))
                    assert not any(each.error_code for each in answers)
                assert disk.syncs - before <= 5 * 3
                for each in clients:
                    await each.close()

    run(scenario())


def test_flush_ms_syncs_without_further_appends():
    async def scenario():
        disk = MemoryDisk()
        async with running([disk], crash=True) as node, connected(node) as client:
            await client.create("t", flush_ms=1)
            await client.produce("t", b"v")
            await until(lambda: node.broker.replicas.partition("t", 0).log.recovery_point == 1)
            cut = power_cut(disk.copy())
        async with broker([cut]) as (_, client):
            assert await client.read_all("t") == [b"v"]

    run(scenario())


def test_what_was_torn_by_a_crash_is_cut_and_told(caplog):
    async def scenario():
        disk = MemoryDisk()
        async with broker([disk], crash=True) as (_, client):
            await client.create("t")
            await client.produce("t", b"whole")
            await client.produce("t", b"torn" * 100)
        disk.tear_last_append(70)
        disk.crash(lose_unsynced=False)
        with caplog.at_level(logging.WARNING):
            async with broker([disk]) as (_, client):
                assert await client.read_all("t") == [b"whole"]
        lines = [each.getMessage() for each in caplog.records]
        assert any("t-0" in line and "70 bytes" in line for line in lines), lines

    run(scenario())


def test_the_mark_of_a_clean_stop_is_there_after_a_stop_alone(tmp_path):
    async def scenario():
        mark = tmp_path / "data" / ".kafka_cleanshutdown"
        async with broker(log_dirs=tmp_path / "data") as (_, client):
            await client.create("t")
            await client.produce("t", b"v")
            assert not mark.exists()
        assert mark.exists()
        async with broker(crash=True, log_dirs=tmp_path / "data") as (_, client):
            assert not mark.exists()
        assert not mark.exists()

    run(scenario())


def test_retention_rolling_and_compaction_follow_settings_changed_while_running():
    async def scenario():
        disk = MemoryDisk()
        async with broker([disk]) as (node, client):
            await client.create("t", file_delete_delay_ms=60_000)
            for number in range(20):
                await client.produce("t", b"%d" % number + bytes(2000), key=b"k%d" % (number % 2))
            log = node.broker.replicas.partition("t", 0).log
            assert len(log.segments) == 1

            # Rolled by time, although nobody appends any more.
            await client.configure(TOPIC, "t", segment_ms=1000)
            node.clock.advance(310_000)
            await until(lambda: len(log.segments) == 2)

            # Compacted, with a topic's own setting and a cleaner whose pause was shortened.
            await client.configure(BROKER, "", log_cleaner_backoff_ms=1000)
            size = log.size_bytes
            await client.configure(TOPIC, "t", cleanup_policy="compact", min_cleanable_dirty_ratio=0.01)
            node.clock.advance(1000)
            await until(lambda: log.size_bytes < size / 4)
            assert len(await client.read_all("t")) == 2

            # Deleted by size, as the broker's default says; the files go after file.delete.delay.ms.
            await client.configure(TOPIC, "t", cleanup_policy="delete")
            await client.configure(BROKER, "", log_retention_bytes=0)
            node.clock.advance(310_000)
            await until(lambda: log.log_start_offset > 0)
            assert any(name.endswith(".deleted") for name in disk.list("t-0"))
            node.clock.advance(60_000)
            await until(lambda: not any(name.endswith(".deleted") for name in disk.list("t-0")))

    run(scenario())


def test_records_older_than_retention_ms_go_with_a_shorter_one_set_while_running():
    async def scenario():
        async with broker([MemoryDisk()]) as (node, client):
            await client.create("t")
            await client.produce("t", b"old", timestamp=1_000)
            log = node.broker.replicas.partition("t", 0).log
            await client.configure(TOPIC, "t", retention_ms=-1)
            node.clock.advance(310_000)
            assert log.log_start_offset == 0
            await client.configure(TOPIC, "t", retention_ms=1000)
            node.clock.advance(310_000)
            await until(lambda: log.log_start_offset == 1)
            assert await client.bounds("t") == (1, 1)

    run(scenario())


def test_a_topic_deleted_while_it_is_synced_moved_or_compacted_harms_no_folder():
    async def scenario():
        disks = [MemoryDisk(), MemoryDisk()]
        async with broker(disks, log_cleaner_backoff_ms=1) as (node, client):
            from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

            for number in range(15):
                name = f"t{number}"
                await client.create(
                    name,
                    cleanup_policy="compact",
                    flush_messages=1,
                    internal_segment_bytes=14_000,
                    min_cleanable_dirty_ratio=0.01,
                )
                for _ in range(5):
                    await client.produce(name, *[bytes(3000)] * 4)
                source = node.broker.replicas.home((name, 0)).path
                await client.move(name, "memory-1" if source == "memory-0" else "memory-0")
                produced = asyncio.create_task(client.produce(name, bytes(100), acks=1))
                for _ in range(number):
                    await asyncio.sleep(0)
                async with connected(node) as other:
                    await other.call(
                        DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=5000)
                    )
                await produced
            await asyncio.sleep(0.05)
            assert not any(folder.is_offline for folder in node.broker.replicas.folders)

    run(scenario())


class HeldJobs:
    """Jobs wait until the test lets them run."""

    def __init__(self, loop):
        self.waiting = []
        self.held = lambda job: False

    def submit(self, job, done):
        self.waiting.append((job, done))
        asyncio.get_running_loop().call_soon(self.run_others)

    def run_others(self):
        for each in [each for each in self.waiting if not self.held(each[0])]:
            self.waiting.remove(each)
            job, done = each
            try:
                result = job()
            except Exception as error:
                result = error
            done(result)

    def close(self):
        pass


def test_what_is_synced_in_the_old_place_alone_is_not_acknowledged_when_a_partition_is_about_to_move():
    """The new place is synced one last time; what comes meanwhile is copied behind it, unsynced."""

    async def scenario():
        disks, held = [MemoryDisk(), MemoryDisk()], []
        node = Node(
            Config(SETTINGS),
            disks=list(disks),
            make_jobs=lambda loop: held.append(HeldJobs(loop)) or held[0],
        )
        await node.start()
        async with connected(node) as client, connected(node) as other:
            await client.create("t", flush_messages=1)
            await client.produce("t", b"before")
            replicas = node.broker.replicas
            source = replicas.home(("t", 0)).path
            jobs = held[0]

            def syncs_the_copy(job):
                return "-future" in getattr(getattr(job, "__self__", None), "folder", "")

            async def next_sync_of_the_copy():
                found = await until(lambda: [each for each in jobs.waiting if syncs_the_copy(each[0])])
                return found[0]

            jobs.held = syncs_the_copy
            await client.move("t", "memory-1" if source == "memory-0" else "memory-0")
            job, done = await next_sync_of_the_copy()
            assert (await client.produce("t", b"meanwhile")).error_code == 0
            jobs.waiting.remove((job, done))
            job()
            done(None)
            await next_sync_of_the_copy()  # the last one
            late = asyncio.create_task(client.produce("t", b"late"))
            await until(lambda: node.broker.replicas.partition("t", 0).log.end_offset == 3)
            for _ in range(20):
                await asyncio.sleep(0.001)
            told = late.done()
            jobs.held = lambda job: homes(node, "t")[0] != source  # the last sync, the switch, and no more
            jobs.run_others()
            await until(lambda: homes(node, "t")[0] != source)
            told = told or late.done()
            cut = [power_cut(disk.copy()) for disk in disks]
            jobs.held = lambda job: False
            jobs.run_others()
            assert (await late).error_code == 0
            assert await other.read_all("t") == [b"before", b"meanwhile", b"late"]
        await node.crash()
        async with broker(cut) as (_, client):
            found = await client.read_all("t")
            assert found[:2] == [b"before", b"meanwhile"] and (b"late" in found or not told)

    run(scenario())
