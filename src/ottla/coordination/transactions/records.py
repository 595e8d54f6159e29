"""Transaction log records in Apache Kafka's bytes: TransactionLogKey v0, TransactionLogValue v0 and v1."""

import struct
from collections.abc import Iterable

from ottla.coordination.transactions.transaction import Forgotten, State, TopicPartition, Transaction
from ottla.errors import CorruptMessage
from ottla.ports import Buffer
from ottla.wire import codec
from ottla.wire.schema import Field, Message

KEY_VERSION = 0
VALUE_VERSION_MAX = 1
FLEXIBLE_TRANSACTION_VERSION = 1
"""From this `transaction.version` on values are written as v1, whose tagged fields the epoch bumps need."""

_VERSION = struct.Struct(">h")


class TransactionLogKey(Message):
    __slots__ = ("transactional_id",)
    VERSIONS = (0, 0)
    FIELDS = (Field("transactional_id", "string", "0"),)

    def __init__(self, *, transactional_id: str = "") -> None:
        self.transactional_id = transactional_id


class PartitionsSchema(Message):
    __slots__ = ("partition_ids", "topic")
    FLEXIBLE_FROM = 1
    FIELDS = (Field("topic", "string", "0-1"), Field("partition_ids", "int32", "0-1", array=True))

    def __init__(self, *, topic: str = "", partition_ids: list[int] | None = None) -> None:
        self.topic = topic
        self.partition_ids: list[int] = [] if partition_ids is None else partition_ids


class TransactionLogValue(Message):
    __slots__ = (
        "client_transaction_version",
        "next_producer_id",
        "previous_producer_id",
        "producer_epoch",
        "producer_id",
        "transaction_last_update_timestamp_ms",
        "transaction_partitions",
        "transaction_start_timestamp_ms",
        "transaction_status",
        "transaction_timeout_ms",
    )
    FLEXIBLE_FROM = 1
    VERSIONS = (0, 1)
    FIELDS = (
        Field("producer_id", "int64", "0-1"),
        Field("previous_producer_id", "int64", "1", tag=0, tagged="1"),
        Field("next_producer_id", "int64", "1", tag=1, tagged="1"),
        Field("producer_epoch", "int16", "0-1"),
        Field("transaction_timeout_ms", "int32", "0-1"),
        Field("transaction_status", "int8", "0-1"),
        Field("transaction_partitions", PartitionsSchema, "0-1", array=True, nullable="0-1"),
        Field("transaction_last_update_timestamp_ms", "int64", "0-1"),
        Field("transaction_start_timestamp_ms", "int64", "0-1"),
        Field("client_transaction_version", "int16", "1", tag=2, tagged="1"),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        previous_producer_id: int = -1,
        next_producer_id: int = -1,
        producer_epoch: int = 0,
        transaction_timeout_ms: int = 0,
        transaction_status: int = 0,
        transaction_partitions: list[PartitionsSchema] | None = None,
        transaction_last_update_timestamp_ms: int = 0,
        transaction_start_timestamp_ms: int = 0,
        client_transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.previous_producer_id = previous_producer_id
        self.next_producer_id = next_producer_id
        self.producer_epoch = producer_epoch
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_status = transaction_status
        self.transaction_partitions = transaction_partitions
        self.transaction_last_update_timestamp_ms = transaction_last_update_timestamp_ms
        self.transaction_start_timestamp_ms = transaction_start_timestamp_ms
        self.client_transaction_version = client_transaction_version


class TransactionRecords:
    """The shard's RecordCodec. The finalized feature `transaction.version` picks the value's version."""

    def __init__(self, transaction_version: int = 2) -> None:
        self._value_version = int(transaction_version >= FLEXIBLE_TRANSACTION_VERSION)

    def encode(self, record: Transaction | Forgotten) -> tuple[bytes, bytes | None]:
        key = _versioned(KEY_VERSION, TransactionLogKey(transactional_id=record.transactional_id))
        if isinstance(record, Forgotten):
            return key, None
        return key, _versioned(self._value_version, _value_of(record))

    def decode(self, key: Buffer, value: Buffer | None) -> Transaction | Forgotten | None:
        if _version(key) != KEY_VERSION:
            return None  # a kind of record from a later release; it says nothing about transactions of today
        transactional_id = codec.read(TransactionLogKey, KEY_VERSION, key, 2)[0].transactional_id
        if value is None:
            return Forgotten(transactional_id)
        version = _version(value)
        if not 0 <= version <= VALUE_VERSION_MAX:
            raise CorruptMessage(f"a transaction log value of version {version}")
        return _transaction_of(transactional_id, codec.read(TransactionLogValue, version, value, 2)[0])


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions under their topics, both in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def _versioned(version: int, message: Message) -> bytes:
    return bytes(codec.write(message, version, bytearray(_VERSION.pack(version))))


def _version(data: Buffer) -> int:
    if len(data) < 2:
        raise CorruptMessage("a transaction log record without a version")
    return int(_VERSION.unpack_from(data)[0])


def _value_of(record: Transaction) -> TransactionLogValue:
    topics = [PartitionsSchema(topic=t, partition_ids=ids) for t, ids in by_topic(record.partitions).items()]
    return TransactionLogValue(
        producer_id=record.producer_id,
        previous_producer_id=record.previous_producer_id,
        next_producer_id=record.next_producer_id,
        producer_epoch=record.producer_epoch,
        transaction_timeout_ms=record.timeout_ms,
        transaction_status=record.state,
        transaction_partitions=None if record.state is State.EMPTY else topics,
        transaction_last_update_timestamp_ms=record.last_update_ms,
        transaction_start_timestamp_ms=record.start_ms,
        client_transaction_version=record.client_version,
    )


def _transaction_of(transactional_id: str, value: TransactionLogValue) -> Transaction:
    try:
        state = State(value.transaction_status)
    except ValueError as error:
        raise CorruptMessage(f"{transactional_id} is in state {value.transaction_status}") from error
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.previous_producer_id,
        value.next_producer_id,
        value.transaction_timeout_ms,
        state,
        frozenset(
            (topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.client_transaction_version,
    )
