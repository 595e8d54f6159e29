"""`python -m tools.console_pictures`: the pictures of docs/console.md, from a broker with made-up data.

Needs Chromium (`make tools`) and playwright (`make setup`).
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ottla import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from ottla.pipelines.positions import Commit, Figures
from ottla.testing import Broker

FOLDER = Path(__file__).parents[1] / "docs" / "console"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TOPICS = {
    "device-heartbeat": 12,
    "patient-vitals": 6,
    "billing-event": 3,
    "device-event": 2,
    "nurse-alert": 2,
    "billing-total": 1,
    "nurse-roster": 3,
    "orders": 6,
    "payments": 3,
}
PICTURES = (
    ("overview-light", "/", "light", 1280),
    ("topics-dark", "/topics", "dark", 1280),
    ("messages-light", "/topics/orders/messages", "light", 1280),
    ("group-light", "/group?id=analytics", "light", 1280),
    ("homecare-dark", "/homecare", "dark", 1280),
    ("topics-phone", "/topics", "light", 375),
)
WATCHED_S = 30


def send(bootstrap: str, over: threading.Event) -> None:
    chance = random.Random(7)
    number = 0
    with Producer(bootstrap_servers=bootstrap) as producer:
        while not over.is_set():
            for _ in range(chance.randint(20, 60)):
                number += 1
                topic = chance.choice(
                    ["device-heartbeat", "patient-vitals", "billing-event", "orders", "orders", "payments"]
                )
                value = {"number": number, "device": f"d-{number % 50}", "pulse": 60 + number % 40}
                producer.send(
                    topic,
                    json.dumps(value).encode(),
                    key=f"patient-{number % 100}".encode(),
                    headers=[("trace", b"%d" % number)],
                )
            now_ms = int(time.time() * 1000)
            if chance.random() < 0.1:
                event = {
                    "at": now_ms,
                    "device": f"device-{chance.randint(1, 40)}",
                    "state": chance.choice(["offline", "online"]),
                }
                producer.send("device-event", json.dumps(event).encode())
            if chance.random() < 0.06:
                level = chance.choice(["warning", "critical", "clear", "clear"])
                alert = {
                    "patient": f"patient-{chance.randint(1, 40)}",
                    "level": level,
                    "since": now_ms - 5000,
                    "at": now_ms,
                    "nurse": "nurse-3",
                    "ward": "ward-1",
                }
                producer.send("nurse-alert", json.dumps(alert).encode())
            producer.flush()
            over.wait(0.1)


def read(bootstrap: str, group: str, protocol: str, number: int, over: threading.Event) -> None:
    settings = {
        "group.id": group,
        "group.protocol": protocol,
        "client.id": f"{group}-{number}",
        "auto.offset.reset": "earliest",
    }
    with Consumer(settings, bootstrap_servers=bootstrap) as consumer:
        consumer.subscribe(["orders", "payments"])
        while not over.is_set():
            consumer.poll(0.5)
            over.wait(random.random())


def commit(bootstrap: str, over: threading.Event) -> None:
    """As the pipelines of home care do: their figures are in their commits."""
    rounds = 0
    with Admin(bootstrap_servers=bootstrap) as admin:
        while not over.wait(0.5):
            rounds += 1
            for name, topic, shown in (
                ("technician", "device-heartbeat", {"devices": 250, "offline": 4}),
                ("nurse", "patient-vitals", {"alerting": 2}),
                ("billing", "billing-event", {"cents": 4_321 * rounds}),
            ):
                places = [TopicPartition(topic, p) for p in range(TOPICS[topic])]
                ends = admin.list_offsets(dict.fromkeys(places, -1))
                offsets: dict[TopicPartition, OffsetAndMetadata] = {}
                for i, place in enumerate(places):
                    ages = tuple(random.randint(300, 900) for _ in range(5))
                    mine = shown if i == 0 else {}
                    figures = Figures(
                        ends[place].offset,
                        rounds,
                        100,
                        40_960,
                        0,
                        int(time.time() * 1000),
                        210,
                        "worker-1",
                        ages,
                        mine,
                    )
                    offsets |= Commit(
                        {place: ends[place].offset}, task=f"0_{i}", figures=figures
                    ).to_offsets()
                admin.alter_group_offsets(f"homecare-{name}", offsets)


def take(address: str) -> None:
    from playwright.sync_api import sync_playwright  # type: ignore[import-not-found,unused-ignore]

    base = address.partition("/?")[0]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        first = browser.new_context()
        watched = first.new_page()
        watched.goto(address.replace("/?", "/homecare?"))
        watched.wait_for_timeout(WATCHED_S * 1000)
        state: Any = first.storage_state()
        for name, path, scheme, width in PICTURES:
            size = {"width": width, "height": 720 if width > 400 else 740}
            context = browser.new_context(viewport=size, color_scheme=scheme, storage_state=state)
            page = context.new_page()
            page.goto(base + path)
            if "messages" in path:
                page.locator("details.record").nth(1).evaluate("each => { each.open = true }")
            page.wait_for_timeout(1500)
            page.evaluate("document.querySelector('.who span').textContent = 'localhost:9092'")
            page.evaluate("document.querySelectorAll('.who span')[1].textContent = 'ada'")
            page.screenshot(path=str(FOLDER / f"{name}.png"))
            context.close()
        browser.close()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    over = threading.Event()
    with Broker({"offsets.topic.num.partitions": 4, "group.initial.rebalance.delay.ms": 0}) as broker:
        for name, partitions in TOPICS.items():
            broker.create_topic(name, partitions)
        where = broker.bootstrap
        workers = [
            threading.Thread(target=send, args=(where, over)),
            threading.Thread(target=commit, args=(where, over)),
        ]
        for group, protocol, number in (
            ("billing", "classic", 1),
            ("analytics", "consumer", 1),
            ("analytics", "consumer", 2),
        ):
            workers.append(threading.Thread(target=read, args=(where, group, protocol, number, over)))
        for worker in workers:
            worker.start()
        command = [
            sys.executable,
            "-m",
            "ottla",
            "console",
            "--bootstrap",
            where,
            "--port",
            "0",
            "--end-with-stdin",
        ]
        console = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert console.stdout is not None
            found = re.search(r"http\S+", console.stdout.readline())
            assert found is not None
            take(found.group())
        finally:
            console.terminate()
            console.wait(10)
            over.set()
            for worker in workers:
                worker.join()


if __name__ == "__main__":
    main()
