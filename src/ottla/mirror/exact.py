"""Mode exact: batches of the source as they are, under their own offsets, into topics that mirror it.

The target's log end is the position: a step that is repeated is dropped there. See `ottla.wire.mirror_frame`.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ottla import errors
from ottla.client.admin import Admin
from ottla.client.columnar import ColumnarReader
from ottla.client.columnar.following import FollowingReader
from ottla.client.columnar.ranges import Range
from ottla.client.columnar.whole import Chunk
from ottla.client.errors import OutOfRange, TimedOut
from ottla.client.session import LATEST, Session, commit, committed, list_offsets
from ottla.client.settings import ConsumerSettings
from ottla.client.values import GroupMetadata, TopicPartition
from ottla.errors import error_for
from ottla.mirror import positions
from ottla.mirror.clusters import SourceEpochs
from ottla.mirror.errors import BadLink, SessionEnded, SourceChanged, TakenOver, TargetMoved
from ottla.mirror.link import Link
from ottla.mirror.positions import Position
from ottla.mirror.task import Work
from ottla.wire import batch as batches
from ottla.wire import mirror_frame
from ottla.wire.batch import BatchHeader
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.mirror_frame import MirrorFrame

FRAME_BYTES_MAX = 4 * 1024 * 1024
_READ_TIMEOUT_MS = 15_000
_EVERYTHING = {"isolation.level": "read_uncommitted"}
SOURCE, EPOCH = "mirror.source", "mirror.link.epoch"


class ExactTask:
    """One for each process and task. Nothing it remembers is needed to go on.

    `alone`: no other process of this run steps for the task, so the target need not be asked before every step. If
    somebody else has written since, the target refuses the frame.
    """

    def __init__(self, link: Link, *, alone: bool = False) -> None:
        self._link, self._alone = link, alone
        self._known: dict[TopicPartition, Position] = {}  # what this process has left
        self._reader = FollowingReader({**link.source_client, **_EVERYTHING})
        self._compared = ColumnarReader({**link.target_client, **_EVERYTHING})
        self._target = FrameSender(link)
        self._source = SourceEpochs(link)
        self._checked: set[TopicPartition] = set()

    def run(self, work: Work, member: GroupMetadata, *, retried: bool) -> Mapping[TopicPartition, Position]:
        if retried:
            self._checked.clear()
            self._known.clear()
        known, self._known = self._known, {}
        if self._alone and all(where in known and where in self._checked for where in work.ends):
            stand = {where: known[where] for where in work.ends}
        else:
            stand = self._stand(work)
        after = self._step(work, stand, member)
        self._known = {**known, **after}
        return after

    def _stand(self, work: Work) -> dict[TopicPartition, Position]:
        """Where the target's logs end. The caller has checked that they are copies of the source's."""
        places = {where: self._remote(where) for where in work.ends}
        self._target.know({place.topic for place in places.values()})
        known = self._target.positions(list(places.values()))
        ends = self._target.ends(list(places.values()))
        stand = {
            where: replace(known.get(place, Position(0)), source=ends[place], target=ends[place])
            for where, place in places.items()
        }
        unchecked = {where: stand[where] for where in stand if where not in self._checked}
        self._source.check_epochs(
            {where: known[places[where]] for where in unchecked if places[where] in known}
        )
        for where in unchecked:
            self._check_tip(where, places[where], stand[where].source)
            self._checked.add(where)
        return stand

    def _step(
        self, work: Work, stand: Mapping[TopicPartition, Position], member: GroupMetadata
    ) -> dict[TopicPartition, Position]:
        places = {where: self._remote(where) for where in work.ends}
        begins = self._source.begins([where for where, position in stand.items() if position.source == 0])
        ranges = {
            where: (max(stand[where].source, begins.get(where, 0)), end)
            for where, end in work.ends.items()
            if end > stand[where].source
        }
        after = {**stand, **self._copy(ranges, stand, work.bytes_max)} if ranges else dict(stand)
        # A new copy begins where its source does.
        self._target.trim(
            {places[where]: begin for where, begin in begins.items() if 0 < begin <= after[where].source}
        )
        self._target.note({places[where]: position for where, position in after.items()}, member)
        return after

    def follow(
        self, known: Mapping[TopicPartition, Position], _: object, timeout_s: float
    ) -> Mapping[TopicPartition, int] | None:
        """See `worker.Stepping`; each step is one to `run`."""
        wanted = [Range(*where, position.source, position.source) for where, position in known.items()]
        return self._reader.wait(wanted, timeout_s)

    def close(self) -> None:
        self._reader.close()
        self._compared.close()
        self._target.close()
        self._source.close()

    def _remote(self, where: TopicPartition) -> TopicPartition:
        return TopicPartition(self._link.remote(where.topic), where.partition)

    def _copy(
        self,
        ranges: Mapping[TopicPartition, tuple[int, int]],
        stand: Mapping[TopicPartition, Position],
        bytes_max: int,
    ) -> dict[TopicPartition, Position]:
        after: dict[TopicPartition, Position] = {}
        wanted = [Range(*where, begin, end) for where, (begin, end) in ranges.items()]
        size = 0
        fetched = self._reader.read_chunks(
            wanted, tolerate_loss=self._link.tolerate_loss, idle_timeout_ms=_READ_TIMEOUT_MS
        )
        try:
            for chunks in fetched:
                for chunk in chunks:
                    if chunk.partition not in stand:
                        continue  # the reader follows more than this step is about; it will be fetched again
                    before = after.get(chunk.partition, stand[chunk.partition])
                    after[chunk.partition] = self._send(chunk, before)
                    size += len(chunk.data)
                if size >= bytes_max:
                    break
        except TimedOut:
            if not after:
                raise  # the source is away
        finally:
            fetched.close()  # type: ignore[attr-defined]
        return after

    def _send(self, chunk: Chunk, before: Position) -> Position:
        """All whole batches of a fetch, in frames; each expects what the one before it left."""
        place, end = self._remote(chunk.partition), before.source
        records, timestamp_ms, epoch = 0, before.timestamp_ms, before.epoch
        for frame, headers in frames(chunk.data, end):
            end = self._target.append(place, end, frame)
            records += sum(header.count for header in headers if not header.is_control)
            timestamp_ms = max([timestamp_ms, *(header.max_timestamp for header in headers)])
            epoch = headers[-1].leader_epoch
        return replace(
            before,
            source=end,
            target=end,
            epoch=epoch,
            records=before.records + records,
            bytes=before.bytes + len(chunk.data),
            timestamp_ms=timestamp_ms,
            at_ms=int(time.time() * 1000),
        )

    def _check_tip(self, where: TopicPartition, place: TopicPartition, end: int) -> None:
        """The last batch here must be the source's own: else the source was cut and went on with other records."""
        ours = _last_batch(self._compared, place, end)
        if ours is None:
            return  # nothing is here, or it has expired
        theirs = _batch_at(self._reader, where, ours.base_offset)
        if theirs is None:
            return  # expired or compacted at the source: the epochs alone would have to tell
        same = (ours.base_offset, ours.last_offset_delta, ours.crc)
        if same != (theirs.base_offset, theirs.last_offset_delta, theirs.crc):
            raise SourceChanged(
                f"{where} of {self._link.source} and {place} of {self._link.target} have diverged: the batches at "
                f"offset {ours.base_offset} differ. The source was cut. Delete the copy, or promote it"
            )


class FrameSender:
    """The target as a mirror writes it: one frame of a partition at a time, retried until it is known what became of
    it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._session = Session("mirror target", ConsumerSettings.parse(link.target_client))
        self._cluster = self._session.cluster()
        self._admin = Admin(link.target_client)
        self._epochs: dict[str, int] = {}

    def know(self, topics: set[str]) -> None:
        """The link epochs of the topics, asked for once: a topic that was promoted refuses the old one."""
        for topic in topics - self._epochs.keys():
            self._epochs[topic] = link_epoch(self._link, self._admin, topic)

    def ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        offsets = self._session.run(list_offsets(self._cluster, dict.fromkeys(partitions, LATEST)))
        return {where: answer.offset for where, answer in offsets.items()}

    def positions(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Position]:
        offsets = self._session.run(committed(self._cluster, self._link.group, partitions))
        return {place: positions.read(place, noted) for place, noted in offsets.items()}

    def note(self, reached: Mapping[TopicPartition, Position], member: GroupMetadata) -> None:
        """For those who look; the log itself is the position."""
        offsets = {place: position.to_offset() for place, position in reached.items()}
        try:
            self._session.run(commit(self._cluster, member, offsets))
        except errors.FencedInstanceId as error:
            raise TakenOver(f"another driver runs mirror {self._link.name} now: {error}") from error
        except (errors.IllegalGeneration, errors.UnknownMemberId) as error:
            raise SessionEnded(f"mirror {self._link.name} must join its group again: {error}") from error

    def trim(self, begins: Mapping[TopicPartition, int]) -> None:
        if begins:
            self._admin.delete_records(begins)

    def append(self, place: TopicPartition, expected_end: int, data: bytes) -> int:
        """Where the log ends now."""
        epoch = self._epochs[place.topic]
        return self.send(place, MirrorFrame(self._link.name, epoch, expected_end, mirror_frame.APPEND, data))

    def send(self, place: TopicPartition, frame: MirrorFrame) -> int:
        try:
            return self._session.run(self._send(place, mirror_frame.pack(frame)))
        except (errors.PolicyViolation, errors.InvalidProducerEpoch) as error:
            raise TakenOver(f"{place} takes nothing more from {self._link.name}: {error}") from error
        except errors.OutOfOrderSequenceNumber as error:
            raise TargetMoved(f"{place}: {error}") from error
        except errors.InvalidRecord as error:
            raise SourceChanged(f"{place}: {error}") from error

    def close(self) -> None:
        self._session.close()
        self._admin.close()

    async def _send(self, place: TopicPartition, records: bytes) -> int:
        async def attempt() -> int:
            leader = await self._cluster.leader(*place)
            known = self._cluster.image.topics[place.topic]
            request = ProduceRequest(
                transactional_id=None,
                acks=-1,
                timeout_ms=self._cluster.settings.request_timeout_ms,
                topic_data=[
                    TopicProduceData(
                        name=place.topic,
                        topic_id=known.id,
                        partition_data=[PartitionProduceData(index=place.partition, records=records)],
                    )
                ],
            )
            answer = await self._cluster.ask(request, leader.leader)
            response = answer.responses[0].partition_responses[0]
            if response.error_code:
                raise error_for(response.error_code, response.error_message)
            return int(response.base_offset)

        return await self._cluster.retrying(attempt, f"{place} could not be written")


def frames(data: Any, position: int) -> Iterator[tuple[bytes, list[BatchHeader]]]:
    """Whole batches of fetched data from a position on, a few megabytes at a time."""
    view = memoryview(data)
    begin, size, headers = -1, 0, list[BatchHeader]()
    for at, header in batches.headers(data):
        if header.next_offset <= position:
            continue
        if headers and size + header.size > FRAME_BYTES_MAX:
            yield bytes(view[begin : begin + size]), headers
            begin, size, headers = -1, 0, []
        begin = at if begin < 0 else begin
        size += header.size
        headers.append(header)
    if headers:
        yield bytes(view[begin : begin + size]), headers


def link_epoch(link: Link, target: Admin, topic: str) -> int:
    """Of a topic that mirrors this link; any other is refused."""
    configs = target.describe_configs("topic", topic)
    source = configs[SOURCE].value if SOURCE in configs else None
    if source != link.name:
        raise BadLink(
            f"topic {topic} at {link.target} is not the mirror of {link.name} ({SOURCE} is {source or 'not set'}): "
            "it was promoted, or is somebody else's. Delete it to mirror the source's again"
        )
    return int(configs[EPOCH].value or 0) if EPOCH in configs else 0


def promote(link: Link, target: Admin) -> list[str]:
    """Each topic becomes one of its own: first the link is fenced, then its traces are ended, then others may write."""
    done = []
    sender = FrameSender(link)
    try:
        for topic, description in sorted(target.list_topics().items()):
            try:
                epoch = link_epoch(link, target, topic)
            except (BadLink, errors.UnknownTopicOrPartition):  # another's, or deleted just now
                continue
            except errors.TopicAuthorizationFailed as error:
                done.append(f"{topic}: left as it is, its settings cannot be read ({error})")
                continue
            target.alter_configs("topic", topic, set_={EPOCH: str(epoch + 1)})
            for index in sorted(description.partitions):
                sender.send(
                    TopicPartition(topic, index), MirrorFrame(link.name, epoch + 1, 0, mirror_frame.PROMOTE)
                )
            target.alter_configs("topic", topic, set_={EPOCH: str(epoch + 2)}, delete=[SOURCE])
            done.append(
                f"{topic}: {len(description.partitions)} partitions are promoted; link epoch {epoch + 2}"
            )
    finally:
        sender.close()
    return done


def _last_batch(reader: ColumnarReader, where: TopicPartition, end: int) -> BatchHeader | None:
    return _batch_at(reader, where, end - 1) if end > 0 else None


def _batch_at(reader: ColumnarReader, where: TopicPartition, offset: int) -> BatchHeader | None:
    """The header of the batch that holds an offset, as its broker has it now."""
    from ottla.client.columnar.reader import DataLost

    try:
        for chunks in reader.read_chunks(
            [Range(*where, offset, offset + 1)], idle_timeout_ms=_READ_TIMEOUT_MS
        ):
            for chunk in chunks:
                for _, header in batches.headers(chunk.data):
                    if header.base_offset <= offset <= header.last_offset:
                        return header
                    if header.base_offset > offset:
                        return None
    except (DataLost, OutOfRange):
        return None
    return None
