"""Brokers: folders and their sizes, settings, throttles, the APIs that they serve."""

from collections import Counter

from ottla.console import words
from ottla.console.context import Context, NotFound
from ottla.console.model import Block, Cell, Column, Figure, Form, Input, Notice, Notices, Page, Row, Table
from ottla.console.views import throttles
from ottla.console.views.overview import _brokers
from ottla.console.views.topics import settings_table
from ottla.errors import OttlaError

_PARTS = (
    ("Settings", ""),
    ("Log folders", "folders"),
    ("Throttles", "throttles"),
    ("API versions", "versions"),
)


async def brokers(context: Context) -> Page:
    snapshot = await context.workspace.sampler.fresh()
    features = ", ".join(f"{name} {level}" for name, level in sorted(snapshot.info.features.items()))
    elect = Form(
        "elect-leaders",
        "Elect preferred leaders",
        title="Balance leaders",
        folded=True,
        note="Leadership of every partition goes back to its first replica.",
    )
    return Page(
        "Brokers",
        "brokers",
        subtitle=f"cluster {snapshot.info.id or 'unknown'}{f', features: {features}' if features else ''}",
        figures=[
            Figure("brokers", "Brokers", len(snapshot.info.brokers)),
            Figure("controller", "Controller", snapshot.info.controller),
            Figure("size", "Size", sum(snapshot.sizes.values()), words.size(sum(snapshot.sizes.values()))),
            Figure("under", "Under-replicated", len(snapshot.under_replicated())),
        ],
        blocks=[_brokers(snapshot), _folders(snapshot.log_dirs), *context.forms(elect)],
    )


async def broker(context: Context) -> Page:
    name = context.names[0]
    snapshot = await context.workspace.sampler.fresh()
    described = next((broker for broker in snapshot.info.brokers if str(broker.id) == name), None)
    if described is None:
        raise NotFound(f"There is no broker {name} in the cluster at the moment.")
    part = context.query.get("part", "")
    leaders = Counter(p.leader for topic in snapshot.topics.values() for p in topic.partitions.values())
    own = [folder for folder in snapshot.log_dirs if folder.broker == described.id]
    blocks: list[Block]
    try:
        match part:
            case "versions":
                blocks = [_versions(await context.workspace.admin.api_versions(described.id))]
            case "throttles":
                blocks = await throttles.blocks(context, described.id)
            case "folders":
                blocks = [_folders(own), _largest(own)]
            case _:
                configs = await context.workspace.admin.describe_configs("broker", name, documentation=True)
                blocks = [settings_table(configs.values()), *context.forms(_settings_form(name))]
    except OttlaError as error:
        blocks = [Notices("trouble", [Notice("bad", str(error))])]
    return Page(
        f"Broker {name}",
        "brokers",
        subtitle=f"{described.host}:{described.port}{f', rack {described.rack}' if described.rack else ''}",
        figures=[
            Figure("leads", "Leads", leaders[described.id]),
            Figure(
                "size",
                "Size",
                sum(sum(folder.sizes.values()) for folder in own),
                words.size(sum(sum(folder.sizes.values()) for folder in own)),
            ),
            Figure("folders", "Log folders", len(own)),
        ],
        blocks=blocks,
        tabs=[(label, words.address(f"/brokers/{name}", part=key), key == part) for label, key in _PARTS],
        crumbs=[("Brokers", "/brokers")],
        live=part in ("folders", "throttles"),
    )


def _folders(folders: object) -> Table:
    rows = []
    for folder in folders:  # type: ignore[attr-defined]
        used = sum(folder.sizes.values())
        state = Cell(folder.error, tone="bad") if folder.error else Cell("online", tone="good")
        rows.append(
            Row(
                f"{folder.broker}:{folder.path}",
                [
                    Cell(folder.broker),
                    Cell(folder.path),
                    Cell(len(folder.sizes), words.count(len(folder.sizes))),
                    Cell(used, words.size(used)),
                    Cell(folder.usable_bytes, words.size(folder.usable_bytes)),
                    Cell(folder.total_bytes, words.size(folder.total_bytes)),
                    state,
                ],
            )
        )
    columns = [
        Column("broker", "Broker", "number"),
        Column("path", "Folder", "code"),
        Column("replicas", "Replicas", "number", 2),
        Column("used", "Logs", "number"),
        Column("free", "Free", "number", 2),
        Column("total", "Disk", "number", 3),
        Column("state", "State", "state"),
    ]
    return Table(
        "folders",
        columns,
        rows,
        "Log folders",
        "The brokers do not tell about their folders, or you may not see them.",
    )


def _largest(folders: object) -> Table:
    sizes = [(size, where) for folder in folders for where, size in folder.sizes.items()]  # type: ignore[attr-defined]
    rows = [
        Row(
            str(where),
            [Cell(str(where), href=words.topic_address(where.topic)), Cell(size, words.size(size))],
        )
        for size, where in sorted(sizes, reverse=True)[:100]
    ]
    return Table(
        "largest",
        [Column("partition", "Partition"), Column("size", "Size", "number")],
        rows,
        "Largest replicas",
    )


def _versions(versions: dict[str, tuple[int, int]]) -> Table:
    rows = [Row(name, [Cell(name), Cell(low), Cell(high)]) for name, (low, high) in sorted(versions.items())]
    return Table(
        "versions",
        [Column("api", "API"), Column("low", "From", "number"), Column("high", "To", "number")],
        rows,
        "APIs that this broker serves",
    )


def _settings_form(name: str) -> Form:
    inputs = [
        Input("broker", "", "hidden", name),
        Input("setting", "Setting", required=True),
        Input("value", "Value", hint="empty: back to what it was started with"),
    ]
    return Form("set-broker", "Change", inputs, "Change a setting", folded=True)
