"""Every view in a real browser: it is there, it is live, nothing is wrong in it."""

from __future__ import annotations

import pytest

from tests.console.consoles import until

VIEWS = {
    "/": "Overview",
    "/?seconds=3600": "Overview",
    "/topics": "Topics",
    "/topics?internal=1&sort=-records": "Topics",
    "/topics/orders": "orders",
    "/topics/orders/messages": "orders",
    "/topics/orders/messages?from=oldest&partition=1": "orders",
    "/topics/orders/messages?live=1": "orders",
    "/topics/orders/search": "orders",
    "/topics/orders/settings": "orders",
    "/topics/orders/groups": "orders",
    "/topics/described/messages?from=oldest": "described",
    "/schemas": "Schemas",
    "/schemas/described-value": "described-value",
    "/schema?id=1": "Schema 1",
    "/groups": "Groups",
    "/group?id=sharers": "sharers",
    "/group?id=word-count": "word-count",
    "/connectors": "Connectors",
    "/connectors/lines": "lines",
    "/mirrors": "Mirrors",
    "/transactions": "Transactions",
    "/transactions?look=1": "Transactions",
    "/pipelines": "Pipelines",
    "/homecare": "Home care",
    "/brokers": "Brokers",
    "/brokers/1": "Broker 1",
    "/brokers/1?part=folders": "Broker 1",
    "/brokers/1?part=throttles": "Broker 1",
    "/brokers/1?part=versions": "Broker 1",
    "/access": "Access",
    "/access?part=users": "Access",
    "/access?part=quotas": "Access",
    "/changes": "Changes",
}


@pytest.mark.parametrize("path", VIEWS)
def test_a_view_opens_in_the_browser(window, path):
    answer = window.goto(path)
    assert answer.status == 200
    assert window.page.locator("h1").inner_text() == VIEWS[path]
    # Changes that were refused, by other tests too, are shown as such.
    trouble = ".flash.bad" if path == "/changes" else ".flash.bad, .state.bad"
    assert window.page.locator(trouble).count() == 0
    wide = window.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 1280
    window.page.set_viewport_size({"width": 375, "height": 740})
    assert window.page.evaluate("document.documentElement.scrollWidth") <= 375


def test_numbers_change_in_place_while_records_arrive(window, broker):
    broker.create_topic("ticking", 1)
    window.goto("/topics")
    cell = window.page.locator('[data-k="topics/ticking/records"]')
    cell.wait_for()
    marked = window.page.evaluate("""() => { window.unchanged = true; return true; }""")
    for i in range(5):
        broker.send("ticking", f"record {i}")
    until(lambda: cell.inner_text() == "5", "the number of records on the page")
    assert marked and window.page.evaluate("window.unchanged")  # the page was not loaded again
    assert window.page.locator("#live-state").inner_text() == "live"


def test_home_care_is_in_the_navigation_where_its_topics_exist():
    from ottla.console.board import TOPICS
    from ottla.testing import Broker
    from tests.console.consoles import Console

    with Broker() as broker, Console(broker.bootstrap) as running:
        client = running.client()
        assert 'href="/homecare"' not in client.get("/topics").text
        assert 'href="/homecare"' in client.get("/homecare").text
        for topic in TOPICS:
            broker.create_topic(topic, 1)
        until(lambda: 'href="/homecare"' in client.get("/topics").text, "the entry of the navigation")


def test_two_tabs_share_one_stream(window):
    window.goto("/topics")
    other = window.tab()
    other.goto(window.console.base + "/groups")
    until(lambda: window.page.locator("#live-state").inner_text() == "live", "the first tab is live")
    until(lambda: other.locator("#live-state").inner_text() == "live", "the second tab is live")
    streams = [url for url in window.requests if url.endswith("/events")]
    assert (
        len(streams) <= 2
    )  # the shared worker's own requests are not seen by the page: never one for each tab


def test_records_are_seen_as_they_arrive_and_can_be_paused(window, broker):
    broker.create_topic("tailed", 2)
    window.goto("/topics/tailed/messages?live=1")
    window.page.locator("[data-tail][data-ready]").wait_for(state="attached")
    broker.send("tailed", "the first", "a")
    window.page.get_by_text("the first").first.wait_for()
    window.page.get_by_role("button", name="Pause").click()
    broker.send("tailed", "while paused", "b")
    until(
        lambda: "wait" in window.page.locator("#tail-note").inner_text(), "the paused page notes new records"
    )
    assert window.page.get_by_text("while paused").count() == 0
    window.page.get_by_role("button", name="Resume").click()
    window.page.get_by_text("while paused").first.wait_for()


def test_the_keyboard_goes_everywhere(window):
    window.goto("/")
    window.page.keyboard.press("g")
    window.page.keyboard.press("t")
    window.page.wait_for_url("**/topics")
    window.page.keyboard.press("/")
    window.page.keyboard.type("orders")
    window.page.keyboard.press("Enter")
    window.page.wait_for_url("**/topics?filter=orders")
    window.page.keyboard.press("j")
    window.page.keyboard.press("Enter")
    window.page.wait_for_url("**/topics/orders")
    window.page.keyboard.press("?")
    assert window.page.locator("#help").is_visible()
    window.page.keyboard.press("Escape")
    assert not window.page.locator("#help").is_visible()


def test_pages_work_without_javascript(chromium, console):
    from tests.console.conftest import Window

    window = Window(chromium, console, java_script_enabled=False)
    window.goto("/topics")
    window.page.get_by_role("link", name="orders", exact=True).click()
    window.page.get_by_role("link", name="Messages").click()
    until(
        lambda: window.page.locator(".record").count() == 50, "the newest records"
    )  # a click waits for no page
    window.page.get_by_role("link", name="Older").click()
    until(lambda: window.page.locator(".record").count() == 10, "the others")
    assert window.page.locator("svg.spark, line-chart").count() == 0
    window.goto("/topics/orders")
    assert window.page.locator("line-chart svg").count() == 1
    window.context.close()
    window.check()
