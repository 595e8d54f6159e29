"""Topics that a source writes to and that do not exist: `topic.creation.*`, else the broker's own creation."""

import contextlib
import re
from collections.abc import Mapping
from typing import Any

from ottla.client.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.connect.errors import ConfigError
from ottla.connect.settings import Config
from ottla.errors import TopicAlreadyExists

_DEFAULT = "default"
_OWN = ("include", "exclude", "partitions", "replication.factor")


class TopicCreation:
    """Groups are tried in their order; the first whose pattern fits counts, then `default`."""

    def __init__(self, config: Config, client: Mapping[str, Any]) -> None:
        self._client = client
        self._admin: Admin | None = None
        self._known: set[str] = set()
        settings = config.with_prefix("topic.creation.")
        self._is_set = any(name.startswith(f"{_DEFAULT}.") for name in settings)
        self._groups = [
            (name, _with_prefix(settings, f"{name}."))
            for name in [*(config.get("topic.creation.groups") or []), _DEFAULT]
        ]
        if self._is_set:
            for wanted in ("replication.factor", "partitions"):
                if f"{_DEFAULT}.{wanted}" not in settings:
                    raise ConfigError(
                        f'Missing required configuration "topic.creation.default.{wanted}" which has no default value.'
                    )

    def ensure(self, topic: str) -> None:
        if not self._is_set or topic in self._known:
            return
        if self._admin is None:
            self._admin = Admin(self._client)
        if topic not in self._admin.list_topics():
            self._create(self._admin, topic)
        self._known.add(topic)

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()

    def _create(self, admin: Admin, topic: str) -> None:
        default = dict(self._groups[-1][1])
        group = next(
            (group for name, group in self._groups if name == _DEFAULT or _fits(group, topic)), default
        )
        wanted = {**default, **group} if group is not default else default
        configs = {name: str(value) for name, value in group.items() if name not in _OWN}
        new = NewTopic(topic, int(wanted["partitions"]), int(wanted["replication.factor"]), configs=configs)
        with contextlib.suppress(TopicAlreadyExists):  # another task was quicker
            admin.create_topics([new])


def _with_prefix(settings: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name[len(prefix) :]: value for name, value in settings.items() if name.startswith(prefix)}


def _fits(group: Mapping[str, Any], topic: str) -> bool:
    def any_of(text: Any) -> bool:
        return any(re.fullmatch(part.strip(), topic) for part in str(text or "").split(",") if part.strip())

    return any_of(group.get("include")) and not any_of(group.get("exclude"))
