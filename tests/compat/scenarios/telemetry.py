"""Levels of loggers, subscriptions to the metrics of clients, and what clients push (KIP-714), by raw requests."""

from __future__ import annotations

import time
import uuid
from typing import Any

from tests.compat.answers import Session

BROKER_LOGGER, CLIENT_METRICS = 8, 16
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_LONG_MS, _SHORT_MS = 3_600_000, 100  # the longest and the shortest time between two pushes that both allow


def _describe(kind: int, name: str, keys: list[str] | None = None) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return {"resources": [resource], "include_synonyms": True, "include_documentation": False}


def _alter(kind: int, name: str, *configs: tuple[str, int, str | None], **more: Any) -> dict[str, Any]:
    rows = [{"name": name, "config_operation": how, "value": value} for name, how, value in configs]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    return {"resources": [resource], "validate_only": False, **more}


def levels_of_loggers(s: Session) -> None:
    """`root` is the one logger that both have."""
    for version in s.versions("describe_configs"):
        for name in ("", "2", "x"):
            s.call("describe_configs", version, _describe(BROKER_LOGGER, name), f"broker {name!r}")
    for version in s.versions("incremental_alter_configs"):

        def alter(
            note: str, *configs: tuple[str, int, str | None], version: int = version, **more: Any
        ) -> None:
            body = _alter(BROKER_LOGGER, more.pop("broker", "1"), *configs, **more)
            s.call("incremental_alter_configs", version, body, note)

        alter("set", ("root", _SET, "ERROR"))
        s.call("describe_configs", 4, _describe(BROKER_LOGGER, "1", ["root"]), f"after {version}")
        for level in ("debug", "LOUD", "OFF", "WARNING", None):
            alter(f"level {level}", ("root", _SET, level))
        alter("no such logger", ("no.such.logger", _SET, "INFO"))
        alter("none of two", ("root", _SET, "DEBUG"), ("no.such.logger", _SET, "INFO"))
        alter("delete root", ("root", _DELETE, ""))
        alter("append", ("root", _APPEND, "INFO"))
        alter("subtract", ("root", _SUBTRACT, "INFO"))
        alter("twice", ("root", _SET, "INFO"), ("root", _SET, "WARN"))
        alter("only checked", ("root", _SET, "TRACE"), validate_only=True)
        for broker in ("", "2", "x"):
            alter(f"broker {broker!r}", ("root", _SET, "INFO"), broker=broker)
        s.call("describe_configs", 4, _describe(BROKER_LOGGER, "1", ["root"]), f"at last {version}")
        alter("as it was", ("root", _SET, "WARN"))
    row = {
        "resource_type": BROKER_LOGGER,
        "resource_name": "1",
        "configs": [{"name": "root", "value": "INFO"}],
    }
    s.call("alter_configs", 2, {"resources": [row], "validate_only": False})


def subscriptions_to_the_metrics_of_clients(s: Session) -> None:
    name = s.name("subscription")

    def alter(note: str, *configs: tuple[str, int, str | None], to: str = name) -> None:
        s.call("incremental_alter_configs", 1, _alter(CLIENT_METRICS, to, *configs), note)

    s.call("describe_configs", 4, _describe(CLIENT_METRICS, name), "nobody set it")
    s.call("describe_configs", 4, _describe(CLIENT_METRICS, ""), "without a name")
    alter("all", ("metrics", _SET, "a.b,c"), ("interval.ms", _SET, "1000"), ("match", _SET, "client_id=x.*"))
    s.fence()
    s.call("describe_configs", 4, _describe(CLIENT_METRICS, name), "set")
    s.call("list_config_resources", 1, {"resource_types": [CLIENT_METRICS]})
    s.call("list_config_resources", 0, {})
    for interval in ("99", "100", "3600000", "3600001", "x", "-1"):
        alter(f"interval {interval}", ("interval.ms", _SET, interval))
    for match in (
        "client_id=[",
        "colour=red",
        "nonsense",
        "",
        "client_software_name=a.*,client_software_version=1",
    ):
        alter(f"match {match!r}", ("match", _SET, match))
    alter("append", ("metrics", _APPEND, "d"))
    alter("subtract", ("metrics", _SUBTRACT, "d"))
    alter("unknown", ("nonsense", _SET, "1"))
    alter("no name", ("metrics", _SET, "a"), to="")
    for key in ("metrics", "interval.ms", "match"):
        alter(f"delete {key}", (key, _DELETE, None))
    s.fence()
    s.call("list_config_resources", 1, {"resource_types": [CLIENT_METRICS]}, "nothing is left")


def pushes_of_metrics(s: Session) -> None:
    """Both answer these requests, although Kafka without a plug-in does not tell clients so."""
    name = s.name("push")
    _subscribe(s, name, _LONG_MS)
    got = s.ask("get_telemetry_subscriptions", {"client_instance_id": uuid.UUID(int=0)}, 0)
    client, subscription = got.pop("client_instance_id"), got.pop("subscription_id")
    s.note("told", got)
    own = uuid.uuid4()
    echoed = s.ask("get_telemetry_subscriptions", {"client_instance_id": own}, 0)
    s.note("keeps its id", str(echoed["client_instance_id"]) == str(own))
    s.call("get_telemetry_subscriptions", 0, {"client_instance_id": client}, "again at once")

    def push(note: str, **fields: Any) -> None:
        body = {
            "client_instance_id": client,
            "subscription_id": subscription,
            "terminating": False,
            "compression_type": 0,
            "metrics": b"",
        }
        s.call("push_telemetry", 0, {**body, **fields}, note)

    push("at once after the subscription")
    push("too early")
    push("the last one, early", terminating=True)
    push("after the last one")
    push("the last one again", terminating=True)
    _unsubscribe(s, name)


def pushes_of_metrics_in_time(s: Session) -> None:
    name = s.name("push-in-time")
    _subscribe(s, name, _SHORT_MS)
    got = s.ask("get_telemetry_subscriptions", {"client_instance_id": uuid.UUID(int=0)}, 0)
    client, subscription = got.pop("client_instance_id"), got.pop("subscription_id")
    s.note("told", got)

    def push(note: str, **fields: Any) -> None:
        time.sleep(2 * _SHORT_MS / 1000)  # both count the time between two pushes
        body = {
            "client_instance_id": client,
            "subscription_id": subscription,
            "terminating": False,
            "compression_type": 0,
            "metrics": b"",
        }
        s.call("push_telemetry", 0, {**body, **fields}, note)

    push("in time", metrics=b"\x0a\x00")
    push("another subscription", subscription_id=subscription ^ 1)
    push("compression that nobody knows", compression_type=9)
    push("too large", metrics=bytes((1 << 20) + 1))
    push("a client that was told nothing", client_instance_id=uuid.uuid4())
    push("no client", client_instance_id=uuid.UUID(int=0))
    _unsubscribe(s, name)


def _subscribe(s: Session, name: str, interval_ms: int) -> None:
    some = ("metrics", _SET, "org.apache.kafka.producer."), ("interval.ms", _SET, str(interval_ms))
    s.ask("incremental_alter_configs", _alter(CLIENT_METRICS, name, *some))
    s.fence()


def _unsubscribe(s: Session, name: str) -> None:
    s.ask(
        "incremental_alter_configs",
        _alter(CLIENT_METRICS, name, ("metrics", _DELETE, None), ("interval.ms", _DELETE, None)),
    )
    s.fence()
