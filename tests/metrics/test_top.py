"""`ottla top` in a pseudo-terminal, once for pipes, and its parts."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections import Counter
from pathlib import Path

import pytest

from ottla.cli.asking.rates import Sample, group_rows, topic_rows
from ottla.cli.main import main
from ottla.cli.screen.frames import Column, View, duration, short, table
from ottla.client import Consumer, Producer
from ottla.client.values import TopicPartition
from ottla.testing import Broker

OTTLA = str(Path(sys.executable).with_name("ottla"))
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Screen:
    """A program in a pseudo-terminal: keys in, frames out."""

    def __init__(self, *command, width=100, height=20, **environment):
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        clean = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env={**clean, "TERM": "xterm", **environment},
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.output = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def press(self, keys):
        self.output = ""
        os.write(self._ours, keys.encode())

    def read_to_the_end(self):
        with contextlib.suppress(OSError):  # EIO: the program has ended, and with it the terminal
            while data := os.read(self._ours, 65536):
                self.output += data.decode()
        self.process.wait(60)

    def until(self, condition, timeout_s=60):
        """The first whole frame that the condition is true of."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if select.select([self._ours], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):  # it has ended
                    self.output += os.read(self._ours, 65536).decode()
            frames = self.output.split("\033[H")
            for frame in frames[1:-1]:
                if condition(frame):
                    return frame
        raise AssertionError(f"never on the screen; last: {self.output[-3000:]!r}")


@pytest.fixture(scope="module")
def busy():
    with Broker() as broker:
        client = {"bootstrap.servers": broker.bootstrap}
        broker.create_topic("small", 1)
        broker.create_topic("large", 3)
        with Producer(client) as producer:
            for number in range(500):
                producer.send("large", b"x" * 1000, partition=number % 3)
            producer.send("small", b"x")
            producer.flush()
        with Consumer({**client, "group.id": "readers", "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe(["small"])
            broker.wait_until(lambda: consumer.poll(0.5), 90, "the record")
            consumer.commit()
        for _ in range(7):
            broker.send("small", "more")
        yield broker


def test_it_is_live_and_keys_change_what_is_shown(busy):
    with Screen(OTTLA, "top", "--bootstrap", busy.bootstrap, "--interval", "0.3") as screen:
        frame = screen.until(lambda frame: "large" in frame and "MSG/Sv" in frame)
        lines = COLOUR.sub("", frame).replace("\033[K", "").split("\r\n")
        assert len(lines) <= 20
        assert max(map(len, lines)) <= 100
        assert "[topics]" in lines[0]
        assert "1 brokers" in lines[1]
        busy.send("small", "now")
        screen.until(lambda frame: re.search(r"small .*[1-9][0-9.]* +\S+B", COLOUR.sub("", frame)))
        screen.press("\t")
        frame = screen.until(lambda frame: "[groups]" in frame)
        assert re.search(r"readers +Empty +1 +0 +8 ", COLOUR.sub("", frame))
        screen.press("1")
        screen.until(lambda frame: "[brokers]" in frame and "controller" in frame)
        screen.press("sr")
        screen.until(lambda frame: "SIZE^" in frame)
        screen.press("q")
        assert screen.process.wait(90) == 0


def test_the_terminal_is_as_it_was_afterwards(busy):
    with Screen(OTTLA, "top", "--bootstrap", busy.bootstrap) as screen:
        before = termios.tcgetattr(screen._ours)
        screen.until(lambda frame: "large" in frame)
        assert termios.tcgetattr(screen._ours) != before
        screen.press("q")
        assert screen.process.wait(90) == 0
        screen.read_to_the_end()
        assert screen.output.endswith("\033[?25h\033[?1049l")


def test_no_color_is_honoured(busy):
    with Screen(OTTLA, "top", "--bootstrap", busy.bootstrap, NO_COLOR="1") as screen:
        assert not COLOUR.search(screen.until(lambda frame: "large" in frame))


def test_keys_work_while_the_cluster_is_away():
    with Broker() as broker:
        broker.create_topic("t", 1)
        with Screen(OTTLA, "top", "--bootstrap", broker.bootstrap, "--interval", "0.3") as screen:
            screen.until(lambda frame: "1 topics" in frame)
            broker.crash()
            screen.press("\t")
            screen.until(lambda frame: "[groups]" in frame)
            screen.press("q")
            assert screen.process.wait(90) == 0


def test_once_prints_all_tables_and_json_has_the_same(busy, capsys):
    base = ["top", "--bootstrap", busy.bootstrap, "--interval", "0.1", "--metrics", busy.http]
    assert main([*base, "--once"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^large +3 +0 +0 +500 ", text, re.MULTILINE)
    assert "\033" not in text
    assert main([*base, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    topics = {row["topic"]: row for row in told["topics"]}
    assert topics["large"]["messages"] == 500
    assert topics["large"]["bytes"] > 500_000
    assert told["brokers"][0]["ready"] is True
    assert told["brokers"][0]["memory_bytes"] > 1 << 20
    assert next(row for row in told["groups"] if row["group"] == "readers")["lag"] >= 7


def test_a_column_that_is_not_there_is_named(busy, capsys):
    assert main(["top", "topics", "--bootstrap", busy.bootstrap, "--once", "--interval", "0"]) == 1
    assert "--interval must be above 0" in capsys.readouterr().err


# -- parts ---------------------------------------------------------------------------------------


def a_sample(at_s, ends, committed, topic_bytes=0):
    where = {TopicPartition("t", index): end for index, end in enumerate(ends)}
    return Sample(
        at_s, "c", 1, {1: "h:1"}, Counter(), Counter(), {"t": len(ends)}, Counter(), Counter(), where,
        dict.fromkeys(where, 1), Counter(t=topic_bytes), Counter(), {"g": ("Stable", 1)},
        {"g": {TopicPartition("t", index): at for index, at in enumerate(committed)}},
    )  # fmt: skip


def test_rates_are_what_happened_in_between():
    before = a_sample(10, [100, 50], [50, 50], 1000)
    now = a_sample(12, [140, 50], [80, 50], 900)
    (topic,) = topic_rows(now, before)
    assert (topic.messages_s, topic.bytes_s) == (20, 0)  # retention took more than came
    (group,) = group_rows(now, before)
    assert (group.committed_s, group.lag, group.lag_s, group.left_s) == (15, 60, 5, None)
    (caught_up,) = group_rows(a_sample(14, [140, 50], [120, 50]), now)
    assert (caught_up.lag, caught_up.left_s) == (20, 1)
    assert topic_rows(now, None)[0].messages_s is None


def test_a_table_fits_and_strange_names_are_harmless():
    columns = (Column("NAME"), Column("N", "count"), Column("BAD", "trouble"))
    rows = [("a" * 200, 5, 0), ("b\033[31m", None, 0), ("c", 9, 1)]
    lines = table(columns, rows, View(1), 40, 3, colour=True)
    assert len(lines) == 3
    assert lines[1] == f"\033[31m{'c'.ljust(31)}   9    1\033[0m"
    assert lines[2].startswith("a" * 20)
    assert all(len(COLOUR.sub("", line)) <= 40 for line in lines)
    below = table(columns, rows, View(1, top=2), 40, 9, colour=False)
    assert below[1].startswith("b?[31m")


def test_numbers_are_short():
    assert [short(v) for v in (0, 7, 7.25, 999, 1000, 12345, 1e9, -1500)] == [
        "0", "7", "7.2", "999", "1K", "12.3K", "1G", "-1.5K",
    ]  # fmt: skip
    assert [duration(v) for v in (5, 119, 600, 7200, 200_000)] == ["5s", "119s", "10m", "2h", "2d"]


# -- progress of long commands -------------------------------------------------------------------


def test_sending_a_file_shows_how_far_it_is(busy, tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"x" * 99 + b"\n" + b"y" * 99 + b"\n" * 50)
    command = [OTTLA, "produce", "small", str(path), "--rate", "20", "--bootstrap", busy.bootstrap]
    with Screen(*command) as screen:
        screen.read_to_the_end()
    assert re.search(r"\rsending:  \[#+\] 100%  \S+B of \S+B  \d+ records  \S+B/s", screen.output)
    assert screen.output.endswith("\r\033[K")


def test_a_copy_and_its_way_back_show_how_far_they_are(tmp_path):
    data, backup = str(tmp_path / "data"), str(tmp_path / "backup")
    with Broker(data=data) as broker:
        broker.send("t", "v" * 1000)
    for command in (
        ("backup", backup, "--data", data),
        ("restore", backup, "--data", str(tmp_path / "again")),
    ):
        with Screen(OTTLA, *command) as screen:
            screen.read_to_the_end()
        assert screen.process.returncode == 0, screen.output
        assert re.search(r"\r(copying|restoring): ", screen.output), screen.output
