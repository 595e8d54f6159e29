"""Which topics and partitions a request is about, and APIs and errors by their names."""

from collections.abc import Callable, Iterable, Iterator

from ottla import errors
from ottla.wire.messages import BY_NAME
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.schema import Message

TopicIndex = tuple[str, int | None]  # no number: the topic as a whole

_INDEX_NAMES = ("index", "partition", "partition_index", "partition_id")
_LIST_NAMES = ("partitions", "partition_indexes", "partition_ids")


def topics_of(
    request: Message,
    name_of: Callable[[bytes], str | None],
    session: Callable[[int], Iterator[TopicIndex]],
) -> tuple[TopicIndex, ...]:
    if isinstance(request, FetchRequest) and request.session_id:
        # Of an incremental session only changes travel: it is about all that it holds.
        return tuple(dict.fromkeys((*session(request.session_id), *_walk(request, name_of))))
    return tuple(_walk(request, name_of))


def _walk(message: Message, name_of: Callable[[bytes], str | None]) -> Iterator[TopicIndex]:
    for field in message.FIELDS:
        if not field.array or field.name.startswith("forgotten"):
            continue
        of_topics = field.name.startswith("topic")
        for item in getattr(message, field.name) or ():
            if of_topics and isinstance(item, str):
                yield item, None
            elif of_topics and (topic := _name(item, name_of)) is not None:
                yield from _partitions(item, topic)
            elif isinstance(item, Message):
                yield from _walk(item, name_of)


def _name(item: Message, name_of: Callable[[bytes], str | None]) -> str | None:
    name: str | None = getattr(item, "topic", None) or getattr(item, "name", None)
    if not name and any(topic_id := getattr(item, "topic_id", b"")):
        name = name_of(topic_id)
    return name


def _partitions(item: Message, topic: str) -> Iterator[TopicIndex]:
    named = False
    for field in item.FIELDS:
        value = getattr(item, field.name)
        if not field.array or not value:
            continue
        if isinstance(field.kind, type):
            for element in value:
                index = next((getattr(element, n) for n in _INDEX_NAMES if n in element.__slots__), None)
                if index is not None:
                    named = True
                    yield topic, index
        elif field.name in _LIST_NAMES:
            for index in value:
                named = True
                yield topic, index
    if not named:
        yield topic, None


def api_key(name: str) -> int:
    """Of an API by Kafka's name for it."""
    api = BY_NAME.get(name)
    if api is None:
        raise ValueError(f"there is no API {name!r}{_hint(name, BY_NAME)}")
    return api.key


def error_of(error: "str | int | errors.ProtocolError | type[errors.ProtocolError]") -> errors.ProtocolError:
    """By name (NOT_LEADER_OR_FOLLOWER), code, class, or as it is."""
    if isinstance(error, errors.ProtocolError):
        return error
    if isinstance(error, type):
        return error()
    if isinstance(error, int):
        if error not in errors.BY_CODE:
            raise ValueError(f"there is no error {error}")
        return errors.error_for(error)
    codes = {name: code for code, name in errors.NAMES.items()}
    if error not in codes or not codes[error]:
        raise ValueError(f"there is no error {error!r}{_hint(error, codes)}")
    return errors.error_for(codes[error])


def _hint(name: str, known: Iterable[str]) -> str:
    import difflib  # only for somebody's typing error

    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}?" if close else ""
