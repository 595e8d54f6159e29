"""A setting that nothing reads would be a lie in DescribeConfigs: a walk through the source finds it."""

import ast
from pathlib import Path

import ottla
from ottla.config.broker import BROKER_KEYS, BrokerSettings
from ottla.config.fields import integer, keys_of
from ottla.config.group import GROUP_KEYS, UNUSED_GROUP_KEYS
from ottla.config.kafka_names import UNUSED_PREFIXES, UNUSED_SETTINGS
from ottla.config.log import LogConfig
from ottla.config.topic import TOPIC_KEYS, UNUSED_TOPIC_SETTINGS

ROOT = Path(ottla.__file__).parent
DEFINITIONS = ("broker.py", "broker_log.py", "coordinators.py", "topic.py", "kafka_names.py", "fields.py")


def sources():
    for path in ROOT.rglob("*.py"):
        if path.parent.name != "messages" and not (path.parent.name == "config" and path.name in DEFINITIONS):
            yield path, path.read_text()


def read_attributes(sources):
    """`config.name`, `self._config.name`, `cluster_config().name`: attributes read from something that is a config."""
    for path, text in sources:
        holders = {"config", "_config", "cluster_config", "static", "log_defaults", "now"}
        if path.parent.name == "config":
            holders |= {"self", "broker"}
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and name_of(node.value) in holders:
                yield node.attr


def name_of(node):
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Call(func=ast.Name(id=name)):
            return name
        case ast.Call(func=ast.Attribute(attr=name)):
            return name
    return None


def literals(sources):
    for _, text in sources:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def unread(keys, attributes):
    return {key.name for key in keys if key.attribute not in attributes}


def test_every_broker_setting_is_read_as_a_field():
    """But for those that only lend their value to a topic setting, which the next test looks at."""
    lent = {synonym.name for key in TOPIC_KEYS.values() for synonym in key.synonyms}
    fields = [key for key in keys_of(*BrokerSettings.__mro__) if key.name not in lent]
    assert len(fields) > 80
    # broker.id is the older name of node.id, whose value it becomes.
    assert unread(fields, set(read_attributes(sources()))) == {"broker.id"}


def test_every_topic_setting_is_read():
    # remote.storage.enable is read where it is refused, beside its definition.
    used = {*literals(sources()), "remote.storage.enable"}
    assert set(TOPIC_KEYS) - used == set(UNUSED_TOPIC_SETTINGS)


def test_every_field_of_a_log_config_is_read():
    outside = [(path, text) for path, text in sources() if path.parent.name != "config"]
    assert not set(LogConfig.__annotations__) - set(read_attributes(outside))


def test_every_group_setting_is_read():
    used = set(literals((path, text) for path, text in sources() if path.name == "group.py"))
    assert set(GROUP_KEYS) <= used
    assert not set(GROUP_KEYS) & set(UNUSED_GROUP_KEYS)


def test_a_setting_that_nothing_reads_is_found():
    (key,) = keys_of(type("Planted", (), {"planted": integer(1, "Nothing reads this.")}))
    assert unread([key], set(read_attributes(sources()))) == {"planted"}
    assert not unread([key], set(read_attributes([(ROOT / "x.py", "self._config.planted")])))


def test_no_setting_both_works_and_is_listed_as_unused():
    assert not set(BROKER_KEYS) & UNUSED_SETTINGS
    assert not [name for name in BROKER_KEYS if name.startswith(UNUSED_PREFIXES)]
