"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message


class TopicPartition(Message):
    __slots__ = ('topic', 'partitions')
    FLEXIBLE_FROM = 32767
    FIELDS = (
        Field('topic', 'string', '0-3'),
        Field('partitions', 'int32', '0-3', array=True),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.topic: str = topic
        self.partitions: list[int] = [] if partitions is None else partitions


class ConsumerProtocolAssignment(Message):
    __slots__ = ('assigned_partitions', 'user_data')
    FLEXIBLE_FROM = 32767
    VERSIONS = (0, 3)
    FIELDS = (
        Field('assigned_partitions', TopicPartition, '0-3', array=True),
        Field('user_data', 'bytes', '0-3', nullable='0-3'),
    )

    def __init__(
        self,
        *,
        assigned_partitions: list[TopicPartition] | None = None,
        user_data: bytes | None = None,
    ) -> None:
        self.assigned_partitions: list[TopicPartition] = [] if assigned_partitions is None else assigned_partitions
        self.user_data: bytes | None = user_data
