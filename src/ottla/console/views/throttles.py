"""What a broker's replication may take, and the moves of replicas that it is for."""

from collections.abc import Mapping

from ottla.client.admin.configs import Config
from ottla.client.admin.topics import Reassignment
from ottla.client.values import TopicPartition
from ottla.console import words
from ottla.console.context import Context
from ottla.console.model import Block, Cell, Column, Row, Table

RATES = {
    "leader.replication.throttled.rate": "as leader, to followers that catch up or move",
    "follower.replication.throttled.rate": "as follower that catches up or moves",
    "replica.alter.log.dirs.io.max.bytes.per.second": "between its own folders",
}
UNLIMITED = 2**63 - 1


async def blocks(context: Context, broker: int) -> list[Block]:
    admin = context.workspace.admin
    configs = await admin.describe_configs("broker", str(broker), keys=list(RATES))
    return [_rates(configs), _moves(await admin.reassignments(), broker)]


def _rates(configs: Mapping[str, Config]) -> Table:
    rows = [
        Row(name, [Cell(name), Cell(RATES[name], tone="quiet"), _rate(configs[name].value)])
        for name in RATES
        if name in configs
    ]
    columns = [
        Column("setting", "Setting", "code"),
        Column("limits", "Limits", priority=2),
        Column("rate", "Rate", "number"),
    ]
    note = "They hold for the partitions that a topic's *.replication.throttled.replicas names."
    return Table("throttles", columns, rows, "Throttles of replication", note=note)


def _rate(value: str | None) -> Cell:
    rate = int(value or UNLIMITED)
    return (
        Cell(None, "no limit", tone="quiet") if rate >= UNLIMITED else Cell(rate, words.size(rate), unit="/s")
    )


def _moves(moves: Mapping[TopicPartition, Reassignment], broker: int) -> Table:
    rows = [
        Row(
            str(place),
            [_place(place), _brokers(move.replicas), _brokers(move.adding), _brokers(move.removing)],
        )
        for place, move in sorted(moves.items())
        if broker in (*move.replicas, *move.adding, *move.removing)
    ]
    columns = [
        Column("partition", "Partition"),
        Column("replicas", "Replicas"),
        Column("adding", "Coming"),
        Column("removing", "Going"),
    ]
    return Table(
        "moves", columns, rows, "Moves of replicas", "No replica of this broker moves at the moment."
    )


def _place(place: TopicPartition) -> Cell:
    return Cell(str(place), href=words.topic_address(place.topic))


def _brokers(brokers: tuple[int, ...]) -> Cell:
    return Cell(list(brokers), ", ".join(map(str, brokers)) or "-")
