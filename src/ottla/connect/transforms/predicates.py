"""Predicates: which records a transform is for."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from ottla.connect.errors import ConfigError
from ottla.connect.settings import MEDIUM, STRING, Config, Setting


class _Predicate:
    settings: ClassVar[tuple[Setting, ...]] = ()

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.config = Config(dict(settings), self.settings)

    def test(self, record: Any) -> bool:
        raise AssertionError("each predicate has its own")


class HasHeaderKey(_Predicate):
    settings = (Setting("name", STRING, doc="Name of the header", importance=MEDIUM),)

    def test(self, record: Any) -> bool:
        return any(header.key == self.config["name"] for header in record.headers)


class RecordIsTombstone(_Predicate):
    def test(self, record: Any) -> bool:
        return record.value is None


class TopicNameMatches(_Predicate):
    settings = (Setting("pattern", STRING, doc="Regular expression for the whole name", importance=MEDIUM),)

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        try:
            self._pattern = re.compile(self.config["pattern"])
        except re.error as error:
            raise ConfigError(f"pattern {self.config['pattern']} is no regular expression: {error}") from None

    def test(self, record: Any) -> bool:
        return record.topic is not None and self._pattern.fullmatch(record.topic) is not None


PREDICATES: dict[str, type[_Predicate]] = {
    "HasHeaderKey": HasHeaderKey,
    "RecordIsTombstone": RecordIsTombstone,
    "TopicNameMatches": TopicNameMatches,
}
