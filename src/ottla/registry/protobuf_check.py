"""Whether bytes are what a Protobuf schema says. Fields that it does not know are allowed, as to Protobuf's readers."""

from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from ottla.serialization.framing import PREFIX_BYTES, BadValue
from ottla.serialization.protobuf import ProtobufDeserializer


class ProtobufCheck:
    def __init__(self, registry: Any) -> None:
        self._decode = ProtobufDeserializer(registry)

    def fault(self, data: bytes) -> str | None:
        """`data` begins with the path to the message."""
        try:
            message: Message = self._decode(bytes(PREFIX_BYTES) + data)
        except BadValue as error:
            return str(error)
        missing = message.FindInitializationErrors()
        if missing:
            return f"field {missing[0]}: it is required"
        return _wrong_type(message, "")


def _wrong_type(message: Message, path: str) -> str | None:
    """A field whose bytes are of another kind than its type is among the unknown ones, under a known number."""
    by_number = message.DESCRIPTOR.fields_by_number
    for unknown in UnknownFieldSet(message):
        field = by_number.get(unknown.field_number)
        if field is not None:
            return f"field {path}{field.name}: the bytes are of another type (wire type {unknown.wire_type})"
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for part in [value] if isinstance(value, Message) else value:
                fault = _wrong_type(part, f"{path}{field.name}.")
                if fault is not None:
                    return fault
    return None
