"""Hello world through the console commands, as printed in a course; and the device lab."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.homecare import lab
from tests.conftest import Target
from tests.course.faces import Api, Confluent, Ours, members, read, until, until_seen

Unique = Callable[[str], str]


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bin")
    assert main(["aliases", str(folder)]) == 0
    return folder


def run(command: str, folder: Path, stdin: str = "") -> str:
    done = subprocess.run(
        command,
        shell=True,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=180,
        env={"PATH": f"{folder}:/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_hello_world_with_the_commands_as_a_course_prints_them(
    target: Target, unique: Unique, bin_folder: Path
) -> None:
    topic, server = unique("hello"), f"--bootstrap-server {target.bootstrap}"
    created = run(
        f"kafka-topics.sh --create --topic {topic} --partitions 1 --replication-factor 1 {server}", bin_folder
    )
    assert created == f"Created topic {topic}.\n"
    until_seen(target.bootstrap, topic)
    assert topic in run(f"kafka-topics.sh --list {server}", bin_folder).splitlines()
    described = run(f"kafka-topics.sh --describe --topic {topic} {server}", bin_folder).splitlines()
    assert described[0].split("\t")[0] == f"Topic: {topic}"
    assert (
        described[1]
        == f"\tTopic: {topic}\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: "
    )
    run(f"kafka-console-producer.sh --topic {topic} {server}", bin_folder, stdin="Hello World\nHello again\n")
    shown = run(
        f"kafka-console-consumer.sh --topic {topic} --from-beginning --max-messages 2 {server}", bin_folder
    )
    assert shown == "Hello World\nHello again\n"
    assert run(f"kafka-get-offsets.sh --topic {topic} {server}", bin_folder) == f"{topic}:0:2\n"


def test_what_the_console_wrote_the_client_reads_and_the_other_way_round(
    api: Api, unique: Unique, bin_folder: Path
) -> None:
    topic, server = unique("hello"), f"--bootstrap-server {api.bootstrap}"
    api.create(topic)
    keyed = "--reader-property parse.key=true --reader-property key.separator=:"
    run(f"kafka-console-producer --topic {topic} {keyed} {server}", bin_folder, stdin="k:Hello World\n")
    api.produce(topic, [(None, "from the client")])
    member = api.member(unique("g"), [topic])
    with members(member):
        assert [(e.key, e.value) for e in read(member, 2)] == [
            ("k", "Hello World"),
            (None, "from the client"),
        ]
    printed = "--formatter-property print.key=true --formatter-property print.offset=true"
    shown = run(
        f"kafka-console-consumer --topic {topic} --from-beginning --max-messages 2 {printed} {server}",
        bin_folder,
    )
    assert shown == "Offset:0\tk\tHello World\nOffset:1\tnull\tfrom the client\n"


# -- the device lab --------------------------------------------------------------------------------


def test_the_device_lab_prints_and_writes_what_the_course_shows(
    target: Target, bin_folder: Path, unique: Unique
) -> None:
    words = [sys.executable, "-m", "ottla.cli.main", "homecare", "lab", "-b", target.bootstrap]
    words += ["--speed", "40", "--duration", "240", "--seed", "3", "--group", unique("lab")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    names = lab.names(15)
    expected = [device for at, device in _until(240, lab.schedule(names, random.Random(3)))]
    produced = [
        line.removeprefix("Produced heartbeat for device ") for line in lines if line.startswith("Produced")
    ]
    assert produced == expected
    received = [line for line in lines if line.startswith("Received heartbeat from: ")]
    # The last ones may come after the end: how many, the machine decides.
    assert len(received) > len(expected) / 2
    events = [each.value for each in Ours(target.bootstrap).records("device-event")]
    shown = run(
        f"kafka-console-consumer.sh --topic device-event --from-beginning --max-messages {len(events)} "
        f"--bootstrap-server {target.bootstrap}",
        bin_folder,
    ).splitlines()
    assert shown == events == [each.value for each in Confluent(target.bootstrap).records("device-event")]
    back = [
        line.removeprefix("Device back online: ") for line in lines if line.startswith("Device back online: ")
    ]
    assert (
        back
        and [f"{device} is back online" for device in back]
        == [line for line in shown if line.endswith(" is back online")][-len(back) :]
    )
    offline = [line for line in shown if " offline since " in line]
    assert offline and all(line.split(" offline since ")[0] in names for line in offline)


def _until(end: float, beats: object) -> list[tuple[float, str]]:
    found = []
    for at, device in beats:  # type: ignore[attr-defined]
        if at > end:
            return found
        found.append((at, device))
    return found


def test_one_event_for_each_change(api: Api, unique: Unique) -> None:
    """Heartbeats and events by the client; the listener is the lab's own, with a patience of 1.5 s."""
    device = unique("Scale")
    settings = {"bootstrap.servers": api.bootstrap}
    lab.create_topics(settings)
    ended = threading.Event()

    def events() -> list[str]:
        mine = [each.value or "" for each in api.records(lab.EVENT_TOPIC) if each.key == device]
        return [re.sub(r"since .*", "since ...", each) for each in mine]

    offline, online = f"{device} offline since ...", f"{device} is back online"
    with ThreadPoolExecutor(1) as pool:
        lasting = lab.Lab(settings, speed=20, group=unique("lab"))
        listening = pool.submit(lab.listen, lasting, lambda text: None, ended)
        try:
            expected: list[str] = []
            for _ in range(2):
                api.produce(lab.HEARTBEAT_TOPIC, [(device, device)] * 3)
                expected += [offline] if not expected else [online, offline]
                until(lambda: len(events()) >= len(expected) or listening.done())  # noqa: B023
                assert events() == expected
        finally:
            ended.set()
        listening.result()


def test_one_event_for_each_change_in_an_hour() -> None:
    """On a clock of our own: every device that falls silent is told once, and once when it is back."""
    listener = lab.Listener(silence_ms=30_000)
    events: list[tuple[str, str]] = []
    beats = _until(3_600, lab.schedule(lab.names(12), random.Random(1)))
    heard: dict[str, float] = {}
    second = 0
    for at, device in beats:
        while second < at:
            events += [(device, "offline") for device, _ in listener.on_tick(second * 1000)]
            second += 1
        if listener.on_heartbeat(device, int(at * 1000)):
            assert at - heard[device] > 30  # only after a silence
            events.append((device, "online"))
        heard[device] = at
    for device in lab.names(12):
        mine = [what for who, what in events if who == device]
        assert mine == ["offline", "online"] * (len(mine) // 2) + ["offline"] * (len(mine) % 2)
        assert mine


def test_the_schedule_is_the_courses() -> None:
    beats = _until(15_000, lab.schedule(["Scale 1"], random.Random(5)))
    first = beats[0][0]
    assert all((at - first) % 15 < 1e-6 or (at - first) % 15 > 15 - 1e-6 for at, _ in beats)
    assert 450 < len(beats) < 550  # one half of a thousand
    starts = [_until(60, lab.schedule(["Scale 1"], random.Random(seed))) for seed in range(50)]
    assert all(each[0][0] % 15 >= 10 or each[0][0] % 15 <= 5 for each in starts if each)
