"""Transactions: open ones, those that hang, and which producers write to a topic."""

import asyncio
import time

from ottla.client.admin.transactions import ActiveProducer, Hanging, ListedTransaction, Transaction
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
_COLUMNS = [
    Column("id", "Transactional id"),
    Column("state", "State", "state"),
    Column("age", "Open for", "number"),
    Column("producer", "Producer", "number", 2),
    Column("partitions", "Partitions", "number", 2),
    Column("coordinator", "Coordinator", "number", 3),
]


async def transactions(context: Context) -> Page:
    text, state = context.query.get("filter", ""), context.query.get("state", "")
    matches = matcher(text)
    listed = [
        listing
        for listing in await context.workspace.admin.list_transactions()
        if matches(listing.transactional_id)
    ]
    chosen = [listing for listing in listed if not state or listing.state == state]
    chosen.sort(key=lambda listing: (listing.state != "Ongoing", listing.transactional_id))
    shown, pager = paged(context, "/transactions", chosen, 100)
    ongoing = [listing.transactional_id for listing in shown if listing.state == "Ongoing"][:DESCRIBED_MAX]
    details = await _details(context, ongoing)
    rows = [_row(listing, details.get(listing.transactional_id)) for listing in shown]
    look = context.query.get("look") == "1"
    blocks: list[Block] = await _hanging(context) if look else []
    blocks.append(Table("transactions", _COLUMNS, rows, "Transactional ids", "No transactional id is known."))
    return Page(
        "Transactions",
        "transactions",
        subtitle=words.plural(len(listed), "transactional id"),
        figures=_figures([listing.state for listing in listed]),
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


def _figures(states: list[str]) -> list[Figure]:
    return [
        Figure("open", "Open", states.count("Ongoing"), href="/transactions?state=Ongoing"),
        Figure("ending", "Ending", sum(state.startswith("Prepare") for state in states)),
        Figure("done", "Ended last", sum(state.startswith("Complete") for state in states)),
    ]


def _row(listed: ListedTransaction, details: Transaction | None) -> Row:
    age = count = None
    is_late = False
    if details is not None:
        count = len(details.partitions)
        if details.start_time_ms >= 0:
            age = time.time() * 1000 - details.start_time_ms
            is_late = age > details.timeout_ms
    cells = [
        Cell(listed.transactional_id, href=words.address("/transaction", id=listed.transactional_id)),
        Cell(listed.state, tone=_TONES.get(listed.state, "warn")),
        Cell(None if age is None else round(age), words.duration(age), tone="warn" if is_late else ""),
        Cell(listed.producer_id),
        Cell(count, "-" if count is None else str(count)),
        Cell(listed.coordinator, href=f"/brokers/{listed.coordinator}"),
    ]
    return Row(listed.transactional_id, cells)


async def transaction(context: Context) -> Page:
    identity = context.query.get("id", "")
    try:
        described: Transaction = await context.workspace.admin.describe_transaction(identity)
    except TransactionalIdNotFound:
        raise NotFound(f"There is no transactional id {identity}.") from None
    producers = (
        await context.workspace.admin.describe_producers(described.partitions) if described.partitions else {}
    )
    rows = []
    for place in described.partitions:
        mine = next((p for p in producers.get(place, ()) if p.producer_id == described.producer_id), None)
        rows.append(_partition(context, place, mine))
    columns = [
        Column("partition", "Partition"),
        Column("start", "Began at offset", "number"),
        Column("sequence", "Last sequence", "number", 2),
        Column("last", "Last record", "number", 2),
        Column("abort", "Abort", "action"),
    ]
    table = Table("partitions", columns, rows, "Partitions it has written to", "None at the moment.")
    return Page(
        identity,
        "transactions",
        "transactional id",
        blocks=[_about(described), table],
        crumbs=[("Transactions", "/transactions")],
    )


def _about(transaction: Transaction) -> Fields:
    started = (
        transaction.start_time_ms
        if transaction.start_time_ms >= 0 and transaction.state == "Ongoing"
        else None
    )
    producer = f"{transaction.producer_id}, epoch {transaction.producer_epoch}"
    since = f"{words.moment(started)} ({words.ago(started)})" if started else "-"
    fields = [
        ("State", Cell(transaction.state, tone=_TONES.get(transaction.state, "warn"))),
        ("Open since", Cell(started, since)),
        ("Time-out", Cell(transaction.timeout_ms, words.duration(transaction.timeout_ms))),
        ("Producer id and epoch", Cell([transaction.producer_id, transaction.producer_epoch], producer)),
        (
            "Coordinator",
            Cell(
                transaction.coordinator,
                f"broker {transaction.coordinator}",
                href=f"/brokers/{transaction.coordinator}",
            ),
        ),
    ]
    return Fields("about", fields)


def _partition(context: Context, place: TopicPartition, mine: ActiveProducer | None) -> Row:
    start = mine.transaction_start_offset if mine and mine.transaction_start_offset >= 0 else None
    last_ms = mine.last_timestamp_ms if mine else None
    cells = [
        Cell(str(place), href=_records_address(place, start or 0)),
        Cell(start, "-" if start is None else f"{start:,}"),
        Cell(mine.last_sequence if mine else None, str(mine.last_sequence) if mine else "-"),
        Cell(last_ms, words.ago(last_ms) if last_ms is not None and last_ms >= 0 else "-"),
        _abort_cell(context, place, start),
    ]
    return Row(str(place), cells)


async def _details(context: Context, identities: list[str]) -> dict[str, Transaction]:
    answers = await asyncio.gather(
        *(context.workspace.admin.describe_transaction(identity) for identity in identities),
        return_exceptions=True,
    )
    return {
        name: answer
        for name, answer in zip(identities, answers, strict=True)
        if isinstance(answer, Transaction)
    }


async def _hanging(context: Context) -> list[Block]:
    minutes = context.number("minutes", 15, 0, 100_000)
    try:
        hanging: list[Hanging] = await context.workspace.admin.find_hanging_transactions(
            older_than_ms=minutes * 60_000
        )
    except OttlaError as error:
        text = f"Could not look for hanging transactions: {error}"
        return [Notices("hanging-trouble", [Notice("bad", text)])]
    columns = [
        Column("partition", "Partition"),
        Column("start", "Began at offset", "number"),
        Column("producer", "Producer", "number", 2),
        Column("id", "Transactional id", priority=2),
        Column("last", "Last record", "number"),
        Column("abort", "Abort", "action"),
    ]
    inputs = [
        Input("look", "", "hidden", "1"),
        Input("minutes", "Silent for minutes", "number", str(minutes)),
    ]
    choose = Form("/transactions", "Look", inputs, "How long without a record", get=True)
    empty = f"No transaction is open that its coordinator does not know and that was silent for {minutes} minutes."
    note = (
        "Nobody will end these: readers of committed records wait at their first offset." if hanging else ""
    )
    rows = [_hanging_row(context, transaction) for transaction in hanging]
    return [choose, Table("hanging", columns, rows, "Hanging transactions", empty, note=note)]


def _hanging_row(context: Context, hanging: Hanging) -> Row:
    producer, start = hanging.producer, hanging.producer.transaction_start_offset
    cells = [
        Cell(str(hanging.partition), href=_records_address(hanging.partition, start)),
        Cell(start, f"{start:,}"),
        Cell(producer.producer_id),
        Cell(hanging.transactional_id, hanging.transactional_id or "-"),
        Cell(producer.last_timestamp_ms, words.ago(producer.last_timestamp_ms)),
        _abort_cell(context, hanging.partition, start),
    ]
    return Row(f"{hanging.partition}:{producer.producer_id}", cells)


def _records_address(place: TopicPartition, offset: int) -> str:
    return words.topic_address(
        place.topic, "messages", partition=place.partition, from_="offset", offset=offset
    )


def _abort_cell(context: Context, place: TopicPartition, start: int | None) -> Cell:
    may = start is not None and context.may_change
    return Cell(None, "", form=_abort_form(place, start)) if may and start is not None else Cell(None, "")


def _abort_form(place: TopicPartition, start: int) -> Form:
    inputs = [
        Input("topic", "", "hidden", place.topic),
        Input("partition", "", "hidden", str(place.partition)),
        Input("start_offset", "", "hidden", str(start)),
    ]
    return Form("abort-transaction", "Abort", inputs, danger=True)
