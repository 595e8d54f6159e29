"""A Fetch request of a consumer: what its session has to tell the broker."""

from ottla.client.core.cluster import ZERO_ID
from ottla.client.core.offsets import by_topic
from ottla.client.core.sessions import FetchSession, Wanted
from ottla.client.settings import ConsumerSettings
from ottla.client.values import TopicPartition
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic


def fetch_request(
    settings: ConsumerSettings,
    session: FetchSession,
    send: dict[TopicPartition, Wanted],
    forget: list[TopicPartition],
) -> FetchRequest:
    topics = [
        FetchTopic(
            topic=topic,
            topic_id=session.topic_ids[topic],
            partitions=[_partition(index, send[TopicPartition(topic, index)], settings) for index in indexes],
        )
        for topic, indexes in by_topic(send).items()
    ]
    forgotten = [
        ForgottenTopic(topic=topic, topic_id=session.topic_ids.get(topic, ZERO_ID), partitions=indexes)
        for topic, indexes in by_topic(forget).items()
    ]
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=settings.fetch_max_wait_ms,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=settings.fetch_max_bytes,
        isolation_level=int(settings.read_committed),
        session_id=session.id,
        session_epoch=session.epoch,
        topics=topics,
        forgotten_topics_data=forgotten if session.id else [],
        rack_id=settings.client_rack,
    )


def _partition(index: int, wanted: Wanted, settings: ConsumerSettings) -> FetchPartition:
    offset, leader_epoch, _ = wanted
    return FetchPartition(
        partition=index,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=settings.max_partition_fetch_bytes,
    )
