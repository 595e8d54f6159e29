"""Client telemetry (KIP-714): what clients should push, and what they pushed.

Told to clients (ApiVersions) from the first subscription on; those that connected before push after their next
connection. Kafka tells so where a plug-in receives metrics. Not offered: plug-ins.
"""

import logging
from collections.abc import Mapping

from ottla.broker.requests.context import Context
from ottla.broker.telemetry import COMPRESSION_TYPES, Instance, Push
from ottla.errors import ProtocolError
from ottla.metadata.records import NO_LEADER
from ottla.wire import batch as batches
from ottla.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ottla.wire.records import Record

logger = logging.getLogger("ottla.telemetry")

ACKS_LEADER = 1


async def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, context: Context
) -> GetTelemetrySubscriptionsResponse:
    telemetry = context.telemetry
    try:
        instance = telemetry.on_get(
            request.client_instance_id,
            _about(context),
            context.client.principal,
            context.clock.monotonic_ms(),
        )
    except ProtocolError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(COMPRESSION_TYPES),
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=telemetry.bytes_max,
        delta_temporality=True,
        requested_metrics=list(instance.metrics),
    )


async def push_telemetry(request: PushTelemetryRequest, context: Context) -> PushTelemetryResponse:
    push = Push(context.clock.now_ms(), request.compression_type, bytes(request.metrics or b""))
    try:
        instance = context.telemetry.on_push(
            request.client_instance_id,
            _about(context),
            context.client.principal,
            push,
            request.subscription_id,
            context.clock.monotonic_ms(),
            terminating=request.terminating,
        )
    except ProtocolError as error:
        return PushTelemetryResponse(error_code=error.code)
    if push.metrics and context.config.ottla_client_telemetry_topic:
        _append(instance, push, context)
    return PushTelemetryResponse()


def _about(context: Context) -> Mapping[str, str]:
    """By the names that subscriptions match."""
    client = context.client
    name, _, version = client.software.partition(" ")
    return {
        "client_id": context.client_id,
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": client.host,
        "client_source_port": str(client.port),
    }


def _append(instance: Instance, push: Push, context: Context) -> None:
    """The bytes as they came, to a partition that this broker leads; lost if there is none. Nobody waits for it."""
    topic: str = context.config.ottla_client_telemetry_topic or ""
    known = context.metadata.image.topics.get(topic)
    own = [
        partition
        for state in (known.partitions if known is not None else ())
        if state.leader != NO_LEADER
        and (partition := context.replicas.partitions.get((topic, state.index))) is not None
        and partition.is_leader
    ]
    if not own:
        logger.warning("metrics of a client are not kept: no partition of %s is led here", topic)
        return
    headers = (*instance.about.items(), ("principal", instance.principal))
    encoded = tuple((name, value.encode()) for name, value in headers)
    compression = ("compression_type", str(push.compression_type).encode())
    key = instance.about["client_instance_id"].encode()
    record = Record(-1, push.at_ms, key, push.metrics, (*encoded, compression))
    partition = own[hash(instance.instance_id) % len(own)]
    try:
        partition.append(batches.build([record]), acks=ACKS_LEADER, now_ms=push.at_ms)
    except ProtocolError as error:
        logger.warning("metrics of a client are not kept in %s: %s", topic, error)
