"""Whether the tables that a sink has written are equal to the captured ones; and if not, how far the sink is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.client.admin import Admin
from ottla.client.values import TopicPartition
from tests.soak.capture import TABLES, Report, Say

_TELL_S = 10.0
_LATEST = -1


@dataclass(frozen=True, slots=True)
class Copies:
    """Where a database keeps both: `clinic` is captured, `copy` is written."""

    server: Any
    error: type[Exception]
    copy_name: str  # of a table, with {} for the captured one's name
    group: str = "connect-copy"

    def different_rows(self) -> int:
        return sum(self._different(table) for table in TABLES)

    def positions(self) -> dict[TopicPartition, int]:
        """How far the sink is, as its database knows it."""
        statement = "SELECT topic, part, position FROM ottla_connect_positions ORDER BY topic, part"
        try:
            rows = self.server.execute(statement, database="copy")
        except self.error:
            return {}
        return {TopicPartition(topic, part): position for topic, part, position in rows}

    def _different(self, table: str) -> int:
        statement = "SELECT id, version, md5(body) FROM {}"
        try:
            source = set(self.server.execute(statement.format(table), database="clinic"))
            copy = set(self.server.execute(statement.format(self.copy_name.format(table)), database="copy"))
        except self.error:
            return 1
        return len(source ^ copy)


def compare(
    copies: Copies, report: Report, bootstrap: str, states: Callable[[], Any], patience_s: float, say: Say
) -> None:
    """The copied tables become equal to the captured ones; waits as long as the sink goes on."""
    begun = time.monotonic()
    positions: dict[TopicPartition, int] = {}
    deadline = told = 0.0
    with Admin(bootstrap_servers=bootstrap) as admin:
        while True:
            different, reached = copies.different_rows(), copies.positions()
            now = time.monotonic()
            if reached != positions or not deadline:
                positions, deadline = reached, now + patience_s
            report.different_rows = different
            report.sink_seconds_behind = round(now - begun, 1)
            if not different:
                return
            if now - told > _TELL_S:
                told = now
                say(f"{different} rows are different; {_lag(admin, copies.group, reached)}; {states()}")
            if now > deadline:
                report.failures.append(f"the sink is stuck: {_lag(admin, copies.group, reached)}")
                return
            time.sleep(1)


def _lag(admin: Admin, group: str, positions: dict[TopicPartition, int]) -> str:
    """For each partition: where the database is, the group's offset, the topic's end."""
    committed = admin.group_offsets(group)
    ends = admin.list_offsets(dict.fromkeys(committed, _LATEST))
    places = (
        f"{where} {positions.get(where)}/{committed[where].offset}/{ends[where].offset}"
        for where in sorted(committed)
    )
    return "sink/group/end: " + ", ".join(places)
