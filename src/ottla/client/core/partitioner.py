"""Which partition a record goes to: as Java's default client does, in turn, or as the user says."""

from collections.abc import Callable, Sequence
from typing import Protocol

from ottla.client.core.cluster import Topic
from ottla.client.errors import SettingError
from ottla.wire.kernel import murmur2


class Partitioner(Protocol):
    def partition(self, topic: Topic, key: bytes | None, size: int) -> int: ...


class Default:
    """Keys by murmur2; without a key one partition until `batch_size` bytes went there, then another.

    Threads that share it may add to a count that another has just reset: the change of partition then comes a
    record earlier or later, which is harmless.
    """

    def __init__(self, batch_size: int, choose: Callable[[Sequence[int]], int]) -> None:
        self._batch_size = batch_size
        self._choose = choose
        self._sticky: dict[str, list[int]] = {}  # topic -> [partition, bytes that may still go there]

    def partition(self, topic: Topic, key: bytes | None, size: int) -> int:
        if key is not None:
            return (murmur2(key) & 0x7FFFFFFF) % len(topic.partitions)
        sticky = self._sticky.get(topic.name)
        if sticky is None or sticky[1] <= 0 or sticky[0] not in topic.partitions:
            current = self.another(topic, -1 if sticky is None else sticky[0])
            sticky = self._sticky[topic.name] = [current, self._batch_size]
        sticky[1] -= size
        return sticky[0]

    def another(self, topic: Topic, current: int) -> int:
        """Partitions without a leader would only gather records that wait."""
        able = [p.index for p in topic.partitions.values() if p.leader >= 0] or list(topic.partitions)
        return self._choose([p for p in able if p != current] or able)


class RoundRobin:
    """One after another, keys or not."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(self, topic: Topic, key: bytes | None, size: int) -> int:
        count = len(topic.partitions)
        current = self._next.get(topic.name, 0) % count
        self._next[topic.name] = current + 1
        return current


class Custom:
    """The user's function of (topic name, key, number of partitions)."""

    def __init__(self, choose: Callable[[str, bytes | None, int], int]) -> None:
        self._choose = choose

    def partition(self, topic: Topic, key: bytes | None, size: int) -> int:
        chosen = self._choose(topic.name, key, len(topic.partitions))
        if chosen not in topic.partitions:
            raise SettingError(
                f"the partitioner chose {chosen}; {topic.name} has {len(topic.partitions)} partitions"
            )
        return chosen


def partitioner_for(
    setting: str | Callable[..., int], batch_size: int, chance: Callable[[], float]
) -> Partitioner:
    """`chance` gives a number from 0 to below 1: which partition records without a key go to next."""
    if callable(setting):
        return Custom(setting)
    if setting == "round_robin":
        return RoundRobin()
    return Default(batch_size, lambda able: able[int(chance() * len(able))])
