"""One broker with some data, one console that may change things, one browser for the folder.

They live as long as the folder's tests, not as long as the session: while Playwright runs, its event loop counts as the
running one of this thread, and no test of another folder could call `asyncio.run`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.testing import Broker
from tests.console.consoles import CHROMIUM, FLAGS, Client, Console
from tests.console.surroundings import Surroundings


@pytest.fixture(scope="package")
def broker() -> Iterator[Broker]:
    settings = {
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 4,
        "group.initial.rebalance.delay.ms": 0,
    }
    with Broker(settings) as running:
        running.create_topic("orders", 3)
        for i in range(60):
            running.send(
                "orders",
                f'{{"number": {i}, "patient": {{"name": "Ada", "ward": {i % 4}}}}}',
                f"key-{i % 7}",
                headers=[("trace", f"t{i}".encode())],
            )
        yield running


@pytest.fixture(scope="package")
def surroundings(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surroundings]:
    with Surroundings(broker.bootstrap, tmp_path_factory.mktemp("beside")) as running:
        yield running


@pytest.fixture(scope="package")
def console(broker: Broker, surroundings: Surroundings) -> Iterator[Console]:
    with Console(broker.bootstrap, "--allow-changes", *surroundings.options) as running:
        yield running


@pytest.fixture
def client(console: Console) -> Client:
    return console.client()


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (make tools)")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class Window:
    """A browser window that is watched: errors in its console, and requests that leave the machine."""

    def __init__(self, chromium: Any, console: Console, **options: Any) -> None:
        self.console = console
        self.context = chromium.new_context(viewport={"width": 1280, "height": 800}, **options)
        self.context.set_default_timeout(90_000)
        self.troubles: list[str] = []
        self.requests: list[str] = []
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.page = self.tab()
        self.page.goto(console.login())

    def tab(self) -> Any:
        page = self.context.new_page()
        page.on("console", lambda message: self._note(message))
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("dialog", lambda dialog: (self.troubles.append("a dialog opened"), dialog.dismiss()))
        return page

    def goto(self, path: str) -> Any:
        return self.page.goto(self.console.base + path)

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(f"{self.page.url}: {message.text}")

    def check(self) -> None:
        elsewhere = [
            url for url in self.requests if not url.startswith((self.console.base + "/", "data:", "blob:"))
        ]
        assert not elsewhere, f"requests left the machine: {elsewhere}"
        assert not self.troubles, self.troubles


@pytest.fixture
def window(chromium: Any, console: Console) -> Iterator[Window]:
    opened = Window(chromium, console)
    yield opened
    opened.context.close()
    opened.check()
