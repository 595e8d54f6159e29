"""Under which subject a serializer registers: by topic, by the record's name, or by both."""

from collections.abc import Callable

from ottla.serialization.framing import BadValue

Strategy = Callable[[str | None, str, str | None], str]


def topic_name(topic: str | None, field: str, record: str | None) -> str:
    """`orders-value`: one schema for each topic. The default, as Confluent's."""
    return f"{_needed(topic, 'topic')}-{field}"


def record_name(topic: str | None, field: str, record: str | None) -> str:
    """`shop.Order`: the same schema in every topic; several in one."""
    return _needed(record, "name in its schema")


def topic_record_name(topic: str | None, field: str, record: str | None) -> str:
    return f"{_needed(topic, 'topic')}-{_needed(record, 'name in its schema')}"


STRATEGIES: dict[str, Strategy] = {
    "topic": topic_name,
    "record": record_name,
    "topic-record": topic_record_name,
}


def strategy(name: str | Strategy) -> Strategy:
    if callable(name):
        return name
    if name not in STRATEGIES:
        raise BadValue(f"subjects={name!r}; it is one of {', '.join(STRATEGIES)}, or a function")
    return STRATEGIES[name]


def _needed(text: str | None, what: str) -> str:
    if not text:
        raise BadValue(f"the subject needs the value's {what}: give topic=, or choose subjects='record'")
    return text
