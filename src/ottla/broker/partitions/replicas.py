"""The partitions that live on this broker: created, led, reconfigured and removed as the metadata says."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from ottla.config.log import LogConfig
from ottla.config.settings import Config
from ottla.errors import KafkaStorageError, NotLeaderOrFollower, UnknownTopicOrPartition
from ottla.metadata.image import TOPIC_RESOURCE, Image
from ottla.metadata.image import Partition as State
from ottla.metadata.records import (
    NO_LEADER,
    ConfigSet,
    PartitionChanged,
    PartitionCreated,
    Record,
    TopicDeleted,
)
from ottla.ports import Clock, Jobs
from ottla.replication.partition import Partition
from ottla.replication.traffic import Traffic
from ottla.storage.folder import LogFolder, Opening, duplicates
from ottla.storage.folder_names import partition_folder
from ottla.storage.log import Location, Log

logger = logging.getLogger("ottla.broker")

Key = tuple[str, int]
Watcher = Callable[[Key, Partition | None], None]


class Replicas:
    """Watchers are called with each partition that is created or changed, and with None for one that is removed."""

    def __init__(
        self,
        node_id: int,
        image: Image,
        config: Config,
        folders: list[LogFolder],
        clock: Clock,
        jobs: Jobs,
        new_unique: Callable[[], str],
        flush: Callable[[Partition], None],
    ) -> None:
        self._flush = flush
        self._node_id, self._image, self._config = node_id, image, config
        self.folders, self._clock, self._jobs, self._new_unique = folders, clock, jobs, new_unique
        self.partitions: dict[Key, Partition] = {}
        self._is_joined = False
        self._watchers: list[Watcher] = []
        self._by_topic: dict[bytes, set[Key]] = {}
        self._home: dict[Key, LogFolder] = {}
        self._unreadable: set[Key] = set()  # at the start nobody could read which topic they are of
        self.awaited: list[Key] = []  # offline since the start: a missing folder may have their logs
        self.is_incomplete = False  # replicas that may have been in sync began without their logs
        self.traffic: dict[str, Traffic] = {}  # by topic
        self.other_traffic = Traffic()  # of topics that are not here, or not any more
        self.isr_shrinks = self.isr_expands = 0  # of partitions that this broker leads

    def watch(self, watcher: Watcher) -> None:
        """The watcher is called at once for each partition that exists, and later for each change."""
        self._watchers.append(watcher)
        for key, partition in self.partitions.items():
            watcher(key, partition)

    def _tell(self, key: Key, partition: Partition | None) -> None:
        for watcher in self._watchers:
            watcher(key, partition)

    def partition(self, topic: str, index: int) -> Partition:
        """The replica on this broker, whether it leads or not."""
        partition = self.partitions.get((topic, index))
        if partition is None:
            if self._image.partition(topic, index) is None:
                raise UnknownTopicOrPartition()
            raise NotLeaderOrFollower()
        return partition

    def traffic_of(self, topic: str | bytes) -> Traffic:
        """By name or id; requests for topics that are not here are counted together."""
        known = self._image.topics_by_id.get(topic) if isinstance(topic, bytes) else None
        name = known.name if known is not None else topic
        return self.traffic.get(name, self.other_traffic) if isinstance(name, str) else self.other_traffic

    def is_offline(self, topic: str, index: int) -> bool:
        partition = self.partitions.get((topic, index))
        return partition is not None and partition.is_offline

    # -- start -----------------------------------------------------------------------------------

    def openings(self) -> list[Opening]:
        """Logs found on disk that the metadata knows; others are put aside, never deleted."""
        for folder in self.folders:
            for key in self._stored(folder):
                if not folder.is_offline:  # it may go offline on the way
                    self._strand_if_unknown(folder, key)
        for folder, key in duplicates(self.folders):
            if key not in self._unreadable:
                logger.warning(
                    "%s: the partition %s-%d is in another folder too: put aside", folder.path, *key
                )
                self._strand(folder, key)
        openings = []
        for folder in self.folders:
            with suppress(KafkaStorageError):  # it is offline
                for key in folder.partitions():
                    if key not in self._unreadable:
                        self._home[key] = folder
                        config = self.log_config(key[0])
                        openings.append(folder.opening(key, config, self._clock.now_ms()))
        return openings

    def _stored(self, folder: LogFolder) -> list[Key]:
        try:
            return folder.load()
        except KafkaStorageError as error:
            logger.error("%s", error)  # the others may do
            return []

    def _strand_if_unknown(self, folder: LogFolder, key: Key) -> None:
        state = self._image.partition(*key)
        if state is None or self._node_id not in state.replicas:
            logger.warning("%s: the metadata has no partition %s-%d: put aside", folder.path, *key)
            self._strand(folder, key)
            return
        try:
            topic_id = folder.topic_id(key)
        except KafkaStorageError as error:
            logger.error("partition %s-%d is offline: its topic id cannot be read: %s", *key, error)
            self._unreadable.add(key)
            return
        if topic_id not in (state.topic_id, bytes(16)):
            logger.warning("%s: %s-%d is of an earlier topic of that name: put aside", folder.path, *key)
            self._strand(folder, key)

    def _strand(self, folder: LogFolder, key: Key) -> bool:
        """False when the disk refuses: then nothing of this partition is opened or created there."""
        try:
            folder.strand(key, self._new_unique())
        except KafkaStorageError as error:
            logger.error("%s: %s-%d cannot be put aside: %s", folder.path, *key, error)
            return False
        return True

    def adopt(self, opening: Opening) -> None:
        """A log was opened, or failed to: then its partition is offline."""
        state = self._image.partition(*opening.partition)
        try:
            opened: Log | None = opening.folder.on_opened(opening)
        except Exception as error:
            logger.error("partition %s-%d is offline: %s", *opening.partition, error)
            opened = None
        if state is None or self._node_id not in state.replicas:  # it went while its log was opened
            self._strand(opening.folder, opening.partition)
            del self._home[opening.partition]
            return
        self._add(state, opened)

    def start(self, *, is_folder_missing: bool = False) -> None:
        """All that was on disk is adopted. What is missing has never been written to, unless a folder is
        offline: then it may be there, and is offline too. So it is with one that this broker had at its last start
        and has no more, but then replicas that other brokers can fill again are created."""
        some_offline = any(folder.is_offline for folder in self.folders)
        for state in self._image.partitions():
            key = state.topic, state.index
            if self._node_id in state.replicas and key not in self.partitions:
                self.is_incomplete |= is_folder_missing and len(state.replicas) > 1
                is_awaited = is_folder_missing and self._is_last(state)
                if is_awaited:
                    self.awaited.append(key)
                if some_offline or is_awaited or key in self._unreadable:
                    self._add(state, None)
                else:
                    self._ensure(state)
        self._image.watch(self.on_record)

    def _is_last(self, state: State) -> bool:
        """Whether no other replica is known to have every committed record."""
        if state.replicas == (self._node_id,) and self._config.ottla_start_without_folders:
            return False  # the operator gives its records up
        return not any(replica != self._node_id for replica in (*state.isr, *state.elr))

    def join(self) -> None:
        """This broker's registration is in the metadata: what it leads from here on was decided after."""
        self._is_joined = True
        for key, partition in list(self.partitions.items()):
            state = self._image.partition(*key)
            if state is not None and state.leader == self._node_id:
                partition.on_state(state)
                self._tell(key, partition)

    def _as_joined(self, state: State) -> State:
        """Before registration, leadership predates the restart: this broker may have lost records since."""
        if self._is_joined or state.leader != self._node_id:
            return state
        return state._replace(leader=NO_LEADER)

    # -- metadata --------------------------------------------------------------------------------

    def on_record(self, record: Record) -> None:
        match record:
            case PartitionCreated() | PartitionChanged():
                topic = self._image.topics_by_id[record.topic_id]
                self._on_state(topic.partitions[record.partition])
            case TopicDeleted():
                for key in sorted(self._by_topic.pop(record.topic_id, set())):
                    self._remove(key)
                    self.other_traffic.add(self.traffic.pop(key[0], Traffic()))
            case ConfigSet(resource_type=kind, resource_name=name):
                if kind == TOPIC_RESOURCE:
                    changed = self._image.topics.get(name)
                    if changed is not None:
                        self._reconfigure(self._by_topic.get(changed.topic_id, ()))

    def on_config(self, config: Config) -> None:
        self._config = config
        self._reconfigure(list(self.partitions))

    def _on_state(self, state: State) -> None:
        key = state.topic, state.index
        if self._node_id not in state.replicas:
            if key in self.partitions:
                self._remove(key)
            return
        partition = self._ensure(state)
        before = partition.state.isr
        partition.on_state(self._as_joined(state))
        if partition.is_leader:
            self.isr_shrinks += len(state.isr) < len(before)
            self.isr_expands += len(state.isr) > len(before)
        self._tell(key, partition)

    def _ensure(self, state: State) -> Partition:
        key = state.topic, state.index
        partition = self.partitions.get(key)
        if partition is not None and partition.state.topic_id == state.topic_id:
            return partition
        if partition is not None:  # its deletion went wrong
            logger.warning("%s-%d is of an earlier topic of that name: removed", *key)
            self._remove(key)
        folder = self._folder_for_new(key)
        created = None
        if folder is not None:
            self._home[key] = folder
            created = Log.create(
                Location(folder.disk, partition_folder(*key), folder.files),
                self.log_config(state.topic),
                now_ms=self._clock.now_ms(),
                topic_id=state.topic_id,
            )
            folder.take_up(key, created)
        return self._add(state, created)

    def _folder_for_new(self, key: Key) -> LogFolder | None:
        """The one with the fewest logs; None, so that the partition is offline, when files of an earlier topic
        of that name stay in the way: new records must not come behind old bytes, nor beside them."""
        for folder in self.folders:
            if not folder.is_offline and not self._is_free(folder, key):
                return None
        return min(
            (folder for folder in self.folders if not folder.is_offline),
            key=lambda folder: len(folder.logs),
            default=None,
        )

    def _is_free(self, folder: LogFolder, key: Key) -> bool:
        """Whether nothing of this partition's name is there, or it could be put aside."""
        if not folder.has_files(key):
            return True
        logger.warning("%s: %s-%d is of an earlier topic of that name: put aside", folder.path, *key)
        return self._strand(folder, key)

    def _add(self, state: State, opened: Log | None) -> Partition:
        key = state.topic, state.index
        if opened is not None:
            opened.topic_id = state.topic_id
        traffic = self.traffic.setdefault(state.topic, Traffic())
        partition = Partition(self._node_id, self._as_joined(state), opened, self._flush, traffic)
        self.partitions[key] = partition
        self._by_topic.setdefault(state.topic_id, set()).add(key)
        self._tell(key, partition)
        return partition

    def _remove(self, key: Key) -> None:
        partition = self.partitions.pop(key)
        self._by_topic.get(partition.state.topic_id, set()).discard(key)
        folder = self._home.pop(key, None)
        self._tell(key, None)
        partition.close()
        if folder is not None and not folder.is_offline:
            try:
                job = folder.remove(key, self._new_unique())
            except KafkaStorageError as error:
                # The topic's other partitions go all the same. The files are put aside before a topic of that
                # name is created, or at the next start.
                logger.error("%s: %s-%d cannot be removed: %s", folder.path, *key, error)
                return
            self._jobs.submit(job, lambda result: _log_failure(f"removing {key[0]}-{key[1]}", result))

    def _reconfigure(self, keys: Iterable[Key]) -> None:
        for key in keys:
            partition = self.partitions[key]
            if partition.log is not None:
                partition.log.reconfigure(self.log_config(key[0]))
                partition.advance()  # flush.messages may have come or gone

    def log_config(self, topic: str) -> LogConfig:
        return LogConfig.from_settings(self._image.settings(TOPIC_RESOURCE, topic), self._config)

    # -- folders ---------------------------------------------------------------------------------

    def home(self, key: Key) -> LogFolder | None:
        return self._home.get(key)

    def moved(self, key: Key, folder: LogFolder, moved: Log) -> None:
        """A partition's log lives in another folder now."""
        self._home[key] = folder
        self.partitions[key].log = moved

    def on_folder_offline(self, folder: LogFolder) -> None:
        """Its partitions are offline, and only those."""
        for key, home in self._home.items():
            if home is folder and key in self.partitions:
                self.partitions[key].go_offline()

    def logs(self) -> Iterator[tuple[Key, Partition, Log]]:
        for key, partition in self.partitions.items():
            if partition.log is not None:
                yield key, partition, partition.log


def _log_failure(job_name: str, result: object) -> None:
    if isinstance(result, Exception):
        logger.error("%s failed: %s", job_name, result)
