"""Every setting of Kafka's own clients is taken or refused by name here; the list comes from Kafka's ConfigDef."""

import dataclasses
import subprocess
from functools import cache

import pytest

from ottla.client.errors import SettingError
from ottla.client.settings import ConsumerSettings, ProducerSettings, Settings
from ottla.client.unused_settings import ADMIN_REFUSED, REFUSED, SHARE_REFUSED, WITHOUT_EFFECT
from tests.oracle import programs

CLASSES: dict[str, type[Settings]] = {
    "producer": ProducerSettings,
    "consumer": ConsumerSettings,
    "admin": Settings,
}
NO_DEFAULT = "?"
# Defaults that differ on purpose: docs/api.md says so.
OWN_DEFAULTS = {
    "bootstrap.servers", "client.id", "enable.idempotence", "group.protocol", "partition.assignment.strategy",
    "partitioner.class", "sasl.mechanism", "ssl.keystore.type", "ssl.truststore.type",
}  # fmt: skip
OWN_DEFAULTS |= {
    f"compression.{codec}.level" for codec in ("gzip", "lz4", "zstd")
}  # those of the codec: the same

pytestmark = pytest.mark.skipif(programs.why_not_java() is not None, reason=str(programs.why_not_java()))


def kafkas() -> list[tuple[str, str, str]]:
    """(client, name, default) of all settings."""
    return [row for row in printed_rows() if row[0] in CLASSES]


@cache
def printed_rows() -> list[tuple[str, str, str]]:
    printed = subprocess.run(programs.command("ClientSettings"), capture_output=True, text=True, check=True)
    rows = [line.split("\t") for line in printed.stdout.splitlines()]
    assert len(rows) > 300
    return [(client, name, default) for client, name, default in rows]


def test_every_setting_of_kafka_is_taken_at_its_default() -> None:
    for client, name, default in kafkas():
        if default != NO_DEFAULT:
            value = None if name in OWN_DEFAULTS else default or None
            CLASSES[client].parse({name: value} if value is not None else {})


def test_what_has_no_field_is_refused_with_a_reason_or_known_to_change_nothing() -> None:
    for client, name, _ in kafkas():
        key = name.replace(".", "_")
        fields = {field.name for field in dataclasses.fields(CLASSES[client])} | {"partitioner_class"}
        if key in fields or key in WITHOUT_EFFECT:
            continue
        with pytest.raises(SettingError, match=f"{name}=unheard-of cannot be: "):
            CLASSES[client].parse({name: "unheard-of"})


def test_no_list_names_a_setting_that_kafka_does_not_have() -> None:
    names = {name.replace(".", "_") for _, name, _ in kafkas()}
    assert names >= REFUSED.keys() | ADMIN_REFUSED.keys()
    librdkafkas = {"api_version_request", "broker_version_fallback", "debug", "log_level"}
    gone = {"auto_include_jmx_reporter"}  # until Kafka 4
    assert names >= WITHOUT_EFFECT - librdkafkas - gone


def test_a_share_consumer_refuses_what_kafkas_refuses() -> None:
    kafkas_own = {name.replace(".", "_") for client, name, _ in printed_rows() if client == "share"}
    assert kafkas_own == SHARE_REFUSED.keys()


def test_the_defaults_are_kafkas() -> None:
    different = set()
    for client, name, default in kafkas():
        key = name.replace(".", "_")
        fields = {field.name: field.default for field in dataclasses.fields(CLASSES[client])}
        if key in fields and default != NO_DEFAULT:
            ours = "" if fields[key] is None else str(fields[key])
            if ours.lower() != default.lower():
                different.add(name)
    assert different <= OWN_DEFAULTS, different
