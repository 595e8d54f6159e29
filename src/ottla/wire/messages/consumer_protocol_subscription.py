"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message


class TopicPartition(Message):
    __slots__ = ('topic', 'partitions')
    FLEXIBLE_FROM = 32767
    FIELDS = (
        Field('topic', 'string', '1-3'),
        Field('partitions', 'int32', '1-3', array=True),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.topic: str = topic
        self.partitions: list[int] = [] if partitions is None else partitions


class ConsumerProtocolSubscription(Message):
    __slots__ = ('topics', 'user_data', 'owned_partitions', 'generation_id', 'rack_id')
    FLEXIBLE_FROM = 32767
    VERSIONS = (0, 3)
    FIELDS = (
        Field('topics', 'string', '0-3', array=True),
        Field('user_data', 'bytes', '0-3', nullable='0-3'),
        Field('owned_partitions', TopicPartition, '1-3', array=True),
        Field('generation_id', 'int32', '2-3'),
        Field('rack_id', 'string', '3', nullable='3'),
    )

    def __init__(
        self,
        *,
        topics: list[str] | None = None,
        user_data: bytes | None = None,
        owned_partitions: list[TopicPartition] | None = None,
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics: list[str] = [] if topics is None else topics
        self.user_data: bytes | None = user_data
        self.owned_partitions: list[TopicPartition] = [] if owned_partitions is None else owned_partitions
        self.generation_id: int = generation_id
        self.rack_id: str | None = rack_id
