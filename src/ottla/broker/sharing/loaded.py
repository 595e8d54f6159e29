"""Share-partitions at this broker, which leads their partitions: loaded when first asked for, gone with leadership."""

import logging
from collections.abc import Callable
from typing import TypeVar

from ottla import errors
from ottla.broker.sharing.dead_letters import DeadLetters
from ottla.broker.sharing.partitions import SharePartition
from ottla.broker.sharing.persister import Persister
from ottla.broker.sharing.settings import ShareSettings, share_settings
from ottla.broker.waits import Wait
from ottla.config.settings import Config
from ottla.coordination.share.records import NO_OFFSET, ShareKey, ShareState
from ottla.coordination.share.window import Window
from ottla.metadata.image import GROUP_RESOURCE, Image
from ottla.metadata.records import Record, TopicDeleted
from ottla.ports import Clock
from ottla.replication.partition import Partition
from ottla.storage.log import Log

T = TypeVar("T")
logger = logging.getLogger("ottla.share")
AT_EARLIEST, AT_LATEST = "earliest", "latest"
LOADED_MAX = 20_000  # of some kilobytes each


class SharePartitions:
    def __init__(
        self,
        image: Image,
        persister: Persister,
        letters: DeadLetters,
        clock: Clock,
        config: Callable[[], Config],
    ) -> None:
        self._image, self._persister, self._letters = image, persister, letters
        self._clock, self._config = clock, config
        self._loaded: dict[ShareKey, SharePartition] = {}
        self._by_group: dict[str, dict[ShareKey, SharePartition]] = {}  # the same ones
        self._by_topic: dict[bytes, dict[ShareKey, SharePartition]] = {}
        self._loading: dict[ShareKey, list[Wait[None]]] = {}
        image.watch(self._on_record)

    def settings_of(self, group_id: str) -> ShareSettings:
        return share_settings(self._image.settings(GROUP_RESOURCE, group_id), self._config())

    def held_by(self, group_id: str) -> list[SharePartition]:
        """Those of the group; not closed ones, which may not write any more."""
        return [share for share in self._by_group.get(group_id, {}).values() if not share.is_closed]

    def is_loaded(self, key: ShareKey) -> bool:
        return key in self._loaded

    async def get(self, key: ShareKey, partition: Partition) -> SharePartition:
        """The share-partition, loaded by the first who asks; others wait for it."""
        while True:
            loaded = self._loaded.get(key)
            if loaded is not None and self._is_current(loaded, partition):
                return loaded
            if loaded is not None:
                self._forget(key)
            if key in self._loading:
                wait: Wait[None] = Wait()
                self._loading[key].append(wait)
                await wait
                continue
            self._loading[key] = []
            try:
                self._make_room()
                self._keep(await self._load(key, partition))
            finally:
                for wait in self._loading.pop(key):
                    wait.set(None)

    def _make_room(self) -> None:
        """Any group may be named in a request: those that nobody reads from make room."""
        if len(self._loaded) < LOADED_MAX:
            return
        idle = [key for key, share in self._loaded.items() if share.is_idle]
        for key in idle[: LOADED_MAX // 10]:
            self._forget(key)
        if not idle:
            raise errors.ShareSessionLimitReached()

    def _keep(self, share: SharePartition) -> None:
        key = share.key
        self._loaded[key] = share
        self._by_group.setdefault(key.group_id, {})[key] = share
        self._by_topic.setdefault(key.topic_id, {})[key] = share

    def _forget(self, key: ShareKey) -> None:
        _remove(self._by_group, key.group_id, key)
        _remove(self._by_topic, key.topic_id, key)
        self._loaded.pop(key).close()

    def _is_current(self, share: SharePartition, partition: Partition) -> bool:
        return (
            not share.is_closed
            and share.partition is partition
            and share.leader_epoch == partition.state.leader_epoch
        )

    async def _load(self, key: ShareKey, partition: Partition) -> SharePartition:
        log = partition.leader_log()
        epoch = partition.state.leader_epoch
        state = await self._persister.read(key, epoch)
        if state is None or state.start_offset == NO_OFFSET:
            state = await self._begin(key, epoch, log, state)
        start = max(state.start_offset, log.log_start_offset)
        window = Window.load(state, start, self.settings_of(key.group_id).rules)
        share = SharePartition(
            key,
            partition,
            window,
            state.state_epoch,
            self._persister,
            self._letters,
            self._clock,
            lambda: self.settings_of(key.group_id),
        )
        share.begin()
        return share

    async def _begin(
        self, key: ShareKey, leader_epoch: int, log: Log, state: ShareState | None
    ) -> ShareState:
        """Where a group begins is decided once, and kept: after a change of leaders `latest` would be another place."""
        start = await self._first_offset(key.group_id, log)
        state_epoch = 0 if state is None else state.state_epoch
        await self._persister.initialize(key, state_epoch, start)
        again = await self._persister.read(key, leader_epoch)
        if again is None:
            raise errors.UnknownTopicOrPartition()
        return again

    async def _first_offset(self, group_id: str, log: Log) -> int:
        reset = self.settings_of(group_id).auto_offset_reset
        if reset == AT_EARLIEST:
            return log.log_start_offset
        if reset == AT_LATEST:
            return log.high_watermark
        since_ms = self._clock.now_ms() - int(reset)
        entry = log.offset_for_timestamp(since_ms, up_to=log.high_watermark)
        return log.high_watermark if entry is None else entry.offset

    def _on_record(self, record: Record) -> None:
        """A topic that is created again has another id: nobody would ask for these again."""
        if isinstance(record, TopicDeleted):
            for key in list(self._by_topic.get(record.topic_id, ())):
                self._forget(key)

    def forget_group(self, group_id: str) -> None:
        """An administrator has changed where the group stands."""
        for key in list(self._by_group.get(group_id, ())):
            self._forget(key)

    def forget_settled(self, group_id: str) -> None:
        """Nobody of the group has a session here. Its offsets may have been altered or deleted meanwhile, which only
        the share coordinator is told: the next ones who ask load what it has. A share-partition that still writes
        stays: what was loaded now would not know of that; if its offsets were altered, its next write is refused."""
        for key, share in list(self._by_group.get(group_id, {}).items()):
            if share.is_settled:
                self._forget(key)

    def forget_idle(self, group_id: str) -> None:
        """Nobody of the group has a session here any more."""
        for key, share in list(self._by_group.get(group_id, {}).items()):
            if share.is_idle:
                self._forget(key)

    async def release(self, group_id: str, member: str) -> None:
        """The member's session is over. All writes begin at once, and none depends on who awaits this."""
        changes = [(share, share.window.release(member)) for share in self.held_by(group_id)]
        writes = [(share, share.carry_out(change)) for share, change in changes if change is not None]
        for share, written in writes:
            try:
                await written
            except errors.ProtocolError as error:  # the locks' time frees what it held
                logger.info("share-partition %s: %s", share.key, error)


def _remove(index: dict[T, dict[ShareKey, SharePartition]], name: T, key: ShareKey) -> None:
    """An entry without share-partitions goes too."""
    shares = index[name]
    del shares[key]
    if not shares:
        del index[name]
