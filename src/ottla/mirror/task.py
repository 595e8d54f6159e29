"""A mirror task: copies committed records of its partitions, one transaction a step, from wherever the target stands.

Nothing here knows of micro-batches or of Spark: the caller of `step` says how far to read. Safety rests on the target
alone: the transactional id has one owner, and positions travel in the transaction of the records.
"""

import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from ottla.client.columnar.whole import Chunk, OffsetsUnknown, Written
from ottla.client.errors import TimedOut
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.mirror import journal, positions
from ottla.mirror.errors import PositionLost, SourceChanged, TargetMoved
from ottla.mirror.link import Link
from ottla.mirror.passing import batches_of
from ottla.mirror.positions import Position
from ottla.mirror.runs import Run, join

T = TypeVar("T")
# Runs that a position may carry before they go to the journal: a partition less in most transactions of single records.
RUNS_IN_POSITION_MAX = 24


@dataclass(frozen=True, slots=True)
class Work:
    """What a task is to do: how far to copy each partition of the source, and how many bytes at most."""

    task: int
    ends: Mapping[TopicPartition, int]
    bytes_max: int


class Source(Protocol):
    def read(
        self, ranges: Mapping[TopicPartition, tuple[int, int]], *, tolerate: bool
    ) -> Iterator[list[Chunk]]:
        """Fetched batches of the ranges; those of one partition in order."""

    def check_epochs(self, copied: Mapping[TopicPartition, Position]) -> None:
        """Raises `SourceChanged` if the source no longer has what was copied."""

    def topic_id(self, topic: str) -> bytes: ...


class Target(Protocol):
    def take_over(self) -> None:
        """Aborts what an earlier owner of the transactional id left open, and fences it."""

    def committed(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Once no open transaction can change it."""

    def write_batch(
        self, partition: TopicPartition, encoded: bytearray, count: int, attached: Any
    ) -> None: ...

    def write_journal(self, records: list[tuple[bytes, bytes]]) -> None: ...

    def topic_id(self, topic: str) -> bytes: ...

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """On the target's loop: what follows works only there."""

    async def add_positions(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMetadata
    ) -> None:
        """Into the transaction; records may still be on their way."""

    async def take_written(self) -> list[Written]:
        """Waits for the acknowledgements; where each batch went."""

    async def end(self) -> None:
        """Commits the transaction once all of it is acknowledged; then the next one begins."""

    def abort(self) -> None:
        """As far as it works. `take_over` is needed before anything else."""


@dataclass(slots=True)
class _Progress:
    """What a step has copied of one partition. Targets of the runs count from the first record of the step."""

    position: Position
    begin: int  # the target's offset of that record, as far as it can be known before
    runs: list[Run] = field(default_factory=list)
    count: int = 0
    is_in_journal: bool = False

    def add(self, runs: list[Run], count: int) -> None:
        self.runs += [Run(run.source, self.count + run.target, run.length) for run in runs]
        self.count += count


class MirrorTask:
    """Lives as long as its process. A step that fails leaves nothing that the next one trusts."""

    def __init__(self, link: Link, source: Source, target: Target, *, alone: bool = False) -> None:
        self._link, self._source, self._target, self._alone = link, source, target, alone
        self._known: dict[
            TopicPartition, Position
        ] = {}  # what this process has committed last, or knows to stand
        self._owns = False

    def step(
        self, work: Work, member: GroupMetadata, *, retried: bool = False
    ) -> dict[TopicPartition, Position]:
        """Copies up to `work.ends`, exactly once; the positions that stand now, by source partition."""
        try:
            return self._step(work, member, retried)
        except BaseException:
            self.give_up()
            raise

    def follows(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether nobody has to be asked before the next step of these partitions."""
        return self._alone and self._owns and all(where in self._known for where in partitions)

    async def step_followed(
        self, chunks: list[Chunk], member: GroupMetadata
    ) -> dict[TopicPartition, Position]:
        """A step with what has arrived, on the target's loop: from a fetched record to its commit without a switch of
        threads. Only of partitions that it `follows`; a caller whose step fails calls `give_up` from its own thread."""
        self._check_lives({chunk.partition: self._known[chunk.partition] for chunk in chunks})
        copied: dict[TopicPartition, _Progress] = {}
        for chunk in chunks:
            self._add(chunk, self._known, copied)
        after = await self._commit(copied, member) if copied else {}
        self._known.update(after)
        return after

    def give_up(self) -> None:
        """After a step that failed: the next one takes over and asks where it stands."""
        self._owns = False
        self._known.clear()
        self._target.abort()

    def _step(self, work: Work, member: GroupMetadata, retried: bool) -> dict[TopicPartition, Position]:
        stand = self._stand(work, retried)
        if self._alone:
            self._known.update(stand)  # also of partitions that have nothing to copy: nobody else moves them
        ranges = {
            where: (stand[where].source, end) for where, end in work.ends.items() if end > stand[where].source
        }
        if not ranges:
            return stand
        self._check_lives({where: stand[where] for where in ranges})
        copied = self._copy(ranges, stand, work.bytes_max)
        if not copied:
            return stand
        after = self._target.run(self._commit(copied, member))
        self._known.update(after)
        self._owns = True
        return {**stand, **after}

    async def _commit(
        self, copied: Mapping[TopicPartition, _Progress], member: GroupMetadata
    ) -> dict[TopicPartition, Position]:
        """Nobody else writes to a copy, so records go behind the marker of the step before. The journal and the
        positions say so while the records are on their way: one round trip for all three. Where it turns out wrong
        (a step was aborted, somebody else wrote) both are said again in the same transaction, where the last counts."""
        after = await self._say(copied, member)
        if self._see(copied, await self._target.take_written()):
            after = await self._say(copied, member)
            await self._target.take_written()
        await self._target.end()
        return after

    # -- before ------------------------------------------------------------------------------------

    def _stand(self, work: Work, retried: bool) -> dict[TopicPartition, Position]:
        """The committed positions. Where they are not what this process left, somebody else has been here: fence."""
        if retried or not self._owns:
            self._target.take_over()
            self._owns = True
            stand = self._committed(work)
            self._source.check_epochs(stand)
            return stand
        if self._alone and all(where in self._known for where in work.ends):
            # Somebody who took over since has a newer epoch: this step's writes will be refused.
            return {where: self._known[where] for where in work.ends}
        stand = self._committed(work)
        if any(self._known.get(where, stand[where]).source != stand[where].source for where in stand):
            self._target.take_over()
            stand = self._committed(work)
        return stand

    def _committed(self, work: Work) -> dict[TopicPartition, Position]:
        places = {where: self._remote(where) for where in work.ends}
        offsets = self._target.committed(list(places.values()))
        missing = [str(place) for place in places.values() if place not in offsets]
        if missing:
            raise PositionLost(
                f"group {self._link.group} has no position for {', '.join(missing)}: it was deleted or has expired. "
                "Delete the topic at the target to copy it again"
            )
        return {where: positions.read(place, offsets[place]) for where, place in places.items()}

    def _check_lives(self, stand: Mapping[TopicPartition, Position]) -> None:
        for where, position in stand.items():
            now = self._source.topic_id(where.topic).hex()
            if position.topic_id and now != position.topic_id:
                raise SourceChanged(
                    f"topic {where.topic} was deleted and re-created at {self._link.source}. Delete "
                    f"{self._link.remote(where.topic)} at {self._link.target} to copy the new one"
                )

    def _remote(self, where: TopicPartition) -> TopicPartition:
        return TopicPartition(self._link.remote(where.topic), where.partition)

    # -- the work ----------------------------------------------------------------------------------

    def _copy(
        self,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        stand: Mapping[TopicPartition, Position],
        bytes_max: int,
    ) -> dict[TopicPartition, _Progress]:
        """Reads and writes until the ranges are done or the step is large enough. Reading runs ahead of writing."""
        copied: dict[TopicPartition, _Progress] = {}
        size = 0
        fetched = self._source.read(ranges, tolerate=self._link.tolerate_loss)
        try:
            for chunks in fetched:
                for chunk in chunks:
                    size += self._add(chunk, stand, copied)
                if size >= bytes_max:
                    break
        except TimedOut:
            if not copied:
                raise  # the source is away. What was copied before is committed: readers must not wait for the rest
        finally:
            fetched.close()  # type: ignore[attr-defined]
        return copied

    def _add(
        self,
        chunk: Chunk,
        stand: Mapping[TopicPartition, Position],
        copied: dict[TopicPartition, _Progress],
    ) -> int:
        """Its size, if the step is about its partition. The reader may follow more: that will be fetched again."""
        where = chunk.partition
        if where not in stand:
            return 0
        if where not in copied:
            copied[where] = _begin(stand[where])
        self._pass(chunk, where, copied[where])
        return len(chunk.data)

    def _pass(self, chunk: Chunk, where: TopicPartition, progress: _Progress) -> None:
        before, records = progress.position, 0
        timestamp_ms = before.timestamp_ms
        remote = self._remote(where)
        for batch in batches_of(chunk, before.source):
            self._target.write_batch(remote, batch.data, batch.records, (where, progress.count))
            progress.add(batch.runs, batch.records)
            records += batch.records
        for header, _ in chunk.batches():
            timestamp_ms = max(timestamp_ms, header.max_timestamp)
        end, epoch = chunk.end()
        skipped = max(0, chunk.fetch_offset - before.source)
        progress.position = replace(
            before,
            source=max(end, before.source),
            epoch=epoch if epoch >= 0 else before.epoch,
            topic_id=self._source.topic_id(where.topic).hex(),
            records=before.records + records,
            bytes=before.bytes + len(chunk.data),
            timestamp_ms=timestamp_ms,
            skipped=before.skipped + skipped,
        )

    async def _say(
        self, copied: Mapping[TopicPartition, _Progress], member: GroupMetadata
    ) -> dict[TopicPartition, Position]:
        """Where the records are, to the group and now and then to the journal."""
        now_ms = int(time.time() * 1000)
        after: dict[TopicPartition, Position] = {}
        records: list[tuple[bytes, bytes]] = []
        for where, progress in copied.items():
            before = progress.position
            new = [Run(run.source, progress.begin + run.target, run.length) for run in progress.runs]
            runs = join([*before.runs, *new])
            # Once there it stays there: what is said again must replace what was said before.
            progress.is_in_journal |= len(runs) > RUNS_IN_POSITION_MAX or (bool(runs) and not before.target)
            if progress.is_in_journal:
                topic_id = self._target.topic_id(self._link.remote(where.topic))
                records += journal.run_records(where, topic_id, runs)
            after[where] = replace(
                before,
                target=progress.begin + progress.count if progress.count else before.target,
                at_ms=now_ms,
                runs=() if progress.is_in_journal else tuple(runs),
            )
        if records:
            self._target.write_journal(records)
        await self._target.add_positions(
            {self._remote(where): position.to_offset() for where, position in after.items()}, member
        )
        return after

    def _see(self, copied: Mapping[TopicPartition, _Progress], acknowledged: list[Written]) -> bool:
        """Notes where the records went; whether that is elsewhere than expected."""
        begins: dict[TopicPartition, int] = {}
        for written in acknowledged:
            where, index = written.attached
            if written.base_offset < copied[where].position.target:
                raise TargetMoved(
                    f"{written.partition} was written at {written.base_offset}, but {copied[where].position.target} "
                    "was its end before: it was deleted and re-created, or cut. What the positions say is read again"
                )
            if begins.setdefault(where, written.base_offset - index) != written.base_offset - index:
                raise OffsetsUnknown(
                    f"{written.partition}: somebody else wrote between the records of a step"
                )
        moved = [where for where, begin in begins.items() if begin != copied[where].begin]
        for where in moved:
            copied[where].begin = begins[where]
        return bool(moved)


def _begin(position: Position) -> _Progress:
    """The marker of the transaction that wrote last lies between the records of two steps."""
    return _Progress(position, position.target + 1 if position.target else 0)
