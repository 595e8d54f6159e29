"""A large request part by part: each part is a request of its own to its handler, and their answers become one.

For requests that ask the same of many things and are answered for each. Others have their turn between two parts. A
part that fails is refused; the others keep their answers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ottla import errors
from ottla.broker.requests.context import Context
from ottla.broker.requests.metering import THROTTLE
from ottla.broker.routes import Handler
from ottla.broker.stepping import STEP_BYTES
from ottla.metadata.topics import PARTITIONS_PER_REQUEST_MAX
from ottla.wire.schema import Message

PART_ELEMENTS = 500  # takes about ten milliseconds
CREATED_AT_ONCE = 50  # topics, which take longer
COMMITTED_AT_ONCE = 2_000  # offsets, which take less time; each part is a batch in the log
Refuse = Callable[[Message, Exception], Message]


@dataclass(frozen=True, slots=True)
class Split:
    """Where a request has its things, and where the answers to them are."""

    asked: str
    answers: str
    size: int = PART_ELEMENTS
    nested: str = ""  # the things are in lists of this name: the partitions of topics
    asked_before: str = ""  # where old versions have them
    creates_topics: bool = False

    def where(self, request: Message) -> str:
        return self.asked if not self.asked_before or getattr(request, self.asked) else self.asked_before


SPLITS = {
    "CreateTopics": Split("topics", "topics", CREATED_AT_ONCE, creates_topics=True),
    "DeleteTopics": Split("topics", "responses", asked_before="topic_names"),
    "CreatePartitions": Split("topics", "results"),
    "AlterConfigs": Split("resources", "responses"),
    "IncrementalAlterConfigs": Split("resources", "responses"),
    "CreateAcls": Split("creations", "results"),
    "DeleteAcls": Split("filters", "filter_results"),
    "AlterClientQuotas": Split("entries", "entries"),
    "DescribeGroups": Split("groups", "groups"),
    "ConsumerGroupDescribe": Split("group_ids", "groups"),
    "DeleteGroups": Split("groups_names", "results"),
    "OffsetFetch": Split("groups", "groups"),
    "OffsetCommit": Split("topics", "topics", COMMITTED_AT_ONCE, nested="partitions"),
    "TxnOffsetCommit": Split("topics", "topics", COMMITTED_AT_ONCE, nested="partitions"),
    "FindCoordinator": Split("coordinator_keys", "coordinators"),
    "DescribeTransactions": Split("transactional_ids", "transaction_states"),
    "ElectLeaders": Split("topic_partitions", "replica_election_results", nested="partitions"),
    "AlterPartitionReassignments": Split("topics", "responses", nested="partitions"),
    "ListPartitionReassignments": Split("topics", "topics", nested="partition_indexes"),
}


def in_parts(api_name: str, handler: Handler, refuse: Refuse) -> Handler:
    """The handler, for requests of any size."""
    split = SPLITS.get(api_name)
    return handler if split is None else _in_parts(split, handler, refuse)


def _in_parts(split: Split, handler: Handler, refuse: Refuse) -> Handler:
    async def run(request: Message, context: Context) -> Message:
        where = split.where(request)
        things = getattr(request, where) or []
        if _size(things, split) <= split.size:
            return await handler(request, context)  # type: ignore[no-any-return]
        whole: Message | None = None
        partitions_left = PARTITIONS_PER_REQUEST_MAX
        for part in _parts(things, split):
            setattr(request, where, part)
            try:
                if split.creates_topics:
                    partitions_left -= sum(map(_partitions, part))
                    if partitions_left < 0:
                        raise errors.PolicyViolation("Excessively large number of partitions per request.")
                answer: Message = await handler(request, context)
            except Exception as error:
                answer = refuse(request, error)
            if getattr(answer, "error_code", 0):
                return answer  # it concerns all of them
            whole = answer if whole is None else _joined(whole, answer, split)
            await context.pace(STEP_BYTES)
        assert whole is not None
        return whole

    return run


def _partitions(topic: Any) -> int:
    return int(max(len(topic.assignments), topic.num_partitions, 1))


def _size(things: list[Any], split: Split) -> int:
    nested = sum(len(getattr(thing, split.nested)) for thing in things) if split.nested else 0
    return len(things) + nested


def _parts(things: list[Any], split: Split) -> Iterator[list[Any]]:
    if split.nested:
        yield from _nested_parts(things, split)
        return
    # What is named twice stays together: handlers refuse it.
    named: dict[object, list[Any]] = {}
    for thing in things:
        named.setdefault(_name(thing), []).append(thing)
    part: list[Any] = []
    for same_name in named.values():
        part += same_name
        if len(part) >= split.size:
            yield part
            part = []
    if part:
        yield part


def _name(thing: object) -> object:
    """A string, or the strings and numbers of a message."""
    if not isinstance(thing, Message):
        return thing
    return tuple(
        getattr(thing, field.name)
        for field in thing.FIELDS
        if not field.array and (field.kind in ("string", "uuid") or field.name == "resource_type")
    )


def _nested_parts(things: list[Any], split: Split) -> Iterator[list[Any]]:
    part, size = [], 0
    for thing in things:
        inner = getattr(thing, split.nested)
        for start in range(0, len(inner) or 1, split.size):
            cut = _with(thing, split.nested, inner[start : start + split.size])
            part.append(cut)
            size += 1 + len(getattr(cut, split.nested))
            if size >= split.size:
                yield part
                part, size = [], 0
    if part:
        yield part


def _with(message: Message, name: str, value: list[Any]) -> Message:
    values = {name: getattr(message, name) for name in message.__slots__}
    return type(message)(**(values | {name: value}))


def _joined(whole: Message, answer: Message, split: Split) -> Message:
    """A topic of which the one has the first partitions and the other the next ones is answered once."""
    before, after = getattr(whole, split.answers), getattr(answer, split.answers)
    if split.nested and before and after and _name(before[-1]) == _name(after[0]):
        lists = [field.name for field in before[-1].FIELDS if field.array]
        joined = {name: [*chain(getattr(before[-1], name), getattr(after[0], name))] for name in lists}
        for name, values in joined.items():
            setattr(before[-1], name, values)
        after = after[1:]
    before.extend(after)
    throttles = [getattr(message, THROTTLE, 0) for message in (whole, answer)]
    if max(throttles):
        whole.throttle_time_ms = max(throttles)  # type: ignore[attr-defined]
    return whole
