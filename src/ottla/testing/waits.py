"""Waiting for records, groups and lag: the same for one broker and for a cluster."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from ottla.testing.inspect import Group, TopicRecord
from ottla.testing.waiting import News

T = TypeVar("T")


class Waits:
    """The methods that wait, for a class that has the others."""

    _news: News
    records: Callable[..., list[TopicRecord]]
    groups: Callable[[], dict[str, Group]]
    report: Callable[..., str]

    def wait_until(self, condition: Callable[[], T], timeout: float = 10, what: str = "") -> T:
        """Until the condition is true; looked at whenever a broker did something. Its value."""
        return self._news.wait_until(condition, timeout, what, lambda: f"; last requests:\n{self.report()}")

    async def until(self, condition: Callable[[], T], timeout: float = 10, what: str = "") -> T:
        """`wait_until` for a test that is a coroutine: its own event loop goes on meanwhile."""
        return await asyncio.to_thread(self.wait_until, condition, timeout, what)

    def wait_for_records(self, topic: str, count: int, timeout: float = 10, **how: Any) -> list[TopicRecord]:
        """Until the topic has at least so many."""

        def enough() -> list[TopicRecord] | None:
            records = self.records(topic, **how)
            return records if len(records) >= count else None

        return self._wait(enough, timeout, f"{count} records in {topic}")

    def wait_for_group(self, name: str, *, members: int | None = None, timeout: float = 10) -> Group:
        """Until the group is stable, with that many members if given, and every member has its partitions."""

        def stable() -> Group | None:
            group = self.groups().get(name)
            if group is None or group.state != "Stable" or members not in (None, len(group.members)):
                return None
            return group

        return self._wait(stable, timeout, f"group {name}")

    def wait_for_lag(self, name: str, lag: int = 0, timeout: float = 10) -> Group:
        """Until the group has committed all but so many records."""

        def caught_up() -> Group | None:
            group = self.groups().get(name)
            return group if group is not None and group.offsets and group.lag <= lag else None

        return self._wait(caught_up, timeout, f"lag {lag} of group {name}")

    def _wait(self, condition: Callable[[], T | None], timeout: float, what: str) -> T:
        value = self.wait_until(condition, timeout, what)
        assert value is not None
        return value
