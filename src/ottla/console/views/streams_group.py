"""A streams group (KIP-1071): which member runs which task, and the topology that the tasks come from."""

from collections.abc import Iterable

from ottla.client.admin.streams_groups import StreamsGroup, StreamsMember, StreamsSubtopology, Tasks
from ottla.console import words
from ottla.console.model import Block, Cell, Column, Row, Table

SHOWN_MAX = 20


def blocks(group: StreamsGroup) -> list[Block]:
    return [_members(group), _topology(group)]


def _members(group: StreamsGroup) -> Table:
    columns = [
        Column("client", "Client"),
        Column("member", "Member", "code", 3),
        Column("host", "Host", "code", 2),
        Column("process", "Process", "code", 3),
        Column("epoch", "Epoch", "number", 2),
        Column("active", "Active tasks"),
        Column("standby", "Standby tasks", priority=2),
        Column("target", "Will run", priority=2),
    ]
    members = sorted(group.members, key=lambda member: (member.client_id, member.member_id))
    rows = [Row(member.member_id, _cells(member)) for member in members]
    note = "A task is named SUB-TOPOLOGY_PARTITION. Standby tasks keep a copy of the state."
    return Table("members", columns, rows, "Members", "Nobody is in the group at the moment.", note=note)


def _cells(member: StreamsMember) -> list[Cell]:
    active = _names(member.tasks.active)
    standby = [*_names(member.tasks.standby), *_names(member.tasks.warmup)]
    target = _names(member.target.active)
    return [
        Cell(member.client_id),
        Cell(member.member_id, tone="quiet"),
        Cell(member.host),
        Cell(member.process_id, tone="quiet"),
        Cell(member.epoch),
        Cell(active, _shown(active)),
        Cell(standby, _shown(standby), tone="quiet"),
        Cell(target, _shown(target), tone="warn") if set(target) != set(active) else Cell("", tone="quiet"),
    ]


def _topology(group: StreamsGroup) -> Table:
    columns = [
        Column("subtopology", "Sub-topology"),
        Column("tasks", "Running tasks", "number"),
        Column("sources", "Reads"),
        Column("repartition", "Repartition topics", priority=2),
        Column("changelogs", "State in", priority=2),
    ]
    rows = [Row(part.subtopology_id, _part(group, part)) for part in group.subtopologies]
    note = f"Epoch {group.topology_epoch} of the topology." if group.topology_epoch >= 0 else ""
    empty = "No member has sent a topology yet."
    return Table("topology", columns, rows, "Topology", empty, note=note)


def _part(group: StreamsGroup, part: StreamsSubtopology) -> list[Cell]:
    running = {
        number
        for member in group.members
        for subtopology_id, numbers in member.tasks.active
        if subtopology_id == part.subtopology_id
        for number in numbers
    }
    return [
        Cell(part.subtopology_id),
        Cell(len(running)),
        _topics(part.source_topics),
        _topics(part.repartition_sources),
        _topics(part.changelogs),
    ]


def _topics(names: Iterable[str]) -> Cell:
    ordered = sorted(names)
    href = words.topic_address(ordered[0]) if len(ordered) == 1 else None
    return Cell(ordered, ", ".join(ordered) or "-", href=href, tone="" if ordered else "quiet")


def _names(tasks: Tasks) -> list[str]:
    return [f"{subtopology_id}_{number}" for subtopology_id, numbers in tasks for number in sorted(numbers)]


def _shown(names: list[str]) -> str:
    if not names:
        return "-"
    shown = ", ".join(names[:SHOWN_MAX])
    return shown if len(names) <= SHOWN_MAX else f"{shown} and {len(names) - SHOWN_MAX} more"
