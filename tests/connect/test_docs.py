"""The tutorial of docs/connect.md does what it says, and its connector is as short as it says."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.connect.worker.standalone import Standalone
from ottla.testing import Broker
from tests.connect.waiting import wait_for

PAGE = Path(__file__).parents[2] / "docs" / "connect.md"


def test_the_tutorials_connectors_count_words(
    broker: Broker, standalone: Callable[..., Standalone], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len([line for line in program.splitlines() if line.strip()]) <= 40
    (tmp_path / "post.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    mail = tmp_path / "mail"
    mail.mkdir()
    (mail / "1.txt").write_text("hello world")
    (mail / "2.txt").write_text("hello")
    database = tmp_path / "tally.db"
    worker = standalone(
        {
            "post": {"connector.class": "post:Mailbox", "folder": str(mail), "topic": "post"},
            "tally": {"connector.class": "post:Tally", "database": str(database), "topics": "post"},
        }
    )
    wait_for(lambda: _tally(database) == {"hello": 2, "world": 1})
    (mail / "3.txt").write_text("again")
    wait_for(lambda: _tally(database) == {"hello": 2, "world": 1, "again": 1})
    worker.herder.restart("tally", include_tasks=True, only_failed=False)
    (mail / "4.txt").write_text("again")
    wait_for(lambda: _tally(database).get("again") == 2)
    assert _tally(database) == {"hello": 2, "world": 1, "again": 2}
    sys.modules.pop("post", None)


def _tally(database: Path) -> dict[str, int]:
    if not database.exists():
        return {}
    connection = sqlite3.connect(database)
    try:
        return dict(connection.execute("SELECT word, n FROM tally"))
    except sqlite3.OperationalError:
        return {}
    finally:
        connection.close()


def test_every_connector_of_the_page_exists() -> None:
    from ottla.connect import plugins

    names = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    for name in [name for name in names if name not in ("connect", "transaction")]:
        assert plugins.connector(name), name
