"""Follows the partitions that one other broker leads: asks by Fetch, takes what comes, cuts where it must.

No I/O: `request` says what to send next, `on_response` takes the answer. One request is under way at a time.
Truncation is by leader epoch: a follower tells the epoch of its last record with every fetch; a leader whose
history differs answers where that epoch ends with it, and the follower cuts there and asks again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ottla import errors
from ottla.errors import ProtocolError
from ottla.frozen import frozen
from ottla.replication.partition import Key, Partition, key_of
from ottla.replication.throttle import Throttle
from ottla.storage.log import Log
from ottla.wire.batch import CorruptBatch
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

FETCH_VERSION = 17
LOOK_MS = 5000
FIRST_PAUSE_MS = 20
# The leader or we have not heard of an election yet.
NOT_YET = errors.NotLeaderOrFollower, errors.UnknownLeaderEpoch, errors.FencedLeaderEpoch
NO_SESSION, FIRST_EPOCH, LAST_EPOCH = 0, 0, 2**31 - 1


class Asked(NamedTuple):
    """A partition as the leader was last asked for it."""

    leader_epoch: int
    offset: int
    last_epoch: int
    log_start_offset: int


@frozen
class Limits:
    wait_ms: int = 500
    bytes_min: int = 1
    bytes_max: int = 10 << 20
    partition_bytes_max: int = 1 << 20
    pause_ms_max: int = 1000


@dataclass(slots=True)
class _Followed:
    partition: Partition
    pause_ms: int = 0
    resume_ms: int = 0
    """Left out of fetches until then: its last answer was an error."""


class Fetcher:
    """`report` gets a line for what should not happen. `throttle_of` tells which limit a partition is under."""

    def __init__(
        self,
        broker_id: int,
        leader_id: int,
        limits: Limits,
        report: Callable[[str], None],
        throttle_of: Callable[[Partition], Throttle | None] = lambda partition: None,
    ) -> None:
        self._throttle_of = throttle_of
        self.leader_id = leader_id
        self.limits = limits
        self._broker_id = broker_id
        self._report = report
        self._followed: dict[Key, _Followed] = {}
        self._session_id, self._session_epoch = NO_SESSION, FIRST_EPOCH
        self._known: dict[Key, Asked] = {}  # what the leader's session holds
        self._under_way: dict[Key, Asked] = {}
        self._due: set[Key] = set()  # may have changed since they were asked for
        self._looked_ms = 0  # when all of them were looked at

    def __len__(self) -> int:
        return len(self._followed)

    def __contains__(self, key: Key) -> bool:
        return key in self._followed

    def follow(self, partition: Partition) -> None:
        key = key_of(partition)
        self._due.add(key)
        followed = self._followed.get(key)
        if followed is None or followed.partition is not partition:
            self._followed[key] = _Followed(partition)
        else:
            followed.pause_ms = followed.resume_ms = 0  # a new epoch: what failed before may work now

    def leave(self, key: Key) -> None:
        self._followed.pop(key, None)
        self._due.add(key)

    # -- asking ----------------------------------------------------------------------------------

    def request(self, broker_epoch: int, now_ms: int) -> FetchRequest | None:
        """What to ask next; None while there is nothing to ask for."""
        known = self._known if self._session_id != NO_SESSION else {}
        changed, left_out = self._changes(known, now_ms)
        forgotten = [key for key in left_out if key in known]
        if not changed and len(forgotten) == len(known):
            return None
        for key in forgotten:
            del known[key]
        known.update(changed)
        self._due = left_out & self._followed.keys()
        self._known = self._under_way = known
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self._broker_id, replica_epoch=broker_epoch),
            max_wait_ms=self.limits.wait_ms,
            min_bytes=self.limits.bytes_min,
            max_bytes=self.limits.bytes_max,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=self._topics(changed),
            forgotten_topics_data=_forgotten(forgotten),
        )

    def _changes(self, known: dict[Key, Asked], now_ms: int) -> tuple[dict[Key, Asked], set[Key]]:
        """Partitions to ask for otherwise than the session does, and those to leave out of it."""
        changed: dict[Key, Asked] = {}
        left_out: set[Key] = set()
        for key in self._to_look_at(known, now_ms):
            followed, last = self._followed.get(key), known.get(key)
            asked = self._asked(followed, last, now_ms) if followed is not None else None
            if asked is None:
                left_out.add(key)
            elif asked is not last:
                changed[key] = asked
        return changed, left_out

    def _to_look_at(self, known: dict[Key, Asked], now_ms: int) -> Iterable[Key]:
        """Of many partitions few change between two fetches. Now and then all are looked at: retention may have
        moved the start of a log, and that is not noticed here."""
        if known and now_ms - self._looked_ms < LOOK_MS:
            return self._due
        self._looked_ms = now_ms
        return {**self._followed, **dict.fromkeys(self._due)}

    def resumes_in_ms(self, now_ms: int) -> int | None:
        """When a partition that is left out now is due again; None when there is none."""
        due = [followed.resume_ms for followed in self._followed.values()]
        return max(1, min(due) - now_ms) if due else None

    def _asked(self, followed: _Followed, last: Asked | None, now_ms: int) -> Asked | None:
        """What to ask of a partition: `last` if that is still so, None if it is left out for now."""
        partition = followed.partition
        log = partition.log
        if log is None or now_ms < followed.resume_ms:
            return None
        if log.config.flush_messages == 1 and log.recovery_point < log.end_offset:
            return None  # asking for what comes next would say that this is safe here
        throttle = self._throttle_of(partition)
        if throttle is not None and (pause_ms := throttle.opens_in_ms(now_ms)):
            followed.resume_ms = now_ms + pause_ms
            return None
        epoch, last_epoch = partition.state.leader_epoch, log.epochs.latest
        if (
            last is not None
            and last.offset == log.end_offset
            and last.leader_epoch == epoch
            and last.last_epoch == last_epoch
            and last.log_start_offset == log.log_start_offset
        ):
            return last
        return Asked(epoch, log.end_offset, last_epoch, log.log_start_offset)

    def _topics(self, changed: dict[Key, Asked]) -> list[FetchTopic]:
        topics: dict[bytes, list[FetchPartition]] = defaultdict(list)
        for (topic_id, index), asked in changed.items():
            topics[topic_id].append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=asked.leader_epoch,
                    fetch_offset=asked.offset,
                    last_fetched_epoch=asked.last_epoch,
                    log_start_offset=asked.log_start_offset,
                    partition_max_bytes=self.limits.partition_bytes_max,
                )
            )
        return [
            FetchTopic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()
        ]

    # -- taking ----------------------------------------------------------------------------------

    def on_failure(self) -> None:
        """No answer: what the leader's session holds is not known any more."""
        self._under_way = {}
        self._restart_session()

    def on_response(self, response: FetchResponse, now_ms: int) -> None:
        under_way, self._under_way = self._under_way, {}
        if response.error_code:
            self._restart_session()
            return
        self._session_id = response.session_id
        if self._session_id == NO_SESSION:
            self._session_epoch = FIRST_EPOCH
        else:
            self._session_epoch = self._session_epoch + 1 if self._session_epoch < LAST_EPOCH else 1
        for topic in response.responses:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                self._due.add(key)
                followed, asked = self._followed.get(key), under_way.get(key)
                if followed is not None and asked is not None:
                    self._on_data(followed, asked, data, now_ms)

    def _restart_session(self) -> None:
        self._session_id, self._session_epoch = NO_SESSION, FIRST_EPOCH
        self._known = {}

    def _on_data(self, followed: _Followed, asked: Asked, data: PartitionData, now_ms: int) -> None:
        partition = followed.partition
        log = partition.log
        if (
            log is None
            or partition.is_leader
            or asked.leader_epoch != partition.state.leader_epoch
            or asked.offset != log.end_offset
        ):
            self._restart_session()  # the answer is out of date, and the session would not repeat its contents
            return
        try:
            if data.error_code:
                self._on_error(partition, log, data)
            elif data.diverging_epoch.epoch >= 0 or data.diverging_epoch.end_offset >= 0:
                truncate(log, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
                self._restart_session()
            else:
                if data.records:
                    throttle = self._throttle_of(partition)
                    if throttle is not None:
                        throttle.take(len(data.records), now_ms)
                    log.append_replicated(data.records, now_ms=now_ms)
                    partition.traffic.replication_bytes_in += len(data.records)
                partition.on_replicated(data.high_watermark, data.log_start_offset, now_ms)
        except CorruptBatch as error:
            self._report(f"{partition.name}: {self.leader_id} sent a damaged batch: {error}")
            self._pause(followed, now_ms)
        except ProtocolError as error:
            self._pause(followed, now_ms)
            if not isinstance(error, NOT_YET):
                self._report(f"{partition.name}: following {self.leader_id} failed: {error}")
        else:
            followed.pause_ms = 0

    def _on_error(self, partition: Partition, log: Log, data: PartitionData) -> None:
        error = errors.error_for(data.error_code)
        if not isinstance(error, errors.OffsetOutOfRange) or data.log_start_offset < 0:
            raise error
        if data.log_start_offset > log.end_offset:
            self._report(
                f"{partition.name}: starts over at {data.log_start_offset}, where the leader's log begins"
            )
            log.restart_at(data.log_start_offset)
        else:
            log.truncate_to(data.high_watermark)

    def _pause(self, followed: _Followed, now_ms: int) -> None:
        """Leaders that do not know yet that they lead are asked again soon, others at leisure."""
        followed.pause_ms = min(max(followed.pause_ms * 2, FIRST_PAUSE_MS), self.limits.pause_ms_max)
        followed.resume_ms = now_ms + followed.pause_ms


def truncate(log: Log, leader_epoch: int, leader_end: int) -> None:
    """Cut to where this log and the leader's may be the same: its largest epoch not above ours ends there."""
    our_epoch, our_end = log.end_of_epoch(leader_epoch)
    offset = leader_end if our_epoch < 0 else min(leader_end, our_end)
    log.truncate_to(min(offset, log.end_offset))


def _forgotten(keys: list[Key]) -> list[ForgottenTopic]:
    topics: dict[bytes, list[int]] = defaultdict(list)
    for topic_id, index in keys:
        topics[topic_id].append(index)
    return [
        ForgottenTopic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()
    ]
