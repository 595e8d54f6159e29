"""What both clusters say about a link: its topics, how far they are copied, how far the source goes."""

from collections.abc import Iterable, Mapping

from ottla.client.admin import Admin
from ottla.client.session import EARLIEST, LATEST, ZERO_ID, Session, commit, committed, list_offsets
from ottla.client.settings import ConsumerSettings
from ottla.client.values import GroupMetadata, TopicPartition
from ottla.mirror import positions
from ottla.mirror.errors import PositionLost, SourceChanged
from ottla.mirror.exact import link_epoch
from ottla.mirror.link import EXACT, Link
from ottla.mirror.positions import Position
from ottla.mirror.topics import Pair
from ottla.spark.news import News


class Survey:
    """Blocking; threads may share one. `pairs` are the topics to copy, by their names at the source."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._here = Session("mirror driver", ConsumerSettings.parse(link.source_client))
        self._there = Session("mirror driver", ConsumerSettings.parse(link.target_client))
        self._source, self._target = self._here.cluster(), self._there.cluster()
        self._committed_only = link.mode != EXACT  # an exact copy has open transactions, too
        self._news = News(self._here.cluster(), read_committed=self._committed_only)
        self.pairs: dict[str, Pair] = {}

    def use(self, pairs: Iterable[Pair]) -> None:
        self.pairs = {pair.source.name: pair for pair in pairs}

    def partitions(self) -> list[TopicPartition]:
        """Of the source, as far as the target has them, too."""
        return [
            TopicPartition(pair.source.name, index)
            for pair in self.pairs.values()
            for index in pair.source.partitions
            if index in pair.target.partitions
        ]

    def remote(self, where: TopicPartition) -> TopicPartition:
        return TopicPartition(self.link.remote(where.topic), where.partition)

    def look(
        self,
        known: Mapping[TopicPartition, Position] | None = None,
        partitions: list[TopicPartition] | None = None,
    ) -> tuple[dict[TopicPartition, Position], dict[TopicPartition, int]]:
        """Positions, then the source's ends: whatever a position names lies before the end.

        `known` are positions that the caller has committed: if they are of all partitions, none are asked for.
        """
        partitions = self.partitions() if partitions is None else partitions
        if known is not None and all(where in known for where in partitions):
            copied = {where: known[where] for where in partitions}
        else:
            copied = self.positions(partitions)
        ends = self.ends(partitions)
        for where, position in copied.items():
            if ends[where] < position.source:
                raise SourceChanged(
                    f"{where} of {self.link.source} ends at {ends[where]}, but {position.source} was copied: "
                    "it was cut or re-created. Compare both sides, then delete the copy to copy it again"
                )
        return copied, ends

    def positions(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Position]:
        places = {self.remote(where): where for where in partitions}
        offsets = self._there.run(committed(self._target, self.link.group, list(places)))
        return {places[place]: positions.read(place, offset) for place, offset in offsets.items()}

    def ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Of what may be copied."""
        return self._source_offsets(LATEST, partitions, stable=self._committed_only)

    def begins(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return self._source_offsets(EARLIEST, partitions)

    def target_begins(self) -> dict[TopicPartition, int]:
        """Of the copies, by source partition."""
        offsets = self.target_offsets(EARLIEST, [self.remote(where) for where in self.partitions()])
        return {where: offsets[self.remote(where)] for where in self.partitions()}

    def target_offsets(
        self, at: int, places: list[TopicPartition], *, stable: bool = False
    ) -> dict[TopicPartition, int]:
        """Of the target's partitions."""
        if not places:
            return {}
        question = list_offsets(self._target, dict.fromkeys(places, at), committed_only=stable)
        return {place: answer.offset for place, answer in self._there.run(question).items()}

    def wait_for_news(self, ends: Mapping[TopicPartition, int]) -> None:
        """Returns when the source has more than that, or after a second."""
        self._here.run(self._news.wait(dict(ends)))

    def begin_new(self, member: GroupMetadata, target: Admin) -> None:
        """Every partition has a position before its first step, so a missing one is known to be lost."""
        partitions = self.partitions()
        known = self.positions(partitions)
        new = [where for where in partitions if where not in known]
        if not new:
            return
        begins = self._exact_begins(new, target) if self.link.mode == EXACT else self._begins_of_new(new)
        offsets = {self.remote(where): position.to_offset() for where, position in begins.items()}
        self._there.run(commit(self._target, member, offsets))

    def close(self) -> None:
        self._here.close()
        self._there.close()

    def _begins_of_new(self, new: list[TopicPartition]) -> dict[TopicPartition, Position]:
        copies = [self.remote(where) for where in new]
        filled = [str(place) for place, end in self.target_offsets(LATEST, copies).items() if end]
        if filled:
            raise PositionLost(
                f"{', '.join(filled)} at {self.link.target} has records, but group {self.link.group} has no position "
                "for it: somebody else wrote there, or the position has expired. Delete the topic to copy it again, "
                "or choose other names (replication.policy.class)"
            )
        begins = self._source_offsets(EARLIEST if self.link.start == "earliest" else LATEST, new)
        ids = {name: pair.source.id for name, pair in self.pairs.items()}
        return {
            where: Position(begins[where], 0, "" if ids[where.topic] == ZERO_ID else ids[where.topic].hex())
            for where in new
        }

    def _exact_begins(self, new: list[TopicPartition], target: Admin) -> dict[TopicPartition, Position]:
        """The log at the target is the position; what is committed is only shown."""
        for topic in {self.remote(where).topic for where in new}:
            link_epoch(self.link, target, topic)
        ends = self.target_offsets(LATEST, [self.remote(where) for where in new])
        return {where: Position(ends[self.remote(where)], ends[self.remote(where)]) for where in new}

    def _source_offsets(
        self, at: int, partitions: list[TopicPartition], *, stable: bool = False
    ) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        question = list_offsets(self._source, dict.fromkeys(partitions, at), committed_only=stable)
        return {where: answer.offset for where, answer in self._here.run(question).items()}
