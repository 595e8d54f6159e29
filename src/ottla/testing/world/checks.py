"""What must hold after every event, and what is looked at now and then because it costs more."""

from collections.abc import Mapping, Sequence

from ottla.broker.assembly import METADATA_FOLDER
from ottla.broker.broker import Broker
from ottla.broker.coordinators.shards import E, LocalShard, M, ShardedTopic
from ottla.coordination.groups.consumer_group import ConsumerGroup
from ottla.coordination.groups.state import GroupState
from ottla.coordination.transactions.transaction import Transaction
from ottla.metadata.image import Image
from ottla.metadata.journal import Journal
from ottla.metadata.names import is_internal
from ottla.metadata.records import Record
from ottla.replication.partition import Partition
from ottla.storage.log import Log
from ottla.testing.world.ledger import Broken, Commits, Ledger, TopicPartition, Truth, hold


class Checks:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._positions: dict[TopicPartition, tuple[int, int, int, int]] = {}
        self._shards: dict[str, tuple[int, int, int]] = {}
        self._epochs: dict[str, tuple[type, int]] = {}  # of groups
        self._producers: dict[str, tuple[int, int]] = {}  # of transactional ids

    def after_event(self, broker: Broker) -> None:
        for name, partition, log in broker.replicas.logs():
            self._partition(name, partition, log)
        self._ledger.check_acknowledged()
        for index, shard in broker.groups.shards.items():
            if shard.is_loaded and self._is_news(shard):
                self._groups(shard.machine.state, _is_committed(shard))
                self._commits(shard.machine.state, broker.groups, index)
        for of_transactions in broker.transactions.coordinator.shards.values():
            if (
                of_transactions.is_loaded
                and self._is_news(of_transactions)
                and _is_committed(of_transactions)
            ):
                self._transactional_ids(of_transactions.machine.transactions)

    def _is_news(self, shard: LocalShard[M, E]) -> bool:
        """Whether its log has grown or been committed: nothing else changes hard state."""
        log = shard.partition.log
        now = (
            id(shard),
            log.end_offset if log is not None else -1,
            log.high_watermark if log is not None else -1,
        )
        name = shard.partition.name
        if self._shards.get(name) == now:
            return False
        self._shards[name] = now
        return True

    def thorough(self, broker: Broker) -> None:
        for name, _, log in broker.replicas.logs():
            if name in self._ledger.truths and log.failed is None:
                self._ledger.truths[name].same_as(log, name)
        self._groups_replay(broker)
        self._transactions_replay(broker)
        self._metadata_replays(broker)

    def _metadata_replays(self, broker: Broker) -> None:
        live = broker.image
        again = Replayed()
        Journal(broker.replicas.folders[0].disk, METADATA_FOLDER).open(again)
        for image in (again.image, copy_of(live)):
            if image.position == live.position:  # otherwise an entry is being written right now
                hold(list(image.records()) == list(live.records()), "metadata: replay differs")

    # -- partitions --------------------------------------------------------------------------------------

    def _partition(self, name: TopicPartition, partition: Partition, log: Log) -> None:
        now = log.high_watermark, log.end_offset, log.last_stable_offset, partition.state.leader_epoch
        if self._positions.get(name) == now:
            return  # most events are about something else
        self._positions[name] = now
        truth = self._ledger.truths.setdefault(name, Truth())
        hold(log.high_watermark >= truth.high_watermark, f"{name}: the high watermark falls")
        hold(partition.state.leader_epoch >= truth.leader_epoch, f"{name}: the leader epoch falls")
        hold(log.high_watermark <= log.end_offset, f"{name}: the high watermark is above the end")
        truth.high_watermark, truth.leader_epoch = log.high_watermark, partition.state.leader_epoch
        if is_internal(name[0]):
            return  # coordinators' own: replay is their check
        if log.high_watermark > len(truth.entries):
            truth.extend(log, self._ledger.where, name)
        stable = min([*truth.open.values(), log.high_watermark])
        hold(log.last_stable_offset == stable, f"{name}: {log.last_stable_offset} is not stable, {stable} is")

    # -- groups ------------------------------------------------------------------------------------------

    def _groups(self, state: GroupState, committed: bool) -> None:
        for group_id, group in state.groups.items():
            if isinstance(group, ConsumerGroup):
                self._one_owner(group)
            if committed:  # what is not may be lost in a crash
                self._epoch(group_id, group)

    def _commits(self, state: GroupState, coordinator: ShardedTopic, index: int) -> None:
        for (group_id, name), commits in self._ledger.commits.items():
            if coordinator.index_of(group_id) != index:
                continue
            committed = state.offsets.of_group(group_id).get(name)
            commits.see(committed.value.offset if committed is not None else None, f"{group_id} on {name}")

    def _one_owner(self, group: ConsumerGroup) -> None:
        held: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            for partition in member.assigned_partitions | member.revoking_partitions:
                if held.setdefault(partition, member.member_id) != member.member_id:
                    raise Broken(f"{group.group_id}: two own {partition[1]}")

    def _epoch(self, group_id: str, group: object) -> None:
        if isinstance(group, ConsumerGroup):
            epoch = group.epoch
        else:
            epoch = getattr(getattr(group, "recorded", None), "generation", 0)
        last = self._epochs.get(group_id)
        if last is not None and last[0] is type(group):
            hold(epoch >= last[1], f"{group_id}: the epoch falls from {last[1]} to {epoch}")
        self._epochs[group_id] = type(group), epoch

    def watch_commits(self, group: str, name: TopicPartition) -> None:
        self._ledger.commits.setdefault((group, name), Commits())

    def _groups_replay(self, broker: Broker) -> None:
        for shard in broker.groups.shards.values():
            if not shard.is_loaded or shard.partition.log is None:
                continue
            live = shard.machine.state
            again = broker.groups.replayed(shard.partition).state
            hold(again.offsets == live.offsets, "committed offsets: replay differs")
            for group_id in live.groups.keys() | again.groups.keys():
                mine, theirs = live.groups.get(group_id), again.groups.get(group_id)
                if isinstance(mine, ConsumerGroup) or isinstance(theirs, ConsumerGroup):
                    hold(mine == theirs, f"group {group_id}: replay differs")
                else:
                    recorded = getattr(mine, "recorded", None), getattr(theirs, "recorded", None)
                    hold(recorded[0] == recorded[1], f"group {group_id}: replay differs")

    # -- transactions ------------------------------------------------------------------------------------

    def _transactional_ids(self, transactions: Mapping[str, Transaction]) -> None:
        for name, transaction in transactions.items():
            now = transaction.producer_id, transaction.producer_epoch
            if now < self._producers.get(name, (-1, -1)):
                raise Broken(f"{name}: the producer's epoch falls")
            self._producers[name] = now

    def _transactions_replay(self, broker: Broker) -> None:
        coordinator = broker.transactions.coordinator
        for shard in coordinator.shards.values():
            if shard.is_loaded and shard.partition.log is not None:
                again = coordinator.replayed(shard.partition).transactions
                hold(again == shard.machine.transactions, "transactions: replay differs")


def _is_committed(shard: LocalShard[M, E]) -> bool:
    """Whether all that it applied is."""
    log = shard.partition.log
    return log is not None and log.high_watermark == log.end_offset


class Replayed:
    """A listener of the metadata log that only reads."""

    def __init__(self) -> None:
        self.image = Image()

    def on_snapshot(self, position: int, records: Sequence[Record]) -> None:
        self.image.apply_entry(position - 1, records)

    def on_entry(self, position: int, records: Sequence[Record]) -> None:
        self.image.apply_entry(position, records)

    def on_lease(self, holder: int | None, epoch: int) -> None:
        """Somebody else's business."""

    def on_members(self, members: Mapping[int, bytes]) -> None:
        """The same."""

    def on_session_lost(self) -> None:
        """The same."""


def copy_of(image: Image) -> Image:
    """What its snapshot makes."""
    copy = Image()
    copy.apply_entry(image.position - 1, list(image.records()))
    return copy
