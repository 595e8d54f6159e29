import json
from pathlib import Path
from typing import Any

import pytest

import ottla
from examples.website_activity.website_activity import (
    SESSIONS,
    VIEWS,
    funnel,
    read,
    stream_sessions,
    top_pages,
    view,
)
from ottla.testing import Broker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
]  # PySpark leaves sockets to the collector

MINUTE = 60
WALKS = {
    "ada": [(0, "/"), (1, "/product"), (3, "/cart"), (9, "/paid")],
    "bob": [(2, "/"), (4, "/product")],
    "eve": [(5, "/cart"), (6, "/")],  # the cart before the entrance is no step
}


@pytest.fixture
def broker(ottla_broker: Broker) -> Broker:
    ottla_broker.create_topic(VIEWS, partitions=2)
    ottla_broker.create_topic(SESSIONS, partitions=1)
    with ottla.Producer(bootstrap_servers=ottla_broker.bootstrap) as producer:
        for visitor, walk in WALKS.items():
            for minute, page in walk:
                view(producer, visitor, page, minute * MINUTE)
        for minute in (600, 660):  # much later: all other sessions are over
            view(producer, "zoe", "/", minute * MINUTE)
    return ottla_broker


def test_top_pages_and_funnel(spark: Any, broker: Broker) -> None:
    table = read(spark, broker.bootstrap).cache()
    assert [(page, count) for _, page, count in top_pages(table)][:2] == [("/", 3), ("/cart", 2)]
    assert funnel(table) == [("/", 4), ("/product", 2), ("/cart", 1), ("/paid", 1)]


def test_a_session_is_written_once_it_is_over(spark: Any, broker: Broker, tmp_path: Path) -> None:
    for _ in range(2):  # the second run finds nothing new, and repeats nothing
        assert stream_sessions(spark, broker.bootstrap, str(tmp_path / "checkpoint")).awaitTermination(120)
    written = [json.loads(record.value) for record in broker.records(SESSIONS)]
    found = sorted((each["visitor"], each["pages"], each["seconds"]) for each in written)
    assert found[:3] == [("ada", 4, 9 * MINUTE), ("bob", 2, 2 * MINUTE), ("eve", 2, MINUTE)]
    assert len(found) == len(set(found))
