"""Subscriptions to the metrics of clients (KIP-714): which metrics, how often, of which clients."""

from collections.abc import Mapping

from ottla import errors
from ottla.config.definitions import ConfigKey, Type, by_name
from ottla.patterns import BadPattern, compile_pattern

INTERVAL_MS_MIN, INTERVAL_MS_MAX, INTERVAL_MS_DEFAULT = 100, 3_600_000, 300_000
SELECTORS = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
CLIENT_METRICS_KEYS: dict[str, ConfigKey] = by_name(
    (
        ConfigKey("interval.ms", Type.INT, INTERVAL_MS_DEFAULT, "How often a client pushes."),
        ConfigKey("match", Type.LIST, (), "Which clients: selector=pattern, ..."),
        ConfigKey("metrics", Type.LIST, (), "Prefixes of the metrics' names; * for all."),
    )
)


def check_client_metrics(settings: Mapping[str, str]) -> None:
    for name, text in settings.items():
        key = CLIENT_METRICS_KEYS.get(name)
        if key is None:
            raise errors.InvalidRequest(f"Unknown client metrics configuration: {name}")
        if key.type is Type.INT:
            interval_ms = _integer(name, text)
            if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
                raise errors.InvalidRequest(
                    f"Invalid value {text} for interval.ms, interval must be between {INTERVAL_MS_MIN} and "
                    f"{INTERVAL_MS_MAX} (1 hour)"
                )
        elif name == "match":
            matchers(text)


def _integer(name: str, text: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise errors.InvalidConfig(
            f"Invalid value {text} for configuration {name}: Not a number of type INT"
        ) from None


def matchers(text: str) -> dict[str, str]:
    """Patterns by selector; each is for the whole text."""
    selectors = {}
    for part in (selection.strip() for selection in text.split(",")):
        if not part:
            continue
        selector, equals, pattern = part.partition("=")
        if not equals or selector.strip() not in SELECTORS or not _compiles(pattern.strip()):
            raise errors.InvalidConfig(f"Illegal client matching pattern: {part}")
        selectors[selector.strip()] = pattern.strip()
    return selectors


def _compiles(pattern: str) -> bool:
    try:
        compile_pattern(pattern)
    except BadPattern:
        return False
    return True
