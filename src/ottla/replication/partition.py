"""One partition on this broker: leads or follows, knows what is committed, and who waits for it."""

from collections.abc import Callable
from contextlib import suppress

from ottla import errors
from ottla.metadata.image import Partition as State
from ottla.ports import Buffer
from ottla.replication.replica import Replica
from ottla.replication.traffic import Traffic
from ottla.replication.waiters import Waiters
from ottla.storage.log import Appended, Log, Origin
from ottla.storage.validation import Accepted
from ottla.wire.mirror_frame import MirrorFrame

ACKS_ALL = -1

Key = tuple[bytes, int]  # topic id and index


class Partition:
    """`state` is what the metadata says; `log` is None while its disk is offline.

    The high watermark is what every in-sync replica has, and with flush.messages=1 what is on this disk too.
    While a new ISR is proposed it is not known which one counts: then what all of both have.
    """

    def __init__(
        self,
        broker_id: int,
        state: State,
        log: Log | None,
        on_flush_due: Callable[["Partition"], None] = lambda partition: None,
        traffic: Traffic | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._on_flush_due = on_flush_due
        self.state = state
        self.log = log
        self.traffic = traffic or Traffic()  # of its topic
        self.committed = Waiters()  # for the high watermark
        self.stable = Waiters()  # for the last stable offset
        self.written = Waiters()  # for the end of the log: followers
        self.trimmed = Waiters()  # for followers to move their log start
        self.followers: dict[int, Replica] = {}
        self.proposed_isr: frozenset[int] | None = None  # what the controller was asked for
        self.proposed_epochs: dict[int, int] = {}  # broker epochs of its followers when it was proposed
        self.epoch_start_offset = 0  # where this leader began
        self.tenure = 0  # moves each time this broker comes to lead; not with the epoch of one that leads on
        if self.is_leader:
            self._begin_to_lead()
            self.advance()

    @property
    def name(self) -> str:
        return f"{self.state.topic}-{self.state.index}"

    @property
    def is_leader(self) -> bool:
        return self.state.leader == self._broker_id

    # -- what metadata says ----------------------------------------------------------------------

    def on_state(self, state: State) -> None:
        """A newer state from the metadata log."""
        was_leader, old_epoch = self.is_leader, self.state.leader_epoch
        is_changed = state.partition_epoch != self.state.partition_epoch
        if is_changed:
            self.proposed_isr = None
        self.state = state
        if was_leader and (not self.is_leader or state.leader_epoch != old_epoch):
            self.wake_all()
        if self.is_leader:
            self.tenure += not was_leader
            if state.leader_epoch != old_epoch or not was_leader:
                self._begin_to_lead()
            self.advance()
            if is_changed:
                self.trimmed.wake_all()  # the replica that a waiter waits for may be gone

    def _begin_to_lead(self) -> None:
        self.followers = {}
        self.proposed_isr = None
        if self.log is not None:
            self.epoch_start_offset = self.log.end_offset
            with suppress(errors.KafkaStorageError):  # the log has failed: its next use raises this again
                self.log.begin_epoch(self.state.leader_epoch)

    def go_offline(self) -> None:
        """Its disk failed: nothing is served from it any more."""
        self.log = None
        self.wake_all()

    def close(self) -> None:
        """The partition is no longer here."""
        self.log = None
        self.state = self.state._replace(leader=-1)
        self.wake_all()

    @property
    def is_offline(self) -> bool:
        return self.log is None

    def wake_all(self) -> None:
        self.committed.wake_all()
        self.stable.wake_all()
        self.written.wake_all()
        self.trimmed.wake_all()

    # -- leading ---------------------------------------------------------------------------------

    def leader_log(self, leader_epoch: int = -1) -> Log:
        """The log, if this broker leads under the epoch that the client believes in (-1: it does not say)."""
        state = self.state
        if leader_epoch >= 0 and leader_epoch != state.leader_epoch:
            self._check_epoch(leader_epoch)
        if state.leader != self._broker_id:
            raise errors.NotLeaderOrFollower()
        if self.log is None:
            raise errors.KafkaStorageError(f"The disk of {self.name} is offline")
        return self.log

    def readable_log(self, leader_epoch: int = -1) -> Log:
        """For a consumer that reads from the nearest replica: the log here, even if another broker leads."""
        if self.is_leader or self.state.leader < 0:
            return self.leader_log(leader_epoch)
        if leader_epoch >= 0 and leader_epoch != self.state.leader_epoch:
            self._check_epoch(leader_epoch)
        if self.log is None:
            raise errors.KafkaStorageError(f"The disk of {self.name} is offline")
        return self.log

    def _check_epoch(self, leader_epoch: int) -> None:
        if leader_epoch < self.state.leader_epoch:
            raise errors.FencedLeaderEpoch(f"{self.name} has leader epoch {self.state.leader_epoch}")
        raise errors.UnknownLeaderEpoch(f"{self.name} has leader epoch {self.state.leader_epoch}")

    def append(
        self, batch: Buffer | Accepted, *, acks: int, now_ms: int, origin: Origin = Origin.CLIENT
    ) -> Appended:
        log = self.leader_log()
        if acks == ACKS_ALL:
            self.check_enough_replicas(log)
        appended = log.append(batch, leader_epoch=self.state.leader_epoch, now_ms=now_ms, origin=origin)
        if not appended.duplicate:
            traffic = self.traffic
            traffic.messages_in += appended.next_offset - appended.base_offset
            traffic.bytes_in += len(batch.batch if type(batch) is Accepted else batch)
        if log.flush_due(now_ms):
            self._on_flush_due(self)
        self.on_written(log)
        return appended

    def append_mirrored(self, frame: MirrorFrame, *, now_ms: int) -> int:
        """The batches of the topic that this one mirrors; where the log ends now."""
        log = self.leader_log()
        end = log.append_mirrored(frame, leader_epoch=self.state.leader_epoch, now_ms=now_ms)
        if log.flush_due(now_ms):
            self._on_flush_due(self)
        self.on_written(log)
        return end

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
        *,
        now_ms: int,
        transaction_version: int = 0,
    ) -> int:
        """Ends a transaction here; the marker's offset."""
        log = self.leader_log()
        if log.config.mirror_source:
            return (
                log.end_offset
            )  # no transaction of this cluster has written here: a marker would move the offsets
        appended = log.append_marker(
            producer_id,
            producer_epoch,
            committed,
            coordinator_epoch,
            leader_epoch=self.state.leader_epoch,
            now_ms=now_ms,
            transaction_version=transaction_version,
        )
        if log.flush_due(now_ms):
            self._on_flush_due(self)
        self.on_written(log)
        return appended.base_offset

    def is_committed(self, next_offset: int, tenure: int) -> bool:
        """Whether the records before `next_offset`, appended in this tenure, are committed. Raises if another broker
        has led since: the records may have been truncated, and others may have taken their offsets."""
        log = self.leader_log()
        if tenure != self.tenure:
            raise errors.NotLeaderOrFollower()
        return log.high_watermark >= next_offset

    def check_enough_replicas(self, log: Log) -> None:
        if len(self.state.isr) < self.min_isr(log):
            raise errors.NotEnoughReplicas(
                f"The size of the current ISR {list(self.state.isr)} of {self.name} is below "
                f"min.insync.replicas={log.config.min_insync_replicas}"
            )

    def min_isr(self, log: Log) -> int:
        """A partition with fewer replicas than min.insync.replicas asks for all that it has."""
        return min(log.config.min_insync_replicas, len(self.state.replicas))

    def on_written(self, log: Log) -> None:
        if len(self.state.replicas) > 1:
            self.written.on_reached(log.end_offset)
        self.advance()

    def advance(self) -> None:
        """After an append, a flush, a follower's fetch or a new ISR: what is committed now?"""
        log = self.log
        if log is None or not self.is_leader:
            return
        end = log.recovery_point if log.config.flush_messages == 1 else log.end_offset
        if len(self.state.replicas) > 1:
            end = self._least_in_sync(log, end)
        if end > log.high_watermark:
            log.advance_high_watermark(end)
            self.on_high_watermark()

    def _least_in_sync(self, log: Log, end: int) -> int:
        """Below min.insync.replicas nothing is committed: a replica that left may be the next leader (KIP-966)."""
        if len(self.state.isr) < self.min_isr(log):
            return -1
        for replica in {*self.state.isr, *(self.proposed_isr or ())}:
            if replica != self._broker_id:
                follower = self.followers.get(replica)
                end = min(end, follower.end_offset if follower is not None else -1)
        return end

    # -- followers -------------------------------------------------------------------------------

    def on_follower_fetch(
        self, replica_id: int, offset: int, log_start_offset: int, broker_epoch: int, now_ms: int
    ) -> frozenset[int] | None:
        """A follower has everything before `offset`: that may commit records. Returns the ISR to propose if the
        follower has caught up and is not in it."""
        log = self.leader_log()
        follower = self.follower(replica_id, now_ms)
        if broker_epoch < follower.broker_epoch:
            raise errors.StaleBrokerEpoch(f"Broker {replica_id} has restarted since")
        has_trimmed = log_start_offset > follower.log_start_offset
        is_same = follower.is_at(offset, log_start_offset, broker_epoch)
        follower.on_fetch(offset, log_start_offset, broker_epoch, log.end_offset, now_ms)
        if is_same and replica_id in self.state.isr:
            return None  # it was counted when it told this first
        if has_trimmed:
            self.trimmed.wake_all()
        self.advance()
        return None if replica_id in self.state.isr else self._expanded_isr(replica_id, offset, log)

    def low_watermark(self, is_alive: Callable[[int], bool]) -> int:
        """Where the logs of all replicas that live have started at least: what is before is gone everywhere."""
        starts = [self.leader_log().log_start_offset]
        for replica in self.state.replicas:
            if replica != self._broker_id and is_alive(replica):
                follower = self.followers.get(replica)
                starts.append(follower.log_start_offset if follower is not None else -1)
        return min(starts)

    def follower(self, replica_id: int, now_ms: int) -> Replica:
        follower = self.followers.get(replica_id)
        if follower is None:
            if replica_id not in self.state.replicas:
                raise errors.UnknownLeaderEpoch(f"{replica_id} is no replica of {self.name}")
            # In the ISR it counts as caught up when we began to lead: it has its time to show up.
            follower = self.followers[replica_id] = Replica(caught_up_ms=now_ms)
        return follower

    def _expanded_isr(self, replica_id: int, offset: int, log: Log) -> frozenset[int] | None:
        if offset < max(log.high_watermark, self.epoch_start_offset) or self.proposed_isr is not None:
            return None
        return frozenset({*self.state.isr, replica_id})

    def shrunk_isr(self, now_ms: int, lag_ms_max: int) -> frozenset[int] | None:
        """The ISR to propose if some in it have not kept up."""
        if not self.is_leader or self.log is None or self.proposed_isr is not None:
            return None
        end = self.log.end_offset
        out = {
            replica_id
            for replica_id in self.state.isr
            if replica_id != self._broker_id
            and self.follower(replica_id, now_ms).lags(end, now_ms, lag_ms_max)
        }
        return frozenset(self.state.isr) - out if out else None

    def propose(self, isr: frozenset[int]) -> None:
        """The controller is being asked. Until its answer is known the old and the new ISR both count.

        The question may be repeated much later: a follower that restarted by then may have lost records."""
        self.proposed_isr = isr
        self.proposed_epochs = {
            replica_id: follower.broker_epoch
            for replica_id, follower in self.followers.items()
            if replica_id in isr
        }

    def on_proposal_refused(self) -> None:
        """The controller has certainly refused the proposal: the current ISR alone counts again."""
        self.proposed_isr = None
        self.advance()

    @property
    def knows_its_end(self) -> bool:
        """A new leader's high watermark may be behind what was shown before, until its followers fetch."""
        return self.log is not None and (
            len(self.state.replicas) == 1 or self.log.high_watermark >= self.epoch_start_offset
        )

    # -- following -------------------------------------------------------------------------------

    def on_replicated(self, high_watermark: int, log_start_offset: int, now_ms: int) -> None:
        """The leader's answer was taken: what it told beside the records."""
        log = self.log
        assert log is not None
        if log.flush_due(now_ms):
            self._on_flush_due(self)
        if high_watermark > log.high_watermark:
            log.advance_high_watermark(high_watermark)
            self.on_high_watermark()
        if log_start_offset > log.log_start_offset:
            log.delete_records_before(min(log_start_offset, log.high_watermark))

    def on_high_watermark(self) -> None:
        log = self.log
        assert log is not None
        self.committed.on_reached(log.high_watermark)
        self.stable.on_reached(log.last_stable_offset)

    # -- what may be read ------------------------------------------------------------------------

    def visible_end(self, log: Log, *, read_committed: bool) -> int:
        return log.last_stable_offset if read_committed else log.high_watermark

    def waiters(self, *, read_committed: bool) -> Waiters:
        return self.stable if read_committed else self.committed


def key_of(partition: Partition) -> Key:
    return partition.state.topic_id, partition.state.index
