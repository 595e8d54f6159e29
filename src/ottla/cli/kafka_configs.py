"""`ottla kafka-configs`: settings of topics, brokers and groups, quotas of users, clients and addresses, with Apache
Kafka's flags and output."""

import argparse
from pathlib import Path

from ottla.cli import kafka_quotas
from ottla.cli.kafka_options import add_bootstrap, list_pairs, one_of, settings
from ottla.cli.options import UsageError
from ottla.client import Admin
from ottla.client.admin.configs import Config
from ottla.client.settings import read_properties

KINDS = {"topics": "topic", "brokers": "broker", "broker-loggers": "broker-logger",
         "client-metrics": "client-metrics", "groups": "group"}  # fmt: skip
# What was set for the thing itself; for all brokers it is another source.
DYNAMIC = {
    "topic": "DYNAMIC_TOPIC_CONFIG",
    "broker": "DYNAMIC_BROKER_CONFIG",
    "broker-logger": "DYNAMIC_BROKER_LOGGER_CONFIG",
    "client-metrics": "CLIENT_METRICS_CONFIG",
    "group": "GROUP_CONFIG",
}
# As Java's clients call sources that the protocol calls otherwise.
SOURCE_NAMES = {
    "CLIENT_METRICS_CONFIG": "DYNAMIC_CLIENT_METRICS_CONFIG",
    "GROUP_CONFIG": "DYNAMIC_GROUP_CONFIG",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap(parser)
    parser.add_argument("--alter", action="store_true")
    parser.add_argument("--describe", action="store_true")
    parser.add_argument("--all", action="store_true", help="with --describe the defaults too")
    kafka_quotas.add_arguments(parser, ", ".join((*KINDS, *kafka_quotas.KINDS)))
    for kind in KINDS.values():
        parser.add_argument(f"--{kind}", dest=f"name_{kind.replace('-', '_')}", metavar="NAME")
    parser.add_argument("--broker-defaults", action="store_true")
    parser.add_argument("--add-config", metavar="a=1,b=[2,3]")
    parser.add_argument("--add-config-file", metavar="FILE")
    parser.add_argument("--delete-config", metavar="a,b")
    parser.add_argument("--force", action="store_true", help="accepted; nothing is asked")


def run(arguments: argparse.Namespace) -> int:
    action = one_of(arguments, ("alter", "describe"))
    entities = kafka_quotas.entities_of(arguments)
    if entities:
        with Admin(settings(arguments, default_api_timeout_ms=15_000)) as admin:
            return kafka_quotas.run(admin, arguments, action, entities)
    kind, name = _entity(arguments)
    with Admin(settings(arguments, default_api_timeout_ms=15_000)) as admin:
        if action == "alter":
            if name is None:
                raise UsageError(f"An entity name must be specified with --alter of {kind}s")
            _alter(admin, arguments, kind, name)
        elif name is not None and not _is_there(admin, kind, name):
            print(f"The {_told_kind(kind)} '{name}' doesn't exist and doesn't have dynamic config.")
        else:
            for entity in [name] if name is not None else _names(admin, kind):
                _describe(admin, kind, entity, arguments.all)
    return 0


def _entity(arguments: argparse.Namespace) -> tuple[str, str | None]:
    for kind in KINDS.values():
        name = getattr(arguments, f"name_{kind.replace('-', '_')}")
        if name is not None:
            return kind, name
    if arguments.broker_defaults:
        return "broker", ""
    if arguments.entity_type is None:
        raise UsageError("At least one of --entity-type, --topic, --broker or --group is required")
    if arguments.entity_type not in KINDS:
        raise UsageError(
            f"Invalid entity type {arguments.entity_type}, the entity type must be one of "
            f"{', '.join((*KINDS, *kafka_quotas.KINDS))}"
        )
    return KINDS[arguments.entity_type], "" if arguments.entity_default else arguments.entity_name


def _alter(admin: Admin, arguments: argparse.Namespace, kind: str, name: str) -> None:
    if arguments.add_config and arguments.add_config_file:
        raise UsageError("Only one of --add-config or --add-config-file must be specified")
    added = list_pairs(arguments.add_config)
    if arguments.add_config_file:
        added |= read_properties(Path(arguments.add_config_file).read_text())
    deleted = [setting.strip() for setting in (arguments.delete_config or "").split(",") if setting.strip()]
    if not added and not deleted:
        raise UsageError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    admin.alter_configs(kind, name, set_=added, delete=deleted)
    print(f"Completed updating {'default ' if not name else ''}config for {_entity_name(kind, name)}.")


def _describe(admin: Admin, kind: str, name: str, everything: bool) -> None:
    configs = admin.describe_configs(kind, name)
    source = DYNAMIC[kind] if name or kind != "broker" else "DYNAMIC_DEFAULT_BROKER_CONFIG"
    shown = [
        config
        for config in sorted(configs.values(), key=lambda config: config.name)
        if everything or config.source == source
    ]
    kind_of_configs = "All" if everything else "Default" if not name and kind == "broker" else "Dynamic"
    where = "brokers in the cluster" if not name and kind == "broker" else _entity_name(kind, name)
    print(f"{kind_of_configs} configs for {where} are:")
    for config in shown:
        print(
            f"  {config.name}={_value(config)} sensitive={str(config.sensitive).lower()} synonyms={_synonyms(config)}"
        )


def _is_there(admin: Admin, kind: str, name: str) -> bool:
    """Settings of groups and metrics may come before what they are for: then those are all there is."""
    match kind:
        case "topic":
            return name in admin.list_topics() or not name
        case "broker" | "broker-logger":
            if name and not name.isdecimal():
                raise UsageError(
                    f"The entity name for {kind}s must be a valid integer broker id, but it is: {name}"
                )
            return not name or int(name) in {broker.id for broker in admin.describe_cluster().brokers}
    if any(config.source == DYNAMIC[kind] for config in admin.describe_configs(kind, name).values()):
        return True
    return kind == "group" and name in _names(admin, kind)


def _names(admin: Admin, kind: str) -> list[str]:
    match kind:
        case "topic":
            return sorted(admin.list_topics())
        case "broker" | "broker-logger":
            return [str(broker.id) for broker in admin.describe_cluster().brokers] + [""] * (kind == "broker")
        case "group":
            return [group.id for group in admin.list_groups()]
    return admin.list_config_resources(kind)


def _entity_name(kind: str, name: str) -> str:
    return f"{_told_kind(kind)} {name}" if name else f"{kind}s in the cluster"


def _told_kind(kind: str) -> str:
    return "client-metric" if kind == "client-metrics" else kind


def _value(config: Config) -> str:
    return "null" if config.value is None else config.value


def _synonyms(config: Config) -> str:
    return (
        "{"
        + ", ".join(
            f"{SOURCE_NAMES.get(source, source)}:{name}={value}" for name, value, source in config.synonyms
        )
        + "}"
    )
