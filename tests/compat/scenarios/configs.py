"""Settings by raw requests: of topics, brokers and groups."""

from __future__ import annotations

from typing import Any

from tests.compat.answers import Session

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def describe_topic_configs(s: Session) -> None:
    name = s.topic("describe-config", configs={"retention.ms": "1234"})
    for version in s.versions("describe_configs"):
        everything = _describe((TOPIC, name, None), include_synonyms=True, include_documentation=False)
        s.call("describe_configs", version, everything, "all")
        some = _describe((TOPIC, name, ["retention.ms", "cleanup.policy", "no.such.config"]))
        s.call("describe_configs", version, some, "some")
        s.call("describe_configs", version, _describe((TOPIC, name, [])), "none")
        s.call("describe_configs", version, _describe((TOPIC, "no-such-topic", None)), "unknown topic")
        s.call("describe_configs", version, _describe((TOPIC, "a/b", None)), "wrong name")
        s.call("describe_configs", version, _describe((99, "x", None)), "unknown type")


def documentation_is_there_when_asked_for(s: Session) -> None:
    name = s.topic("documented")
    for version in s.versions("describe_configs", 3):
        answer = s.ask(
            "describe_configs", _describe((TOPIC, name, None), include_documentation=True), version
        )
        s.note(
            f"v{version}",
            {each["name"]: bool(each["documentation"]) for each in answer["results"][0]["configs"]},
        )


def describe_broker_configs(s: Session) -> None:
    names = [
        "log.retention.ms",
        "log.segment.bytes",
        "num.partitions",
        "auto.create.topics.enable",
        "message.max.bytes",
    ]
    for version in s.versions("describe_configs"):
        s.call("describe_configs", version, _describe((BROKER, "1", names), include_synonyms=True), "named")
        s.call("describe_configs", version, _describe((BROKER, "7", names)), "another broker")
        s.call("describe_configs", version, _describe((BROKER, "one", names)), "not a number")
        s.call("describe_configs", version, _describe((BROKER, "", names)), "default")


def alter_configs(s: Session) -> None:
    for version in s.versions("alter_configs"):
        name = s.topic(f"alter-{version}", configs={"retention.ms": "1", "max.message.bytes": "5000"})

        def ask(
            note: str,
            configs: dict[str, str | None],
            topic: str = name,
            v: int = version,
            check: bool = False,
        ) -> None:
            rows = [{"name": key, "value": value} for key, value in configs.items()]
            resource = {"resource_type": TOPIC, "resource_name": topic, "configs": rows}
            s.call("alter_configs", v, {"resources": [resource], "validate_only": check}, note)
            s.note(f"v{v} {note}: now", _current(s, name))  # noqa: B023  called in the same turn

        ask("validate only", {"retention.ms": "77"}, check=True)
        ask("replaces all", {"retention.ms": "2"})
        ask("wrong value", {"retention.ms": "much"})
        ask("unknown name", {"no.such": "1"})
        ask("null value", {"retention.ms": None})
        ask("unknown topic", {"retention.ms": "1"}, topic="no-such-topic")


def incremental_alter_configs(s: Session) -> None:
    for version in s.versions("incremental_alter_configs"):
        name = s.topic(f"incremental-{version}", configs={"cleanup.policy": "delete", "retention.ms": "5"})

        def ask(
            note: str,
            *changes: tuple[str, int, str | None],
            topic: str = name,
            v: int = version,
            check: bool = False,
        ) -> None:
            rows = [
                {"name": key, "config_operation": operation, "value": value}
                for key, operation, value in changes
            ]
            resource = {"resource_type": TOPIC, "resource_name": topic, "configs": rows}
            s.call("incremental_alter_configs", v, {"resources": [resource], "validate_only": check}, note)
            s.note(f"v{v} {note}: now", _current(s, name))  # noqa: B023  called in the same turn

        ask("validate only", ("retention.ms", _SET, "99"), check=True)
        ask("set", ("retention.ms", _SET, "6"), ("max.message.bytes", _SET, "3000"))
        ask("append", ("cleanup.policy", _APPEND, "compact"))
        ask("append again", ("cleanup.policy", _APPEND, "compact"))
        ask("subtract", ("cleanup.policy", _SUBTRACT, "delete"))
        ask("append to what is no list", ("retention.ms", _APPEND, "7"))
        ask("delete", ("retention.ms", _DELETE, None))
        ask("delete what is not set", ("segment.ms", _DELETE, None))
        ask("wrong value", ("segment.bytes", _SET, "few"))
        ask("unknown name", ("no.such", _SET, "1"))
        ask("unknown operation", ("retention.ms", 9, "1"))
        ask("null", ("retention.ms", _SET, None))
        ask("twice", ("retention.ms", _SET, "1"), ("retention.ms", _SET, "2"))
        ask("unknown topic", ("retention.ms", _SET, "1"), topic="no-such-topic")


def alter_broker_configs(s: Session) -> None:
    for version in s.versions("incremental_alter_configs"):

        def ask(
            note: str, name: str, operation: int, value: str | None, broker: str = "1", v: int = version
        ) -> None:
            rows = [{"name": name, "config_operation": operation, "value": value}]
            resource = {"resource_type": BROKER, "resource_name": broker, "configs": rows}
            s.call("incremental_alter_configs", v, {"resources": [resource]}, note)

        ask("dynamic", "log.retention.ms", _SET, "86400000")
        ask("wrong value", "log.retention.ms", _SET, "x")
        ask("read-only", "num.partitions", _SET, "3")
        ask("unknown", "no.such.config", _SET, "3")
        ask("another broker", "log.retention.ms", _SET, "1", broker="7")
        s.fence()
        names = ["log.retention.ms"]
        s.call(
            "describe_configs",
            s.latest("describe_configs"),
            _describe((BROKER, "1", names), include_synonyms=True),
            f"after {version}",
        )
        ask("cluster-wide", "log.retention.ms", _SET, "86400001", broker="")
        ask("delete", "log.retention.ms", _DELETE, None)
        ask("delete cluster-wide", "log.retention.ms", _DELETE, None, broker="")
        s.fence()  # or a later scenario would see it


def list_config_resources(s: Session) -> None:
    name = s.topic("listed")
    for version in s.versions("list_config_resources"):
        kinds = [TOPIC, BROKER] if version >= 1 else []
        answer = s.ask("list_config_resources", {"resource_types": kinds}, version)
        found = [each for each in answer["config_resources"] if each["resource_name"] in (name, "1")]
        s.note(f"v{version}", {"error_code": answer["error_code"], "found": found})
        s.call("list_config_resources", version, {"resource_types": [99]}, "unknown type")


def describe_group_configs(s: Session) -> None:
    names = [
        f"consumer.{each}.ms" for each in ("assignment.interval", "heartbeat.interval", "session.timeout")
    ]
    for version in s.versions("describe_configs"):
        for note, keys in {"by name": names, "all": None}.items():
            asked = _describe((GROUP, "some-group", keys), include_synonyms=True)
            s.call("describe_configs", version, asked, note)


def _describe(*resources: tuple[int, str, list[str] | None], **more: Any) -> dict[str, Any]:
    rows = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        for kind, name, keys in resources
    ]
    return {"resources": rows, **more}


def _current(s: Session, topic: str) -> dict[str, str]:
    s.fence()
    names = ["retention.ms", "cleanup.policy", "max.message.bytes", "segment.ms"]
    answer = s.ask("describe_configs", _describe((TOPIC, topic, names)))
    return {each["name"]: each["value"] for each in answer["results"][0]["configs"]}
