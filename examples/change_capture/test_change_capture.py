import sqlite3
from pathlib import Path

import pytest

from examples.change_capture.change_capture import TABLE, TOPIC, apply, capture, create_topic, prepare
from ottla.testing import Broker

Rows = list[tuple[int, str, str]]


def run(database: Path, *statements: str) -> Rows:
    store = sqlite3.connect(database)
    with store:
        for statement in statements:
            store.execute(statement)
        rows = store.execute("SELECT * FROM customers ORDER BY id").fetchall()
    store.close()
    return rows


@pytest.fixture
def shop(tmp_path: Path, ottla_broker: Broker) -> Path:
    path = tmp_path / "shop.sqlite"
    run(path, TABLE, "INSERT INTO customers VALUES (1, 'Ada', 'London'), (2, 'Bob', 'Wien')")
    prepare(path)
    create_topic(ottla_broker.bootstrap)
    return path


def test_a_copy_follows_inserts_updates_and_deletes(shop: Path, tmp_path: Path, ottla_broker: Broker) -> None:
    copy, bootstrap = tmp_path / "copy.sqlite", ottla_broker.bootstrap
    assert capture(shop, bootstrap) == 2  # what was there before
    assert apply(copy, bootstrap) == 2
    rows = run(
        shop,
        "UPDATE customers SET city = 'Graz' WHERE id = 2",
        "DELETE FROM customers WHERE id = 1",
        "INSERT INTO customers VALUES (3, 'Eve', 'Linz')",
    )
    assert capture(shop, bootstrap) == 3
    assert apply(copy, bootstrap) == 3
    assert run(copy) == rows == [(2, "Bob", "Graz"), (3, "Eve", "Linz")]
    assert apply(copy, bootstrap) == 0


def test_a_change_that_is_rolled_back_is_not_captured(shop: Path, ottla_broker: Broker) -> None:
    capture(shop, ottla_broker.bootstrap)
    store = sqlite3.connect(shop)
    store.execute("DELETE FROM customers")
    store.rollback()
    store.close()
    assert capture(shop, ottla_broker.bootstrap) == 0


def test_a_crash_between_sending_and_forgetting_changes_nothing_in_a_copy(
    shop: Path, tmp_path: Path, ottla_broker: Broker
) -> None:
    changes = sqlite3.connect(shop).execute("SELECT id, row FROM changes ORDER BY number").fetchall()
    for key, row in changes:  # sent, and then the crash
        ottla_broker.send(TOPIC, row, key=str(key))
    capture(shop, ottla_broker.bootstrap)
    apply(tmp_path / "copy.sqlite", ottla_broker.bootstrap)
    assert run(tmp_path / "copy.sqlite") == run(shop)
