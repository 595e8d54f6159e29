"""Checks of a connector's config, and the answer that lists every setting with what is wrong with it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ottla.connect import plugins, secrets
from ottla.connect.converters import HEADER_ONLY, JSON, NAMES, converter
from ottla.connect.definitions import SINK_SETTINGS, SOURCE_SETTINGS
from ottla.connect.errors import ConfigError, ConnectError
from ottla.connect.settings import (
    BOOLEAN,
    CLASS,
    HIDDEN,
    HIGH,
    MEDIUM,
    NO_DEFAULT,
    PASSWORD,
    STRING,
    Setting,
    merged,
    problems,
)
from ottla.connect.settings import Config as Parsed
from ottla.connect.spi import Plugin
from ottla.connect.store.statuses import VERSION
from ottla.connect.transforms import Transforms
from ottla.connect.worker.refusals import bad_request

Config = Mapping[str, str | None]
_CONVERTERS = {"key.converter": JSON, "value.converter": JSON, "header.converter": HEADER_ONLY}
_JAVA = "org.apache.kafka.connect.errors.ConnectException: "
_HINT = (
    "You can also find the above list of errors at the endpoint "
    "`/connector-plugins/{connectorType}/config/validate`"
)


def check_config(config: Config) -> None:
    """Raises the answer 400 with all that is wrong."""
    described = infos(config)
    if described["error_count"]:
        errors = [error for setting in described["configs"] for error in setting["value"]["errors"]]
        raise bad_request(
            f"Connector configuration is invalid and contains the following {len(errors)} error(s):\n"
            + "\n".join(errors)
            + f"\n{_HINT}"
        )


def plugin_of(config: Config) -> Plugin:
    wanted = config.get("connector.class")
    if not wanted:
        shown = ", ".join(f"{name}={value}" for name, value in config.items())
        raise bad_request(f"Connector config {{{shown}}} contains no connector type")
    try:
        return plugins.of(config)
    except ConnectError as error:
        raise bad_request(f"{_JAVA}{error}") from error


def infos(config: Config, worker: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The answer of `validate`: definitions and values, in Kafka's order. Defaults may be the worker's."""
    plugin = plugin_of(config)
    connector_class = plugin.load()
    common = SOURCE_SETTINGS if plugin.kind == "source" else SINK_SETTINGS
    settings = merged(common, connector_class.settings, _of_transforms(config))
    values: dict[str, tuple[Any, list[str]]] = {}
    plain, unresolved = _resolved(config)
    for setting in settings:
        value, wrong = problems(setting, plain)
        values[setting.name] = value, wrong
    for name, text in unresolved:
        values.setdefault(name, (None, []))[1].append(text)
    _further(plugin, plain, settings, values)
    _hide_resolved(config, plain, values)
    # An error of a setting without a definition counts too: it would be the task's failure later.
    defined = {setting.name for setting in settings}
    settings += [Setting(name, STRING, None) for name in values if name not in defined]
    shown = [_info(_inherited(setting, worker or {}), config, *values[setting.name]) for setting in settings]
    return {
        "name": config["connector.class"],
        "error_count": sum(len(setting["value"]["errors"]) for setting in shown),
        "groups": _groups(settings),
        "configs": shown,
    }


def definition(setting: Setting) -> dict[str, Any]:
    default = setting.default
    shown = None if default is NO_DEFAULT or default is None else str(default)
    return {
        "name": setting.name,
        "type": setting.type,
        "required": setting.is_required,
        "default_value": shown,
        "importance": setting.importance,
        "documentation": setting.doc,
        "group": setting.group,
        "width": setting.width,
        "display_name": setting.display or setting.name,
        "dependents": list(setting.dependents),
        "order_in_group": setting.order,
    }


def plugin_settings(name: str) -> Sequence[Setting] | None:
    """Of a connector, a transform, a predicate or a converter; None if there is none of that name."""
    try:
        plugin = plugins.connector(name)
    except ConnectError:
        return _other_settings(name)
    common = SOURCE_SETTINGS if plugin.kind == "source" else SINK_SETTINGS
    return merged(plugin.load().settings, common)


def _other_settings(name: str) -> Sequence[Setting] | None:
    from ottla.connect.transforms import PACKAGE
    from ottla.connect.transforms.predicates import PREDICATES
    from ottla.connect.transforms.table import TRANSFORMS

    short = name.removeprefix(PACKAGE).removeprefix("predicates.").partition("$")[0]
    if short in TRANSFORMS:
        return TRANSFORMS[short][1]
    if short in PREDICATES:
        return PREDICATES[short].settings
    try:
        converter(name, {}, is_key=False)
        return ()
    except ConnectError:
        return None


def _resolved(config: Config) -> tuple[dict[str, str | None], list[tuple[str, str]]]:
    """The settings with their secrets, and an error for each setting whose secret cannot be had."""
    plain: dict[str, str | None] = {}
    unresolved = []
    for name, value in config.items():
        try:
            plain |= secrets.resolve({name: value})
        except ConfigError as error:
            plain[name] = value
            unresolved.append((name, str(error)))
    return plain, unresolved


def _hide_resolved(config: Config, plain: Config, values: Mapping[str, tuple[Any, list[str]]]) -> None:
    """Errors show the placeholder of a secret, never what stands behind it: callers of REST may not know it. The
    error of one setting may name the value of another, so all errors are looked through."""
    for name, placeholder in config.items():
        if placeholder is None or not secrets.has_placeholder(placeholder):
            continue
        pieces = _pieces(placeholder, plain[name] or "")
        for other, (_, errors) in values.items():
            errors[:] = [
                _without(
                    pieces, placeholder, _without_value(name, placeholder, error) if other == name else error
                )
                for error in errors
            ]


def _pieces(placeholder: str, resolved: str) -> list[str]:
    """What an error may quote of a resolved value, the longest first: all of it, a secret in it, an item of a list."""
    texts = [resolved, *secrets.values(placeholder)]
    items = [item for text in texts for item in (text, *text.split(","))]
    pieces = {item.strip() for item in items} - {"", placeholder}
    return sorted(pieces, key=len, reverse=True)


def _without_value(name: str, placeholder: str, error: str) -> str:
    """Kafka's sentence quotes the parsed value, which may be written differently: 7 for 007."""
    marker = f" for configuration {name}: "
    if not error.startswith("Invalid value ") or marker not in error:
        return error
    return f"Invalid value {placeholder}{marker}{error.rpartition(marker)[2]}"


def _without(pieces: Sequence[str], placeholder: str, error: str) -> str:
    """Short pieces are replaced as whole words alone: a 1 is also part of many other numbers."""
    for piece in pieces:
        pattern = re.escape(piece) if len(piece) > 3 else rf"(?<!\w){re.escape(piece)}(?!\w)"
        # The placeholder itself stays whole if it happens to hold the piece.
        error = placeholder.join(
            re.sub(pattern, lambda _: placeholder, part) for part in error.split(placeholder)
        )
    return error


def _further(
    plugin: Plugin, plain: Config, settings: Sequence[Setting], values: dict[str, tuple[Any, list[str]]]
) -> None:
    """What no single definition can tell. Messages are Kafka's where it has them."""
    if (
        values["tasks.max"][1]
        and values["tasks.max"][0] is None
        and "at least" not in values["tasks.max"][1][0]
    ):
        values["tasks.max"][1].append(
            "Invalid value null for configuration tasks.max: Value must be non-null"
        )
    if not (plain.get("name") or ""):
        values["name"][1][:] = ["Invalid value  for configuration name: String may not be empty"]
    if controls := [str(ord(letter)) for letter in plain.get("name") or "" if _is_control(letter)]:
        values["name"][1].append(
            f"Invalid value {plain['name']} for configuration name: String may not contain control sequences but "
            f"had the following ASCII chars: {', '.join(controls)}"
        )
    if plugin.kind == "sink":
        _check_topics(plain, values)
    for side in ("key", "value", "header"):
        _check_converter(side, plain, values)
    if any(wrong for _, wrong in values.values()):
        return
    parsed = Parsed(plain, settings)
    try:
        Transforms(parsed)
    except ConnectError as error:
        values["transforms"][1].append(str(error))
    for name, text in plugin.load().check(parsed).items():
        values.setdefault(name, (plain.get(name), []))[1].append(text)


def _is_control(letter: str) -> bool:
    """Java's Character.isISOControl."""
    return ord(letter) < 0x20 or 0x7F <= ord(letter) < 0xA0


def _check_topics(plain: Config, values: dict[str, tuple[Any, list[str]]]) -> None:
    named, pattern = (
        bool((plain.get("topics") or "").strip()),
        bool((plain.get("topics.regex") or "").strip()),
    )
    letters = (plain.get("errors.deadletterqueue.topic.name") or "").strip()
    problem = None
    if named and pattern:
        problem = "topics and topics.regex are mutually exclusive options, but both are set."
    elif not named and not pattern:
        problem = "Must configure one of topics or topics.regex"
    if problem:
        values["topics"][1].append(problem)
        values["topics.regex"][1].append(problem)
    if letters and letters in [part.strip() for part in (plain.get("topics") or "").split(",")]:
        values["topics"][1].append(
            f"The DLQ topic '{letters}' may not be included in the list of topics ('topics') consumed by the connector"
        )


def _check_converter(side: str, plain: Config, values: dict[str, tuple[Any, list[str]]]) -> None:
    wanted = plain.get(f"{side}.converter")
    if not wanted:
        return
    prefix = f"{side}.converter."
    own = {name[len(prefix) :]: value for name, value in plain.items() if name.startswith(prefix)}
    try:
        converter(wanted, own, is_key=side == "key")
    except ConnectError as error:
        values[f"{side}.converter"][1].append(
            f"Invalid value {wanted} for configuration {side}.converter: {error}"
        )


def _of_transforms(config: Config) -> list[Setting]:
    """The settings of the transforms and predicates that the config names, under their full names."""
    settings: list[Setting] = []
    for what, group in (("transforms", "Transforms"), ("predicates", "Predicates")):
        for alias in filter(None, (part.strip() for part in (config.get(what) or "").split(","))):
            prefix, shown = f"{what}.{alias}.", f"{group}: {alias}"
            own = _other_settings(config.get(f"{prefix}type") or "") or ()
            extra: tuple[Setting, ...] = (Setting("type", CLASS, doc="Class", importance=HIGH),)
            if what == "transforms":
                extra += (
                    Setting(
                        "predicate", STRING, None, "Only for records that this predicate is true for", MEDIUM
                    ),
                    Setting("negate", BOOLEAN, "false", "Only for those that it is not true for", MEDIUM),
                )
            settings += [
                replace(
                    setting,
                    name=prefix + setting.name,
                    group=shown,
                    display=setting.display or setting.name,
                    order=order,
                )
                for order, setting in enumerate((*extra, *own))
            ]
    return settings


def _groups(settings: Iterable[Setting]) -> list[str]:
    return list(dict.fromkeys(setting.group for setting in settings if setting.group))


def _inherited(setting: Setting, worker: Mapping[str, Any]) -> Setting:
    """Converters are the worker's unless the connector has its own."""
    if setting.name.endswith(".plugin.version"):
        return replace(setting, default=VERSION)
    if setting.name in _CONVERTERS:
        return replace(setting, default=worker.get(setting.name) or _CONVERTERS[setting.name])
    return setting


def _info(setting: Setting, config: Config, value: Any, errors: list[str]) -> dict[str, Any]:
    if value is None and not errors and setting.default not in (None, NO_DEFAULT):
        value = setting.default
    return {
        "definition": definition(setting),
        "value": {
            "name": setting.name,
            "value": _shown(setting, config, value, errors),
            "recommended_values": _recommended(setting),
            "errors": errors,
            "visible": True,
        },
    }


def _recommended(setting: Setting) -> list[str]:
    if setting.name.endswith(".plugin.version"):
        return [VERSION]
    if setting.name not in _CONVERTERS:
        return []
    return sorted([*NAMES, HEADER_ONLY] if setting.name == "header.converter" else NAMES)


def _shown(setting: Setting, config: Config, value: Any, errors: list[str]) -> str | None:
    """A secret's placeholder is shown, never what stands behind it."""
    text = config.get(setting.name)
    if secrets.has_placeholder(text):
        return text
    if setting.type == PASSWORD:
        return None if value is None and text is None else HIDDEN
    if value is None:
        return (
            text if errors and "Not a number" not in errors[0] and "Expected value" not in errors[0] else None
        )
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, list) else str(value)
