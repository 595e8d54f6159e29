"""`ottla queue dead`: the records that share groups, connectors and streams gave up: list, show, retry, drop.

A topic of dead letters is a queue itself. What was retried or dropped is accepted in a share group of its own, so that
it is not listed again; everything else is only looked at, and given back.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.cli.options import UsageError, add_command, client_settings
from ottla.cli.tables import show
from ottla.client import Admin
from ottla.client.dead_letters import Origin, has_copy, origin_of, own_headers
from ottla.client.values import TopicPartition
from ottla.errors import GroupIdNotFound

if TYPE_CHECKING:
    from ottla.client import Producer
    from ottla.client.share_consumer import ShareConsumer
    from ottla.client.values import ConsumerRecord

GROUP = "ottla-dead-letters"
_JOIN_S = 10.0  # until the first ones come: the group has to be joined
_QUIET_S = 2.0  # nothing more came for so long: that is all
_SHOWN_REASON = 60
_LOCKS_MIN = 100  # brokers let a group lock at least so many records of a partition
_BEYOND = "a group may lock only share.partition.max.record.locks letters of a partition at once"
_END, _FIRST = -1, -2


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
        ends, left = _left(admin, arguments.topic)
    with _consumer(arguments) as consumer:
        rounds = _rounds(consumer, ends, left)
        if getattr(arguments, "all", False):
            return _settle_all(arguments, consumer, rounds)
        letters = sorted((letter for letters in rounds for letter in letters), key=_place)
        if arguments.dead_command == "list":
            _list(arguments, letters)
            if left > len(letters) >= _LOCKS_MIN:
                print(f"up to {left - len(letters)} more: {_BEYOND}", file=sys.stderr)
            return 0
        chosen = [letter for letter in letters if _place(letter) == (arguments.partition, arguments.offset)]
        if not chosen:
            where = f"{arguments.topic}-{arguments.partition}, offset {arguments.offset}"
            beyond = f"; or {_BEYOND}" if left > len(letters) >= _LOCKS_MIN else ""
            raise UsageError(f"{where}: no dead letter there, or it was retried or dropped{beyond}")
        if arguments.dead_command == "show":
            _show(chosen[0])
            return 0
        return _settle_all(arguments, consumer, [chosen])


def _left(admin: Admin, topic: str) -> tuple[dict[int, int], int]:
    """The end of each partition, and how many letters are left before it: rather too many than too few."""
    places = [TopicPartition(topic, index) for index in admin.describe_topics([topic])[topic].partitions]
    firsts = admin.list_offsets(dict.fromkeys(places, _FIRST))
    ends = admin.list_offsets(dict.fromkeys(places, _END))
    try:
        progress = admin.share_progress(GROUP)
    except GroupIdNotFound:
        progress = {}
    left = 0
    for place in places:
        lag = progress[place].lag if place in progress else -1
        left += lag if lag >= 0 else ends[place].offset - firsts[place].offset
    return {place.partition: end.offset for place, end in ends.items()}, left


def _consumer(arguments: argparse.Namespace) -> "ShareConsumer":
    """Letters that are not accepted go back when it closes, and do not count as delivered."""
    from ottla.client.share_consumer import ShareConsumer

    settings = client_settings(arguments, group_id=GROUP)
    settings |= {"share.acknowledgement.mode": "explicit", "max.poll.records": 2000}
    consumer = ShareConsumer(settings, holds=True)
    try:
        consumer.subscribe(arguments.topic)
    except BaseException:
        consumer.close()
        raise
    return consumer


def _rounds(
    consumer: "ShareConsumer", ends: Mapping[int, int], left: int
) -> "Iterator[list[ConsumerRecord]]":
    """The letters of each poll. A group locks only so many of a partition: the next ones come when these are accepted.

    What was written since is left out, or a letter that dies again would be retried for ever.
    """
    seen, patience_s = 0, max(_JOIN_S, _QUIET_S)
    while seen < left and (records := consumer.poll(patience_s)):
        patience_s = _QUIET_S
        letters = [record for record in records if record.offset < ends.get(record.partition, 0)]
        seen += len(letters)
        yield sorted(letters, key=_place)


def _settle_all(
    arguments: argparse.Namespace, consumer: "ShareConsumer", rounds: "Iterable[list[ConsumerRecord]]"
) -> int:
    if arguments.dead_command == "retry":
        return _retry(arguments, consumer, rounds)
    dropped = 0
    for letters in rounds:
        _accept(consumer, letters)
        dropped += len(letters)
    print(f"{dropped} dropped")
    return 0


def _place(letter: "ConsumerRecord") -> tuple[int, int]:
    return letter.partition, letter.offset


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


def _retry(
    arguments: argparse.Namespace, consumer: "ShareConsumer", rounds: "Iterable[list[ConsumerRecord]]"
) -> int:
    """Sent first, accepted then: what dies in between sends a record twice, and loses none."""
    from ottla.client import Producer

    sent = failed = 0
    with Producer(client_settings(arguments)) as producer:
        for letters in rounds:
            outcomes = [(letter, _send(arguments, producer, letter)) for letter in letters]
            producer.flush()
            arrived = []
            for letter, reason_of in outcomes:
                if (reason := reason_of()) is None:
                    arrived.append(letter)
                    continue
                failed += 1
                print(f"partition {letter.partition}, offset {letter.offset}: {reason}", file=sys.stderr)
            _accept(consumer, arrived)
            sent += len(arrived)
    print(f"{sent} sent back")
    return 1 if failed else 0


def _send(
    arguments: argparse.Namespace, producer: "Producer", letter: "ConsumerRecord"
) -> Callable[[], object]:
    """Asked once all is flushed, it tells why the letter could not be sent; None if it was."""
    origin = origin_of(letter)
    target = arguments.to or (origin.topic if origin is not None else "")
    if not target:
        return lambda: "it does not say where it came from; name a topic with --to"
    original: ConsumerRecord | None = letter
    if origin is not None and not has_copy(letter):
        original = _original(arguments, origin)
        if original is None:
            gone = f"{origin.topic}-{origin.partition} does not hold offset {origin.offset} any more"
            return lambda: gone
    assert original is not None
    return producer.send(target, original.value, key=original.key, headers=own_headers(original)).exception


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
