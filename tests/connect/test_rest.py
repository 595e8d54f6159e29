"""Every REST call beside what Java's worker answered to it (fixtures/rest.json, written by rest_script)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.connect.worker.standalone import Standalone
from tests.connect.rest_script import Answer, Call, Player, calls, prepare

ANSWERS = json.loads((Path(__file__).parent / "fixtures" / "rest.json").read_text())


def test_every_answer_is_javas(standalone: Callable[..., Standalone], tmp_path: Path) -> None:
    prepare(tmp_path)
    worker = standalone()
    player = Player(f"http://127.0.0.1:{worker.port}", tmp_path)
    wrong = []
    recorded = [(Call(**each["call"]), Answer(**each["answer"])) for each in ANSWERS]
    assert [call for call, _ in recorded] == list(calls()), (
        "the script has changed: record Java's answers again"
    )
    for call, java in recorded:
        ours = player.play(call)
        expected, found = _comparable(call, java), _comparable(call, ours)
        if expected != found:
            wrong.append(f"{call.method} {call.path} {call.body}\n" + _difference(expected, found))
    assert not wrong, "\n".join(wrong)


def _difference(java: Any, ours: Any) -> str:
    """The smallest parts that differ."""
    if isinstance(java, dict) and isinstance(ours, dict):
        names = sorted(name for name in {*java, *ours} if java.get(name) != ours.get(name))
        return "\n".join(f"  {name}: {_difference(java.get(name), ours.get(name))}" for name in names)
    if isinstance(java, tuple) and isinstance(ours, tuple) and len(java) == len(ours):
        return "\n".join(_difference(*pair) for pair in zip(java, ours, strict=True) if pair[0] != pair[1])
    return f"java {java} ours {ours}"


def _comparable(call: Call, answer: Answer) -> Any:
    kind = answer.type if isinstance(answer.body, (dict, list)) and answer.code < 400 else None
    seen = answer.code, kind, answer.location
    body = answer.body
    match call.compared:
        case "status":
            return seen[0]
        case "sorted":
            return *seen, sorted(body)
        case "level":
            return *seen, body["level"]
        case "validate":
            return *seen, _settings(body)
    if isinstance(body, dict) and "message" in body:
        return *seen, {**body, "message": _sentence(body["message"])}
    if call.path.endswith("/config") and isinstance(body, list):
        return *seen, sorted(body, key=lambda each: each["name"])
    if call.path.endswith("/offsets") and isinstance(body, dict):
        return *seen, _offsets(body)
    return *seen, _without_cluster(body)


def _without_cluster(body: Any) -> Any:
    if isinstance(body, dict) and "kafka_cluster_id" in body:
        return {**body, "kafka_cluster_id": "?"}
    return body


def _offsets(body: Any) -> Any:
    """Ours also tells which file it was: rotation is noticed by it. And ours counts the marker behind the records."""
    plain = []
    for each in body["offsets"]:
        offset = {name: value for name, value in each["offset"].items() if name != "inode"}
        if offset.get("kafka_offset") == 4:
            offset["kafka_offset"] = 3
        plain.append((each["partition"], offset))
    return plain


def _settings(body: Any) -> Any:
    configs = {each["definition"]["name"]: each for each in body["configs"]}
    return body["name"], body["error_count"], body["groups"], configs


def _sentence(message: str) -> str:
    """Without the places in the text that Jackson tells, and without the list of plugins."""
    if message.startswith(("Unexpected end-of-input", "Unexpected character")):
        return "unparsable"
    message = message.partition("\n at [Source")[0]
    return re.sub(r"available connectors are: .*", "available connectors are: ...", message)
