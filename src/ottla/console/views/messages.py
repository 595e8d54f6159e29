"""Records of a topic: browse by offset, time and partition, watch them arrive, send one."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ottla.client.values import ConsumerRecord, TopicPartition
from ottla.console import decoding, export, reading, words
from ottla.console.context import BadRequest, Context
from ottla.console.model import Block, Form, Input, Message, Messages, Notice, Notices, Page, Pager
from ottla.console.schemas import Schemas
from ottla.console.views.search import results
from ottla.console.views.topics import figures, named_topic, tabs

PAGE, PAGE_MAX, DOWNLOAD_MAX = 50, 500, 10_000
TIME_MAX = 2**63 - 1
_STOPPED = (
    "Stopped at 16 MB or 8 seconds before it had all records that were asked for: ask for fewer with limit=, "
    "or for one partition."
)
_ORDERS = (
    ("newest", "newest first"),
    ("oldest", "from the beginning"),
    ("offset", "from an offset"),
    ("time", "from a time"),
)


async def messages(context: Context) -> Page:
    name, snapshot = await named_topic(context)
    partitions = sorted(snapshot.topics[name].partitions)
    live = context.query.get("live") == "1"
    by_key = bool(context.query.get("key")) and not live
    blocks, pager = await (
        _by_key(context, name, partitions) if by_key else _records(context, name, partitions)
    )
    return Page(
        name,
        "topics",
        subtitle="live" if live else f"messages, {_word(context)}",
        figures=figures(name, snapshot, context.workspace.sampler),
        blocks=[
            _choice(context, name, len(partitions)),
            *_registry_notice(context.console.schemas),
            *blocks,
            *context.forms(_produce_form(name, len(partitions))),
        ],
        tabs=tabs(name, "messages"),
        crumbs=[("Topics", "/topics")],
        pager=pager,
        links=_downloads(context, name),
        live=live or by_key,  # a page that is read stays as it is
    )


async def _by_key(context: Context, name: str, partitions: list[int]) -> tuple[list[Block], None]:
    """All records of a key: a search of the topic."""
    wanted = {
        "q": context.query["key"],
        "part": "key",
        "mode": "exact",
        "partition": context.query.get("partition", ""),
        "format": context.query.get("format", ""),
    }
    return await results(replace(context, query=wanted), name, partitions), None


async def _records(context: Context, name: str, partitions: list[int]) -> tuple[list[Block], Pager | None]:
    if context.query.get("live") == "1":
        return [Messages("records", [], empty="Waiting for new records…", tail=True)], None
    part = await _slice(context, name, partitions)
    shown = await decoded(context, part.records)
    if not part.complete and context.query.get("format") in export.FILES:
        shown.append(export.ending(name, _STOPPED))
    blocks: list[Block] = [Messages("records", shown)]
    if not part.complete:
        text = "This page stopped at 16 MB or 8 seconds before it had all records; the next page goes on."
        blocks.insert(0, Notices("cut", [Notice("warn", text)]))
    return blocks, _pager(context, name, part, len(part.records))


async def decoded(context: Context, records: Sequence[ConsumerRecord]) -> list[Message]:
    """Whole in files, cut on pages. In a thread where the registry may have to be waited for, or where values
    may be large."""
    schemas, masks = context.console.schemas, context.masks
    whole = context.query.get("format") in export.FILES
    shown_max = None if whole else decoding.SHOWN_MAX

    def decode() -> list[Message]:
        return [
            decoding.message(record, masks, shown_max=shown_max, with_command=not whole, schemas=schemas)
            for record in records
        ]

    return await asyncio.to_thread(decode) if whole or schemas is not None else decode()


def _registry_notice(schemas: Schemas | None) -> list[Block]:
    if schemas is None or not schemas.is_away:
        return []
    return [
        Notices("registry", [Notice("warn", f"Values with schemas are shown as bytes: {schemas.trouble}")])
    ]


def _downloads(context: Context, name: str) -> list[tuple[str, str]]:
    query = {key: value for key, value in context.query.items() if key not in ("format", "live")}
    return [
        (kind.upper(), words.topic_address(name, "messages", **{**query, "format": kind, "limit": 1000}))
        for kind in ("jsonl", "csv")
    ]


async def _slice(context: Context, name: str, partitions: list[int]) -> reading.Slice:
    chosen = context.query.get("partition", "")
    if chosen:
        index = context.number("partition", 0, 0, 2**31 - 1)
        if index not in partitions:
            raise BadRequest(f"topic {name} has no partition {index}; it has {len(partitions)}")
        partitions = [index]
    places = [TopicPartition(name, index) for index in partitions]
    limit = context.number("limit", PAGE, 1, DOWNLOAD_MAX if context.query.get("format") else PAGE_MAX)
    isolation = "read_committed" if context.query.get("isolation") == "read_committed" else "read_uncommitted"
    begins, ends = await reading.edges(context.workspace, places)
    order = context.query.get("from", "newest")
    try:
        if text := context.query.get("until", ""):
            stops = {
                p: min(at, ends[p]) for p, at in reading.parse_positions(name, text).items() if p in ends
            }
            return await reading.backward(context.workspace, begins, stops, limit, isolation)
        if text := context.query.get("at", ""):
            starts = {
                p: max(at, begins[p]) for p, at in reading.parse_positions(name, text).items() if p in begins
            }
            return await reading.forward(context.workspace, starts, ends, limit, isolation)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    match order:
        case "newest":
            return await reading.backward(context.workspace, begins, ends, limit, isolation)
        case "oldest":
            starts = begins
        case "offset":
            offset = context.number("offset", 0)
            starts = {p: min(max(offset, begins[p]), ends[p]) for p in places}
        case "time":
            stamp = time_ms(context.query.get("time", ""))
            starts = await reading.at_time(context.workspace, places, stamp, ends)
        case _:
            raise BadRequest(f"from={order!r} is not one of newest, oldest, offset, time")
    return await reading.forward(context.workspace, starts, ends, limit, isolation)


def time_ms(text: str) -> int:
    """Milliseconds since 1970, or a date and time (UTC unless it says otherwise)."""
    text = text.strip()
    if text.isdecimal():
        # The length first: Python refuses to read a number of thousands of digits.
        if len(text) > 19 or int(text) > TIME_MAX:
            raise BadRequest(f"time={text[:40]!r} is not between 0 and {TIME_MAX}")
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadRequest(f"time={text!r} is neither milliseconds nor like 2026-11-17T08:30") from None
    # Below zero Kafka's times have meanings of their own: -1 is the end, -2 the beginning.
    return max(0, int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))


def _pager(context: Context, name: str, part: reading.Slice, count: int) -> Pager:
    query = {k: v for k, v in context.query.items() if k in ("partition", "limit", "isolation")}

    def link(**more: object) -> str:
        return words.topic_address(name, "messages", **{**query, **more})

    older = link(until=reading.positions_text(part.starts))
    newer = link(at=reading.positions_text(part.stops))
    backwards = context.query.get("until") or (
        not context.query.get("at") and context.query.get("from", "newest") == "newest"
    )
    text = words.plural(count, "record")
    if backwards:
        newest = not context.query.get("until")
        return Pager(text, None if newest else newer, older if count else None, "Newer", "Older")
    return Pager(text, older, newer if count else None, "Older", "Newer")


def _choice(context: Context, name: str, count: int) -> Form:
    partitions = [("", "all partitions"), *((str(i), f"partition {i}") for i in range(min(count, 1000)))]
    inputs = [
        Input("from", "Order", "select", context.query.get("from", "newest"), _ORDERS),
        Input("partition", "Partition", "select", context.query.get("partition", ""), partitions),
        Input("key", "Key", "text", context.query.get("key", "")),
        Input("offset", "Offset", "number", context.query.get("offset", "")),
        Input("time", "Time (UTC)", "text", context.query.get("time", ""), hint="2026-11-17T08:30"),
        Input(
            "isolation",
            "See",
            "select",
            context.query.get("isolation", ""),
            (("", "all records"), ("read_committed", "committed only")),
        ),
        Input("live", "Live", "checkbox", "1" if context.query.get("live") == "1" else ""),
    ]
    return Form(words.topic_address(name, "messages"), "Show", inputs, "Which records", get=True)


def _word(context: Context) -> str:
    order = context.query.get("from", "newest")
    if context.query.get("key"):
        return "with this key"
    return (
        dict(_ORDERS).get(order, order)
        if not (context.query.get("at") or context.query.get("until"))
        else "continued"
    )


def _produce_form(name: str, count: int) -> Form:
    inputs = [
        Input("topic", "", "hidden", name),
        Input("key", "Key"),
        Input("value", "Value", "textarea"),
        Input("headers", "Headers", "textarea", hint="name=value lines"),
        Input("partition", "Partition", "number", hint=f"0 to {count - 1}; empty: by the key"),
        Input("null", "Value is null (a tombstone)", "checkbox"),
    ]
    return Form("produce", "Send", inputs, "Send a record", folded=True)
