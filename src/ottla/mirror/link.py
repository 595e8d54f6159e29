"""A link: which topics and groups of one cluster are copied to another, and how. Travels to Spark's workers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ottla.mirror.errors import BadLink
from ottla.mirror.naming import Naming

COMPATIBLE, EXACT = "compatible", "exact"
TOPICS_EXCLUDE = (r"mm2.*\.internal", r".*\.replica", "__.*")
GROUPS_EXCLUDE = ("console-consumer-.*", "connect-.*", "__.*")
CONFIGS_EXCLUDE = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.difference.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
    "message.timestamp.type",
    "unclean.leader.election.enable",
    "min.insync.replicas",
)
# Settings that make a topic a mirror are the target's own affair.
_CONFIGS_NEVER = ("mirror.source", "mirror.link.epoch", "ottla.writer.transactional.id")


@dataclass(frozen=True)
class Link:
    """`source` and `target` are the clusters' aliases; `*_client` are settings of clients, as `bootstrap.servers`."""

    source: str
    target: str
    source_client: Mapping[str, Any]
    target_client: Mapping[str, Any]
    topics: tuple[str, ...] = (".*",)
    topics_exclude: tuple[str, ...] = TOPICS_EXCLUDE
    groups: tuple[str, ...] = (".*",)
    groups_exclude: tuple[str, ...] = GROUPS_EXCLUDE
    configs_exclude: tuple[str, ...] = CONFIGS_EXCLUDE
    naming: Naming = field(default_factory=Naming)
    mode: str = COMPATIBLE
    start: str = "earliest"  # of partitions that are new to the link
    tasks: int = 2
    replication_factor: int = -1  # as at the source, at most the number of brokers
    refresh_topics_s: float = 5.0
    sync_configs: bool = True
    sync_acls: bool = False
    sync_topic_deletes: bool = False
    sync_record_deletes: bool = False
    tolerate_loss: bool = False
    sync_groups: bool = True
    sync_groups_s: float = 1.0
    emit_checkpoints: bool = True
    emit_heartbeats: bool = True
    heartbeats_s: float = 1.0
    emit_offset_syncs: bool = True
    offset_syncs_at: str = "source"
    throttle_bytes: int = 0  # a second; 0: as fast as it goes
    bytes_max: int = 64 * 1024 * 1024  # of one step

    def __post_init__(self) -> None:
        if self.source == self.target:
            raise BadLink(f"a link needs two clusters; both are called {self.source}")
        if self.mode not in (COMPATIBLE, EXACT):
            raise BadLink(f"mode={self.mode}; it is {COMPATIBLE} or {EXACT}")
        if self.start not in ("earliest", "latest"):
            raise BadLink(f"auto.offset.reset={self.start}; it is earliest or latest")
        for pattern in (*self.topics, *self.topics_exclude, *self.groups, *self.groups_exclude):
            _compiled(pattern)

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def group(self) -> str:
        """The mirror's own group at the target: positions, and who is in charge."""
        return f"ottla-mirror.{self.source}.{self.target}"

    @property
    def journal(self) -> str:
        """Our own topic at the target: runs, and what operators ask of the link."""
        return f"ottla-mirror.{self.source}.{self.target}.internal"

    def transactional_id(self, task: int) -> str:
        return f"{self.group}.{task}"

    def remote(self, topic: str) -> str:
        return self.naming.remote(self.source, topic)

    def wants_topic(self, topic: str) -> bool:
        """Whether a topic of the source is to be copied."""
        if self.naming.is_heartbeats(topic):
            return self.emit_heartbeats and not self.naming.has_passed(topic, self.target)
        if self.naming.is_internal(topic) or self.naming.has_passed(topic, self.target):
            return False
        return self._topics.matches(topic)

    def wants_group(self, group: str) -> bool:
        return not group.startswith("ottla-mirror.") and self._groups.matches(group)

    def wants_config(self, name: str) -> bool:
        excluded = any(_compiled(pattern).fullmatch(name) for pattern in self.configs_exclude)
        return name not in _CONFIGS_NEVER and not excluded

    @cached_property
    def _topics(self) -> "_Filter":
        return _Filter(self.topics, self.topics_exclude)

    @cached_property
    def _groups(self) -> "_Filter":
        return _Filter(self.groups, self.groups_exclude)


class _Filter:
    def __init__(self, include: tuple[str, ...], exclude: tuple[str, ...]) -> None:
        self._include = [_compiled(pattern) for pattern in include]
        self._exclude = [_compiled(pattern) for pattern in exclude]

    def matches(self, name: str) -> bool:
        return any(p.fullmatch(name) for p in self._include) and not any(
            p.fullmatch(name) for p in self._exclude
        )


def check_together(links: "tuple[Link, ...]") -> None:
    """Refuses links that would copy in a circle without anybody noticing, or that write to one topic."""
    pairs = {(link.source, link.target): link for link in links}
    for (source, target), link in pairs.items():
        back = pairs.get((target, source))
        if back is not None and (link.naming.identical or back.naming.identical):
            raise BadLink(
                f"{link.name} and {back.name} with identical names would copy each record for ever: nothing in a name "
                "says where it came from. Use DefaultReplicationPolicy, or one direction"
            )
    _refuse_circles(links)


def _refuse_circles(links: "tuple[Link, ...]") -> None:
    """A longer way around with identical names is the same circle."""
    ways: dict[str, set[str]] = {}
    for link in links:
        if link.naming.identical:
            ways.setdefault(link.source, set()).add(link.target)
    for begin in ways:
        visited: set[str] = set()
        reached = set(ways[begin])
        while reached - visited:
            visited |= reached
            reached = {far for near in visited for far in ways.get(near, ())}
        if begin in visited:
            raise BadLink(
                f"links with identical names lead from {begin} back to {begin}: each record would go round"
            )


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise BadLink(f"{pattern!r} is not a pattern: {error}") from None
