"""Topics made from inside."""

from collections.abc import Mapping

from ottla.broker.broker import Broker
from ottla.errors import NONE, error_for
from ottla.testing.asking import ask
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest


async def create_topic(broker: Broker, name: str, partitions: int | None, configs: Mapping[str, str]) -> None:
    wanted = CreatableTopic(
        name=name,
        num_partitions=-1 if partitions is None else partitions,
        replication_factor=-1,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    (made,) = (await ask(broker, CreateTopicsRequest(topics=[wanted], timeout_ms=30_000))).topics
    if made.error_code != NONE:
        raise error_for(made.error_code, made.error_message)
