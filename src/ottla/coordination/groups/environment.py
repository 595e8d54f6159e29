"""What the group machine sees of the world around its shard."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Protocol

from ottla.coordination.groups.regex import Patterns
from ottla.coordination.groups.settings import GroupSettings
from ottla.frozen import frozen


class TopicsView(Protocol):
    """The topics of the cluster, as this broker knows them now."""

    def names(self) -> Iterable[str]: ...

    def topic_id(self, name: str) -> bytes | None: ...

    def topic_name(self, topic_id: bytes) -> str | None: ...

    def partition_count(self, name: str) -> int:
        """0 when there is no such topic."""
        ...

    def racks(self, name: str, partition: int) -> frozenset[str]: ...


class Client(Protocol):
    """Who sent a request: as Kafka shows it, the host is "/127.0.0.1"."""

    @property
    def client_id(self) -> str: ...

    @property
    def host(self) -> str: ...

    def may_see(self, topic: str) -> bool:
        """Whether a pattern that it subscribes to may bring this topic."""
        ...


def no_overrides(_group_id: str) -> Mapping[str, str]:
    return {}


def silent(_line: str) -> None:
    return None


@frozen
class Environment:
    topics: TopicsView
    new_id: Callable[[], str]  # a fresh UUID as text
    settings: GroupSettings = field(default_factory=GroupSettings)
    overrides: Callable[[str], Mapping[str, str]] = no_overrides  # configs of group resources
    report: Callable[[str], None] = silent  # one line for each transition of a group
    patterns: Patterns = field(default_factory=Patterns)  # may be shared by all shards

    def settings_of(self, group_id: str) -> GroupSettings:
        return self.settings.of_group(self.overrides(group_id))
