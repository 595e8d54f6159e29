"""Groups: how far each has come, and moving it."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client import Admin
from ottla.client.admin.groups import Group, Member
from ottla.client.values import OffsetAndMetadata, TopicPartition


class Progress(NamedTuple):
    """Of a group in one partition: its commit, the log's end, its reader."""

    partition: TopicPartition
    committed: OffsetAndMetadata | None
    end: int | None  # None: the topic is gone
    owner: Member | None

    @property
    def offset(self) -> int | None:
        return None if self.committed is None else self.committed.offset

    @property
    def lag(self) -> int | None:
        return None if self.committed is None or self.end is None else self.end - self.committed.offset


def is_there(admin: Admin, group: Group) -> bool:
    """A group without members may still have offsets."""
    return group.state != "Dead" or bool(admin.group_offsets(group.id))


def progress_of(admin: Admin, group: Group) -> list[Progress]:
    """In every partition that the group has committed or owns."""
    committed = admin.group_offsets(group.id)
    owners = {partition: member for member in group.members for partition in member.assignment}
    wanted = sorted(set(committed) | set(owners))
    ends = _ends(admin, wanted)
    return [
        Progress(partition, committed.get(partition), ends.get(partition), owners.get(partition))
        for partition in wanted
    ]


def move(admin: Admin, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    admin.alter_group_offsets(group_id, {p: OffsetAndMetadata(at) for p, at in offsets.items()})


def _ends(admin: Admin, wanted: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Offsets may outlive their topic: what is gone has no end."""
    there = admin.list_topics() if wanted else {}
    alive = [p for p in wanted if p.topic in there and p.partition in there[p.topic].partitions]
    return {p: at.offset for p, at in admin.list_offsets(dict.fromkeys(alive, -1)).items()} if alive else {}
