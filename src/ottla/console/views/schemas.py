"""Schemas of the registry: subjects, versions with what changed between them, compatibility."""

import asyncio
import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ottla.console import json_text, words
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
from ottla.console.schemas import Schemas
from ottla.console.views.tables import matcher, ordered, paged
from ottla.serialization.registry_client import RegistryRefused

LEVELS = (
    "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE",
)  # fmt: skip
TYPES = ("AVRO", "PROTOBUF", "JSON")
TEXT_MAX = 256 * 1024
_KEYS = {
    "subject": lambda version: version["subject"],
    "type": lambda version: version.get("schemaType") or "AVRO",
    "version": lambda version: version["version"],
    "id": lambda version: version["id"],
}


async def schemas(context: Context) -> Page:
    registry = context.console.schemas
    if registry is None:
        return _none()
    latest, level, mode = await asyncio.gather(
        _ask(registry, "/schemas?latestOnly=true"), _ask(registry, "/config"), _ask(registry, "/mode")
    )
    text, sort = context.query.get("filter", ""), context.query.get("sort", "subject")
    matches = matcher(text)
    chosen = [version for version in latest if matches(version["subject"])]
    shown, pager = paged(context, "/schemas", ordered(chosen, sort, _KEYS))
    columns = [
        Column("subject", "Subject", sortable=True),
        Column("type", "Type", sortable=True),
        Column("version", "Latest version", "number", sortable=True),
        Column("id", "Id", "number", 2, sortable=True),
    ]
    empty = "No subject matches." if text else "No schema is registered yet."
    return Page(
        "Schemas",
        "schemas",
        subtitle=f"{words.plural(len(chosen), 'subject')}{' that match' if text else ''}, {registry.address}",
        figures=[
            Figure("level", "Compatibility", level.get("compatibilityLevel")),
            Figure("mode", "Mode", mode.get("mode")),
        ],
        blocks=[
            Table("subjects", columns, [_row(version) for version in shown], empty=empty, sort=sort),
            *context.forms(_register_form(), _level_form("", level.get("compatibilityLevel", ""))),
        ],
        filter=Filter(text, "Filter subjects, or /pattern/", {"sort": context.query.get("sort", "")}),
        pager=pager,
        live=False,
    )


async def subject(context: Context) -> Page:
    registry, (name,) = context.console.schemas, context.names
    if registry is None:
        return _none()
    path = f"/subjects/{quote(name, safe='')}/versions"
    numbers = sorted(await _ask(registry, path))
    number = context.number("version", numbers[-1], 1)
    before = max((other for other in numbers if other < number), default=None)
    shown, level, mode, *previous = await asyncio.gather(
        _ask(registry, f"{path}/{number}"),
        _ask(registry, f"/config/{quote(name, safe='')}?defaultToGlobal=true"),
        _ask(registry, f"/mode/{quote(name, safe='')}?defaultToGlobal=true"),
        *([_ask(registry, f"{path}/{before}")] if before is not None else []),
    )
    blocks: list[Block] = [_text(shown)]
    if previous:
        blocks.append(_difference(previous[0], shown))
    blocks += [_references(shown)] if shown.get("references") else []
    compatibility = level.get("compatibilityLevel", "")
    blocks += context.forms(_register_form(name, shown), _level_form(name, compatibility))
    return Page(
        name,
        "schemas",
        subtitle=f"{_type(shown)}, version {number} of {words.plural(len(numbers), 'version')}",
        figures=[
            Figure("id", "Id", shown["id"], href=words.address("/schema", id=shown["id"])),
            Figure("version", "Version", number),
            Figure("level", "Compatibility", compatibility),
            Figure("mode", "Mode", mode.get("mode")),
        ],
        blocks=blocks,
        tabs=[
            (f"v{other}", subject_address(name, version=other), other == number) for other in numbers[-20:]
        ],
        crumbs=[("Schemas", "/schemas")],
        live=False,
    )


async def by_id(context: Context) -> Page:
    """The schema that a record names, and where it is registered."""
    registry = context.console.schemas
    if registry is None:
        return _none()
    number = context.number("id", 0)
    shown, places = await asyncio.gather(
        _ask(registry, f"/schemas/ids/{number}"), _ask(registry, f"/schemas/ids/{number}/versions")
    )
    rows = [
        Row(
            f"{place['subject']}/{place['version']}",
            [
                Cell(place["subject"], href=subject_address(place["subject"], version=place["version"])),
                Cell(place["version"]),
            ],
        )
        for place in places
    ]
    columns = [Column("subject", "Subject"), Column("version", "Version", "number")]
    return Page(
        f"Schema {number}",
        "schemas",
        subtitle=_type(shown),
        blocks=[Table("places", columns, rows, "Registered as"), _text(shown)],
        crumbs=[("Schemas", "/schemas")],
        live=False,
    )


def subject_address(name: str, **parameters: object) -> str:
    return words.address(f"/schemas/{quote(name, safe='')}", parameters)


def _none() -> Page:
    text = (
        "This console has no schema registry. Start it with --registry http://HOST:PORT, or a broker with "
        "`ottla start --registry --console`."
    )
    return Page("Schemas", "schemas", blocks=[Notices("none", [Notice("quiet", text)])], live=False)


async def _ask(registry: Schemas, path: str) -> Any:
    try:
        return await asyncio.to_thread(registry.client.ask, "GET", path)
    except RegistryRefused as error:
        if error.status == 404:
            raise NotFound(f"The registry says: {error}") from None
        raise


def _row(version: Mapping[str, Any]) -> Row:
    name = version["subject"]
    cells = [
        Cell(name, href=subject_address(name)),
        Cell(_type(version)),
        Cell(version["version"]),
        Cell(version["id"], href=words.address("/schema", id=version["id"])),
    ]
    return Row(name, cells)


def _type(version: Mapping[str, Any]) -> str:
    return {"AVRO": "Avro", "PROTOBUF": "Protobuf", "JSON": "JSON Schema"}.get(
        version.get("schemaType") or "AVRO", str(version.get("schemaType"))
    )


def _text(version: Mapping[str, Any]) -> Text:
    return Text("schema", pretty(version["schema"]), "Schema")


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Text:
    lines = difflib.unified_diff(
        pretty(before["schema"]).splitlines(),
        pretty(after["schema"]).splitlines(),
        f"version {before['version']}",
        f"version {after['version']}",
        lineterm="",
    )
    text = "\n".join(lines) or "Only names of fields' order or metadata differ."
    return Text("difference", text, f"Since version {before['version']}", is_diff=True)


def _references(version: Mapping[str, Any]) -> Table:
    rows = [
        Row(
            reference["name"],
            [
                Cell(reference["name"]),
                Cell(
                    reference["subject"],
                    href=subject_address(reference["subject"], version=reference["version"]),
                ),
                Cell(reference["version"]),
            ],
        )
        for reference in version["references"]
    ]
    columns = [Column("name", "Name"), Column("subject", "Subject"), Column("version", "Version", "number")]
    return Table("references", columns, rows, "Refers to")


def pretty(schema: str) -> str:
    """JSON with a line for each field, so that two versions can be compared; other texts as they are."""
    if len(schema) > TEXT_MAX:
        return schema[:TEXT_MAX] + "…"
    try:
        return json_text.dumps(json.loads(schema), indent=2)
    except (ValueError, RecursionError):
        return schema


def _register_form(name: str = "", version: Mapping[str, Any] | None = None) -> Form:
    kind = (version or {}).get("schemaType") or "AVRO"
    inputs = [
        Input("subject", "Subject", "hidden" if name else "text", name, required=True),
        Input("type", "Type", "select", kind, _options(TYPES)),
        Input("schema", "Schema", "textarea", pretty(version["schema"]) if version else "", required=True),
        Input("check", "Only check whether it is compatible", "checkbox", "1"),
    ]
    title = "Register a new version" if name else "Register a schema"
    return Form("register-schema", "Check or register", inputs, title, folded=True)


def _level_form(name: str, level: str) -> Form:
    inputs = [
        Input("subject", "", "hidden", name),
        Input("level", "Level", "select", level, _options(LEVELS)),
    ]
    title = (
        "Compatibility of this subject" if name else "Compatibility of subjects without a level of their own"
    )
    return Form("set-level", "Set", inputs, title, folded=True)


def _options(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, name) for name in names]
