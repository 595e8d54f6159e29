"""The share coordinator: the states of share-partitions in one shard of `__share_group_state`.

A state is a snapshot and the updates behind it. An update is small: what changed. After `snapshot_update_records_max`
updates the next write is a snapshot, so that the log
before it can be deleted (`on_prune`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Never

from ottla import errors
from ottla.coordination.share.records import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    DELIVERY_LIMIT,
    NO_OFFSET,
    REJECTED,
    Batch,
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareState,
    ShareUpdate,
)
from ottla.effects import NOTHING, Effects, Token, reply_to

ShareEffects = Effects[ShareRecord, Never, Never]  # no timers, no messages to others

MAX_UPDATES = 500
BATCHES_AT_ONCE = 20_000  # laid over a state: more than a window of share.partition.max.record.locks has
BATCHES_MAX = 250_000
_FEW = 64
MAX_SNAPSHOTS = 100  # at a time, of states that rest
_first_offset, _last_offset = attrgetter("first_offset"), attrgetter("last_offset")
_kind = attrgetter("state", "delivery_count", "due_ms", "verdict")


class _Held:
    """A state whose last updates are not laid over it yet: a log of many updates is read, and written, in no time."""

    __slots__ = ("batches", "offset", "state", "updates", "updates_before")

    def __init__(self, state: ShareState, offset: int) -> None:
        self.state = state  # but for the batches
        self.offset = offset  # of the snapshot: all before it is of no use
        self.batches: list[Batch] = []
        self.updates = 0
        self.updates_before = -1  # when the log was pruned last

    def add(self, update: ShareUpdate) -> None:
        self.state = without_batches_updated(self.state, update)
        self.batches += update.batches
        self.updates += 1

    def whole(self) -> ShareState:
        if self.batches:
            laid = combined(self.state.batches, self.batches, self.state.start_offset)
            self.state, self.batches = replace(self.state, batches=laid), []
        return self.state


class ShareStates:
    """A Machine of the coordination contract."""

    def __init__(self, updates_max: int = MAX_UPDATES) -> None:
        self._held: dict[ShareKey, _Held] = {}
        self._updates_max = updates_max

    def __len__(self) -> int:
        return len(self._held)

    def state_of(self, key: ShareKey) -> ShareState | None:
        held = self._held.get(key)
        return None if held is None else held.whole()

    def of_deleted_topics(self, topic_ids: Container[bytes]) -> list[ShareKey]:
        """The states of all topics but these, which are those that exist."""
        return [key for key in self._held if key.topic_id not in topic_ids]

    # Records

    def apply(self, record: ShareRecord, offset: int, producer: tuple[int, int] | None) -> None:
        if isinstance(record, ShareUpdate):
            held = self._held.get(record.key)
            if held is not None:
                held.add(record)
        elif record.value is None:
            self._held.pop(record.key, None)
        else:
            self._held[record.key] = _Held(record.value, offset)

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool, offset: int) -> None:
        """Nothing here is transactional."""

    def on_loaded(self, now_ms: int) -> ShareEffects:
        return NOTHING

    def on_timer(self, name: Never, now_ms: int) -> ShareEffects:
        raise ValueError(f"no such timer: {name!r}")

    # Requests

    def on_initialize(
        self, key: ShareKey, state_epoch: int, start_offset: int, token: Token[None], now_ms: int
    ) -> ShareEffects:
        """A new state, or an old one begun again under a higher epoch."""
        known = self._head(key)
        if known is not None and state_epoch < known.state_epoch:
            raise errors.FencedStateEpoch()
        epoch = 0 if known is None else known.snapshot_epoch + 1
        state = ShareState(
            epoch,
            state_epoch,
            start_offset=start_offset,
            delivery_complete_count=0 if start_offset != NO_OFFSET else -1,
            create_timestamp_ms=now_ms,
            write_timestamp_ms=now_ms,
        )
        return Effects((ShareSnapshot(key, state),), (reply_to(token, None),))

    def on_read(
        self, key: ShareKey, leader_epoch: int, token: Token[ShareState | None], now_ms: int
    ) -> ShareEffects:
        """None if there is no state. A leader that reads is known from then on: an older one cannot write."""
        known = self.state_of(key)
        if known is None:
            return Effects(replies=(reply_to(token, None),))
        if leader_epoch < known.leader_epoch:
            raise errors.FencedLeaderEpoch()
        if leader_epoch == known.leader_epoch:
            return Effects(replies=(reply_to(token, known),))
        record = self._written(key, leader_epoch, known.start_offset, -1, (), now_ms)
        return Effects((record,), (reply_to(token, replace(known, leader_epoch=leader_epoch)),))

    def on_write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[Batch, ...],
        token: Token[None],
        now_ms: int,
    ) -> ShareEffects:
        known = self._head(key)
        if known is None:
            raise errors.UnknownTopicOrPartition(
                "the share-partition has no state; it was deleted or never begun"
            )
        if leader_epoch < known.leader_epoch:
            raise errors.FencedLeaderEpoch()
        if state_epoch < known.state_epoch:
            raise errors.FencedStateEpoch()
        if len(batches) > BATCHES_AT_ONCE or self._batch_count(key) + len(batches) > BATCHES_MAX:
            raise errors.InvalidRequest(
                f"a write has {BATCHES_AT_ONCE} batches of offsets at most, and a state {BATCHES_MAX}"
            )
        if not all(map(_is_possible, batches)):
            raise errors.InvalidRequest(
                "a batch of offsets has an end before its beginning, or no such state"
            )
        record = self._written(key, leader_epoch, start_offset, delivery_complete_count, batches, now_ms)
        return Effects((record,), (reply_to(token, None),))

    def on_delete(self, keys: Iterable[ShareKey], token: Token[None]) -> ShareEffects:
        gone = tuple(ShareSnapshot(key, None) for key in keys if key in self._held)
        return Effects(gone, (reply_to(token, None),))

    def on_summary(self, key: ShareKey, token: Token[ShareState | None]) -> ShareEffects:
        return Effects(replies=(reply_to(token, self.state_of(key)),))

    def on_prune(self, token: Token[int], now_ms: int) -> ShareEffects:
        """The offset before which nothing is needed any more, 0 if there is none. States that have rested since the
        last time get a snapshot, so that they do not hold back the others for ever."""
        records: list[ShareRecord] = []
        for key, held in self._held.items():
            if held.updates and held.updates == held.updates_before and len(records) < MAX_SNAPSHOTS:
                records.append(self._snapshot(key, held.whole(), now_ms))
            held.updates_before = held.updates
        low = min((held.offset for held in self._held.values()), default=0)
        return Effects(tuple(records), (reply_to(token, low),))

    def _snapshot(self, key: ShareKey, whole: ShareState, now_ms: int) -> ShareSnapshot:
        epoch = whole.snapshot_epoch + 1
        return ShareSnapshot(key, replace(whole, snapshot_epoch=epoch, write_timestamp_ms=now_ms))

    def _batch_count(self, key: ShareKey) -> int:
        held = self._held[key]
        return len(held.state.batches) + len(held.batches)

    def _head(self, key: ShareKey) -> ShareState | None:
        """Epochs and offsets; its batches may be old."""
        held = self._held.get(key)
        return None if held is None else held.state

    def _written(
        self,
        key: ShareKey,
        leader_epoch: int,
        start_offset: int,
        complete: int,
        batches: tuple[Batch, ...],
        now_ms: int,
    ) -> ShareRecord:
        held = self._held[key]
        epoch = held.state.snapshot_epoch
        update = ShareUpdate(key, epoch, leader_epoch, start_offset, complete, batches)
        is_long = len(held.batches) + len(batches) > BATCHES_AT_ONCE
        if held.updates < self._updates_max and not is_long:
            return update
        return self._snapshot(key, updated(held.whole(), update), now_ms)


def _is_possible(batch: Batch) -> bool:
    return (
        0 <= batch.first_offset <= batch.last_offset
        and batch.state in (AVAILABLE, ACKNOWLEDGED, ARCHIVED)
        and batch.delivery_count >= 0
        and batch.due_ms >= 0
        and batch.verdict in (0, REJECTED, DELIVERY_LIMIT)
    )


def updated(known: ShareState, update: ShareUpdate) -> ShareState:
    """The state with an update laid over it."""
    head = without_batches_updated(known, update)
    return replace(head, batches=combined(known.batches, update.batches, head.start_offset))


def without_batches_updated(known: ShareState, update: ShareUpdate) -> ShareState:
    complete = update.delivery_complete_count
    return ShareState(
        known.snapshot_epoch,
        known.state_epoch,
        max(known.leader_epoch, update.leader_epoch),
        # Two writes of one leader may overtake each other: the start never goes back.
        max(known.start_offset, update.start_offset),
        known.delivery_complete_count if complete == -1 else complete,
        known.create_timestamp_ms,
        known.write_timestamp_ms,
        known.batches,
    )


def combined(old: Iterable[Batch], new: Collection[Batch], start_offset: int) -> tuple[Batch, ...]:
    """What is newer wins; nothing below the start; neighbours that are alike become one."""
    batches = list(old)
    if len(new) < _FEW:
        for batch in new:
            _lay_over(batches, batch)
    else:
        laid: list[Batch] = []
        for batch in new:
            _lay_over(laid, batch)
        batches = _joined([*_not_covered(batches, laid), *laid])
    del batches[: bisect_left(batches, start_offset, key=_last_offset)]
    if batches and batches[0].first_offset < start_offset:
        batches[0] = replace(batches[0], first_offset=start_offset)
    return tuple(batches)


def _not_covered(batches: list[Batch], others: list[Batch]) -> Iterator[Batch]:
    """What is left of batches where no other covers them; both are in order, and neither overlaps itself."""
    at = 0
    for batch in batches:
        while at < len(others) and others[at].last_offset < batch.first_offset:
            at += 1
        first, index = batch.first_offset, at
        while index < len(others) and (other := others[index]).first_offset <= batch.last_offset:
            if first < other.first_offset:
                yield replace(batch, first_offset=first, last_offset=other.first_offset - 1)
            first, index = other.last_offset + 1, index + 1
        if first <= batch.last_offset:
            yield replace(batch, first_offset=first)


def _lay_over(batches: list[Batch], batch: Batch) -> None:
    """There may be tens of thousands of them: only those around the new one, and its neighbours, are looked at."""
    low = max(bisect_left(batches, batch.first_offset, key=_last_offset) - 1, 0)
    high = bisect_right(batches, batch.last_offset, key=_first_offset) + 1
    pieces = [piece for known in batches[low:high] for piece in _without(known, batch)]
    batches[low:high] = _joined([*pieces, batch])


def _joined(pieces: list[Batch]) -> list[Batch]:
    result: list[Batch] = []
    for batch in sorted(pieces, key=_first_offset):
        last = result[-1] if result else None
        if last is not None and last.last_offset + 1 == batch.first_offset and _kind(last) == _kind(batch):
            result[-1] = replace(last, last_offset=batch.last_offset)
        else:
            result.append(batch)
    return result


def _without(batch: Batch, other: Batch) -> list[Batch]:
    """What is left of a batch where another one does not cover it."""
    if batch.last_offset < other.first_offset or batch.first_offset > other.last_offset:
        return [batch]
    remainders = []
    if batch.first_offset < other.first_offset:
        remainders.append(replace(batch, last_offset=other.first_offset - 1))
    if batch.last_offset > other.last_offset:
        remainders.append(replace(batch, first_offset=other.last_offset + 1))
    return remainders
