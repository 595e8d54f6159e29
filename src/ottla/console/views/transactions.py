"""Transactions: open ones, those that hang, and which producers write to a topic."""

import asyncio
import time

from ottla.client.admin.transactions import Hanging, Transaction
from ottla.client.values import TopicPartition
from ottla.console import words
from ottla.console.context import Context, NotFound
from ottla.console.model import (
    Block,
    Cell,
    Column,
    Fields,
    Figure,
    Filter,
    Form,
    Input,
    Notice,
    Notices,
    Page,
    Row,
    Table,
)
from ottla.console.views.tables import matcher, paged
from ottla.errors import OttlaError, TransactionalIdNotFound

_TONES = {"Ongoing": "accent", "CompleteCommit": "good", "CompleteAbort": "quiet", "Empty": "quiet"}
DESCRIBED_MAX = 50


async def transactions(context: Context) -> Page:
    admin = context.workspace.admin
    text = context.query.get("filter", "")
    matches = matcher(text)
    listed = [each for each in await admin.list_transactions() if matches(each.transactional_id)]
    state = context.query.get("state", "")
    chosen = [each for each in listed if not state or each.state == state]
    chosen.sort(key=lambda each: (each.state != "Ongoing", each.transactional_id))
    shown, pager = paged(context, "/transactions", chosen, 100)
    ages = await _ages(
        context, [each.transactional_id for each in shown if each.state == "Ongoing"][:DESCRIBED_MAX]
    )
    now_ms = time.time() * 1000
    rows = []
    for each in shown:
        details = ages.get(each.transactional_id)
        age = now_ms - details.start_time_ms if details and details.start_time_ms >= 0 else None
        rows.append(
            Row(
                each.transactional_id,
                [
                    Cell(each.transactional_id, href=words.address("/transaction", id=each.transactional_id)),
                    Cell(each.state, tone=_TONES.get(each.state, "warn")),
                    Cell(
                        None if age is None else round(age),
                        words.duration(age),
                        tone="warn" if age and details and age > details.timeout_ms else "",
                    ),
                    Cell(each.producer_id),
                    Cell(
                        len(details.partitions) if details else None,
                        str(len(details.partitions)) if details else "-",
                    ),
                    Cell(each.coordinator, href=f"/brokers/{each.coordinator}"),
                ],
            )
        )
    columns = [
        Column("id", "Transactional id"),
        Column("state", "State", "state"),
        Column("age", "Open for", "number"),
        Column("producer", "Producer", "number", 2),
        Column("partitions", "Partitions", "number", 2),
        Column("coordinator", "Coordinator", "number", 3),
    ]
    blocks: list[Block] = []
    look = context.query.get("look") == "1"
    if look:
        blocks += await _hanging(context)
    blocks.append(Table("transactions", columns, rows, "Transactional ids", "No transactional id is known."))
    open_count = sum(each.state == "Ongoing" for each in listed)
    return Page(
        "Transactions",
        "transactions",
        subtitle=words.plural(len(listed), "transactional id"),
        figures=[
            Figure("open", "Open", open_count, href="/transactions?state=Ongoing"),
            Figure("ending", "Ending", sum(each.state.startswith("Prepare") for each in listed)),
            Figure("done", "Ended last", sum(each.state.startswith("Complete") for each in listed)),
        ],
        blocks=blocks,
        tabs=[
            ("All", words.address("/transactions", filter=text), not state and not look),
            ("Open", words.address("/transactions", filter=text, state="Ongoing"), state == "Ongoing"),
            ("Look for hanging ones", words.address("/transactions", filter=text, look=1), look),
        ],
        filter=Filter(text, "Filter transactional ids", {"state": state}),
        pager=pager,
        live=not look,  # looking asks every leader of the cluster
    )


async def transaction(context: Context) -> Page:
    identity = context.query.get("id", "")
    try:
        found: Transaction = await context.workspace.admin.describe_transaction(identity)
    except TransactionalIdNotFound:
        raise NotFound(f"There is no transactional id {identity}.") from None
    started = found.start_time_ms if found.start_time_ms >= 0 and found.state == "Ongoing" else None
    producers = await context.workspace.admin.describe_producers(found.partitions) if found.partitions else {}
    rows = []
    for place in found.partitions:
        mine = next((p for p in producers.get(place, ()) if p.producer_id == found.producer_id), None)
        start = mine.transaction_start_offset if mine and mine.transaction_start_offset >= 0 else None
        abort = _abort_form(place, start) if start is not None and context.may_change else None
        rows.append(
            Row(
                str(place),
                [
                    Cell(
                        str(place),
                        href=words.topic_address(
                            place.topic,
                            "messages",
                            partition=place.partition,
                            from_="offset",
                            offset=start or 0,
                        ),
                    ),
                    Cell(start, "-" if start is None else f"{start:,}"),
                    Cell(mine.last_sequence if mine else None, str(mine.last_sequence) if mine else "-"),
                    Cell(
                        mine.last_timestamp_ms if mine else None,
                        words.ago(mine.last_timestamp_ms) if mine and mine.last_timestamp_ms >= 0 else "-",
                    ),
                    Cell(None, "", form=abort) if abort else Cell(None, ""),
                ],
            )
        )
    columns = [
        Column("partition", "Partition"),
        Column("start", "Began at offset", "number"),
        Column("sequence", "Last sequence", "number", 2),
        Column("last", "Last record", "number", 2),
        Column("abort", "Abort", "action"),
    ]
    fields = Fields(
        "about",
        [
            ("State", Cell(found.state, tone=_TONES.get(found.state, "warn"))),
            (
                "Open since",
                Cell(started, f"{words.moment(started)} ({words.ago(started)})" if started else "-"),
            ),
            ("Time-out", Cell(found.timeout_ms, words.duration(found.timeout_ms))),
            (
                "Producer id and epoch",
                Cell(
                    [found.producer_id, found.producer_epoch],
                    f"{found.producer_id}, epoch {found.producer_epoch}",
                ),
            ),
            (
                "Coordinator",
                Cell(found.coordinator, f"broker {found.coordinator}", href=f"/brokers/{found.coordinator}"),
            ),
        ],
    )
    return Page(
        identity,
        "transactions",
        "transactional id",
        blocks=[
            fields,
            Table("partitions", columns, rows, "Partitions it has written to", "None at the moment."),
        ],
        crumbs=[("Transactions", "/transactions")],
    )


async def _ages(context: Context, identities: list[str]) -> dict[str, Transaction]:
    told = await asyncio.gather(
        *(context.workspace.admin.describe_transaction(each) for each in identities), return_exceptions=True
    )
    return {name: each for name, each in zip(identities, told, strict=True) if isinstance(each, Transaction)}


async def _hanging(context: Context) -> list[Block]:
    minutes = context.number("minutes", 15, 0, 100_000)
    try:
        found: list[Hanging] = await context.workspace.admin.find_hanging_transactions(
            older_than_ms=minutes * 60_000
        )
    except OttlaError as error:
        return [
            Notices("hanging-trouble", [Notice("bad", f"Could not look for hanging transactions: {error}")])
        ]
    rows = []
    for each in found:
        start = each.producer.transaction_start_offset
        rows.append(
            Row(
                f"{each.partition}:{each.producer.producer_id}",
                [
                    Cell(
                        str(each.partition),
                        href=words.topic_address(
                            each.partition.topic,
                            "messages",
                            partition=each.partition.partition,
                            from_="offset",
                            offset=start,
                        ),
                    ),
                    Cell(start, f"{start:,}"),
                    Cell(each.producer.producer_id),
                    Cell(each.transactional_id, each.transactional_id or "-"),
                    Cell(each.producer.last_timestamp_ms, words.ago(each.producer.last_timestamp_ms)),
                    Cell(None, "", form=_abort_form(each.partition, start))
                    if context.may_change
                    else Cell(None, ""),
                ],
            )
        )
    columns = [
        Column("partition", "Partition"),
        Column("start", "Began at offset", "number"),
        Column("producer", "Producer", "number", 2),
        Column("id", "Transactional id", priority=2),
        Column("last", "Last record", "number"),
        Column("abort", "Abort", "action"),
    ]
    choose = Form(
        "/transactions",
        "Look",
        [Input("look", "", "hidden", "1"), Input("minutes", "Silent for minutes", "number", str(minutes))],
        "How long without a record",
        get=True,
    )
    empty = f"No transaction is open that its coordinator does not know and that was silent for {minutes} minutes."
    return [
        choose,
        Table(
            "hanging",
            columns,
            rows,
            "Hanging transactions",
            empty,
            note="Nobody will end these: readers of committed records wait at their first offset."
            if rows
            else "",
        ),
    ]


def _abort_form(place: TopicPartition, start: int) -> Form:
    inputs = [
        Input("topic", "", "hidden", place.topic),
        Input("partition", "", "hidden", str(place.partition)),
        Input("start_offset", "", "hidden", str(start)),
    ]
    return Form("abort-transaction", "Abort", inputs, danger=True)
