"""`ottla queue dead`: the records that share groups, connectors and streams gave up: list, show, retry, drop.

A topic of dead letters is a queue itself. What was retried or dropped is accepted in a share group of its own, so that
it is not listed again; everything else is only looked at, and given back.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING

from ottla.cli.options import UsageError, add_command, client_settings
from ottla.cli.tables import show
from ottla.client import Admin
from ottla.client.dead_letters import Origin, has_copy, origin_of, own_headers
from ottla.errors import GroupIdNotFound

if TYPE_CHECKING:
    from ottla.client import Producer
    from ottla.client.share_consumer import ShareConsumer
    from ottla.client.values import ConsumerRecord

GROUP = "ottla-dead-letters"
_QUIET_S = 2.0  # nothing more came for so long: that is all
_SHOWN_REASON = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="dead_command", required=True, metavar="COMMAND")
    for name, text in (
        ("list", "dead letters that nobody has retried or dropped"),
        ("show", "one dead letter: its headers, key and value"),
        ("retry", "send records back to the topic they came from"),
        ("drop", "forget records for good"),
    ):
        command = add_command(commands, name, text)
        command.add_argument("topic", help="the topic of dead letters")
        if name != "list":
            needed = name == "show"
            command.add_argument("--partition", type=int, default=0, metavar="P")
            command.add_argument("--offset", type=int, metavar="N", required=needed, help="one letter")
        if name in ("retry", "drop"):
            command.add_argument("--all", action="store_true", help="all of them")
        if name == "retry":
            command.add_argument("--to", metavar="TOPIC", help="instead of the topic it came from")


def run(arguments: argparse.Namespace) -> int:
    if arguments.dead_command in ("retry", "drop") and (arguments.offset is None) != arguments.all:
        raise UsageError("name one letter with --partition and --offset, or --all")
    with Admin(client_settings(arguments)) as admin:
        admin.alter_configs("group", GROUP, set_={"share.auto.offset.reset": "earliest"})
        left = _left(admin, arguments.topic)
    with _letters(arguments, left) as (consumer, letters):
        chosen = [record for record in letters if _is_chosen(record, arguments)]
        if not chosen and arguments.dead_command != "list" and not arguments.all:
            where = f"{arguments.topic}-{arguments.partition}, offset {arguments.offset}"
            raise UsageError(f"{where}: no dead letter there, or it was retried or dropped")
        if arguments.dead_command == "list":
            _list(arguments, chosen)
        elif arguments.dead_command == "show":
            _show(chosen[0])
        elif arguments.dead_command == "drop":
            _accept(consumer, chosen)
            print(f"{len(chosen)} dropped")
        else:
            return _retry(arguments, consumer, chosen)
    return 0


def _left(admin: Admin, topic: str) -> float:
    """How many letters are left, if that is known."""
    try:
        progress = admin.share_progress(GROUP)
    except GroupIdNotFound:
        return inf
    lags = [at.lag for where, at in progress.items() if where.topic == topic]
    return sum(lags) if lags and min(lags) >= 0 else inf


@contextmanager
def _letters(
    arguments: argparse.Namespace, left: float
) -> "Iterator[tuple[ShareConsumer, list[ConsumerRecord]]]":
    """All that are left; those that are not accepted go back when this ends, and do not count as delivered."""
    from ottla.client.share_consumer import ShareConsumer

    settings = client_settings(arguments, group_id=GROUP)
    settings |= {"share.acknowledgement.mode": "explicit", "max.poll.records": 2000}
    with ShareConsumer(settings, holds=True) as consumer:
        consumer.subscribe(arguments.topic)
        letters: list[ConsumerRecord] = []
        while len(letters) < left and (records := consumer.poll(_QUIET_S)):
            letters += records
        yield consumer, sorted(letters, key=lambda record: (record.partition, record.offset))


def _is_chosen(record: "ConsumerRecord", arguments: argparse.Namespace) -> bool:
    if arguments.dead_command == "list" or getattr(arguments, "all", False):
        return True
    return (record.partition, record.offset) == (arguments.partition, arguments.offset)


def _list(arguments: argparse.Namespace, letters: "list[ConsumerRecord]") -> None:
    rows = []
    for record in letters:
        origin = origin_of(record) or Origin("", -1, -1, "", None, "no dead letter")
        source = f"{origin.topic}-{origin.partition}" if origin.topic else None
        reason = origin.reason if arguments.json else _shortened(origin.reason)
        rows.append(
            (
                record.partition,
                record.offset,
                source,
                origin.offset,
                origin.by or None,
                origin.delivery_count,
                reason,
            )
        )
    show(arguments, ("PARTITION", "OFFSET", "FROM", "FROM-OFFSET", "BY", "DELIVERIES", "REASON"), rows)


def _shortened(text: str) -> str:
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= _SHOWN_REASON else line[: _SHOWN_REASON - 1] + "…"


def _show(record: "ConsumerRecord") -> None:
    for name, value in record.headers:
        print(f"{name}: {(value or b'').decode('utf-8', 'replace')}")
    for name, data in (("key", record.key), ("value", record.value)):
        print(f"{name}: {'null' if data is None else data.decode('utf-8', 'replace')}")


def _retry(arguments: argparse.Namespace, consumer: "ShareConsumer", letters: "list[ConsumerRecord]") -> int:
    """Sent first, accepted then: what dies in between sends a record twice, and loses none."""
    from ottla.client import Producer

    sent, failed = [], 0
    with Producer(client_settings(arguments)) as producer:
        for letter in letters:
            reason = _send(arguments, producer, letter)
            if reason is None:
                sent.append(letter)
            else:
                failed += 1
                print(f"partition {letter.partition}, offset {letter.offset}: {reason}", file=sys.stderr)
        producer.flush()
    _accept(consumer, sent)
    print(f"{len(sent)} sent back")
    return 1 if failed else 0


def _send(arguments: argparse.Namespace, producer: "Producer", letter: "ConsumerRecord") -> str | None:
    """Why not, if it cannot be sent."""
    origin = origin_of(letter)
    target = arguments.to or (origin.topic if origin is not None else "")
    if not target:
        return "it does not say where it came from; name a topic with --to"
    original: ConsumerRecord | None = letter
    if origin is not None and not has_copy(letter):
        original = _original(arguments, origin)
        if original is None:
            return f"{origin.topic}-{origin.partition} does not hold offset {origin.offset} any more"
    assert original is not None
    producer.send(target, original.value, key=original.key, headers=own_headers(original))
    return None


def _original(arguments: argparse.Namespace, origin: Origin) -> "ConsumerRecord | None":
    from ottla.client import Consumer

    with Consumer(client_settings(arguments)) as consumer:
        place = (origin.topic, origin.partition)
        consumer.assign([place])
        consumer.seek(place, origin.offset)
        records = consumer.poll(arguments.timeout)
        return next((record for record in records if record.offset == origin.offset), None)


def _accept(consumer: "ShareConsumer", letters: "Iterable[ConsumerRecord]") -> None:
    for record in letters:
        consumer.acknowledge(record)
    consumer.commit()
