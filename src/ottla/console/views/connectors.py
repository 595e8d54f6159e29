"""Connectors of a Connect worker: what they do, their tasks, their settings without secrets."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ottla.console import words
from ottla.console.connectors import Connect, ConnectRefused, without_logins, without_secrets
from ottla.console.context import Context, NotFound
from ottla.console.model import (
    Block,
    Cell,
    Column,
    Figure,
    Filter,
    Form,
    Input,
    Notice,
    Notices,
    Page,
    Row,
    Table,
    Text,
)
from ottla.console.views.tables import matcher, paged, rows_max

_TONES = {"RUNNING": "good", "PAUSED": "quiet", "STOPPED": "quiet", "FAILED": "bad"}
TRACE_MAX = 16 * 1024
OFFSETS_MAX = 500


def flow_tabs(here: str) -> list[tuple[str, str, bool]]:
    """Pipelines, connectors and mirrors all move data: they share a place in the navigation."""
    names = (("Pipelines", "/pipelines"), ("Connectors", "/connectors"), ("Mirrors", "/mirrors"))
    return [(label, path, path == here) for label, path in names]


async def connectors(context: Context) -> Page:
    worker = context.console.connect
    if worker is None:
        return _none()
    by_name = await worker.connectors()
    text = context.query.get("filter", "")
    matches = matcher(text)
    chosen = [(name, description) for name, description in sorted(by_name.items()) if matches(name)]
    shown, pager = paged(context, "/connectors", chosen)
    states = [description["status"]["connector"]["state"] for _, description in chosen]
    tasks = [task["state"] for _, description in chosen for task in description["status"]["tasks"]]
    failed = states.count("FAILED") + tasks.count("FAILED")
    columns = [
        Column("connector", "Connector"),
        Column("state", "State", "state"),
        Column("type", "Type", priority=2),
        Column("class", "Class", "code", 2),
        Column("tasks", "Tasks running", "number"),
        Column("failed", "Failed", "state"),
    ]
    empty = "No connector matches." if text else "The worker has no connectors yet."
    return Page(
        "Connectors",
        "pipelines",
        subtitle=f"{words.plural(len(chosen), 'connector')}, {worker.address}",
        figures=[
            Figure("running", "Running", states.count("RUNNING")),
            Figure("tasks", "Tasks running", tasks.count("RUNNING")),
            Figure("failed", "Failed", failed, tone="bad" if failed else ""),
        ],
        blocks=[Table("connectors", columns, [_row(*named) for named in shown], empty=empty)],
        tabs=flow_tabs("/connectors"),
        filter=Filter(text, "Filter connectors, or /pattern/"),
        pager=pager,
    )


async def connector(context: Context) -> Page:
    worker, (name,) = context.console.connect, context.names
    if worker is None:
        return _none()
    status, settings, offsets = await _described(worker, name)
    kind = str(settings.get("connector.class", ""))
    hidden = without_secrets(settings, await worker.passwords(kind))
    state = status["connector"]["state"]
    tasks = status["tasks"]
    running = sum(task["state"] == "RUNNING" for task in tasks)
    traces = [
        Text(f"trace-{task['id']}", _trace(task), f"Why task {task['id']} failed")
        for task in tasks
        if task.get("trace")
    ]
    if status["connector"].get("trace"):
        traces.insert(0, Text("trace", _trace(status["connector"]), "Why it failed"))
    blocks: list[Block] = [*_buttons(context, name, state), _tasks(context, name, tasks), *traces]
    blocks += [
        _settings(hidden),
        *([_offsets(offsets, rows_max(context, OFFSETS_MAX))] if offsets is not None else []),
    ]
    group = f"connect-{name}"
    return Page(
        name,
        "pipelines",
        subtitle=f"{status.get('type', '')} {kind}".strip(),
        figures=[
            Figure("state", "State", state, tone=_TONES.get(state, "warn") if state == "FAILED" else ""),
            Figure("tasks", "Tasks running", running, f"{running} of {len(tasks)}"),
            Figure("worker", "Worker", status["connector"].get("worker_id", "")),
        ],
        blocks=blocks,
        crumbs=[("Pipelines", "/pipelines"), ("Connectors", "/connectors")],
        links=[("Its group", words.group_address(group))]
        if group in context.workspace.sampler.snapshot.groups
        else [],
    )


async def _described(
    worker: Connect, name: str
) -> tuple[dict[str, Any], dict[str, str], list[dict[str, Any]] | None]:
    try:
        status, settings, offsets = await asyncio.gather(
            worker.status(name), worker.settings(name), worker.offsets(name)
        )
    except ConnectRefused as error:
        if error.status == 404:
            raise NotFound(f"There is no connector {name}: {error}") from None
        raise
    return status, settings, offsets


def _none() -> Page:
    text = "This console has no Connect worker. Start it with --connect http://HOST:PORT; `ottla connect` is one."
    return Page(
        "Connectors",
        "pipelines",
        blocks=[Notices("none", [Notice("quiet", text)])],
        tabs=flow_tabs("/connectors"),
        live=False,
    )


def _row(name: str, description: Mapping[str, Any]) -> Row:
    status, info = description["status"], description.get("info") or {}
    state, tasks = status["connector"]["state"], status["tasks"]
    running = sum(task["state"] == "RUNNING" for task in tasks)
    failed = [str(task["id"]) for task in tasks if task["state"] == "FAILED"]
    kind = (info.get("config") or {}).get("connector.class", "")
    cells = [
        Cell(name, href=f"/connectors/{quote(name, safe='')}"),
        Cell(state, state.lower(), tone=_TONES.get(state, "warn")),
        Cell(info.get("type", "")),
        Cell(kind, kind.rpartition(".")[2]),
        Cell(running, f"{running} of {len(tasks)}"),
        Cell(failed, f"task {', '.join(failed)}" if failed else "", tone="bad" if failed else ""),
    ]
    return Row(name, cells)


def _buttons(context: Context, name: str, state: str) -> list[Form]:
    actions = (
        ["restart", "stop", "resume"] if state in ("PAUSED", "STOPPED") else ["pause", "stop", "restart"]
    )
    choice = [(action, action) for action in actions]
    inputs = [
        Input("connector", "", "hidden", name),
        Input("action", "Action", "select", choice[0][0], choice),
    ]
    return context.forms(Form("connector", "Do it", inputs, "Pause, resume, restart", folded=True))


def _tasks(context: Context, name: str, tasks: list[dict[str, Any]]) -> Table:
    rows = []
    for task in tasks:
        inputs = [Input("connector", "", "hidden", name), Input("task", "", "hidden", str(task["id"]))]
        forms = context.forms(Form("restart-task", "Restart", inputs))
        cells = [
            Cell(task["id"]),
            Cell(task["state"], task["state"].lower(), tone=_TONES.get(task["state"], "warn")),
            Cell(task.get("worker_id", "")),
            *(Cell(form=form) for form in forms),
        ]
        rows.append(Row(str(task["id"]), cells))
    columns = [
        Column("task", "Task", "number"),
        Column("state", "State", "state"),
        Column("worker", "Worker", "code", 2),
        *([Column("restart", "Restart", "action")] if context.may_change else []),
    ]
    return Table("tasks", columns, rows, "Tasks", "It has no tasks.")


def _settings(settings: Mapping[str, str]) -> Table:
    rows = [Row(name, [Cell(name), Cell(value)]) for name, value in settings.items()]
    columns = [Column("setting", "Setting", "code"), Column("value", "Value", "code")]
    return Table("settings", columns, rows, "Settings", note="Passwords and tokens are hidden.")


def _offsets(offsets: list[dict[str, Any]], shown_max: int) -> Table:
    rows = [
        Row(
            str(i),
            [
                Cell(offset.get("partition"), _pairs(offset.get("partition"))),
                Cell(offset.get("offset"), _pairs(offset.get("offset"))),
            ],
        )
        for i, offset in enumerate(offsets[:shown_max])
    ]
    columns = [Column("partition", "Partition", "code"), Column("offset", "Offset", "code")]
    return Table("offsets", columns, rows, "How far it has come", "It has committed nothing yet.")


def _pairs(values: object) -> str:
    if not isinstance(values, Mapping):
        return "-" if values is None else str(values)
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _trace(task: Mapping[str, Any]) -> str:
    text = without_logins(str(task["trace"]))
    return text if len(text) <= TRACE_MAX else text[:TRACE_MAX] + "…"
