"""Reads our own metadata without taking part: no lease, no entry, nothing written."""

import asyncio
from collections.abc import Mapping, Sequence

from ottla.broker.assembly import METADATA_FOLDER
from ottla.config.settings import Config
from ottla.errors import OttlaError
from ottla.metadata.image import Image
from ottla.metadata.journal import Journal
from ottla.metadata.records import Record
from ottla.ports import Disk
from ottla.server.zookeeper.log import ZooKeeperLog
from ottla.storage.memory import MemoryDisk

CONNECT_S = 30.0


class _Reader:
    """The listener of a metadata log that only looks."""

    def __init__(self) -> None:
        self.image = Image()
        self.is_caught_up = False

    def on_snapshot(self, position: int, records: Sequence[Record]) -> None:
        self.image = Image()
        self.image.apply_entry(position - 1, records)

    def on_entry(self, position: int, records: Sequence[Record]) -> None:
        self.image.apply_entry(position, records)

    def on_lease(self, holder: int | None, epoch: int) -> None:
        self.is_caught_up = True

    def on_members(self, members: Mapping[int, bytes]) -> None:
        pass

    def on_session_lost(self) -> None:
        pass


def read_journal(disk: Disk) -> Image:
    """From a copy in memory: opening a journal in its place would write to it."""
    copy = MemoryDisk(track_sync=False)
    copy.make_folder(METADATA_FOLDER)
    for name in disk.list(METADATA_FOLDER):
        copy.write_whole(f"{METADATA_FOLDER}/{name}", disk.read_whole(f"{METADATA_FOLDER}/{name}"))
    reader = _Reader()
    journal = Journal(copy, METADATA_FOLDER)
    journal.open(reader)
    journal.close()
    return reader.image


def read_zookeeper(config: Config) -> Image:
    return asyncio.run(_read_zookeeper(config))


async def _read_zookeeper(config: Config) -> Image:
    log = ZooKeeperLog.of(config)
    reader = _Reader()
    try:
        async with asyncio.timeout(CONNECT_S):
            log.open(reader)
            while not reader.is_caught_up:
                await asyncio.sleep(0.01)
    except TimeoutError as error:
        raise OttlaError(
            f"ZooKeeper at {config.zookeeper_connect} did not answer within {CONNECT_S:.0f} s"
        ) from error
    finally:
        log.close()
    return reader.image
