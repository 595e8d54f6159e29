"""Brokers that go away, topics that are deleted while they are shown, browsers that leave."""

from __future__ import annotations

import time

from ottla.testing import Broker
from tests.console.conftest import Window
from tests.console.consoles import Console, rows, until


def test_a_broker_that_goes_away_is_told_and_comes_back(chromium):
    with Broker() as broker, Console(broker.bootstrap) as running:
        broker.create_topic("lasting", 1)
        window = Window(chromium, running)
        window.goto("/")
        until(lambda: window.page.locator("#live-state").inner_text() == "live", "the page is live")
        broker.crash()
        until(lambda: window.page.locator("#live-state").inner_text() == "cluster away", "the page notices")
        window.page.get_by_text("The cluster does not answer").wait_for()
        answer = window.goto("/topics")  # shows what was known last
        assert answer.status == 200
        assert window.page.locator('[data-row="lasting"]').count() == 1
        broker.restart()
        until(lambda: window.page.locator("#live-state").inner_text() == "live", "the page is live again")
        window.context.close()
    window.check()


def test_a_topic_that_is_deleted_while_it_is_shown(chromium, console, broker):
    window = Window(chromium, console)
    broker.create_topic("short-lived", 1)
    broker.send("short-lived", "x")
    window.goto("/topics/short-lived")
    until(lambda: window.page.locator("#live-state").inner_text() == "live", "the page is live")
    broker.delete_topic("short-lived")
    window.page.get_by_text("There is no topic short-lived").wait_for()
    assert window.goto("/topics/short-lived/messages").status == 404
    window.context.close()


def test_nobody_is_asked_when_nobody_looks(broker):
    with Console(broker.bootstrap) as console:
        client = console.client()
        client.json("/topics")

        def asked() -> int:
            requests = broker.requests(client_id="ottla-console")
            return requests[-1].number if requests else 0

        def is_quiet() -> bool:
            before = asked()
            time.sleep(2.5)
            return asked() == before

        until(is_quiet, "the console stops asking", 120)
        assert {row["topic"] for row in rows(client.json("/topics"), "topics")} >= {"orders"}


def test_a_browser_that_leaves_takes_its_stream_with_it(broker, chromium):
    with Console(broker.bootstrap) as console:
        window = Window(chromium, console)
        window.goto("/topics/orders/messages?live=1")
        window.page.locator("[data-tail][data-ready]").wait_for(state="attached")
        window.context.close()
        connections = lambda: _established(console.process.pid)  # noqa: E731
        until(lambda: connections() == 0, "no browser is connected any more")
        assert console.process.poll() is None


def _established(pid: int) -> int:
    """Connections from browsers: those of the port that the console listens on."""
    from pathlib import Path

    inodes = set()
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(handle.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = {line[1] for line in lines if line[9] in inodes and line[3] == "0A"}
    return sum(line[9] in inodes and line[3] == "01" and line[1] in listening for line in lines)
