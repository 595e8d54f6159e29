"""The device lab as courses show it: scales and heart monitors that beat now and then, and who listens.

A device waits 10 to 20 s, then sends a heartbeat every 15 s with probability one half. The listener writes one
message to `device-event` for each change: offline after a silence, back online with the next heartbeat.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ottla.client import Admin, Consumer, Producer
from ottla.errors import TopicAlreadyExists

HEARTBEAT_TOPIC, EVENT_TOPIC = "device-heartbeat", "device-event"
KINDS = ("Scale", "Heart monitor")
START_DELAY_S = (10.0, 20.0)
INTERVAL_S = 15.0
PROBABILITY = 0.5
SILENCE_S = 30.0  # two heartbeats missed
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Lab:
    """How the lab runs. `speed` 10 makes a second last a tenth; `duration_s` is in the lab's own time."""

    settings: Mapping[str, Any]
    devices: int = 15
    speed: float = 1.0
    duration_s: float | None = None
    seed: int | None = None
    group: str = "device-lab"


def names(count: int) -> list[str]:
    """Scale 1, Heart monitor 1, Scale 2, Heart monitor 2 and so on."""
    return [f"{KINDS[i % len(KINDS)]} {i // len(KINDS) + 1}" for i in range(count)]


def sentence(device: str, at_s: float) -> str:
    """The value of a heartbeat. The key alone says which device it is."""
    return f"Heartbeat from {device} at {date(at_s)}"


def device_of(key: bytes | None, value: bytes | None) -> str:
    """Whatever simulator wrote it: by its key, or, where an older lab sent none, by its value."""
    return (key or value or b"").decode(errors="replace")


def date(at_s: float) -> str:
    """As Java prints a Date: Tue Nov 17 09:05:00 UTC 2026. The names are English in every locale."""
    at = datetime.fromtimestamp(at_s).astimezone()
    day, month = _DAYS[at.weekday()], _MONTHS[at.month - 1]
    return f"{day} {month} {at:%d %H:%M:%S} {at.tzname()} {at.year}"


def schedule(devices: list[str], chance: random.Random) -> Iterator[tuple[float, str]]:
    """(second, device) of every heartbeat, in order, without an end."""
    due = sorted((chance.uniform(*START_DELAY_S), device) for device in devices)
    while due:
        at, device = due.pop(0)
        if chance.random() < PROBABILITY:
            yield at, device
        due.append((at + INTERVAL_S, device))
        due.sort()


@dataclass(slots=True)
class Listener:
    """Who is silent and since when. One event for each change, however often it is called."""

    silence_ms: float
    heard_ms: dict[str, int] = field(default_factory=dict)
    offline: set[str] = field(default_factory=set)

    def on_heartbeat(self, device: str, at_ms: int) -> str | None:
        """The event, if the device had been given up."""
        self.heard_ms[device] = max(at_ms, self.heard_ms.get(device, 0))
        if device not in self.offline:
            return None
        self.offline.discard(device)
        return f"{device} is back online"

    def on_tick(self, now_ms: int) -> list[tuple[str, str]]:
        """(device, event) of those that fell silent."""
        silent = [
            device
            for device, heard in sorted(self.heard_ms.items())
            if device not in self.offline and now_ms - heard > self.silence_ms
        ]
        self.offline.update(silent)
        return [(device, f"{device} offline since {date(self.heard_ms[device] / 1000)}") for device in silent]


def run(lab: Lab, say: Say = print, stop: threading.Event | None = None) -> None:
    """Devices and listener in one process, until `duration_s`, `stop` or Ctrl-C."""
    ended, turn = stop or threading.Event(), threading.Lock()

    def tell(text: str) -> None:
        with turn:  # two threads print: a line is a line
            say(text)

    create_topics(lab.settings)
    with ThreadPoolExecutor(1, "device-listener") as pool:
        listening = pool.submit(listen, lab, tell, ended)
        listening.add_done_callback(lambda _: ended.set())  # without a listener the devices end too
        try:
            beat(lab, tell, ended)
        finally:
            ended.set()
    listening.result()


def create_topics(settings: Mapping[str, Any]) -> None:
    with Admin(settings) as admin:
        for name in (HEARTBEAT_TOPIC, EVENT_TOPIC):
            try:
                admin.create_topic(name)
            except TopicAlreadyExists:
                continue


def beat(lab: Lab, say: Say, ended: threading.Event) -> None:
    """The devices."""
    begun = time.monotonic()
    with Producer(lab.settings) as producer:
        for at_s, device in schedule(names(lab.devices), random.Random(lab.seed)):
            if lab.duration_s is not None and at_s > lab.duration_s:
                ended.wait(max(0.0, begun + lab.duration_s / lab.speed - time.monotonic()))
                return
            if ended.wait(max(0.0, begun + at_s / lab.speed - time.monotonic())):
                return
            producer.send(HEARTBEAT_TOPIC, sentence(device, time.time()), key=device).result()
            say(f"Produced heartbeat for device {device}")


def listen(lab: Lab, say: Say, ended: threading.Event) -> None:
    """The technician's side: reads heartbeats, writes events."""
    listener = Listener(SILENCE_S * 1000 / lab.speed)
    patience_s = max(0.02, min(1.0, 1.0 / lab.speed))
    settings = {**lab.settings, "group.id": lab.group, "auto.offset.reset": "earliest"}
    with Consumer(settings) as consumer, Producer(lab.settings) as producer:
        consumer.subscribe(HEARTBEAT_TOPIC)
        while not ended.is_set():
            for record in consumer.poll(patience_s):
                device = device_of(record.key, record.value)
                say(f"Received heartbeat from: {device}")
                event = listener.on_heartbeat(device, record.timestamp)
                if event is not None:
                    say(f"Device back online: {device}")
                    producer.send(EVENT_TOPIC, event, key=device)
            for device, event in listener.on_tick(int(time.time() * 1000)):
                say(f"Device offline: {device}")
                producer.send(EVENT_TOPIC, event, key=device)
