"""A stream task: brings its state to the committed positions, then one transaction for each step.

With `guarantee="at_least_once"` there is no transaction: results, then changelogs, then positions.

`docs/decisions/2026-11-16-pipelines.md` has the protocol. Nothing here knows of micro-batches: the caller of
`step` says how far to read and what time it is.
"""

import logging
import os
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.pipelines.errors import BadTopology, StateLost
from ottla.pipelines.operators import Operator, Step
from ottla.pipelines.positions import ChangelogEnd, Commit, Figures, read_commit
from ottla.pipelines.state import compute as pc
from ottla.pipelines.state.arrays import arrow_column
from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.topology import DELETE_RETENTION_MS, EXACTLY_ONCE, Pipeline, Stage, TaskId
from ottla.wire import columns

log = logging.getLogger(__name__)
TOKEN_BYTES = 8
_TELL_S = 1.0  # how often a long restore says how far it is
_AGES = 10
ALWAYS = ("topic", "timestamp")  # time and the order of several inputs need them


@dataclass(frozen=True, slots=True)
class Work:
    """What a stream task is to do: how far to read, and the time that the wall clock allows (None: as records say).

    Inputs that have more records than a step may read are `cut`."""

    task: TaskId
    ends: Mapping[TopicPartition, int]
    allowed_ms: int | None = None
    cut: frozenset[TopicPartition] = frozenset()


class Taken(NamedTuple):
    """The records of a step, the positions behind them, and whether that is all that was asked for."""

    rows: pa.RecordBatch
    read: Mapping[TopicPartition, int]
    whole: bool


class Log(Protocol):
    """What a stream task asks of the cluster. Each stream task has its own, for its transactional id."""

    def take_over(self) -> None:
        """Aborts what an earlier owner of the transactional id left open, and fences it."""

    def committed(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Once no open transaction can change it."""

    def read(
        self, ranges: Mapping[TopicPartition, tuple[int, int]], *, headers: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Committed records in the schema of `ottla.wire.columns`; those of one partition in order."""

    def bounds(self, partition: TopicPartition) -> tuple[int, int, str]:
        """Begin, end (the high watermark) and topic id, as they are now."""

    def topic_id(self, topic: str) -> str:
        """As it is known here."""

    def write(self, topic: str, rows: pa.RecordBatch) -> None: ...

    def flush(self) -> Mapping[TopicPartition, int]:
        """Waits for the acknowledgements; where each partition that was written ended with them."""

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMetadata) -> None:
        """Positions into the transaction, then its end; then the next one begins. Without transactions: positions."""

    def abort(self) -> None:
        """As far as it works. `take_over` is needed before anything else."""


class StreamTask:
    """Lives as long as its process. A step that fails leaves nothing that the next one trusts."""

    def __init__(
        self,
        pipeline: Pipeline,
        task: TaskId,
        log: Log,
        files: Any,
        globals: Mapping[str, KeyedStore] | None = None,
    ) -> None:
        self._globals = globals or {}
        self._pipeline, self.task = pipeline, task
        self._stage = pipeline.stage(task.stage)
        self._log, self._files = log, files
        self._operator: Operator | None = None
        self._inputs = [TopicPartition(pipeline.topic(name), task.partition) for name in self._stage.inputs]
        self._is_exact = pipeline.guarantee == EXACTLY_ONCE
        self._ours: bytes | None = None  # the token of the last step, if that was ours and is committed

    def step(self, work: Work, member: GroupMetadata, *, retried: bool = False) -> Commit:
        """Everything up to `work.ends`, exactly once; the commit that stands now."""
        try:
            return self._step(work, member, retried)
        except BaseException:
            self._ours = None
            self._log.abort()
            raise

    def _step(self, work: Work, member: GroupMetadata, retried: bool) -> Commit:
        with self._files.locked():
            before = self._stand(retried)
            ranges = {
                where: (before.offsets[where], end)
                for where, end in work.ends.items()
                if end > before.offsets[where]
            }
            if not ranges and not self._is_due(before, work.allowed_ms):
                return before
            begun = time.monotonic()
            restored = self._restore(before)
            self._ours = None
            rows, read, whole = self._read(ranges, work.cut)
            self._files.begin()
            step = self._run(rows, before, work.allowed_ms if whole else None)
            if before.is_exact and not self._is_exact:
                # Before the first row that no transaction hides: if this step fails, a later exact one must know.
                self._log.commit(replace(before, is_exact=False).to_offsets(), member)
            ends = self._write(step, before)
            after = Commit(
                {**before.offsets, **read},
                os.urandom(TOKEN_BYTES),
                ends,
                step.time_ms,
                self._figures(before.figures, rows, step, restored, begun),
                str(self.task),
                step.marks,
                self._is_exact,
            )
            self._log.commit(after.to_offsets(), member)
            # Only now: a state that is called clean before its transaction has ended may never have been.
            self._files.commit(after.token, {name: end.offset for name, end in ends.items()})
            self._ours = after.token
            return after

    def _is_due(self, before: Commit, allowed_ms: int | None) -> bool:
        """Whether time alone is a reason for a step."""
        wall_ms = before.next_wall_ms()
        return (allowed_ms is not None and allowed_ms > before.time_ms) or (
            wall_ms is not None and wall_ms <= _now_ms()
        )

    # -- before ------------------------------------------------------------------------------------

    def _stand(self, retried: bool) -> Commit:
        """The committed positions. If the last step was this process's, nobody else need be fenced: somebody who took
        over since has a newer epoch, and this step's writes will be refused."""
        if self._ours is None or retried:
            self._log.take_over()
        before = self._committed()
        if self._ours is not None and before.token != self._ours:
            self._ours = None
            self._log.take_over()
            before = self._committed()
        return before

    def _committed(self) -> Commit:
        return read_commit(self.task, self._inputs, self._log.committed(self._inputs))

    def _restore(self, before: Commit) -> int:
        """Brings the stores exactly to the committed ends; the number of changelog records it took.

        Without transactions the changelogs may hold more than was committed: what a step wrote that failed later. It is
        read too, because compaction may have removed the rows that it replaced. The first step with transactions does
        the same, and commits ends behind those rows.
        """
        files = self._files
        usable = files.is_usable(_now_ms(), DELETE_RETENTION_MS, before.token)
        is_first_exact = self._is_exact and not before.is_exact
        if usable and files.token == before.token and not is_first_exact:
            return 0
        if not usable or not before.token:
            files.discard()
        count = 0
        positions = {name: end.offset for name, end in before.ends.items()}
        for store in self._stage.stores:
            end = before.ends.get(store.name)
            if end is not None:
                store.check_compatible(end.signature)
            if end is not None or is_first_exact:
                known = files.positions.get(store.name, 0)
                restored, positions[store.name] = self._restore_store(
                    store.name, known, end, to_last=is_first_exact or not self._is_exact
                )
                count += restored
        # Good from here on, whatever becomes of this step.
        files.commit(before.token, positions)
        return count

    def _restore_store(
        self, name: str, known: int, end: ChangelogEnd | None, *, to_last: bool
    ) -> tuple[int, int]:
        """The number of records it took, and where it ended. `end` is None before the store's first commit."""
        where = TopicPartition(self._pipeline.changelog(name), self.task.partition)
        begin, last, topic_id = self._log.bounds(where)
        if end is not None and (topic_id != end.topic_id or last < end.offset):
            raise StateLost(
                f"store {name}: its changelog {where} was deleted or cut: {end.offset} were committed, it has {last}. "
                "The state of this partition is lost; reset the pipeline to begin again"
            )
        until = last if to_last or end is None else end.offset
        if not begin <= known <= until:
            known = begin
            self._files.clear(name)  # a deletion that is gone from the changelog would never be seen
        store, count = self._files.stores[name], 0
        self._files.begin()
        reported_at = time.monotonic()
        for rows in self._log.read({where: (known, until)} if known < until else {}):
            stamps = rows.column("timestamp").cast(pa.int64()).to_numpy() // 1000
            store.apply(rows.column("key"), rows.column("value"), stamps)
            count += rows.num_rows
            if time.monotonic() - reported_at > _TELL_S:
                reported_at = time.monotonic()
                at = rows.column("offset")[-1].as_py() + 1
                share = (at - known) / (until - known)
                log.info(
                    "%s: store %s is restored to %.0f %% (%d records)", self.task, name, 100 * share, count
                )
        return count, until

    # -- the work ----------------------------------------------------------------------------------

    def _read(
        self, ranges: Mapping[TopicPartition, tuple[int, int]], cut: frozenset[TopicPartition]
    ) -> "Taken":
        """The records of a step; fewer than planned if they take more memory than a step may.

        Without the columns that nobody asks for: to put them together costs as much as to fetch them.
        """
        schema = schema_of(self._stage)
        batches: list[pa.RecordBatch] = []
        places: list[pa.RecordBatch] = []
        size = 0
        ends = {where: end for where, (_, end) in ranges.items()}
        fetched = self._log.read(ranges, headers="headers" in schema.names) if ranges else iter(())
        for batch in fetched:
            batches.append(batch.select(schema.names))
            places.append(batch.select(["topic", "offset"]))
            size += batches[-1].nbytes
            if size > self._pipeline.bytes_max:
                fetched.close()  # type: ignore[attr-defined]
                ends = _reached(places, ranges)
                cut |= {where for where, (_, end) in ranges.items() if ends.get(where, -1) < end}
                break
        whole = ends == {where: end for where, (_, end) in ranges.items()}
        rows = pa.Table.from_batches(batches, schema)
        if cut and len(ranges) > 1 and self._stage.abreast:
            rows, ends = _abreast(rows, places, ends, {where.topic for where in cut})
        return Taken(self._joined(rows), ends, whole)

    def _joined(self, rows: pa.Table) -> pa.RecordBatch:
        if len(self._inputs) > 1 and len(pc.unique(rows["topic"])) > 1:
            rows = merged(rows)
        (joined,) = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
        return joined

    def _run(self, rows: pa.RecordBatch, before: Commit, allowed_ms: int | None) -> Step:
        if self._operator is None:
            self._operator = self._stage.operator()
        time_ms, outputs = before.time_ms, frozenset(self._stage.outputs)
        step = Step(
            self.task, {**self._files.stores, **self._globals}, outputs, time_ms, _now_ms(), before.marks
        )
        if rows.num_rows:
            self._operator.process(rows, step)
        step.time_ms = max(time_ms, self._newest(rows), time_ms if allowed_ms is None else allowed_ms)
        step.moved_ms = allowed_ms
        self._operator.advance(step)
        return step

    def _newest(self, rows: pa.RecordBatch) -> int:
        """What the records say about the time. One whose clock runs ahead must not take all others with it."""
        if not rows.num_rows:
            return -1
        newest: int = pc.max(rows.column("timestamp").cast(pa.int64())).as_py() // 1000
        ahead = self._stage.ahead_ms
        return newest if ahead is None else min(newest, _now_ms() + ahead)

    def _write(self, step: Step, before: Commit) -> dict[str, ChangelogEnd]:
        """Results and changelogs, acknowledged; where the changelogs end now."""
        for output, rows in step.emitted:
            self._log.write(self._pipeline.topic(output), rows)
        if not self._is_exact:
            self._log.flush()  # state that says that a result was given must not outlive a result that was not
        for name, store in self._files.stores.items():
            changes = store.changes(max(0, step.time_ms))
            if changes.num_rows:
                partition = pa.repeat(pa.scalar(self.task.partition, pa.int32()), changes.num_rows)
                self._log.write(self._pipeline.changelog(name), changes.append_column("partition", partition))
        acknowledged = self._log.flush()
        ends = dict(before.ends)
        for store in self._stage.stores:
            where = TopicPartition(self._pipeline.changelog(store.name), self.task.partition)
            # A store that this step did not change may have been restored beyond its committed end.
            end = acknowledged.get(where, self._files.positions.get(store.name))
            if end is not None:
                topic_id = self._log.topic_id(where.topic)
                ends[store.name] = ChangelogEnd(end, topic_id, store.signature())
        return ends

    def _figures(
        self, before: Figures, rows: pa.RecordBatch, step: Step, restored: int, begun: float
    ) -> Figures:
        stores = self._files.stores.values()
        return Figures(
            records=before.records + rows.num_rows,
            written=before.written + sum(written.num_rows for _, written in step.emitted),
            rows=sum(len(store) for store in stores),
            bytes=sum(store.nbytes for store in stores),
            restored=restored,
            at_ms=_now_ms(),
            took_ms=round((time.monotonic() - begun) * 1000),
            host=platform.node(),
            ages_ms=ages(rows, _now_ms()),
            shown=step.shown,
        )


def schema_of(stage: Stage) -> pa.Schema:
    """Of the records that the stage's operator is given."""
    wanted = {*stage.columns, *ALWAYS}
    fields = {field.name: field for field in columns.SCHEMA_WITH_HEADERS}
    unknown = wanted - fields.keys()
    if unknown:
        raise BadTopology(
            f"stage {stage.name}: records have no column {', '.join(sorted(unknown))}; they have {', '.join(fields)}"
        )
    return pa.schema([field for name, field in fields.items() if name in wanted])


def _reached(
    places: list[pa.RecordBatch], ranges: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """The positions behind what was read."""
    newest = pa.Table.from_batches(places).group_by("topic").aggregate([("offset", "max")]).to_pylist()
    reached = {row["topic"]: row["offset_max"] + 1 for row in newest}
    return {where: reached[where.topic] for where in ranges if where.topic in reached}


def _abreast(
    rows: pa.Table, places: list[pa.RecordBatch], ends: Mapping[TopicPartition, int], cut: set[str]
) -> tuple[pa.Table, dict[TopicPartition, int]]:
    """Without records that are newer than where an input ends that was cut, and the positions in front of them.

    They wait for the next step: processed now, they would take stream time past records that are still to come, which
    would then be late, or find nothing in a join. What a cut input has in this step is processed in any case.
    """
    heads, sources = _heads(rows), _sources(rows)
    names = rows["topic"].combine_chunks().dictionary_encode().dictionary.to_pylist()
    reached = [heads[sources == number][-1] for number, name in enumerate(names) if name in cut]
    if not reached:
        return rows, dict(ends)
    waits = heads > min(reached)
    offsets = np.concatenate([batch.column("offset").to_numpy() for batch in places])
    positions = dict(ends)
    for where in ends:
        if where.topic in names:
            waiting = offsets[waits & (sources == names.index(where.topic))]
            positions[where] = int(waiting[0]) if len(waiting) else ends[where]
    return rows.filter(arrow_column(~waits)), positions


def merged(rows: pa.Table) -> pa.Table:
    """Records of several partitions by timestamp, those of one partition in their order: as if each time the partition
    whose next record is the oldest gave it."""
    return rows.take(arrow_column(np.argsort(_heads(rows), kind="stable")))


def _heads(rows: pa.Table) -> Any:
    """For each record the newest timestamp of its partition up to there."""
    times = rows["timestamp"].cast(pa.int64()).to_numpy()
    sources = _sources(rows)
    heads = np.empty_like(times)
    for source in np.unique(sources):
        here = sources == source
        heads[here] = np.maximum.accumulate(times[here])
    return heads


def ages(rows: pa.RecordBatch, now_ms: int) -> tuple[int, ...]:
    """Of some of the records, evenly chosen."""
    if not rows.num_rows:
        return ()
    chosen = np.linspace(0, rows.num_rows - 1, min(rows.num_rows, _AGES)).astype(np.int64)
    times = rows.column("timestamp").take(arrow_column(chosen)).cast(pa.int64()).to_numpy() // 1000
    return tuple((now_ms - times).tolist())


def _now_ms() -> int:
    return int(time.time() * 1000)


def _sources(rows: pa.Table) -> Any:
    """A number for each topic; a stream task reads one partition of each."""
    return rows["topic"].combine_chunks().dictionary_encode().indices.to_numpy()
