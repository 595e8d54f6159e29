"""A test broker's settings: Kafka's names, with dots or underscores, over defaults that suit a test."""

from collections.abc import Mapping
from typing import Any

from ottla.config.settings import Config

# Only what would make a test slower and nothing else: everything a client can notice is as in production.
DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


def config_of(
    settings: Mapping[str, Any], host: str, port: int, folder: str | None, protocol: str = "PLAINTEXT"
) -> Config:
    texts = dict(DEFAULTS)
    texts["listeners"] = f"{protocol}://{host}:{port}"
    if folder is not None:
        texts["log.dirs"] = folder
    return Config(texts | texts_of(settings))


def texts_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """As a property file has them. A name with a dot is Kafka's own (listener.name.sasl_ssl...) and stays."""
    return {
        name if "." in name else name.replace("_", "."): text_of(value) for name, value in settings.items()
    }


def text_of(value: Any) -> str:
    """As a property file would say it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
