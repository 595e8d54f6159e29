"""The device lab beside a course's own programs in Java, and old spellings of the labs."""

from __future__ import annotations

import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.homecare import lab
from ottla.testing import Broker
from tests.course.faces import until
from tests.oracle import programs


def java(*arguments: str) -> str:
    done = subprocess.run(
        programs.command("CourseDevice", *arguments), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def needs_java() -> None:
    if (reason := programs.why_not_java()) is not None:
        pytest.skip(reason)


@pytest.mark.oracle
def test_our_listener_hears_a_device_of_the_course(ottla_broker: Broker) -> None:
    settings = {"bootstrap.servers": ottla_broker.bootstrap}
    lab.create_topics(settings)
    java("send", ottla_broker.bootstrap, "Heart monitor 4")
    said: list[str] = []
    ended = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        listening = pool.submit(lab.listen, lab.Lab(settings, speed=100), said.append, ended)
        until(lambda: "Device offline: Heart monitor 4" in said or listening.done())
        ended.set()
        listening.result()
    assert said[0] == "Received heartbeat from: Heart monitor 4"
    (event,) = ottla_broker.records(lab.EVENT_TOPIC)
    assert event.key == b"Heart monitor 4"
    assert event.value.startswith(b"Heart monitor 4 offline since ")


@pytest.mark.oracle
def test_a_listener_of_the_course_hears_our_devices(ottla_broker: Broker) -> None:
    settings = {"bootstrap.servers": ottla_broker.bootstrap}
    lab.create_topics(settings)
    said: list[str] = []
    lab.beat(lab.Lab(settings, speed=1000, duration_s=60, seed=3), said.append, threading.Event())
    printed = java("listen", ottla_broker.bootstrap, "technicians", str(len(said))).splitlines()
    devices = [text.removeprefix("Produced heartbeat for device ") for text in said]
    assert sorted(line.split("\t")[0] for line in printed) == sorted(devices)
    assert all(f"Heartbeat from {line.split(chr(9))[0]} at " in line for line in printed)


@pytest.mark.oracle
def test_dates_are_written_as_java_writes_them() -> None:
    now = int(time.time())
    assert java("date", str(now * 1000)).strip() == lab.date(now)
