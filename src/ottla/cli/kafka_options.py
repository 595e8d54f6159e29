"""What the `kafka-*` commands share: flags as Apache Kafka's tools take them, and their way to fail."""

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from ottla.cli.options import UsageError, pairs, with_file
from ottla.cli.suggestions import without_secrets

VERSION = "4.3.1"  # of Apache Kafka, whose tools these are like


_OLD_FLAGS = {
    "--zookeeper": "tools ask a broker. Write --bootstrap-server localhost:9092 instead",
    "--whitelist": "write --include instead",
    "--blacklist": "leave topics out with a pattern in --include",
    "--delete-if-marked-for-deletion": "topics are deleted at once",
}
_NEW_CONSUMER = "--new-consumer"


class Parser(argparse.ArgumentParser):
    """Exits with 1 where argparse would with 2: scripts know no other code of Kafka's tools."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Flags of older releases, as courses print them, are answered before their absence is complained about."""
        words = list(sys.argv[1:] if args is None else args)
        for flag, advice in _OLD_FLAGS.items():
            if any(word == flag or word.startswith(f"{flag}=") for word in words):
                self.exit(1, f"{self.prog}: {flag} is of older releases: {advice}\n")
        if _NEW_CONSUMER in words:
            print(f"{self.prog}: {_NEW_CONSUMER} is not needed: there is no other", file=sys.stderr)
            words.remove(_NEW_CONSUMER)
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: error: {without_secrets(message)}\n")


def add_bootstrap(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument("--bootstrap-server", "--broker-list", metavar="HOST:PORT", required=required)
    parser.add_argument("--command-config", metavar="FILE", help="client settings, name=value lines")
    parser.add_argument("--version", action="version", version=VERSION)


def settings(arguments: argparse.Namespace, **defaults: Any) -> dict[str, Any]:
    """Defaults of the command, then the file, then the bootstrap address."""
    settings = with_file(defaults, arguments)
    settings["bootstrap.servers"] = arguments.bootstrap_server
    return settings


def list_pairs(text: str | None) -> dict[str, str]:
    """`a=1,b=[2,3]`: brackets keep a list together."""
    properties: dict[str, str] = {}
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text or ""):
        properties |= {name: value.strip("[]") for name, value in pairs([part]).items()}
    return properties


def regex_of(text: str) -> re.Pattern[str]:
    """Of topics' names."""
    try:
        return re.compile(text)
    except re.error:
        raise UsageError(f"{text} is an invalid regex.") from None


def one_of(arguments: argparse.Namespace, names: Iterable[str]) -> str:
    """The one action that was asked for."""
    chosen = [name for name in names if getattr(arguments, name.replace("-", "_"), False)]
    if len(chosen) != 1:
        flags = ", ".join(f"--{name}" for name in names)
        raise UsageError(f"Command must include exactly one action: {flags}")
    return chosen[0]


def need(arguments: argparse.Namespace, *names: str) -> None:
    for name in names:
        if getattr(arguments, name.replace("-", "_")) is None:
            raise UsageError(f'Missing required argument "[{name}]"')


def refuse(arguments: argparse.Namespace, action: str, *names: str) -> None:
    """Flags that make no sense with another one. Taking them silently would do something else than was meant."""
    for name in names:
        if getattr(arguments, name.replace("-", "_")) not in (None, False, []):
            raise UsageError(f'Option "[{name}]" can\'t be used with option "[{action}]"')


def table(head: Sequence[str], rows: Iterable[Sequence[object]], least: Sequence[int], end: str = "") -> None:
    """Kafka's tables: a blank line, then columns to the left, each at least so wide (0: never wider)."""
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max([least[i], *(len(row[i]) for row in cells)]) if least[i] else 0 for i in range(len(head))]
    print()
    for row in [list(head), *cells]:
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) + end)


# What Kafka's clients say where ours says it in its own words, by our name for the error.
_SAYS = {
    "GroupIdNotFound": "The group id does not exist.",
    "NonEmptyGroup": "The group is not empty.",
    "UnknownTopicOrPartition": "This server does not host this topic-partition.",
    "GroupSubscribedToTopic": "Deleting offsets of a topic is forbidden while the consumer group is actively "
    "subscribed to it.",
}
_CALLED = {"NonEmptyGroup": "GroupNotEmpty"}


def java_error(error: Exception, text: str | None = None) -> str:
    """An error as Kafka's tools print it: scripts look for the names of Java's classes."""
    name = type(error).__name__
    message = text or _SAYS.get(name) or getattr(error, "message", None) or str(error)
    return f"org.apache.kafka.common.errors.{_CALLED.get(name, name)}Exception: {message}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
