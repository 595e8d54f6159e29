"""Where a partition's leader is: clients that came to the wrong broker are told at once."""

from collections.abc import Iterable

from ottla.broker.requests.context import Context


def current_leader(context: Context, topic: str | bytes, index: int) -> tuple[int, int]:
    """(leader id, leader epoch) as far as this broker knows; -1 for neither."""
    image = context.metadata.image
    known = image.topics_by_id.get(topic) if isinstance(topic, bytes) else image.topics.get(topic)
    if known is None or not 0 <= index < len(known.partitions):
        return -1, -1
    partition = known.partitions[index]
    return partition.leader, partition.leader_epoch


def endpoints_of(context: Context, broker_ids: Iterable[int]) -> list[tuple[int, str, int, str | None]]:
    """(id, host, port, rack) of the living among these brokers, on the client's listener."""
    endpoints = []
    for broker_id in broker_ids:
        broker = context.metadata.image.brokers.get(broker_id)
        endpoint = broker.endpoint(context.client.listener) if broker is not None else None
        if broker is not None and endpoint is not None:
            endpoints.append((broker_id, endpoint.host, endpoint.port, broker.rack))
    return endpoints
