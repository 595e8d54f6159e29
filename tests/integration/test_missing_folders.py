"""A broker that is started with fewer log folders than before: what was in the others is offline, never empty."""

import logging

import pytest

from ottla.storage.checkpoints import read_meta, uuid_text
from ottla.storage.memory import MemoryDisk
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.integration.nodes import broker, run
from tests.integration.test_disks import STORAGE_ERROR, homes

ALL = set(range(4))


async def filled(disks):
    """A topic with a record in each partition; the partitions of the second folder."""
    async with broker(disks) as (node, client):
        await client.create("t", partitions=len(ALL))
        for index in ALL:
            assert (await client.produce("t", b"v%d" % index, partition=index)).error_code == 0
        return {index for index, path in homes(node, "t").items() if path == "memory-1"}


async def check_offline(disks, lost):
    async with broker(disks) as (_, client):
        for index in ALL:
            code = STORAGE_ERROR if index in lost else 0
            assert (await client.fetch("t", partition=index)).error_code == code
            assert (await client.produce("t", b"w", partition=index)).error_code == code


async def check_back(disks, lost, starts):
    async with broker(disks) as (_, client):
        for index in ALL:
            later = [] if index in lost else [b"w"] * starts
            assert await client.read_all("t", index) == [b"v%d" % index, *later]


@pytest.mark.parametrize("starts", [1, 2])
def test_partitions_of_a_folder_that_is_no_longer_named_are_offline_until_it_is_named_again(starts):
    """They were created again with offsets from 0, so that the folder could never be used any more."""

    async def scenario():
        disks = [MemoryDisk(), MemoryDisk()]
        lost = await filled(disks)
        for _ in range(starts):
            await check_offline(disks[:1], lost)
        await check_back(disks, lost, starts)

    run(scenario())


def test_a_folder_that_was_replaced_by_an_empty_one_is_missing_too():
    async def scenario():
        disks = [MemoryDisk(), MemoryDisk()]
        lost = await filled(disks)
        await check_offline([disks[0], MemoryDisk()], lost)
        await check_back(disks, lost, 1)

    run(scenario())


def test_a_folder_that_could_not_be_read_before_it_was_left_out_is_missing_too(tmp_path):
    async def scenario():
        one, two = tmp_path / "one", tmp_path / "two"
        both = f"{one},{two}"
        async with broker(log_dirs=both) as (node, client):
            await client.create("t", partitions=2)
            (lost,) = [index for index, path in homes(node, "t").items() if path == str(two)]
            assert (await client.produce("t", b"v", partition=lost)).error_code == 0
        two.rename(tmp_path / "away")
        two.write_text("not a folder")
        for folders in (both, str(one), str(one)):
            async with broker(log_dirs=folders) as (_, client):
                assert (await client.fetch("t", partition=lost)).error_code == STORAGE_ERROR
        two.unlink()
        (tmp_path / "away").rename(two)
        async with broker(log_dirs=both) as (_, client):
            assert await client.read_all("t", lost) == [b"v"]

    run(scenario())


def test_the_log_names_the_missing_folder_and_what_to_do(caplog):
    async def scenario():
        disks = [MemoryDisk(), MemoryDisk()]
        lost = await filled(disks)
        missing = uuid_text(read_meta(disks[1]).directory_id)
        with caplog.at_level(logging.ERROR):
            await check_offline(disks[:1], lost)
        (text,) = [record.message for record in caplog.records if missing in record.message]
        assert f"t-{min(lost)}" in text and "2 partitions are offline" in text
        assert "ottla.start.without.folders=true" in text

    run(scenario())


def test_the_loss_of_a_folder_can_be_accepted_once():
    async def scenario():
        disks = [MemoryDisk(), MemoryDisk()]
        lost = await filled(disks)
        await check_offline(disks[:1], lost)
        async with broker(disks[:1], ottla_start_without_folders="true") as (_, client):
            for index in lost:
                assert (await client.produce("t", b"new", partition=index)).base_offset == 0
        async with broker(disks[:1]) as (_, client):
            for index in lost:
                assert await client.read_all("t", index) == [b"new"]

    run(scenario())


def test_the_records_of_a_folder_that_was_given_up_do_not_replace_later_ones():
    async def scenario():
        disks = [MemoryDisk(), MemoryDisk()]
        lost = await filled(disks)
        async with broker(disks) as (_, client):
            for index in lost:
                assert (await client.produce("t", b"more", partition=index)).error_code == 0
        async with broker(disks[:1], ottla_start_without_folders="true") as (_, client):
            for index in lost:
                assert (await client.produce("t", b"new", partition=index)).error_code == 0
        for _ in range(2):
            async with broker(disks) as (_, client):
                for index in lost:
                    assert await client.read_all("t", index) == [b"new"]
        assert len([name for name in disks[1].list("") if name.endswith("-stray")]) == len(lost)

    run(scenario())


def test_a_folder_without_partitions_may_be_left_out():
    async def scenario():
        disks = [MemoryDisk(), MemoryDisk()]
        async with broker(disks) as (node, client):
            await client.create("t")
            assert (await client.produce("t", b"v")).error_code == 0
            assert homes(node, "t") == {0: "memory-0"}
        async with broker(disks[:1]) as (node, client):
            assert await client.read_all("t") == [b"v"]
            assert len(node.broker.image.brokers[1].directories) == 1
            await client.create("u")
            assert (await client.produce("u", b"v")).error_code == 0

    run(scenario())


def test_a_topic_of_a_missing_folder_can_be_deleted_and_the_folder_is_forgotten():
    async def scenario():
        disks = [MemoryDisk(), MemoryDisk()]
        await filled(disks)
        async with broker(disks[:1]) as (node, client):
            assert len(node.broker.image.brokers[1].directories) == 2
            wanted = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=10_000)
            assert (await client.call(wanted)).responses[0].error_code == 0
            await client.create("t")
            assert (await client.produce("t", b"new")).base_offset == 0
        async with broker(disks[:1]) as (node, client):
            assert len(node.broker.image.brokers[1].directories) == 1
            assert await client.read_all("t") == [b"new"]

    run(scenario())
