"""What the driver asks the brokers: which topics there are, where they begin and end; and waits for more."""

import asyncio
import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.client.errors import ClientError
from ottla.client.session import (
    EARLIEST,
    LATEST,
    ZERO_ID,
    Session,
    commit,
    list_offsets,
    missing_topic,
)
from ottla.client.settings import ConsumerSettings
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.errors import OttlaError, UnknownTopicOrPartition
from ottla.spark.errors import OptionError
from ottla.spark.news import News
from ottla.spark.offsets import Positions
from ottla.spark.options import Bound, ReadOptions

log = logging.getLogger(__name__)
KNOWN_FOR_S = 1.0  # new topics and partitions are seen this late at most


class Topics:
    """Blocking; one for each query, for as long as it runs."""

    def __init__(self, options: ReadOptions, client: Mapping[str, Any]) -> None:
        self._options = options
        self._settings = ConsumerSettings.parse(client)
        self._session = Session("spark source", self._settings)
        self._cluster = self._session.cluster()
        self._news = News(self._session.cluster(), read_committed=self._settings.read_committed)
        self._committing: asyncio.Task[None] | None = None
        self._looked = float("-inf")
        self.ids: dict[str, str] = {}
        self.partitions: list[TopicPartition] = []
        self.missing: list[str] = []  # topics that are asked for and do not exist
        self.absent: list[TopicPartition] = []  # partitions that topics do not have

    def ensure_all(self, known: Positions | None = None) -> None:
        """A mistyped topic must not be an empty result. `known`: what is gone of this is a loss of data instead."""
        known = known or {}
        missing = sorted(set(self.missing) - {partition.topic for partition in known})
        if missing:
            raise _missing(missing)
        for topic, index in self.absent:
            if TopicPartition(topic, index) not in known:
                raise UnknownTopicOrPartition(f"topic {topic} has no partition {index}, which assign names")

    def look(self, *, fresh: bool = False) -> None:
        """Takes note of the topics that are there now: their ids and partitions."""
        if fresh or time.monotonic() - self._looked > KNOWN_FOR_S:
            self._session.run(self._look())
            self._looked = time.monotonic()

    def begins(self, partitions: Iterable[TopicPartition]) -> Positions:
        return self._session.run(self._offsets(dict.fromkeys(partitions, EARLIEST)))

    def ends(self, partitions: Iterable[TopicPartition] | None = None) -> Positions:
        """Behind the last record that may be read: with read_committed the last stable offset."""
        wanted = self.partitions if partitions is None else partitions
        return self._session.run(self._offsets(dict.fromkeys(wanted, LATEST)))

    def resolve(self, bound: Bound) -> Positions:
        """Offsets for what the options say of all partitions that are there."""
        if bound.everywhere is not None:
            return self.begins(self.partitions) if bound.everywhere == EARLIEST else self.ends()
        if bound.timestamp is not None:
            return self._at_times(dict.fromkeys(self.partitions, bound.timestamp), bound)
        bounds = bound.timestamps or bound.offsets
        exact = {TopicPartition(*place): at for place, at in bounds.items()}
        self._check_complete(exact)
        if bound.timestamps:
            return self._at_times(exact, bound)
        special = {p: at for p, at in exact.items() if at < 0}
        return exact | self._session.run(self._offsets(special))

    def wait(self, positions: Positions) -> None:
        """Returns when one of the partitions has more than that, or after a second."""
        self._session.run(self._news.wait(positions))

    def commit(self, group: str, positions: Positions, *, wait: bool = False) -> None:
        """Shows progress to every tool that can read group offsets. It holds up a query only if asked to."""
        self._session.run((self._commit if wait else self._commit_soon)(group, positions))

    def close(self) -> None:
        self._session.close()

    # -- on the loop -------------------------------------------------------------------------------

    async def _look(self) -> None:
        options = self._options
        names = None if options.pattern is not None else list(options.subscribe or options.assign)
        await self._cluster.retrying(lambda: self._cluster.refresh(names), "the topics could not be listed")
        known = self._cluster.image.topics
        if options.pattern is not None:
            pattern = re.compile(options.pattern)
            names = sorted(
                name for name, topic in known.items() if not topic.internal and pattern.fullmatch(name)
            )
        assert names is not None
        self.missing = [name for name in names if name not in known]
        self.absent = [
            TopicPartition(name, index)
            for name, wanted in options.assign.items()
            for index in wanted
            if name in known and index not in known[name].partitions
        ]
        self.ids = {name: _hex(known[name].id) for name in names if name in known}
        self.partitions = [
            TopicPartition(name, index)
            for name in names
            if name in known
            for index in sorted(options.assign.get(name) or known[name].partitions)
            if index in known[name].partitions
        ]

    async def _offsets(self, wanted: Mapping[TopicPartition, int]) -> Positions:
        if not wanted:
            return {}
        committed_only = self._settings.read_committed
        listed = await list_offsets(self._cluster, wanted, committed_only=committed_only)
        return {partition: entry.offset for partition, entry in listed.items()}

    async def _commit_soon(self, group: str, positions: Positions) -> None:
        if self._committing is not None and not self._committing.done():
            return  # the next one says more
        self._committing = asyncio.ensure_future(self._commit(group, positions))

    async def _commit(self, group: str, positions: Positions) -> None:
        offsets = {partition: OffsetAndMetadata(offset) for partition, offset in positions.items()}
        try:
            await commit(self._cluster, GroupMetadata(group), offsets)
        except OttlaError as error:
            log.warning("the progress of group %s is not shown: %s", group, error)

    # -- times and options -------------------------------------------------------------------------

    def _at_times(self, wanted: Mapping[TopicPartition, int], bound: Bound) -> Positions:
        offsets = self._session.run(self._offsets(wanted))
        late = [partition for partition, offset in offsets.items() if offset < 0]
        if late and bound is self._options.starting and not bound.late_is_latest:
            text = f"{late[0]} has no record as young as {wanted[late[0]]}"
            raise OptionError(f"{text}; startingOffsetsByTimestampStrategy=latest begins at its end")
        return offsets | self.ends(late)

    def _check_complete(self, offsets: Mapping[TopicPartition, int]) -> None:
        """As Spark has it: all partitions or none, so that nothing is left out by mistake."""
        missing, unknown = set(self.partitions) - set(offsets), set(offsets) - set(self.partitions)
        if missing:
            raise OptionError(f"no offset is given for {', '.join(map(str, sorted(missing)))}")
        if unknown:
            raise ClientError(f"there is no {', '.join(map(str, sorted(unknown)))}")


def _missing(names: Sequence[str]) -> UnknownTopicOrPartition:
    if len(names) == 1:
        return missing_topic(names[0])
    return UnknownTopicOrPartition(
        f"topics {', '.join(names)} do not exist; check their names, or create them first"
    )


def _hex(topic_id: bytes) -> str:
    return "" if topic_id == ZERO_ID else topic_id.hex()
