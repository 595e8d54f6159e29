"""Search in a whole topic: by key, header or value, with progress and a way to stop."""

import secrets

from ottla.client.values import TopicPartition
from ottla.console import export, reading, searching, words
from ottla.console.context import BadRequest, Context
from ottla.console.model import Block, Form, Input, Messages, Notice, Notices, Page, Progress
from ottla.console.views.tables import pattern
from ottla.console.views.topics import named_topic, tabs

_PARTS = (("any", "anywhere"), ("key", "in keys"), ("value", "in values"), ("header", "in headers"))
_MODES = (("contains", "contains"), ("exact", "is exactly"), ("pattern", "matches pattern (RE2)"))


async def search(context: Context) -> Page:
    name, snapshot = await named_topic(context)
    query = context.query
    blocks: list[Block] = [_form(context, name, len(snapshot.topics[name].partitions))]
    if query.get("q"):
        blocks += await results(context, name, sorted(snapshot.topics[name].partitions))
    return Page(
        name,
        "topics",
        "search the whole topic",
        blocks=blocks,
        tabs=tabs(name, "search"),
        crumbs=[("Topics", "/topics")],
    )


async def results(context: Context, name: str, partitions: list[int]) -> list[Block]:
    key = searching.key_of(context.query, name)
    searches = context.console.searches
    job = searches.find(context.viewer, key)
    in_file = context.query.get("format") in export.FILES
    if job is None:
        try:
            job = searches.start(context.viewer, key, name, await _task(context, name, partitions))
        except searching.TooMany as error:
            notices = Notices("busy", [Notice("warn", str(error))])
            return [notices, *([Messages("matches", [export.ending(name, str(error))])] if in_file else [])]
    rate = job.read / job.seconds if job.seconds else 0.0
    share = f"{job.done / job.total:.0%}" if job.total else "100%"
    matches = words.plural(job.found, "match", "matches")
    text = f"{share} of {words.count(job.total)} offsets, {matches}, {words.count(rate)} records/s, {job.seconds:.1f} s"
    stop = None if job.is_over else Form("stop-search", "Stop", [Input("search", "", "hidden", key)])
    blocks: list[Block] = [Progress("search", "Search", job.done, job.total, text, stop)]
    if job.is_over:
        blocks.append(Notices("end", [_end(job)]))
    empty = "Nothing found." if job.is_over else "Nothing found yet."
    matches_so_far = list(job.matches)
    if in_file and job.outcome != "all":
        why = _end(job).text if job.is_over else "The search still runs; these are the matches so far."
        matches_so_far.append(export.ending(name, why))
    blocks.append(Messages("matches", matches_so_far, "Matches", empty))
    return blocks


async def _task(context: Context, name: str, partitions: list[int]) -> dict[str, object]:
    query = context.query
    part, mode = query.get("part", "any"), query.get("mode", "contains")
    if part not in dict(_PARTS) or mode not in dict(_MODES):
        raise BadRequest(f"part={part!r}, mode={mode!r} is no way to search")
    if mode == "pattern":
        pattern(query["q"])  # refused here, with a reason, before a process is started
    if len(query["q"]) > 10_000:
        raise BadRequest("the text to search for is longer than 10,000 characters")
    if query.get("partition"):
        index = context.number("partition", 0)
        if index not in partitions:
            raise BadRequest(f"topic {name} has no partition {index}")
        partitions = [index]
    places = [TopicPartition(name, index) for index in partitions]
    begins, ends = await reading.edges(context.workspace, places)
    return {
        "topic": name,
        "needle": query["q"],
        "part": part,
        "header": query.get("header", ""),
        "mode": mode,
        "ignore_case": query.get("case") == "1",
        "ranges": [[p.partition, begins[p], ends[p]] for p in places if ends[p] > begins[p]],
        "limit": searching.MATCHES,
        "masks": [f"{rule.topic}:{'.'.join((rule.part, *rule.path))}" for rule in context.masks.rules],
        "settings": {str(k): v for k, v in context.workspace.settings.items()},
        "registry": context.console.config.registry,
    }


def _end(job: searching.Search) -> Notice:
    match job.outcome:
        case "all":
            return Notice(
                "good",
                f"The whole topic was searched: {words.count(job.read)} records in {job.seconds:.1f} s.",
            )
        case "enough":
            return Notice(
                "quiet",
                f"Stopped at {searching.MATCHES} matches. A narrower search finds what is further on.",
            )
        case "stopped":
            return Notice("warn", "Stopped before the end.")
    return Notice("bad", f"The search failed: {job.outcome}")


def _form(context: Context, name: str, count: int) -> Form:
    query = context.query
    partitions = [("", "all partitions"), *((str(i), f"partition {i}") for i in range(min(count, 1000)))]
    inputs = [
        Input("q", "Text", value=query.get("q", ""), required=True),
        Input("part", "Where", "select", query.get("part", "any"), _PARTS),
        Input("mode", "How", "select", query.get("mode", "contains"), _MODES),
        Input("header", "Header's name", value=query.get("header", ""), hint="empty: any header"),
        Input("partition", "Partition", "select", query.get("partition", ""), partitions),
        Input("case", "Ignore case", "checkbox", query.get("case", "")),
        Input("run", "", "hidden", secrets.token_hex(4)),  # the same search again is a new search
    ]
    return Form(words.topic_address(name, "search"), "Search", inputs, "Search", get=True)
