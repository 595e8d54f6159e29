"""Names of partition folders, as in Kafka: `topic-3`, and `topic-3.<hex>-delete`, `-future` or `-stray`."""

import re

from ottla.frozen import frozen

DELETE = "-delete"  # on its way out
FUTURE = "-future"  # a copy on its way in
STRAY = "-stray"  # nobody claims it
_NAME_CHARACTERS_MAX = 255
_MARKED = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)\.[0-9a-zA-Z]+(?P<kind>-delete|-future|-stray)"
)
_PLAIN = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)(?P<kind>)")


@frozen
class FolderName:
    """`topic` of a marked folder may be cut short: a file name has 255 characters at most."""

    topic: str
    partition: int
    kind: str  # "" is a partition in use


def partition_folder(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def marked_folder(topic: str, partition: int, unique: str, kind: str) -> str:
    """`unique` makes room for a second deletion of the same name: 32 hex digits of a UUID."""
    end = f"-{partition}.{unique}{kind}"
    return topic[: _NAME_CHARACTERS_MAX - len(end)] + end


def parse_folder(name: str) -> FolderName | None:
    """None for what is not a partition's folder."""
    match = _MARKED.fullmatch(name) or _PLAIN.fullmatch(name)
    if match is None:
        return None
    return FolderName(match["topic"], int(match["partition"]), match["kind"])
