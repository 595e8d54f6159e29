"""The driver of a link: alone in charge at the target, asks both clusters what to copy, carries positions over."""

import contextlib
import logging
import threading
import time
import zlib
from collections.abc import Iterable, Mapping

from ottla import errors
from ottla.client import Producer
from ottla.client.admin import Admin
from ottla.client.admin.groups import Member
from ottla.client.columnar import ColumnarReader
from ottla.client.columnar.ranges import Range
from ottla.client.session import EARLIEST, LATEST, ZERO_ID, Session, commit, committed, list_offsets
from ottla.client.settings import ConsumerSettings
from ottla.client.static_member import StaticMember
from ottla.client.values import GroupMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.mirror import formats, journal, positions
from ottla.mirror.errors import PositionLost, SourceChanged, TakenOver
from ottla.mirror.exact import link_epoch
from ottla.mirror.groups import GroupKeeper
from ottla.mirror.journal import Journal
from ottla.mirror.link import EXACT, Link
from ottla.mirror.naming import HEARTBEATS, checkpoints_topic, offset_syncs_topic
from ottla.mirror.positions import Position
from ottla.mirror.task import Work
from ottla.mirror.throttle import Throttle
from ottla.mirror.topics import Pair, TopicKeeper
from ottla.spark.news import News

log = logging.getLogger(__name__)
_REPLACED = (errors.FencedInstanceId, errors.UnknownMemberId, errors.IllegalGeneration)
_WAIT_S = 0.2
_PRUNE_S = 60.0
_KEEP_S = 0.5
_CLOSE_S = 10.0


class Driver:
    """Blocking. `start` first; then `plan` as often as wanted, and `keep` after each round."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._member = StaticMember(link.target_client, link.group, link.group)
        self._here = Session("mirror driver", ConsumerSettings.parse(link.source_client))
        self._there = Session("mirror driver", ConsumerSettings.parse(link.target_client))
        self._source, self._target = self._here.cluster(), self._there.cluster()
        self._committed_only = link.mode != EXACT  # an exact copy has open transactions, too
        self._news = News(self._here.cluster(), read_committed=self._committed_only)
        self._source_admin, self._target_admin = Admin(link.source_client), Admin(link.target_client)
        self._topics = TopicKeeper(link, self._source_admin, self._target_admin)
        self._groups = GroupKeeper(link, self._source_admin, self._target_admin)
        self._reader = ColumnarReader(link.target_client)
        self._producers: dict[str, Producer] = {}
        self._journal, self._journal_at = Journal(), 0
        self._due: dict[str, float] = {}
        self._synced: dict[TopicPartition, int] = {}
        self._throttle = Throttle(link.throttle_bytes)
        self._pairs: dict[str, Pair] = {}
        self._frozen: dict[TopicPartition, int] | None = None
        self._keeping, self._closed = threading.Lock(), threading.Event()
        self._planning = threading.Lock()  # tasks that follow plan for themselves, side by side
        self._keeper: threading.Thread | None = None
        self._failure: Exception | None = None
        # As of the last plans; what groups are translated by is of an earlier moment, whose runs are all known.
        self.positions: dict[TopicPartition, Position] = {}
        self.ends: dict[TopicPartition, int] = {}
        self._translated: dict[TopicPartition, Position] = {}
        self._begins: dict[TopicPartition, int] = {}  # of the copies, in mode exact

    # -- what callers do ---------------------------------------------------------------------------

    def start(self) -> None:
        """Takes the link over from an earlier driver, and makes what a new one needs."""
        self._topics.ensure_internal(self._target_admin, self.link.journal, journal.CONFIGS)
        if self.link.emit_heartbeats:
            self._topics.ensure_internal(self._source_admin, HEARTBEATS)
            self._topics.ensure_internal(self._target_admin, HEARTBEATS)
        if self.link.emit_checkpoints:
            self._topics.ensure_internal(self._target_admin, checkpoints_topic(self.link.source))
        if self.link.emit_offset_syncs:
            self._topics.ensure_internal(*self._offset_syncs())
        self._member.join({self.link.journal})
        self._end_orphans()
        self._refresh_topics()
        self._read_journal()

    def member(self) -> GroupMetadata:
        try:
            with self._planning:
                return self._member.metadata()
        except _REPLACED as error:
            raise TakenOver(f"another driver runs mirror {self.link.name} now: {error}") from error

    def freeze(self) -> None:
        """Only records that exist by now are copied from here on."""
        self._refresh_topics()
        self._frozen = self._offsets(LATEST, self._partitions(), stable=self._committed_only)

    @property
    def is_frozen(self) -> bool:
        return self._frozen is not None

    def plan(
        self, known: Mapping[TopicPartition, Position] | None = None, *, task: int | None = None
    ) -> list[Work]:
        """What there is to copy, by task; nothing while the link is paused or has used up its share.

        `known` are positions that the caller has committed: if they are of all partitions, none are asked for.
        """
        self._ensure_well()
        partitions = self._partitions() if task is None else self.partitions_of(task)
        copied, ends = self.look(known, partitions)
        with self._planning:
            here = set(self._partitions())
            self.positions = {w: each for w, each in (self.positions | copied).items() if w in here}
            self.ends = {w: end for w, end in (self.ends | ends).items() if w in here}
            works = self._works(copied, ends, alone=task is None)
        if task is None:
            return works
        return [Work(each.task, dict(ends), each.bytes_max) for each in works]

    def plan_followed(
        self, copied: Mapping[TopicPartition, Position], ends: Mapping[TopicPartition, int]
    ) -> Work | None:
        """The same for a task that has seen the ends itself, without a question to anybody."""
        self._ensure_well()
        with self._planning:
            self.positions.update(copied)
            self.ends.update(ends)
            works = self._works(copied, ends, alone=False)
        # All its partitions: the task follows them all, and what has arrived of others meanwhile goes along.
        return Work(works[0].task, dict(ends), works[0].bytes_max) if works else None

    def partitions_of(self, task: int) -> list[TopicPartition]:
        return [where for where in self._partitions() if task_of(where, self.link.tasks) == task]

    def _ensure_well(self) -> None:
        self.member()
        if self._failure is not None:
            raise self._failure

    def _works(
        self,
        copied: Mapping[TopicPartition, Position],
        ends: Mapping[TopicPartition, int],
        *,
        alone: bool,
    ) -> list[Work]:
        allowed = self._throttle.allowed(
            sum(each.bytes for each in self.positions.values()), self._journal.control.throttle_bytes
        )
        if self._journal.control.paused or allowed == 0:
            return []
        wanted: dict[int, dict[TopicPartition, int]] = {}
        for where, position in copied.items():
            end = ends[where] if self._frozen is None else min(ends[where], self._frozen.get(where, 0))
            if end > position.source:
                wanted.setdefault(task_of(where, self.link.tasks), {})[where] = end
        sharing = len(wanted) if alone else self.link.tasks
        size = self.link.bytes_max if allowed is None else max(1, allowed // max(1, sharing))
        return [Work(task, each, min(size, self.link.bytes_max)) for task, each in sorted(wanted.items())]

    def wait(self) -> None:
        """Returns when there is more at the source than at the last look, or after a second."""
        self.rest()
        if not self.ends:
            time.sleep(_WAIT_S)
        else:
            self._here.run(self._news.wait(self.ends))

    def rest(self) -> None:
        """While the link is paused or has used up its share."""
        if self._journal.control.paused or self._throttle.is_exhausted:
            time.sleep(_WAIT_S)

    def keep(self, *, whole: bool = False) -> None:
        """Topics, groups, checkpoints, heartbeats, deletions: each when it is due, or all (`whole`)."""
        with self._keeping:
            if self._is_due("topics", self.link.refresh_topics_s) and not self.is_frozen:
                self._refresh_topics()
            self._read_journal()
            if whole:
                self._due.clear()
            if self.link.emit_heartbeats and self._is_due("heartbeats", self.link.heartbeats_s):
                self._emit_heartbeats()
            if self._is_due("groups", self.link.sync_groups_s):
                self._translated, _ = self.look()
                if self.link.mode == EXACT:
                    self._begins = self._begins_there()
                self._read_journal()  # after the positions: it has the runs of all of them
                self._sync_groups()
                self._emit_offset_syncs()
            if self._is_due("prune", _PRUNE_S):
                self._prune()

    def keep_on(self) -> None:
        """From now on in a thread of its own: records need not wait for groups. What fails there fails `plan`."""
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep_on, name="mirror keeper", daemon=True)
            self._keeper.start()

    @property
    def keeps_on(self) -> bool:
        return self._keeper is not None

    def _keep_on(self) -> None:
        while not self._closed.wait(_KEEP_S):
            try:
                self.keep()
            except Exception as error:
                if not self._closed.is_set():
                    self._failure = error
                return

    def look(
        self,
        known: Mapping[TopicPartition, Position] | None = None,
        partitions: list[TopicPartition] | None = None,
    ) -> tuple[dict[TopicPartition, Position], dict[TopicPartition, int]]:
        """Positions first: whatever they name lies before the ends."""
        partitions = self._partitions() if partitions is None else partitions
        if known is not None and all(where in known for where in partitions):
            copied = {where: known[where] for where in partitions}
        else:
            copied = self._positions(partitions)
        ends = self._offsets(LATEST, partitions, stable=self._committed_only)
        for where, position in copied.items():
            if ends[where] < position.source:
                raise SourceChanged(
                    f"{where} of {self.link.source} ends at {ends[where]}, but {position.source} was copied: "
                    "it was cut or re-created. Compare both sides, then delete the copy to copy it again"
                )
        return copied, ends

    def behind(self) -> int:
        ends = self.ends
        return sum(max(0, ends.get(where, 0) - each.source) for where, each in self.positions.items())

    def behind_frozen(self) -> int:
        """Records that were there at `freeze` and are not copied."""
        frozen = self._frozen or {}
        return sum(
            max(0, end - self.positions[where].source)
            for where, end in frozen.items()
            if where in self.positions
        )

    def translate(self, where: TopicPartition, offset: int) -> int | None:
        """The target's position of a source's. One that is not copied yet counts as the end of what is, and in mode
        exact one that has expired as the begin of the copy."""
        pair, position = self._pairs.get(where.topic), self._translated.get(where)
        if pair is None or position is None:
            return None
        if self.link.mode == EXACT:
            return max(self._begins.get(where, 0), min(offset, position.source))
        known = self._journal.maps.get((where, pair.target.id))
        if offset >= position.source:
            return position.target
        return None if known is None else known.translate(offset)

    def leave(self) -> None:
        """At an end in good order: the link is seen as stopped at once. A successor is not put out."""
        member = self.member()
        own = Member(member.member_id, "", "", member.group_instance_id, ())
        with contextlib.suppress(OttlaError):
            self._target_admin.remove_members(self.link.group, [own])

    def close(self) -> None:
        self._closed.set()
        if self._keeper is not None:
            self._keeper.join(_CLOSE_S)
        for producer in self._producers.values():
            producer.close(5)
        self._member.close()
        self._reader.close()
        for session in (self._here, self._there):
            session.close()
        self._source_admin.close()
        self._target_admin.close()

    # -- topics and positions ----------------------------------------------------------------------

    def _refresh_topics(self) -> None:
        before = dict(self._pairs)
        self._pairs = {pair.source.name: pair for pair in self._topics.refresh()}
        if self.link.sync_topic_deletes:
            copied = {name: self.link.remote(name) for name in self._copied_topics() | set(before)}
            self._topics.delete_gone({name: copy for name, copy in copied.items() if name not in self._pairs})
        self._begin_new()

    def _copied_topics(self) -> set[str]:
        """Source topics that the journal has runs of."""
        return {where.topic for where, _ in self._journal.maps}

    def _partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(pair.source.name, index)
            for pair in self._pairs.values()
            for index in pair.source.partitions
            if index in pair.target.partitions
        ]

    def _positions(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Position]:
        places = {self._remote(where): where for where in partitions}
        found = self._there.run(committed(self._target, self.link.group, list(places)))
        return {places[place]: positions.read(place, told) for place, told in found.items()}

    def _begin_new(self) -> None:
        """Every partition has a position before its first step, so a missing one is known to be lost."""
        partitions = self._partitions()
        known = self._positions(partitions)
        new = [where for where in partitions if where not in known]
        if not new:
            return
        if self.link.mode == EXACT:
            self._begin_exact(new)
            return
        places = dict.fromkeys((self._remote(where) for where in new), LATEST)
        filled = [
            str(p) for p, told in self._there.run(list_offsets(self._target, places)).items() if told.offset
        ]
        if filled:
            raise PositionLost(
                f"{', '.join(filled)} at {self.link.target} has records, but group {self.link.group} has no position "
                "for it: somebody else wrote there, or the position has expired. Delete the topic to copy it again, "
                "or choose other names (replication.policy.class)"
            )
        at = EARLIEST if self.link.start == "earliest" else LATEST
        begins = self._here.run(list_offsets(self._source, dict.fromkeys(new, at)))
        ids = {name: pair.source.id for name, pair in self._pairs.items()}
        offsets = {
            self._remote(where): Position(
                begins[where].offset, 0, "" if ids[where.topic] == ZERO_ID else ids[where.topic].hex()
            ).to_offset()
            for where in new
        }
        self._there.run(commit(self._target, self.member(), offsets))

    def _begin_exact(self, new: list[TopicPartition]) -> None:
        """The log at the target is the position; what is committed is only shown."""
        for topic in {self._remote(where).topic for where in new}:
            link_epoch(self.link, self._target_admin, topic)
        places = {self._remote(where): where for where in new}
        ends = self._there.run(list_offsets(self._target, dict.fromkeys(places, LATEST)))
        offsets = {place: Position(told.offset, told.offset).to_offset() for place, told in ends.items()}
        self._there.run(commit(self._target, self.member(), offsets))

    def _offsets(
        self, at: int, partitions: list[TopicPartition], *, stable: bool = False
    ) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(partitions, at)
        if not asked:
            return {}
        found = self._here.run(list_offsets(self._source, asked, committed_only=stable))
        return {where: told.offset for where, told in found.items()}

    def _begins_there(self) -> dict[TopicPartition, int]:
        places = {self._remote(where): where for where in self._partitions()}
        if not places:
            return {}
        found = self._there.run(list_offsets(self._target, dict.fromkeys(places, EARLIEST)))
        return {places[place]: told.offset for place, told in found.items()}

    def _remote(self, where: TopicPartition) -> TopicPartition:
        return TopicPartition(self.link.remote(where.topic), where.partition)

    def _end_orphans(self) -> None:
        """Transactions of tasks that this layout no longer has: nobody else would abort them before they time out."""
        prefix = f"{self.link.group}."
        for left in self._target_admin.list_transactions(states=["Ongoing"]):
            number = left.transactional_id.removeprefix(prefix)
            if (
                left.transactional_id.startswith(prefix)
                and number.isdigit()
                and int(number) >= self.link.tasks
            ):
                with Producer(self.link.target_client, transactional_id=left.transactional_id) as producer:
                    producer.init_transactions()

    # -- the journal -------------------------------------------------------------------------------

    def _read_journal(self) -> None:
        where = TopicPartition(self.link.journal, 0)
        told = self._there.run(list_offsets(self._target, {where: LATEST}, committed_only=True))
        end = told[where].offset
        if self._journal_at == 0:
            begin = self._there.run(list_offsets(self._target, {where: EARLIEST}))
            self._journal_at = begin[where].offset
        if end > self._journal_at:
            for rows in self._reader.read([Range(*where, self._journal_at, end)]):
                for key, value in zip(
                    rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True
                ):
                    self._journal.apply(key, value)
            self._journal_at = end

    def _prune(self) -> None:
        """Forgets runs below the source's log start, and of copies that are gone; deletes records if that is chosen."""
        begins = self._offsets(EARLIEST, self._partitions())
        if self.link.sync_record_deletes:
            self._delete_records(begins)
        ids = {name: pair.target.id for name, pair in self._pairs.items()}
        tombstones: list[bytes] = []
        for (where, topic_id), known in list(self._journal.maps.items()):
            if ids.get(where.topic, topic_id) != topic_id:
                gone = known.sources()
                del self._journal.maps[where, topic_id]
            elif where in begins:
                before = list(known.sources())
                known.forget_below(begins[where])
                gone = before[: len(before) - len(known)]
            else:
                continue
            tombstones += [journal.run_key(journal.RunKey(where, topic_id, source)) for source in gone]
        self._send("target", self.link.journal, [(key, None) for key in tombstones])

    def _delete_records(self, begins: Mapping[TopicPartition, int]) -> None:
        wanted = {}
        for where, begin in begins.items():
            position = self._translated.get(where)
            known = self._journal.maps.get((where, self._pairs[where.topic].target.id))
            if position is None or known is None or begin == 0:
                continue
            offset = self.translate(where, begin)
            if offset is not None and offset > 0:
                wanted[self._remote(where)] = offset
        try:
            if wanted:
                self._target_admin.delete_records(wanted)
        except OttlaError as error:
            log.warning("records could not be deleted at %s: %s", self.link.target, error)

    # -- MirrorMaker's topics ----------------------------------------------------------------------

    def _sync_groups(self) -> None:
        checkpoints = self._groups.sync(self.translate)
        if self.link.emit_checkpoints:
            self._send("target", checkpoints_topic(self.link.source), checkpoints)

    def _emit_heartbeats(self) -> None:
        """As MirrorMaker: at the target for this link, at the source for the way back, where this link copies it."""
        now_ms = int(time.time() * 1000)
        self._send("target", HEARTBEATS, [formats.heartbeat(self.link.source, self.link.target, now_ms)])
        self._send("source", HEARTBEATS, [formats.heartbeat(self.link.target, self.link.source, now_ms)])

    def _emit_offset_syncs(self) -> None:
        if not self.link.emit_offset_syncs:
            return
        news = []
        for (where, topic_id), known in self._journal.maps.items():
            pair, last = self._pairs.get(where.topic), known.last()
            if pair is None or pair.target.id != topic_id or last is None:
                continue
            if self._synced.get(where) != last.source:
                self._synced[where] = last.source
                news.append(formats.offset_sync(where, last.source, last.target))
        _, topic = self._offset_syncs()
        self._send(self.link.offset_syncs_at, topic, news)

    def _offset_syncs(self) -> tuple[Admin, str]:
        if self.link.offset_syncs_at == "source":
            return self._source_admin, offset_syncs_topic(self.link.target)
        return self._target_admin, offset_syncs_topic(self.link.source)

    def _send(self, side: str, topic: str, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Without a transaction: what is lost or repeated here is said again with the next round."""
        for key, value in records:
            if side not in self._producers:
                client = self.link.source_client if side == "source" else self.link.target_client
                self._producers[side] = Producer(client)
            self._producers[side].send(topic, value, key, partition=0)

    def _is_due(self, what: str, interval_s: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + interval_s
        return True


def task_of(where: TopicPartition, tasks: int) -> int:
    """The same as long as the number of tasks stays, and even within a topic."""
    return (zlib.crc32(where.topic.encode()) + where.partition) % max(1, tasks)
