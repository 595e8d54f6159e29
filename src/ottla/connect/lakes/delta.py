"""A sink of Delta tables, one for each topic. Positions are application transactions in the table's own log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.values import TopicPartition
from ottla.connect.errors import ConfigError, RetriableError
from ottla.connect.lakes.rows import parquet_table
from ottla.connect.settings import BOOLEAN, HIGH, Setting
from ottla.connect.spi import Config, Sink, SinkBatch


class DeltaSink(Sink):
    settings = (
        Setting("table.uri.format", doc="a topic's table: /lake/${topic}, s3://BUCKET/${topic}", importance=HIGH,
                empty_allowed=False),
        Setting("include.position", BOOLEAN, False, "columns __topic, __partition, __offset, __timestamp"),
        Setting("auto.evolve", BOOLEAN, True, "fields that are new become columns"),
    )  # fmt: skip

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._connector = str(config.get("name") or "delta-sink")
        self._storage = {name: str(value) for name, value in config.with_prefix("storage.").items()}
        self._pending: dict[str, list[pa.Table]] = {}
        self._topics: dict[str, str] = {}

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._pending = {}
        return self._versions({where: self._application(where) for where in partitions})

    def replaced(self, partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        kept = self._versions({where: self._topic_mark(where) for where in partitions})
        own = {where: self._topic_number(where) for where in kept}
        return [where for where, number in kept.items() if own[where] not in (None, number)]

    def write(self, batch: SinkBatch) -> None:
        table = parquet_table(batch.records, with_position=self.config["include.position"])
        if table.num_rows:
            self._pending.setdefault(batch.where.topic, []).append(table)

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """One commit for each topic: its rows, and where its partitions have come. Nothing but tombstones: no commit;
        they are read again after a failure, and passed over again."""
        from deltalake import CommitProperties, Transaction, write_deltalake

        for topic, shown in self._pending.items():
            here = {where: end for where, end in positions.items() if where.topic == topic}
            moved = [Transaction(self._application(where), end) for where, end in here.items()]
            numbers = {where: self._topic_number(where) for where in here}
            moved += [
                Transaction(self._topic_mark(where), number)
                for where, number in numbers.items()
                if number is not None
            ]
            rows = pa.concat_tables(shown, promote_options="permissive")
            try:
                write_deltalake(
                    self._uri(topic),
                    rows,
                    mode="append",
                    schema_mode="merge" if self.config["auto.evolve"] else None,
                    commit_properties=CommitProperties(app_transactions=moved),
                    storage_options=self._storage or None,
                )
            except Exception as error:
                raise RetriableError(f"Delta table {self._uri(topic)}: {error}") from error
        self._pending = {}

    def rollback(self) -> None:
        self._pending = {}

    def forget(self, partitions: Sequence[TopicPartition] | None) -> None:
        raise ConfigError(
            "positions are in the Delta tables: write to other tables, or rename the connector, to begin again"
        )

    def _uri(self, topic: str) -> str:
        return str(self.config["table.uri.format"]).replace("${topic}", topic)

    def _application(self, where: TopicPartition) -> str:
        return f"{self._connector}/{where.topic}-{where.partition}"

    def _topic_mark(self, where: TopicPartition) -> str:
        """An application of its own, whose version tells the topic's id."""
        return f"{self._application(where)}#topic"

    def _topic_number(self, where: TopicPartition) -> int | None:
        """As much of the topic's id as a version can hold."""
        topic_id = self.topic_ids.get(where.topic)
        return None if topic_id is None else int(topic_id, 16) & 0x7FFFFFFFFFFFFFFF

    def _versions(self, applications: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
        """Those that the tables have. Each table is opened once."""
        opened: dict[str, Any] = {}
        versions = {}
        for where, application in applications.items():
            if where.topic not in opened:
                opened[where.topic] = self._table(where.topic)
            table = opened[where.topic]
            version = table.transaction_version(application) if table is not None else None
            if version is not None:
                versions[where] = version
        return versions

    def _table(self, topic: str) -> Any:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            return DeltaTable(self._uri(topic), storage_options=self._storage or None)
        except TableNotFoundError:
            return None
        except Exception as error:
            raise RetriableError(f"Delta table {self._uri(topic)}: {error}") from error
