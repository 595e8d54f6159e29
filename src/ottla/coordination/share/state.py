"""The share coordinator: the states of share-partitions in one shard of `__share_group_state`.

A state is a snapshot and the updates behind it. An update is small: what changed. After `snapshot_update_records_max`
updates the next write is a snapshot, so that compaction can forget what was before.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable
from dataclasses import replace
from operator import attrgetter

from ottla import errors
from ottla.coordination.share.records import (
    NO_OFFSET,
    Batch,
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareState,
    ShareUpdate,
)
from ottla.effects import NOTHING, Effects, Token, reply_to

MAX_UPDATES = 500
_first_offset, _last_offset = attrgetter("first_offset"), attrgetter("last_offset")
_kind = attrgetter("state", "delivery_count", "due_ms", "verdict")


class ShareStates:
    """A Machine of the coordination contract."""

    def __init__(self, updates_max: int = MAX_UPDATES) -> None:
        self.states: dict[ShareKey, ShareState] = {}
        self._updates: dict[ShareKey, int] = {}
        self._updates_max = updates_max

    # Records

    def apply(self, record: ShareRecord, offset: int, producer: tuple[int, int] | None) -> None:
        if isinstance(record, ShareSnapshot):
            self._updates.pop(record.key, None)
            if record.value is None:
                self.states.pop(record.key, None)
            else:
                self.states[record.key] = record.value
            return
        known = self.states.get(record.key)
        if known is not None:
            self.states[record.key] = updated(known, record)
            self._updates[record.key] = self._updates.get(record.key, 0) + 1

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool, offset: int) -> None:
        """Nothing here is transactional."""

    def on_loaded(self, now_ms: int) -> Effects:
        return NOTHING

    def on_timer(self, name: Hashable, now_ms: int) -> Effects:
        raise ValueError(f"no such timer: {name!r}")

    # Requests

    def on_initialize(
        self, key: ShareKey, state_epoch: int, start_offset: int, token: Token[None], now_ms: int
    ) -> Effects:
        """A new state, or an old one begun again under a higher epoch."""
        known = self.states.get(key)
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
    ) -> Effects:
        """None if there is no state. A leader that reads is known from then on: an older one cannot write."""
        known = self.states.get(key)
        if known is None:
            return Effects(replies=(reply_to(token, None),))
        if leader_epoch < known.leader_epoch:
            raise errors.FencedLeaderEpoch()
        if leader_epoch == known.leader_epoch:
            return Effects(replies=(reply_to(token, known),))
        record = self._written(key, known, leader_epoch, known.start_offset, -1, (), now_ms)
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
    ) -> Effects:
        known = self.states.get(key)
        if known is None:
            raise errors.UnknownTopicOrPartition(
                "the share-partition has no state; it was deleted or never begun"
            )
        if leader_epoch < known.leader_epoch:
            raise errors.FencedLeaderEpoch()
        if state_epoch < known.state_epoch:
            raise errors.FencedStateEpoch()
        record = self._written(
            key, known, leader_epoch, start_offset, delivery_complete_count, batches, now_ms
        )
        return Effects((record,), (reply_to(token, None),))

    def on_delete(self, key: ShareKey, token: Token[None]) -> Effects:
        gone = (ShareSnapshot(key, None),) if key in self.states else ()
        return Effects(gone, (reply_to(token, None),))

    def on_summary(self, key: ShareKey, token: Token[ShareState | None]) -> Effects:
        return Effects(replies=(reply_to(token, self.states.get(key)),))

    def _written(
        self,
        key: ShareKey,
        known: ShareState,
        leader_epoch: int,
        start_offset: int,
        complete: int,
        batches: tuple[Batch, ...],
        now_ms: int,
    ) -> ShareRecord:
        update = ShareUpdate(key, known.snapshot_epoch, leader_epoch, start_offset, complete, batches)
        if self._updates.get(key, 0) < self._updates_max:
            return update
        whole = updated(known, update)
        return ShareSnapshot(
            key, replace(whole, snapshot_epoch=known.snapshot_epoch + 1, write_timestamp_ms=now_ms)
        )


def updated(known: ShareState, update: ShareUpdate) -> ShareState:
    """The state with an update laid over it."""
    # Two writes of one leader may overtake each other: the start never goes back.
    start = max(known.start_offset, update.start_offset)
    complete = update.delivery_complete_count
    return replace(
        known,
        leader_epoch=max(known.leader_epoch, update.leader_epoch),
        start_offset=start,
        delivery_complete_count=known.delivery_complete_count if complete == -1 else complete,
        batches=combined(known.batches, update.batches, start),
    )


def combined(old: tuple[Batch, ...], new: tuple[Batch, ...], start_offset: int) -> tuple[Batch, ...]:
    """What is newer wins; nothing below the start; neighbours that are alike become one."""
    result = old
    for batch in new:
        result = _laid_over(result, batch)
    low = bisect_left(result, start_offset, key=_last_offset)
    if low == len(result):
        return ()
    first = result[low]
    if first.first_offset < start_offset:
        return (replace(first, first_offset=start_offset), *result[low + 1 :])
    return result[low:]


def _laid_over(batches: tuple[Batch, ...], batch: Batch) -> tuple[Batch, ...]:
    """There may be tens of thousands of them: only those around the new one, and its neighbours, are looked at."""
    low = max(bisect_left(batches, batch.first_offset, key=_last_offset) - 1, 0)
    high = bisect_right(batches, batch.last_offset, key=_first_offset) + 1
    pieces = [piece for known in batches[low:high] for piece in _without(known, batch)]
    return batches[:low] + _joined([*pieces, batch]) + batches[high:]


def _joined(pieces: list[Batch]) -> tuple[Batch, ...]:
    result: list[Batch] = []
    for batch in sorted(pieces, key=_first_offset):
        last = result[-1] if result else None
        if last is not None and last.last_offset + 1 == batch.first_offset and _kind(last) == _kind(batch):
            result[-1] = replace(last, last_offset=batch.last_offset)
        else:
            result.append(batch)
    return tuple(result)


def _without(batch: Batch, other: Batch) -> list[Batch]:
    """What is left of a batch where another one does not cover it."""
    left = []
    if batch.first_offset < other.first_offset:
        left.append(replace(batch, last_offset=min(batch.last_offset, other.first_offset - 1)))
    if batch.last_offset > other.last_offset:
        left.append(replace(batch, first_offset=max(batch.first_offset, other.last_offset + 1)))
    return left
