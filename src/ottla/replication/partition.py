"""One partition on this broker: leads or follows, knows what is committed, and who waits for it."""

from collections.abc import Callable

from ottla import errors
from ottla.metadata.image import Partition as State
from ottla.ports import Buffer
from ottla.replication.waiters import Waiters
from ottla.storage.log import Appended, Log, Origin

ACKS_ALL = -1


class Partition:
    """`state` is what the metadata says; `log` is None while its disk is offline.

    The high watermark is what every in-sync replica has, and with flush.messages=1 what is on this disk too.
    """

    def __init__(
        self,
        broker_id: int,
        state: State,
        log: Log | None,
        on_flush_due: Callable[["Partition"], None] = lambda partition: None,
    ) -> None:
        self._broker_id = broker_id
        self._on_flush_due = on_flush_due
        self.state = state
        self.log = log
        self.committed = Waiters()  # for the high watermark
        self.stable = Waiters()  # for the last stable offset
        self.on_committed: Callable[[], None] | None = None  # a coordinator's shard listens here
        self._replica_ends: dict[int, int] = {}
        self._verifying: dict[int, object] = {}  # producer id -> guard of the question under way
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
        self.state = state
        if was_leader and (not self.is_leader or state.leader_epoch != old_epoch):
            self.wake_all()
        if self.is_leader:
            if state.leader_epoch != old_epoch or not was_leader:
                self._begin_to_lead()
            self.advance()

    def _begin_to_lead(self) -> None:
        self._replica_ends = {}
        if self.log is not None:
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

    def _check_epoch(self, leader_epoch: int) -> None:
        if leader_epoch < self.state.leader_epoch:
            raise errors.FencedLeaderEpoch(f"{self.name} has leader epoch {self.state.leader_epoch}")
        raise errors.UnknownLeaderEpoch(f"{self.name} has leader epoch {self.state.leader_epoch}")

    def append(self, batch: Buffer, *, acks: int, now_ms: int, origin: Origin = Origin.CLIENT) -> Appended:
        log = self.leader_log()
        if acks == ACKS_ALL:
            self.check_enough_replicas(log)
        appended = log.append(batch, leader_epoch=self.state.leader_epoch, now_ms=now_ms, origin=origin)
        if log.flush_due(now_ms):
            self._on_flush_due(self)
        self.advance()
        return appended

    def append_marker(
        self, producer_id: int, producer_epoch: int, committed: bool, coordinator_epoch: int, *, now_ms: int
    ) -> int:
        """Ends a transaction here; the marker's offset."""
        log = self.leader_log()
        self._verifying.pop(producer_id, None)
        appended = log.append_marker(
            producer_id,
            producer_epoch,
            committed,
            coordinator_epoch,
            leader_epoch=self.state.leader_epoch,
            now_ms=now_ms,
        )
        if log.flush_due(now_ms):
            self._on_flush_due(self)
        self.advance()
        return appended.base_offset

    def begin_verification(self, producer_id: int) -> object:
        """Before the coordinator is asked whether a producer may write. A marker in between voids the answer:
        the transaction that was meant is over."""
        return self._verifying.setdefault(producer_id, object())

    def is_verified(self, producer_id: int, guard: object) -> bool:
        return self._verifying.pop(producer_id, None) is guard

    def check_enough_replicas(self, log: Log) -> None:
        needed = log.config.min_insync_replicas
        if len(self.state.isr) < needed and len(self.state.isr) < len(self.state.replicas):
            raise errors.NotEnoughReplicas(
                f"The size of the current ISR {list(self.state.isr)} of {self.name} is below "
                f"min.insync.replicas={needed}"
            )

    def advance(self) -> None:
        """After an append, a flush, a follower's fetch or a new ISR: what is committed now?"""
        log = self.log
        if log is None:
            return
        end = log.recovery_point if log.config.flush_messages == 1 else log.end_offset
        for replica in self.state.isr:
            if replica != self._broker_id:
                end = min(end, self._replica_ends.get(replica, -1))
        if end > log.high_watermark:
            log.advance_high_watermark(end)
            self.on_high_watermark()

    def on_high_watermark(self) -> None:
        log = self.log
        assert log is not None
        if self.on_committed is not None:
            self.on_committed()
        self.committed.on_reached(log.high_watermark)
        self.stable.on_reached(log.last_stable_offset)

    # -- what may be read ------------------------------------------------------------------------

    def visible_end(self, log: Log, *, read_committed: bool) -> int:
        return log.last_stable_offset if read_committed else log.high_watermark

    def waiters(self, *, read_committed: bool) -> Waiters:
        return self.stable if read_committed else self.committed
