import json
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from examples.live_dashboard.live_dashboard import Dashboard
from ottla.testing import Broker


@pytest.fixture
def address(ottla_broker: Broker) -> Iterator[str]:
    ottla_broker.create_topic("orders", partitions=2)
    dashboard = Dashboard(ottla_broker.bootstrap, "orders")
    server = dashboard.serve(0)
    thread = threading.Thread(target=dashboard.read)
    thread.start()
    assert dashboard.reading.wait(60)
    yield f"http://127.0.0.1:{server.server_port}"
    dashboard.ended.set()
    thread.join()
    server.shutdown()
    server.server_close()


def test_a_browser_sees_what_comes_after_it_looked(address: str, ottla_broker: Broker) -> None:
    with urllib.request.urlopen(f"{address}/", timeout=60) as page:
        assert b"EventSource" in page.read()
    for number in range(3):
        ottla_broker.send("orders", f"<b>{number}</b>", key="ada" if number else "bob")
    with urllib.request.urlopen(f"{address}/events", timeout=60) as events:
        assert events.headers["Content-Type"] == "text/event-stream"
        while True:
            line = events.readline().decode()
            if line.startswith("data: ") and (picture := json.loads(line[6:]))["total"] == 3:
                break
    assert picture["keys"] == {"ada": 2, "bob": 1}
    assert sorted(value for _, value in picture["last"]) == ["<b>0</b>", "<b>1</b>", "<b>2</b>"]


def test_other_pages_are_not_there(address: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{address}/../etc/passwd", timeout=60)
