"""Topics made and deleted from inside."""

import itertools
import os
import re
from collections.abc import Mapping

from ottla.broker.broker import Broker
from ottla.errors import NONE, error_for
from ottla.testing.asking import ask

_numbers = itertools.count()
STEM_CHARACTERS = 60


async def create_topic(
    broker: Broker,
    name: str,
    partitions: int | None,
    configs: Mapping[str, str],
    replication_factor: int | None = None,
) -> None:
    from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

    wanted = CreatableTopic(
        name=name,
        num_partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if replication_factor is None else replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    (result,) = (await ask(broker, CreateTopicsRequest(topics=[wanted], timeout_ms=30_000))).topics
    if result.error_code != NONE:
        raise error_for(result.error_code, result.error_message)


async def delete_topic(broker: Broker, name: str) -> None:
    from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000)
    (gone,) = (await ask(broker, request)).responses
    if gone.error_code != NONE:
        raise error_for(gone.error_code, gone.error_message)


def unique_name(stem: str) -> str:
    """A topic's name that says whose it is and that nobody else has, in this process or another."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", stem)[:STEM_CHARACTERS].strip("-.")
    return f"{plain}-{os.getpid()}-{next(_numbers)}"
