"""Asks each partition's leader, and asks again for those partitions alone that are worth another try."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from ottla.client.core.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.values import TopicPartition
from ottla.errors import OttlaError, ProtocolError

R = TypeVar("R")
Answers = Mapping[TopicPartition, R | OttlaError]


async def ask_leaders(
    cluster: Cluster,
    partitions: Iterable[tuple[str, int]],
    ask: Callable[[int, list[TopicPartition]], Awaitable[Answers[R]]],
    purpose: str,
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, R]:
    """The answer of every partition's leader. One final error fails the whole."""
    pending = {TopicPartition(*partition) for partition in partitions}
    done: dict[TopicPartition, R] = {}

    async def attempt() -> None:
        groups = await cluster.by_leader(sorted(pending))
        asked = [
            ask(node, [TopicPartition(*partition) for partition in group]) for node, group in groups.items()
        ]
        failure: OttlaError | None = None
        for answers in await cluster.runtime.gather(asked):
            if isinstance(answers, BaseException):
                if not isinstance(answers, OttlaError):
                    raise answers
                failure = answers
                continue
            for partition, answer in answers.items():
                if isinstance(answer, OttlaError):
                    failure = _named(partition, answer)
                else:
                    done[partition] = answer
                    pending.discard(partition)
        if failure is not None:
            raise failure

    await cluster.retrying(attempt, purpose, timeout_ms=timeout_ms)
    return done


async def all_of(cluster: Cluster, asked: Iterable[Awaitable[R]]) -> list[R]:
    """All answers; the first failure fails the whole."""
    answers = await cluster.runtime.gather(asked)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return answers  # type: ignore[return-value]


def _named(partition: TopicPartition, error: OttlaError) -> OttlaError:
    if isinstance(error, ProtocolError) and str(partition) not in error.message:
        return type(error)(f"{partition}: {error.message}")
    return error if isinstance(error, ProtocolError) else ClientError(f"{partition}: {error}")
