"""A settings file with MirrorMaker's names, to links. What means the same is taken, what promises more is refused."""

import logging
from collections.abc import Mapping
from typing import Any

from ottla.mirror.errors import BadLink
from ottla.mirror.link import Link, check_together
from ottla.mirror.naming import IDENTICAL, POLICIES, PREFIXED, Naming

log = logging.getLogger(__name__)

# Names of a link: MirrorMaker's first, then our own. Each is looked up as `A->B.name`, then `name`.
TAKEN: Mapping[str, str] = {
    "enabled": "whether the link runs (A->B.enabled)",
    "topics": "patterns of topics to copy",
    "topics.exclude": "patterns of topics not to copy",
    "groups": "patterns of groups whose positions are carried over",
    "groups.exclude": "patterns of groups to leave out",
    "config.properties.exclude": "settings of topics that are not carried over",
    "replication.policy.class": "DefaultReplicationPolicy or IdentityReplicationPolicy",
    "replication.policy.separator": "between the cluster's alias and the topic",
    "replication.factor": "of topics made at the target; default: as at the source, at most the number of brokers",
    "tasks.max": "transactions at a time",
    "refresh.topics.interval.seconds": "how often topics, partitions and settings are compared (5)",
    "refresh.topics.enabled": "false: only the topics of the start",
    "sync.topic.configs.enabled": "carry settings of topics over",
    "sync.topic.acls.enabled": "carry rules of topics over (default: no)",
    "sync.group.offsets.enabled": "write translated positions to groups that are not active at the target (yes)",
    "sync.group.offsets.interval.seconds": "how often (1)",
    "emit.checkpoints.enabled": "write A.checkpoints.internal",
    "emit.checkpoints.interval.seconds": "together with sync.group.offsets.interval.seconds; the smaller counts",
    "emit.heartbeats.enabled": "write and copy heartbeats",
    "emit.heartbeats.interval.seconds": "how often (1)",
    "emit.offset-syncs.enabled": "write mm2-offset-syncs.B.internal",
    "offset-syncs.topic.location": "source or target",
    "auto.offset.reset": "where partitions begin that are new to the link: earliest or latest",
    "mode": "compatible or exact",
    "sync.topic.deletes.enabled": "delete topics at the target that were deleted at the source (no)",
    "sync.record.deletes.enabled": "the log start of the target follows the source's (no)",
    "tolerate.loss": "go on behind records that were gone before they were copied (no: stop and say so)",
    "throttle.bytes.per.second": "0: as fast as it goes",
}
IGNORED: Mapping[str, str] = {
    "offset.lag.max": "every acknowledged stretch is known: there is no lag of offset syncs",
    "sync.topic.configs.interval.seconds": "settings are compared with refresh.topics.interval.seconds",
    "sync.topic.acls.interval.seconds": "rules are compared with refresh.topics.interval.seconds",
    "refresh.groups.interval.seconds": "groups are listed with sync.group.offsets.interval.seconds",
    "refresh.groups.enabled": "groups are always listed",
    "offset-syncs.topic.replication.factor": "as many as there are brokers, at most 3",
    "checkpoints.topic.replication.factor": "as many as there are brokers, at most 3",
    "heartbeats.topic.replication.factor": "as many as there are brokers, at most 3",
    "config.storage.replication.factor": "there is no Connect worker",
    "offset.storage.replication.factor": "positions are group offsets",
    "status.storage.replication.factor": "there is no Connect worker",
    "consumer.poll.timeout.ms": "fetches wait for the source's own signal",
    "dedicated.mode.enable.internal.rest": "there is no REST server: Spark distributes",
    "exactly.once.source.support": "the mirror is always exactly once",
    "metric.names.formats": "there is no JMX",
    "metrics.reporters": "there is no JMX",
    "admin.timeout.ms": "default.api.timeout.ms of the cluster's client",
    "offset.flush.interval.ms": "positions are committed with the records",
    "heartbeats.replication.enabled": "see emit.heartbeats.enabled",
    "name": "links are named by their clusters",
    "connector.class": "there are no connectors",
    "key.converter": "bytes stay bytes",
    "value.converter": "bytes stay bytes",
    "header.converter": "bytes stay bytes",
}
REFUSED: Mapping[str, str] = {
    "topic.filter.class": "a Java class cannot run here; use topics and topics.exclude",
    "group.filter.class": "a Java class cannot run here; use groups and groups.exclude",
    "config.property.filter.class": "a Java class cannot run here; use config.properties.exclude",
    "forwarding.admin.class": "a Java class cannot run here",
    "transforms": "records are passed on as they are; for changes on the way use streams",
    "predicates": "records are passed on as they are; for changes on the way use streams",
    "use.defaults.from": "defaults are always the target's own",
    "replication.policy.internal.topic.separator.enabled": "internal topics have the names that MirrorMaker gives them",
    "config.providers": "secrets come from the file or the environment",
}


def links(settings: Mapping[str, str]) -> list[Link]:
    """All enabled links of a file."""
    clusters = _list(settings.get("clusters", ""))
    if not clusters:
        raise BadLink("clusters= names the aliases of the clusters, as clusters=A,B")
    settings = {name: value for name, value in settings.items() if name != "clusters"}
    _check_names(settings, clusters)
    enabled = [
        link_of(settings, source, target)
        for source in clusters
        for target in clusters
        if _flag(settings, f"{source}->{target}.enabled", False)
    ]
    if not enabled:
        raise BadLink("no link is enabled: write A->B.enabled=true for the direction to copy")
    check_together(tuple(enabled))
    return enabled


def link_of(settings: Mapping[str, str], source: str, target: str, **more: Any) -> Link:
    """The link between two clusters of a file; `more` wins."""
    of_link = _OfLink(settings, f"{source}->{target}")
    defaults = Link(source, target, {}, {})
    values: dict[str, Any] = {
        "source_client": client_of(settings, source),
        "target_client": client_of(settings, target),
        **_selection(of_link, defaults),
        **_synced(of_link, defaults),
        **_emitted(of_link, defaults),
    }
    if values["offset_syncs_at"] not in ("source", "target"):
        raise BadLink(f"offset-syncs.topic.location={values['offset_syncs_at']}; it is source or target")
    return Link(source, target, **{**values, **more})


class _OfLink:
    """The settings of one link: `A->B.name`, else `name`."""

    def __init__(self, settings: Mapping[str, str], link: str) -> None:
        self._settings, self._link = settings, link

    def text(self, name: str, default: str) -> str:
        return self._settings.get(f"{self._link}.{name}", self._settings.get(name, default))

    def patterns(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        text = self.text(name, "\0")
        return default if text == "\0" else tuple(_list(text))

    def flag(self, name: str, default: bool) -> bool:
        return _truth(name, self.text(name, str(default).lower()))

    def number(self, name: str, default: float) -> float:
        text = self.text(name, str(default))
        try:
            return float(text)
        except ValueError:
            raise BadLink(f"{name}={text} is not a number") from None


def _selection(of_link: _OfLink, defaults: Link) -> dict[str, Any]:
    """What is mirrored, and how."""
    return {
        "topics": of_link.patterns("topics", defaults.topics),
        "topics_exclude": of_link.patterns("topics.exclude", defaults.topics_exclude),
        "groups": of_link.patterns("groups", defaults.groups),
        "groups_exclude": of_link.patterns("groups.exclude", defaults.groups_exclude),
        "configs_exclude": of_link.patterns("config.properties.exclude", defaults.configs_exclude),
        "naming": _naming(
            of_link.text("replication.policy.class", PREFIXED),
            of_link.text("replication.policy.separator", "."),
        ),
        "mode": of_link.text("mode", defaults.mode),
        "start": of_link.text("auto.offset.reset", defaults.start),
        "tasks": int(of_link.number("tasks.max", defaults.tasks)),
        "replication_factor": int(of_link.number("replication.factor", defaults.replication_factor)),
        "refresh_topics_s": of_link.number("refresh.topics.interval.seconds", defaults.refresh_topics_s)
        if of_link.flag("refresh.topics.enabled", True)
        else float("inf"),
        "tolerate_loss": of_link.flag("tolerate.loss", defaults.tolerate_loss),
        "throttle_bytes": int(of_link.number("throttle.bytes.per.second", defaults.throttle_bytes)),
    }


def _synced(of_link: _OfLink, defaults: Link) -> dict[str, Any]:
    """What is carried over beside records."""
    return {
        "sync_configs": of_link.flag("sync.topic.configs.enabled", defaults.sync_configs),
        "sync_acls": of_link.flag("sync.topic.acls.enabled", defaults.sync_acls),
        "sync_topic_deletes": of_link.flag("sync.topic.deletes.enabled", defaults.sync_topic_deletes),
        "sync_record_deletes": of_link.flag("sync.record.deletes.enabled", defaults.sync_record_deletes),
        "sync_groups": of_link.flag("sync.group.offsets.enabled", defaults.sync_groups),
        "sync_groups_s": min(
            of_link.number("sync.group.offsets.interval.seconds", defaults.sync_groups_s),
            of_link.number("emit.checkpoints.interval.seconds", defaults.sync_groups_s),
        ),
    }


def _emitted(of_link: _OfLink, defaults: Link) -> dict[str, Any]:
    """The link's own records."""
    return {
        "emit_checkpoints": of_link.flag("emit.checkpoints.enabled", defaults.emit_checkpoints),
        "emit_heartbeats": of_link.flag("emit.heartbeats.enabled", defaults.emit_heartbeats),
        "heartbeats_s": of_link.number("emit.heartbeats.interval.seconds", defaults.heartbeats_s),
        "emit_offset_syncs": of_link.flag("emit.offset-syncs.enabled", defaults.emit_offset_syncs),
        "offset_syncs_at": of_link.text("offset-syncs.topic.location", defaults.offset_syncs_at),
    }


def client_of(settings: Mapping[str, str], cluster: str) -> dict[str, Any]:
    """What is said of a cluster's clients: `A.bootstrap.servers`, `A.security.protocol`, `A.admin.x` and so on."""
    client: dict[str, Any] = {}
    for name, value in settings.items():
        if name.startswith(f"{cluster}."):
            rest = name.removeprefix(f"{cluster}.")
            for role in ("admin.", "consumer.", "producer."):
                rest = rest.removeprefix(role)
            if rest not in IGNORED and rest not in TAKEN:
                client[rest] = value
    if "bootstrap.servers" not in client:
        raise BadLink(f"{cluster}.bootstrap.servers is missing: where is cluster {cluster}?")
    return client


def _check_names(settings: Mapping[str, str], clusters: list[str]) -> None:
    prefixes = [f"{a}->{b}." for a in clusters for b in clusters] + [f"{alias}." for alias in clusters]
    for name in settings:
        prefix = next((candidate for candidate in prefixes if name.startswith(candidate)), "")
        rest = name.removeprefix(prefix)
        refusal = next(
            (why for key, why in REFUSED.items() if rest == key or rest.startswith(f"{key}.")), None
        )
        if refusal is not None:
            raise BadLink(f"{name} is refused: {refusal}")
        if rest in IGNORED:
            log.warning("%s has no effect: %s", name, IGNORED[rest])
        elif rest not in TAKEN and (not prefix or "->" in prefix):
            log.warning("%s is not known and has no effect", name)


def _naming(policy: str, separator: str) -> Naming:
    name = POLICIES.get(policy, policy)
    if name not in (PREFIXED, IDENTICAL):
        raise BadLink(
            f"replication.policy.class={policy}: a Java class cannot run here; {PREFIXED} and {IDENTICAL} are known"
        )
    return Naming(name == IDENTICAL, separator)


def _list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _flag(settings: Mapping[str, str], name: str, default: bool) -> bool:
    return _truth(name, settings.get(name, str(default)))


def _truth(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise BadLink(f"{name}={text}; it is true or false")
    return text.lower() == "true"
