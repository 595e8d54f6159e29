"""A sink of Iceberg tables, one for each topic. Positions are properties of the table's snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.values import TopicPartition
from ottla.connect.errors import ConfigError, DataError, RetriableError
from ottla.connect.lakes.rows import parquet_table
from ottla.connect.settings import BOOLEAN, HIGH, Setting
from ottla.connect.spi import Config, Sink, SinkBatch


class IcebergSink(Sink):
    settings = (
        Setting(
            "table.name.format", default="default.${topic}", doc="NAMESPACE.TABLE of a topic", importance=HIGH
        ),
        Setting("auto.evolve", BOOLEAN, True, "fields that are new become columns"),
        Setting("include.position", BOOLEAN, False, "columns __topic, __partition, __offset, __timestamp"),
    )

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._connector = str(config.get("name") or "iceberg-sink")
        self._catalog_settings = {name: str(value) for name, value in config.with_prefix("catalog.").items()}
        self._opened: Any = None
        self._pending: dict[str, list[pa.Table]] = {}
        self._read_from: dict[str, int | None] = {}  # the snapshot in which the step's positions were read
        self._all: dict[TopicPartition, int] = {}  # those positions, of the topics' other partitions too
        self._kept_ids: dict[TopicPartition, str] = {}  # the ids of their topics

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        if not config.with_prefix("catalog."):
            return {
                "catalog.type": "name the catalog: catalog.type=sql, catalog.uri=..., catalog.warehouse=..."
            }
        return {}

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._pending, self._read_from, self._all, self._kept_ids = {}, {}, {}, {}
        for topic in {where.topic for where in partitions}:
            table = self._table(topic)
            self._read_from[topic] = _current(table)
            self._all |= self._positions_in(table)
            self._kept_ids |= self._topic_ids_in(table)
        return {where: self._all[where] for where in partitions if where in self._all}

    def replaced(self, partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        ids = {where: self.topic_ids.get(where.topic) for where in partitions}
        return [where for where, own in ids.items() if own and self._kept_ids.get(where, own) != own]

    def write(self, batch: SinkBatch) -> None:
        rows = parquet_table(batch.records, with_position=self.config["include.position"])
        if rows.num_rows:
            if not _typed(rows).num_columns:
                raise DataError(
                    f"records of {batch.where} have nulls and empty values alone: Iceberg has no type for their columns"
                )
            self._pending.setdefault(batch.where.topic, []).append(rows)

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """A snapshot for each topic. If another one has come since the positions were read, the step fails and is tried
        again: it could be of a worker that wrote the same records."""
        for topic, shown in self._pending.items():
            rows = _typed(pa.concat_tables(shown, promote_options="permissive"))
            everywhere = {**self._all, **positions}  # older snapshots may expire
            properties = {
                self._property(where): str(end) for where, end in everywhere.items() if where.topic == topic
            }
            own = self.topic_ids.get(topic)
            ids = {**self._kept_ids, **({} if own is None else dict.fromkeys(positions, own))}
            properties |= {
                self._topic_property(where): known for where, known in ids.items() if where.topic == topic
            }
            try:
                self._append(topic, rows, properties)
            except RetriableError:
                raise
            except Exception as error:
                raise RetriableError(f"Iceberg table {self._name(topic)}: {error}") from error
        self._pending = {}

    def rollback(self) -> None:
        self._pending = {}

    def forget(self, partitions: Sequence[TopicPartition] | None) -> None:
        raise ConfigError(
            "positions are in the Iceberg tables: write to other tables, or rename the connector, to begin again"
        )

    def close(self) -> None:
        if self._opened is not None and hasattr(self._opened, "close"):
            self._opened.close()
        self._opened = None

    def _append(self, topic: str, rows: pa.Table, properties: dict[str, str]) -> None:
        table = self._table(topic)
        if table is None:
            namespace = self._name(topic).rpartition(".")[0]
            self._catalog().create_namespace_if_not_exists(namespace)
            table = self._catalog().create_table_if_not_exists(
                self._name(topic), schema=_optional(rows.schema)
            )
        if _current(table) != self._read_from.get(topic):
            raise RetriableError(
                f"Iceberg table {self._name(topic)} has changed since its positions were read"
            )
        with table.transaction() as transaction:
            if self.config["auto.evolve"]:
                with transaction.update_schema() as change:
                    change.union_by_name(_optional(rows.schema))
            transaction.append(rows, snapshot_properties=properties)

    def _positions_in(self, table: Any) -> dict[TopicPartition, int]:
        """The greatest of each partition: positions only grow."""
        positions: dict[TopicPartition, int] = {}
        for where, value in self._properties(table, f"ottla.{self._connector}/"):
            positions[where] = max(int(value), positions.get(where, 0))
        return positions

    def _topic_ids_in(self, table: Any) -> dict[TopicPartition, str]:
        """One for each partition: positions of another topic are refused, so it never changes."""
        return dict(self._properties(table, f"ottla-topic.{self._connector}/"))

    def _properties(self, table: Any, prefix: str) -> Iterator[tuple[TopicPartition, str]]:
        """Of all snapshots, from the oldest on."""
        for snapshot in table.metadata.snapshots if table is not None else ():
            for name, value in snapshot.summary.additional_properties.items() if snapshot.summary else ():
                if name.startswith(prefix):
                    topic, _, part = name.removeprefix(prefix).rpartition("-")
                    yield TopicPartition(topic, int(part)), value

    def _property(self, where: TopicPartition) -> str:
        return f"ottla.{self._connector}/{where.topic}-{where.partition}"

    def _topic_property(self, where: TopicPartition) -> str:
        return f"ottla-topic.{self._connector}/{where.topic}-{where.partition}"

    def _name(self, topic: str) -> str:
        """A dot parts namespace and table: those of the topic become underscores."""
        return str(self.config["table.name.format"]).replace("${topic}", topic.replace(".", "_"))

    def _catalog(self) -> Any:
        if self._opened is None:
            from pyiceberg.catalog import load_catalog

            self._opened = load_catalog("ottla", **self._catalog_settings)
        return self._opened

    def _table(self, topic: str) -> Any:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return self._catalog().load_table(self._name(topic))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except Exception as error:
            raise RetriableError(f"Iceberg table {self._name(topic)}: {error}") from error


def _current(table: Any) -> int | None:
    return table.metadata.current_snapshot_id if table is not None else None


def _typed(rows: pa.Table) -> pa.Table:
    """Without what is null, or an empty list, in every record without a schema: Iceberg has no type for it. It is null
    in the table too, and becomes a column or field with its first value."""
    fields = [known for field in rows.schema if (known := _known(field)) is not None]
    return rows.select([field.name for field in fields]).cast(pa.schema(fields))


def _known(field: pa.Field) -> pa.Field | None:
    """With what has a type; None if nothing has."""
    kind = field.type
    if pa.types.is_null(kind):
        return None
    if pa.types.is_struct(kind):
        inner = [known for part in kind if (known := _known(part)) is not None]
        return field.with_type(pa.struct(inner)) if inner else None
    if pa.types.is_list(kind):
        element = _known(kind.value_field)
        return None if element is None else field.with_type(pa.list_(element))
    if pa.types.is_map(kind):
        item = _known(kind.item_field)
        return None if item is None else field.with_type(pa.map_(kind.key_field, item))
    return field


def _optional(schema: pa.Schema) -> pa.Schema:
    """Fields may be missing in later records."""
    return pa.schema([field.with_nullable(True) for field in schema])
