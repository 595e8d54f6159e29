"""Client quotas: bytes a second of users and client ids."""

from collections.abc import Mapping

from ottla import errors
from ottla.client.core.cluster import Cluster
from ottla.errors import error_for
from ottla.frozen import frozen
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from ottla.wire.messages.describe_client_quotas import DescribeClientQuotasRequest

Entity = Mapping[str, str | None]  # `user`, `client-id` or `ip`, each with a name, or None for the default


@frozen
class Quota:
    """What one entity may do, by the quota's key."""

    entity: dict[str, str | None]
    values: dict[str, float]


async def describe(cluster: Cluster) -> list[Quota]:
    """All of them."""

    async def attempt() -> list[Quota]:
        answer = await cluster.ask(DescribeClientQuotasRequest())
        _check(answer.error_code, answer.error_message)
        return [
            Quota(
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: value.value for value in entry.values},
            )
            for entry in answer.entries or ()
        ]

    return await cluster.retrying(attempt, "quotas could not be read")


async def alter(cluster: Cluster, entity: Entity, values: Mapping[str, float | None]) -> None:
    """None removes a quota."""
    parts = []
    for kind, name in entity.items():
        part = EntityData(entity_type=kind)
        part.entity_name = name
        parts.append(part)
    ops = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=parts, ops=ops)])

    async def attempt() -> None:
        answer = await cluster.ask_controller(request)
        for entry in answer.entries:
            _check(entry.error_code, entry.error_message)

    await cluster.retrying(attempt, "quotas could not be changed")


def _check(code: int, message: str | None) -> None:
    if code:
        raise error_for(code, f"quotas: {message or errors.NAMES.get(code)}")
