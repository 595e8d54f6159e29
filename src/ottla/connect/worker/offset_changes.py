"""Offsets of connectors read, altered and reset: of sources in the offsets topic, of sinks in their groups."""

from typing import Any

from ottla.client.admin import Admin
from ottla.client.exactly_once.owner import TransactionOwner
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.connect.errors import ConnectError
from ottla.connect.running.base import leave_group
from ottla.connect.spi import Json
from ottla.connect.store.offsets import Offsets
from ottla.connect.tasks.source import fence
from ottla.connect.tasks.spec import LANES, Spec, lane_of
from ottla.connect.worker.refusals import bad_request, failed
from ottla.connect.worker.settings import WorkerSettings
from ottla.errors import GroupIdNotFound, OttlaError

ALTERED = "The offsets for this connector have been altered successfully"
RESET = "The offsets for this connector have been reset successfully"
Change = tuple[Json, Json | None]


class OffsetChanges:
    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._tables: dict[str, Offsets] = {}

    def read(self, spec: Spec) -> list[dict[str, Json]]:
        if spec.kind == "source":
            offsets = self._offsets(spec)
            offsets.catch_up()
            return [{"partition": partition, "offset": offset} for partition, offset in offsets.of(spec.name)]
        with Admin(spec.client("admin")) as admin:
            positions = sorted(_group_offsets(admin, spec.group).items())
        return [
            {
                "partition": {"kafka_partition": where.partition, "kafka_topic": where.topic},
                "offset": {"kafka_offset": position.offset},
            }
            for where, position in positions
        ]

    def alter(self, spec: Spec, changes: list[Change]) -> str:
        if spec.kind == "source":
            self._alter_source(spec, changes)
        else:
            self._alter_sink(spec, [_parsed(*change) for change in changes])
        return ALTERED

    def reset(self, spec: Spec) -> str:
        if spec.kind == "source":
            offsets = self._offsets(spec)
            offsets.catch_up()
            self._alter_source(spec, [(partition, None) for partition, _ in offsets.of(spec.name)])
        else:
            self._reset_sink(spec)
        return RESET

    def close(self) -> None:
        for table in self._tables.values():
            table.close()

    def _offsets(self, spec: Spec) -> Offsets:
        topic = spec.offsets_topic
        if topic not in self._tables:
            self._tables[topic] = Offsets(spec.client("consumer"), topic)
        return self._tables[topic]

    def _alter_source(self, spec: Spec, changes: list[Change]) -> None:
        source = spec.source()
        try:
            source.alter_offsets(changes)
        except ConnectError as error:
            raise failed(str(error)) from error
        finally:
            source.close()
        if not changes:
            return
        fence(spec, sorted({lane_of(partition) for partition, _ in changes}))
        settings = {**spec.client("producer"), "transactional.id": spec.transactional_id(LANES)}
        owner = TransactionOwner(settings)
        try:
            owner.take_over()
            offsets = self._offsets(spec)
            owner.write(offsets.rows(spec.name, changes), offsets.topic)
            owner.flush()
            owner.commit_transaction()
        finally:
            owner.close()

    def _alter_sink(self, spec: Spec, changes: list[tuple[TopicPartition, int | None]]) -> None:
        with Admin(spec.client("admin")) as admin:
            leave_group(admin, spec.group)
            moved = {where: OffsetAndMetadata(offset) for where, offset in changes if offset is not None}
            gone = [where for where, offset in changes if offset is None]
            self._forget(spec, [where for where, _ in changes])
            try:
                if moved:
                    admin.alter_group_offsets(spec.group, moved)
                if gone:
                    admin.delete_group_offsets(spec.group, gone)
            except OttlaError as error:
                raise failed(
                    f"Failed to alter consumer group offsets for connector {spec.name}: {error}"
                ) from error

    def _reset_sink(self, spec: Spec) -> None:
        with Admin(spec.client("admin")) as admin:
            leave_group(admin, spec.group)
            self._forget(spec, None)
            try:
                admin.delete_group(spec.group)
            except GroupIdNotFound:
                pass  # it never had any
            except OttlaError as error:
                raise failed(
                    f"Failed to reset consumer group offsets for connector {spec.name}: {error}"
                ) from error

    def _forget(self, spec: Spec, partitions: list[TopicPartition] | None) -> None:
        sink = spec.sink()
        try:
            sink.forget(partitions)
        finally:
            sink.close()


def _group_offsets(admin: Admin, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    try:
        return dict(admin.group_offsets(group))
    except GroupIdNotFound:
        return {}


def _parsed(partition: Json, offset: Json | None) -> tuple[TopicPartition, int | None]:
    """Of a sink: {"kafka_topic", "kafka_partition"} and {"kafka_offset"} or null."""
    if not isinstance(partition, dict) or not {"kafka_topic", "kafka_partition"} <= partition.keys():
        raise bad_request(
            "The partition for a sink connector offset must contain the keys 'kafka_topic' and 'kafka_partition'"
        )
    if offset is not None and "kafka_offset" not in offset:
        raise bad_request(
            "The offset for a sink connector should either be null or contain the key 'kafka_offset'"
        )
    where = TopicPartition(str(partition["kafka_topic"]), _number(partition["kafka_partition"], "partition"))
    return where, None if offset is None else _number(offset["kafka_offset"], "offset")


def _number(value: Any, what: str) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise bad_request(
            f"Failed to parse the following Kafka {what} value in the provided offsets: '{value}'. "
            f"{what.capitalize()} values for sink connectors need to be integers."
        ) from None
