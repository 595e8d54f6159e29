"""The last changes that were made through this console."""

from ottla.console import words
from ottla.console.context import Context
from ottla.console.model import Cell, Column, Page, Row, Table


async def changes(context: Context) -> Page:
    rows = [
        Row(
            f"{change.at_ms}-{i}",
            [
                Cell(change.at_ms, words.moment(change.at_ms)),
                Cell(change.viewer),
                Cell(change.action),
                Cell(change.what),
                Cell(change.outcome, tone="good" if change.outcome == "done" else "bad"),
            ],
        )
        for i, change in enumerate(context.console.change_log.changes)
    ]
    columns = [
        Column("at", "When (UTC)", "code"),
        Column("viewer", "Who"),
        Column("action", "Change"),
        Column("what", "Of what", "code", 2),
        Column("outcome", "Outcome", "state"),
    ]
    may = (
        "Changes are allowed."
        if context.may_change
        else "This console only reads; start it with --allow-changes to change things."
    )
    return Page(
        "Changes",
        "changes",
        subtitle=may,
        blocks=[Table("changes", columns, rows, empty="Nothing was changed through this console.")],
    )
