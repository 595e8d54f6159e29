"""Where a group would go on: the preview that every reset of offsets begins with."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.values import TopicPartition
from ottla.console import reading
from ottla.console.context import BadRequest, Context
from ottla.console.sampler import SHARE
from ottla.console.views.messages import time_ms

WAYS = (
    ("earliest", "to the beginning"),
    ("latest", "to the end"),
    ("offset", "to an offset"),
    ("shift", "by a number of records"),
    ("time", "to a time"),
    ("duration", "to some minutes ago"),
)


@dataclass(frozen=True, slots=True)
class Step:
    place: TopicPartition
    before: int | None
    after: int
    end: int


async def plan(context: Context, group: str, form: Mapping[str, str]) -> list[Step]:
    """The new offset of each partition, within its log."""
    admin = context.workspace.admin
    committed = await _positions(context, group)
    topic = form.get("topic", "")
    if topic:
        there = (await admin.describe_topics([topic]))[topic].partitions
        places = [TopicPartition(topic, index) for index in sorted(there)]
    else:
        known = await admin.list_topics()
        places = sorted(p for p in committed if p.topic in known and p.partition in known[p.topic].partitions)
    if not places:
        raise BadRequest(f"group {group} has committed nothing; name a topic")
    begins, ends = await reading.edges(context.workspace, places)
    targets = await _targets(context, form, places, committed, begins, ends)
    return [Step(p, committed.get(p), max(begins[p], min(targets[p], ends[p])), ends[p]) for p in places]


def is_share(context: Context, group: str) -> bool:
    """Positions of a share group are told and moved by requests of their own."""
    view = context.workspace.sampler.snapshot.groups.get(group)
    return view is not None and view.listed.type.lower() == SHARE


async def _positions(context: Context, group: str) -> dict[TopicPartition, int]:
    admin = context.workspace.admin
    if is_share(context, group):
        progress = await admin.share_progress(group)
        return {
            place: position.start_offset for place, position in progress.items() if position.start_offset >= 0
        }
    return {place: at.offset for place, at in (await admin.group_offsets(group)).items()}


async def _targets(
    context: Context,
    form: Mapping[str, str],
    places: list[TopicPartition],
    committed: Mapping[TopicPartition, int],
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, int]:
    text = form.get("to", "").strip()
    match form.get("way", ""):
        case "earliest":
            return begins
        case "latest":
            return ends
        case "offset":
            return dict.fromkeys(places, _number(text))
        case "shift":
            return {place: committed.get(place, ends[place]) + _number(text) for place in places}
        case "time":
            return await reading.at_time(context.workspace, places, time_ms(text), ends)
        case "duration":
            stamp = int(time.time() * 1000) - _number(text) * 60_000
            return await reading.at_time(context.workspace, places, stamp, ends)
    raise BadRequest("choose where the group shall go on")


def fingerprint(steps: list[Step]) -> str:
    """What was previewed is what is done: a plan that has changed meanwhile is refused."""
    text = "".join(f"{step.place}:{step.before}:{step.after};" for step in steps)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadRequest(f"{text!r} is not a number") from None
