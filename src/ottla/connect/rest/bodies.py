"""Bodies of requests; what is said to bad ones begins as Java's sentence and tells where."""

import json
from typing import Any, NamedTuple

from ottla.connect.store.configs import PAUSED, STARTED, STOPPED
from ottla.connect.worker.refusals import Refusal, bad_request

_REQUEST = "org.apache.kafka.connect.runtime.rest.entities.CreateConnectorRequest"
_KNOWN = ("config", "name", "initial_state")


class CreateRequest(NamedTuple):
    name: str
    config: dict[str, str | None]
    initial: str


def create_request(data: bytes) -> CreateRequest:
    body = mapping(data, _REQUEST)
    for unknown in body.keys() - set(_KNOWN):
        raise Refusal(
            500,
            f'Unrecognized field "{unknown}" (class {_REQUEST}), not marked as ignorable (3 known properties: '
            '"config", "name", "initial_state")',
        )
    config = body.get("config")
    if not isinstance(config, dict):
        raise Refusal(500, 'Cannot invoke "java.util.Map.get(Object)" because "connectorConfig" is null')
    texts = strings(config)
    name = str(body.get("name") or "").strip()
    initial = str(body.get("initial_state") or STARTED).upper()
    initial = {"RUNNING": STARTED}.get(initial, initial)
    if initial not in (STARTED, PAUSED, STOPPED):
        raise Refusal(
            500,
            f"Cannot construct instance of `{_REQUEST}$InitialState`, problem: No enum constant "
            f"{_REQUEST}.InitialState.{initial}",
        )
    if texts.get("name") not in (None, name):
        raise bad_request(
            f"Connector name configuration ({texts['name']}) doesn't match connector name in the URL ({name})"
        )
    return CreateRequest(name, {**texts, "name": name}, initial)


def mapping(data: bytes, java_type: str) -> dict[str, Any]:
    try:
        body = json.loads(data or b"{}")
    except ValueError as error:
        raise Refusal(500, f"Unexpected end-of-input or character: {error}") from None
    if not isinstance(body, dict):
        kind = "Array value (token `JsonToken.START_ARRAY`)" if isinstance(body, list) else "a single value"
        raise Refusal(500, f"Cannot deserialize value of type `{java_type}` from {kind}")
    _check_text(body)
    return body


def _check_text(body: dict[str, Any]) -> None:
    """JSON can name half of a surrogate pair, which no UTF-8 can hold: nor could a topic, or an answer."""
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ord(error.object[error.start])
        raise bad_request(
            f"\\u{half:x} is half of a surrogate pair without the other, which is no text"
        ) from None


def strings(config: dict[str, Any]) -> dict[str, str | None]:
    """Numbers and booleans are taken as their texts."""
    texts: dict[str, str | None] = {}
    for name, value in config.items():
        if isinstance(value, (dict, list)):
            raise Refusal(
                500, f"Cannot deserialize value of type `java.lang.String`: setting {name} is not a text"
            )
        texts[name] = None if value is None else value if isinstance(value, str) else json.dumps(value)
    return texts


def offset_changes(data: bytes) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    offsets = (
        mapping(data, "org.apache.kafka.connect.runtime.rest.entities.ConnectorOffsets").get("offsets") or []
    )
    if not isinstance(offsets, list) or not all(
        isinstance(row, dict) and "partition" in row for row in offsets
    ):
        raise bad_request('offsets must be a list of {"partition": {...}, "offset": {...}}')
    return [(row["partition"], row.get("offset")) for row in offsets]
