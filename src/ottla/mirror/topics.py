"""Topics of the target as at the source: made, grown, with their settings and rules, deleted if that is chosen."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla import errors
from ottla.client.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.client.session import Topic
from ottla.errors import OttlaError
from ottla.mirror.errors import MirrorError
from ottla.mirror.link import EXACT, Link
from ottla.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType

log = logging.getLogger(__name__)
INTERNAL_REPLICAS_MAX = 3
_COMPACT = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class Pair:
    """A topic of the source and its copy."""

    source: Topic
    target: Topic


class TopicKeeper:
    """Compares both sides when asked, and changes the target alone."""

    def __init__(self, link: Link, source: Admin, target: Admin) -> None:
        self._link, self._source, self._target = link, source, target
        self._refused: set[str] = set()  # what was logged already

    def refresh(self) -> list[Pair]:
        """Makes the target as the source; the topics to copy."""
        here = {name: topic for name, topic in self._source.list_topics().items() if self._wants(topic)}
        there = self._target.list_topics()
        brokers = len(self._target.describe_cluster().brokers)
        configs = {name: self._configs(name) for name in here} if self._link.sync_configs else {}
        changed = False
        for name, topic in here.items():
            changed |= self._ensure(topic, there.get(self._link.remote(name)), configs.get(name, {}), brokers)
        if changed:
            there = self._target.list_topics()
        pairs = [
            Pair(topic, there[self._link.remote(name)])
            for name, topic in here.items()
            if self._link.remote(name) in there
        ]
        if self._link.sync_configs:
            for pair in pairs:
                self._sync_configs(pair, configs[pair.source.name])
        if self._link.sync_acls:
            self._sync_acls(pairs)
        return pairs

    def ensure_internal(self, admin: Admin, topic: str, configs: Mapping[str, str] = _COMPACT) -> None:
        replicas = min(INTERNAL_REPLICAS_MAX, len(admin.describe_cluster().brokers))
        try:
            admin.create_topics([NewTopic(topic, 1, replicas, configs)])
        except errors.TopicAlreadyExists:
            return

    def delete_gone(self, copied: Mapping[str, str]) -> list[str]:
        """Deletes copies (source name -> target name) whose source was deleted."""
        here = self._source.list_topics()
        gone = [name for name in copied if name not in here]
        for name in gone:
            log.warning(
                "topic %s was deleted at %s: %s is deleted too", name, self._link.source, copied[name]
            )
            try:
                self._target.delete_topics([copied[name]])
            except errors.UnknownTopicOrPartition:
                continue
        return gone

    def _wants(self, topic: Topic) -> bool:
        return not topic.internal and not topic.error_code and self._link.wants_topic(topic.name)

    def _ensure(self, topic: Topic, copy: Topic | None, configs: Mapping[str, str], brokers: int) -> bool:
        remote, count = self._link.remote(topic.name), len(topic.partitions)
        if copy is None:
            wanted = {**configs, **({"mirror.source": self._link.name} if self._link.mode == EXACT else {})}
            self._create(remote, count, self._replicas(topic, brokers), wanted)
            return True
        if len(copy.partitions) < count:
            self._target.add_partitions(remote, count)
            return True
        if len(copy.partitions) > count:
            self._say_once(
                f"{remote} has {len(copy.partitions)} partitions, {topic.name} has {count}: those behind stay empty"
            )
        return False

    def _create(self, name: str, count: int, replicas: int, configs: Mapping[str, str]) -> None:
        try:
            self._target.create_topics([NewTopic(name, count, replicas, configs)])
        except errors.TopicAlreadyExists:
            return
        except (errors.InvalidConfig, errors.InvalidRequest) as error:
            if self._link.mode == EXACT:
                raise MirrorError(f"{name} cannot be made at {self._link.target}: {error}") from error
            self._say_once(f"{name} is made without the source's settings: {error}")
            self._target.create_topics([NewTopic(name, count, replicas)])

    def _replicas(self, topic: Topic, brokers: int) -> int:
        wanted = self._link.replication_factor
        if wanted < 0:
            wanted = max(len(partition.replicas) for partition in topic.partitions.values())
        return max(1, min(wanted, brokers))

    def _configs(self, topic: str) -> dict[str, str]:
        """What was set for the topic itself. Defaults are each cluster's own."""
        try:
            configs = self._source.describe_configs("topic", topic)
        except OttlaError as error:
            self._say_once(f"settings of {topic} cannot be read: {error}")
            return {}
        return {
            name: config.value
            for name, config in configs.items()
            if config.source == "DYNAMIC_TOPIC_CONFIG"
            and config.value is not None
            and not config.sensitive
            and self._link.wants_config(name)
        }

    def _sync_configs(self, pair: Pair, wanted: Mapping[str, str]) -> None:
        configs = self._target.describe_configs("topic", pair.target.name)
        own = {
            name: config.value or ""
            for name, config in configs.items()
            if config.source == "DYNAMIC_TOPIC_CONFIG" and self._link.wants_config(name)
        }
        set_ = {name: value for name, value in wanted.items() if own.get(name) != value}
        delete = [name for name in own if name not in wanted]
        if not set_ and not delete:
            return
        try:
            self._target.alter_configs("topic", pair.target.name, set_=set_, delete=delete)
        except OttlaError as error:
            self._say_once(f"settings of {pair.target.name} are left as they are: {error}")

    def _sync_acls(self, pairs: list[Pair]) -> None:
        """Rules of literal topics, except those that let somebody write: the copy has one writer."""
        try:
            rules = self._source.describe_acls(AclFilter())
        except OttlaError as error:
            self._say_once(f"rules are not carried over: {error}")
            return
        names = {pair.source.name: pair.target.name for pair in pairs}
        wanted = [copy for rule in rules if (copy := copied_rule(rule, names)) is not None]
        present = set(self._target.describe_acls(AclFilter()))
        missing = [rule for rule in wanted if rule not in present]
        if missing:
            self._target.create_acls(missing)

    def _say_once(self, text: str) -> None:
        if text not in self._refused:
            self._refused.add(text)
            log.warning("%s", text)


def copied_rule(rule: Acl, names: Mapping[str, str]) -> Acl | None:
    """A rule of a topic as it holds for the copy, or None. As in MirrorMaker the right to write does not cross, and
    the right to do everything becomes the right to read: the copy has one writer."""
    if rule.resource_type is not ResourceType.TOPIC or rule.pattern is not PatternType.LITERAL:
        return None
    if rule.name not in names:
        return None
    operation = rule.operation
    if rule.permission is Permission.ALLOW:
        if operation is Operation.WRITE:
            return None
        operation = Operation.READ if operation is Operation.ALL else operation
    return replace(rule, name=names[rule.name], operation=operation)
