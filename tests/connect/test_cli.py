"""`ottla connectors` against a worker: what people type and see."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.connect.worker.standalone import Standalone
from tests.connect.waiting import wait_for


def test_a_connector_is_created_seen_changed_paused_and_deleted(
    standalone: Callable[..., Standalone], lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"--url=http://127.0.0.1:{standalone().port}"

    def say(*words: str) -> str:
        assert main(["connectors", words[0], url, *words[1:]]) == 0
        return capsys.readouterr().out

    file = tmp_path / "source.properties"
    file.write_text(f"name=lines\nconnector.class=FileStreamSource\nfile={lines}\ntopic=lines\n")
    assert say("create", str(file), "tasks.max=1") == "created source lines\n"
    assert say("validate", str(file)) == "SETTING  PROBLEM\n"
    assert main(["connectors", "validate", url, str(file), "tasks.max=many"]) == 1
    assert "tasks.max" in capsys.readouterr().out
    wait_for(lambda: '"position": 14' in say("offsets", "lines"))
    assert say("list").splitlines()[1].split() == [
        "lines",
        "source",
        "FileStreamSource",
        "RUNNING",
        "1/1",
        "-",
    ]
    assert "RUNNING" in say("status", "lines")
    assert ["batch.size", "7"] in [
        line.split() for line in say("config", "lines", "batch.size=7").splitlines()
    ]
    assert "batch.size" not in say("config", "lines", "batch.size=")
    assert say("pause", "lines") == "lines: pause\n"
    assert json.loads(say("status", "lines", "--json"))["connector"]["state"] == "PAUSED"
    assert say("stop", "lines") == "lines: stop\n"
    assert "reset successfully" in say("offsets", "lines", "--reset")
    say("resume", "lines")
    say("restart", "lines")
    assert "FileStreamSinkConnector" in say("plugins")
    say("delete", "lines")
    assert say("list") == "CONNECTOR  TYPE  CLASS  STATE  RUNNING  FAILED\n"


def test_what_is_wrong_is_told_in_a_sentence(
    standalone: Callable[..., Standalone], capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"--url=http://127.0.0.1:{standalone().port}"
    assert main(["connectors", "status", url, "nobody"]) == 1
    assert capsys.readouterr().err == "ottla connectors: No status found for connector nobody\n"
    assert main(["connectors", "create", url, "connector.class=FileStreamSource"]) == 1
    assert "has no name" in capsys.readouterr().err
    assert main(["connectors", "list", "--url=http://127.0.0.1:1"]) == 1
    assert "no worker answers" in capsys.readouterr().err
