"""Positions of groups, translated: into MirrorMaker's checkpoints, and to groups that are not active at the target."""

import logging
from collections.abc import Callable, Mapping

from ottla import errors
from ottla.client.admin import Admin
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.mirror import formats
from ottla.mirror.link import Link

log = logging.getLogger(__name__)
Translate = Callable[[TopicPartition, int], int | None]
_IDLE = ("Empty", "Dead", "")


class GroupKeeper:
    """`translate` gives the target's position of a source's, or None as long as it is not known."""

    def __init__(self, link: Link, source: Admin, target: Admin) -> None:
        self._link, self._source, self._target = link, source, target
        self._written: dict[tuple[str, TopicPartition], int] = {}
        self._emitted: dict[tuple[str, TopicPartition], tuple[int, int]] = {}

    def sync(self, translate: Translate) -> list[tuple[bytes, bytes]]:
        """Carries the positions over; the checkpoints that are news."""
        checkpoints: list[tuple[bytes, bytes]] = []
        busy = {group.id for group in self._target.list_groups() if group.state not in _IDLE}
        for surveyed in self._source.survey_groups():
            group, offsets = surveyed.group, surveyed.offsets
            if not self._link.wants_group(group.id) or group.type == "Share":
                continue
            if offsets is None:
                offsets = self._source.group_offsets(group.id)
            translated = self._translated(offsets, translate)
            checkpoints += self._checkpoints(group.id, offsets, translated)
            if self._link.sync_groups and group.id not in busy:
                self._write(group.id, {place: offset for _, place, offset in translated})
        return checkpoints

    def _translated(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], translate: Translate
    ) -> list[tuple[TopicPartition, TopicPartition, OffsetAndMetadata]]:
        """Source partition, target partition and the position there; the leader epoch is the source's, so it goes."""
        translated = []
        for where, committed in offsets.items():
            offset = translate(where, committed.offset)
            if offset is not None:
                place = TopicPartition(self._link.remote(where.topic), where.partition)
                translated.append((where, place, OffsetAndMetadata(offset, committed.metadata)))
        return translated

    def _checkpoints(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        translated: list[tuple[TopicPartition, TopicPartition, OffsetAndMetadata]],
    ) -> list[tuple[bytes, bytes]]:
        news = []
        for where, place, translation in translated:
            pair = (offsets[where].offset, translation.offset)
            if self._emitted.get((group, place)) != pair:
                self._emitted[group, place] = pair
                news.append(formats.checkpoint(group, place, *pair, translation.metadata))
        return news

    def _write(self, group: str, wanted: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Never back: a group that went on at the target keeps what it has."""
        news = {
            place: position
            for place, position in wanted.items()
            if self._written.get((group, place), -1) < position.offset
        }
        if not news:
            return
        try:
            present = self._target.group_offsets(group, list(news))
            ahead = {
                place: position
                for place, position in news.items()
                if place not in present or present[place].offset < position.offset
            }
            if ahead:
                self._target.alter_group_offsets(group, ahead)
            for place, position in news.items():
                self._written[group, place] = position.offset
        except errors.NonEmptyGroup:
            return  # it became active just now
        except OttlaError as error:
            log.warning(
                "positions of group %s could not be written at %s: %s", group, self._link.target, error
            )
