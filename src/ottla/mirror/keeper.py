"""What a link does beside its records: topics, the map of offsets, groups, MirrorMaker's topics, deletions."""

import logging
import threading
import time
from collections.abc import Callable, Mapping

from ottla.client.admin import Admin
from ottla.client.columnar import ColumnarReader
from ottla.client.columnar.ranges import Range
from ottla.client.session import EARLIEST, LATEST
from ottla.client.values import TopicPartition
from ottla.errors import OttlaError
from ottla.mirror.announcements import Announcements
from ottla.mirror.groups import GroupKeeper
from ottla.mirror.journal import Journal
from ottla.mirror.link import EXACT, Link
from ottla.mirror.positions import Position
from ottla.mirror.runs import Run, Translator
from ottla.mirror.survey import Survey

log = logging.getLogger(__name__)
_PRUNE_S = 60.0
_KEEP_S = 0.5
_CLOSE_S = 10.0
_COMMIT_S, _POLL_S = 1.0, 0.01


class Keeper:
    """`keep` does what is due. `keep_on` calls it from a thread of its own: records need not wait for groups."""

    def __init__(
        self, link: Link, survey: Survey, source: Admin, target: Admin, refresh_topics: Callable[[], None]
    ) -> None:
        self._link, self._survey, self._target = link, survey, target
        self._refresh_topics = refresh_topics
        self._announcements = Announcements(link, source, target)
        self._groups = GroupKeeper(link, source, target)
        self._reader = ColumnarReader(link.target_client)
        self._journal_at = 0
        self._due: dict[str, float] = {}
        # Groups are translated by positions of a moment whose runs are all known.
        self._positions: dict[TopicPartition, Position] = {}
        self._begins: dict[TopicPartition, int] = {}  # of the copies, in mode exact
        self._keeping, self._closed = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self.journal = Journal()
        self.announcements = self._announcements
        self.topics_are_frozen = False
        self.failure: Exception | None = None  # of the thread

    def keep(self, *, whole: bool = False) -> None:
        """Each thing when it is due, or all (`whole`)."""
        with self._keeping:
            if self._is_due("topics", self._link.refresh_topics_s) and not self.topics_are_frozen:
                self._refresh_topics()
            self.read_journal()
            if whole:
                self._due.clear()
            if self._link.emit_heartbeats and self._is_due("heartbeats", self._link.heartbeats_s):
                self._announcements.heartbeat()
            if self._is_due("groups", self._link.sync_groups_s):
                self._keep_groups()
            if self._is_due("prune", _PRUNE_S):
                self._prune()

    def keep_on(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_on, name="mirror keeper", daemon=True)
            self._thread.start()

    @property
    def keeps_on(self) -> bool:
        return self._thread is not None

    def translate(self, where: TopicPartition, offset: int) -> int | None:
        """The target's position of a source's. One that is not copied yet counts as the end of what is, and in mode
        exact one that has expired as the begin of the copy."""
        pair, position = self._survey.pairs.get(where.topic), self._positions.get(where)
        if pair is None or position is None:
            return None
        if self._link.mode == EXACT:
            return max(self._begins.get(where, 0), min(offset, position.source))
        if offset >= position.source:
            return position.target
        if position.runs and offset >= position.runs[0].source:
            latest = Translator()
            latest.add(position.runs)
            return latest.translate(offset)
        known = self.journal.maps.get((where, pair.target.id))
        return None if known is None else known.translate(offset)

    def _last_runs(self) -> dict[TopicPartition, Run]:
        ids = {name: pair.target.id for name, pair in self._survey.pairs.items()}
        lasts = {
            where: last
            for (where, topic_id), known in self.journal.maps.items()
            if ids.get(where.topic) == topic_id and (last := known.last()) is not None
        }
        return lasts | {
            where: position.runs[-1]
            for where, position in self._positions.items()
            if position.runs and where.topic in ids
        }

    def read_journal(self, *, await_commits: bool = False) -> None:
        """`await_commits`: a commit is answered before all of its partitions have its marker, so the journal's may come
        after the one of a position that is known already. What is written by now is waited for, a second at most."""
        where = TopicPartition(self._link.journal, 0)
        written = self._survey.target_offsets(LATEST, [where])[where] if await_commits else 0
        end = self._survey.target_offsets(LATEST, [where], stable=True)[where]
        deadline = time.monotonic() + _COMMIT_S
        while end < written and time.monotonic() < deadline:
            self._closed.wait(_POLL_S)
            end = self._survey.target_offsets(LATEST, [where], stable=True)[where]
        if self._journal_at == 0:
            self._journal_at = self._survey.target_offsets(EARLIEST, [where])[where]
        if end > self._journal_at:
            for rows in self._reader.read([Range(*where, self._journal_at, end)]):
                for key, value in zip(
                    rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True
                ):
                    self.journal.apply(key, value)
            self._journal_at = end

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
        self._announcements.close()
        self._reader.close()

    def _keep_on(self) -> None:
        while not self._closed.wait(_KEEP_S):
            try:
                self.keep()
            except Exception as error:
                if not self._closed.is_set():
                    self.failure = error
                return

    def _is_due(self, what: str, interval_s: float) -> bool:
        now = time.monotonic()
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + interval_s
        return True

    def _keep_groups(self) -> None:
        self._positions, _ = self._survey.look()
        if self._link.mode == EXACT:
            self._begins = self._survey.target_begins()
        self.read_journal(await_commits=True)  # after the positions: it has the runs of all of them
        self._announcements.checkpoints(self._groups.sync(self.translate))
        self._announcements.offset_syncs(self._last_runs())

    # -- what is old -------------------------------------------------------------------------------

    def _prune(self) -> None:
        """Forgets runs below the source's log start, and of copies that are gone; deletes records if that is chosen."""
        begins = self._survey.begins(self._survey.partitions())
        if self._link.sync_record_deletes:
            self._delete_records(begins)
        ids = {name: pair.target.id for name, pair in self._survey.pairs.items()}
        tombstones: list[bytes] = []
        for where, topic_id in list(self.journal.maps):
            if ids.get(where.topic, topic_id) != topic_id:
                tombstones += self.journal.forget_map((where, topic_id))
            elif where in begins:
                tombstones += self.journal.forget_below((where, topic_id), begins[where])
        self._announcements.send("target", self._link.journal, [(key, None) for key in tombstones])

    def _delete_records(self, begins: Mapping[TopicPartition, int]) -> None:
        wanted = {}
        for where, begin in begins.items():
            offset = self.translate(where, begin) if begin else None
            if offset:
                wanted[self._survey.remote(where)] = offset
        try:
            if wanted:
                self._target.delete_records(wanted)
        except OttlaError as error:
            log.warning("records could not be deleted at %s: %s", self._link.target, error)
