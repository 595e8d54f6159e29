"""The records of `__share_group_state` as values. A `value` of None is a tombstone."""

from ottla.frozen import frozen

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4
REJECTED, DELIVERY_LIMIT = 1, 2  # verdicts: why a record is a dead letter
NO_OFFSET = -1  # nobody has read yet: the group's settings say where to begin


@frozen
class ShareKey:
    group_id: str
    topic_id: bytes
    partition: int


@frozen
class Batch:
    """Offsets with the same state; `last_offset` is included, as in Kafka's records."""

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int
    due_ms: int = 0  # not before this
    verdict: int = 0  # not yet written as a dead letter


@frozen
class ShareState:
    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = -1
    start_offset: int = NO_OFFSET
    delivery_complete_count: int = -1
    create_timestamp_ms: int = 0
    write_timestamp_ms: int = 0
    batches: tuple[Batch, ...] = ()


@frozen
class ShareSnapshot:
    key: ShareKey
    value: ShareState | None


@frozen
class ShareUpdate:
    """Only what changed since the snapshot; `start_offset` and `leader_epoch` as in a write."""

    key: ShareKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[Batch, ...]


ShareRecord = ShareSnapshot | ShareUpdate
