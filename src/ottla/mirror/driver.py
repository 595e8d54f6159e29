"""The driver of a link: alone in charge at the target, asks both clusters what to copy, hands out the work."""

import contextlib
import threading
import time
import zlib
from collections.abc import Mapping

from ottla import errors
from ottla.client import Producer
from ottla.client.admin import Admin
from ottla.client.admin.groups import Member
from ottla.client.static_member import StaticMember
from ottla.client.values import GroupMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.mirror import journal
from ottla.mirror.errors import SessionEnded, TakenOver
from ottla.mirror.keeper import Keeper
from ottla.mirror.link import Link
from ottla.mirror.positions import Position
from ottla.mirror.survey import Survey
from ottla.mirror.task import Work
from ottla.mirror.throttle import Throttle
from ottla.mirror.topics import TopicKeeper

_FORGOTTEN = (errors.UnknownMemberId, errors.IllegalGeneration)
_WAIT_S = 0.2


class Driver:
    """Blocking. `start` first; then `plan` as often as wanted, and `keep` after each round or `keep_on` once."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._member = StaticMember(link.target_client, link.group, link.group)
        self._source_admin, self._target_admin = Admin(link.source_client), Admin(link.target_client)
        self._topics = TopicKeeper(link, self._source_admin, self._target_admin)
        self.survey = Survey(link)
        self.keeper = Keeper(link, self.survey, self._source_admin, self._target_admin, self._refresh_topics)
        self.keep, self.keep_on, self.translate = self.keeper.keep, self.keeper.keep_on, self.keeper.translate
        self._throttle = Throttle(link.throttle_bytes)
        self._frozen: dict[TopicPartition, int] | None = None
        self._planning = threading.Lock()  # tasks that follow plan for themselves, side by side
        # As of the last plans.
        self.positions: dict[TopicPartition, Position] = {}
        self.ends: dict[TopicPartition, int] = {}

    # -- being in charge ---------------------------------------------------------------------------

    def start(self) -> None:
        """Takes the link over from an earlier driver, and makes what a new one needs."""
        self._topics.ensure_internal(self._target_admin, self.link.journal, journal.CONFIGS)
        self.keeper.announcements.ensure_topics(self._topics)
        self._member.join({self.link.journal})
        self._end_orphans()
        self._refresh_topics()
        self.keeper.read_journal()

    def member(self) -> GroupMetadata:
        try:
            with self._planning:
                return self._member.metadata()
        except errors.FencedInstanceId as error:
            raise TakenOver(f"another driver runs mirror {self.link.name} now: {error}") from error
        except _FORGOTTEN as error:
            raise SessionEnded(f"mirror {self.link.name} must join its group again: {error}") from error

    def leave(self) -> None:
        """At an end in good order: the link is seen as stopped at once. A successor is not put out."""
        member = self.member()
        own = Member(member.member_id, "", "", member.group_instance_id, ())
        with contextlib.suppress(OttlaError):
            self._target_admin.remove_members(self.link.group, [own])

    def close(self) -> None:
        self.keeper.close()
        self._member.close()
        self.survey.close()
        self._source_admin.close()
        self._target_admin.close()

    @property
    def keeps_on(self) -> bool:
        return self.keeper.keeps_on

    def _end_orphans(self) -> None:
        """Transactions of tasks that this layout no longer has: nobody else would abort them before they time out."""
        prefix = f"{self.link.group}."
        for transaction in self._target_admin.list_transactions(states=["Ongoing"]):
            number = transaction.transactional_id.removeprefix(prefix)
            if (
                transaction.transactional_id.startswith(prefix)
                and number.isdecimal()
                and int(number) >= self.link.tasks
            ):
                with Producer(
                    self.link.target_client, transactional_id=transaction.transactional_id
                ) as producer:
                    producer.init_transactions()

    def _refresh_topics(self) -> None:
        before = set(self.survey.pairs)
        self.survey.use(self._topics.refresh())
        if self.link.sync_topic_deletes:
            copied = {where.topic for where, _ in self.keeper.journal.maps} | before
            gone = copied - set(self.survey.pairs)
            self._topics.delete_gone({name: self.link.remote(name) for name in gone})
        self.survey.begin_new(self.member(), self._target_admin)

    # -- planning ----------------------------------------------------------------------------------

    def freeze(self) -> None:
        """Only records that exist by now are copied from here on."""
        self._refresh_topics()
        self.keeper.topics_are_frozen = True
        self._frozen = self.survey.ends(self.survey.partitions())

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
        partitions = self.survey.partitions() if task is None else self.partitions_of(task)
        copied, ends = self.survey.look(known, partitions)
        with self._planning:
            here = set(self.survey.partitions())
            self.positions = {w: position for w, position in (self.positions | copied).items() if w in here}
            self.ends = {w: end for w, end in (self.ends | ends).items() if w in here}
            works = self._works(copied, ends, alone=task is None)
        if task is None:
            return works
        return [Work(work.task, dict(ends), work.bytes_max) for work in works]

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
        return [where for where in self.survey.partitions() if task_of(where, self.link.tasks) == task]

    def _ensure_well(self) -> None:
        self.member()
        if self.keeper.failure is not None:
            raise self.keeper.failure

    def _works(
        self,
        copied: Mapping[TopicPartition, Position],
        ends: Mapping[TopicPartition, int],
        *,
        alone: bool,
    ) -> list[Work]:
        control = self.keeper.journal.control
        allowed = self._throttle.allowed(
            sum(position.bytes for position in self.positions.values()), control.throttle_bytes
        )
        if control.paused or allowed == 0:
            return []
        wanted: dict[int, dict[TopicPartition, int]] = {}
        for where, position in copied.items():
            end = ends[where] if self._frozen is None else min(ends[where], self._frozen.get(where, 0))
            if end > position.source:
                wanted.setdefault(task_of(where, self.link.tasks), {})[where] = end
        sharing = len(wanted) if alone else self.link.tasks
        size = self.link.bytes_max if allowed is None else max(1, allowed // max(1, sharing))
        return [
            Work(task, own_ends, min(size, self.link.bytes_max)) for task, own_ends in sorted(wanted.items())
        ]

    # -- waiting -----------------------------------------------------------------------------------

    def wait(self) -> None:
        """Returns when there is more at the source than at the last look, or after a second."""
        self.rest()
        if not self.ends:
            time.sleep(_WAIT_S)
        else:
            self.survey.wait_for_news(self.ends)

    def rest(self) -> None:
        """While the link is paused or has used up its share."""
        if self.keeper.journal.control.paused or self._throttle.is_exhausted:
            time.sleep(_WAIT_S)

    def behind(self) -> int:
        ends = self.ends
        return sum(max(0, ends.get(where, 0) - position.source) for where, position in self.positions.items())

    def behind_frozen(self) -> int:
        """Records that were there at `freeze` and are not copied."""
        frozen = self._frozen or {}
        return sum(
            max(0, end - self.positions[where].source)
            for where, end in frozen.items()
            if where in self.positions
        )


def task_of(where: TopicPartition, tasks: int) -> int:
    """The same as long as the number of tasks stays, and even within a topic."""
    return (zlib.crc32(where.topic.encode()) + where.partition) % max(1, tasks)
