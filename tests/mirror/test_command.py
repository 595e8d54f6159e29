"""`ottla mirror` as people use it: run, status, pause, resume, throttle, promote."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from ottla.cli.main import main
from ottla.client import Producer
from ottla.mirror.metrics import serve
from ottla.mirror.status import set_control, status
from ottla.mirror.throttle import Throttle
from ottla.testing import Broker
from tests.mirror.local import link, records, runner
from tests.oracle.garbage import thresholds_at_exit


@pytest.fixture
def sides() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as source, Broker() as target:
        source.create_topic("in", partitions=2)
        yield source, target


def send(broker: Broker, count: int, size: int = 100) -> None:
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for i in range(count):
            producer.send("in", b"%0*d" % (size, i), partition=i % 2)


def where(source: Broker, target: Broker) -> list[str]:
    return ["--from", f"A={source.bootstrap}", "--to", f"B={target.bootstrap}", "--topics", "in.*"]


def test_a_copy_that_ends_and_its_status(
    sides: tuple[Broker, Broker], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source, target = sides
    send(source, 100)
    program = str(Path(sys.executable).with_name("ottla"))
    noting, noted = thresholds_at_exit(tmp_path)
    done = subprocess.run(
        [program, "mirror", *where(source, target), "--local", "--once"],
        capture_output=True,
        text=True,
        env=noting,
    )
    assert done.returncode == 0, done.stderr
    assert (
        int(noted.read_text()) <= 2_000
    )  # a collection of more objects would stop all tasks for milliseconds
    assert len(records(target.bootstrap, "A.in", 0)) == 50
    send(source, 10)
    assert main(["mirror", "status", *where(source, target)]) == 0
    shown = capsys.readouterr().out
    assert "A->B: stopped, 10 records behind" in shown
    file = tmp_path / "mm2.properties"
    file.write_text(
        f"clusters = A, B\nA.bootstrap.servers = {source.bootstrap}\nB.bootstrap.servers = {target.bootstrap}\n"
        "A->B.enabled = true\nA->B.topics = in\n"
    )
    assert main(["mirror", "status", "--config", str(file), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["topic"], row["lag"], row["records"]) for row in rows] == [("in", 5, 50), ("in", 5, 50)]
    assert all(row["lag_seconds"] > 0 for row in rows)


def test_all_links_are_watched(
    sides: tuple[Broker, Broker],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    source, target = sides
    target.create_topic("back", partitions=1)
    target.send("back", "x")
    send(source, 10)
    file = tmp_path / "mm2.properties"
    file.write_text(
        f"clusters = A, B\nA.bootstrap.servers = {source.bootstrap}\nB.bootstrap.servers = {target.bootstrap}\n"
        "A->B.enabled = true\nA->B.topics = in\nB->A.enabled = true\nB->A.topics = back\n"
    )
    program = str(Path(sys.executable).with_name("ottla"))
    subprocess.run([program, "mirror", "--config", str(file), "--local", "--once"], check=True)
    pause, looks, sleep = 0.125, [], time.sleep

    def wait(seconds: float) -> None:
        if seconds != pause:  # not the command's
            sleep(seconds)
            return
        looks.append(seconds)
        if len(looks) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("ottla.cli.mirror.time.sleep", wait)
    assert main(["mirror", "status", "--config", str(file), "--watch", str(pause)]) == 130
    shown = capsys.readouterr().out
    assert shown.count("A->B: stopped, 0 records behind") == 2
    assert shown.count("B->A: stopped, 0 records behind") == 2


def test_promote_says_first_what_would_be_lost(
    sides: tuple[Broker, Broker], capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = sides
    send(source, 100)
    with runner(link(source.bootstrap, target.bootstrap)) as running:
        running.run_once()
        assert main(["mirror", "promote", "--execute", *where(source, target)]) == 1
        assert "stop it first" in capsys.readouterr().err
        running.driver.leave()
    send(source, 7)
    assert main(["mirror", "promote", *where(source, target)]) == 0
    shown = capsys.readouterr().out
    assert "7 records of the source are not copied and would be missing here" in shown
    assert "nothing was changed" in shown
    clusters = where(source, target)
    source.stop()
    assert main(["mirror", "promote", "--execute", *clusters]) == 0
    shown = capsys.readouterr().out
    assert "the source cannot be asked" in shown and "paused for good" in shown


def test_pause_resume_and_catching_up(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    chosen = link(source.bootstrap, target.bootstrap)
    with runner(chosen) as running:
        send(source, 20)
        running.round()
        set_control(chosen, paused=True)
        running.driver.keep()
        send(source, 20)
        assert running.round() == 0
        told = status(chosen)
        assert (told.state, told.lag) == ("paused", 20)
        set_control(chosen, paused=False)
        running.driver.keep()
        while not running.round():
            running.driver.wait()
        assert status(chosen).lag == 0


def test_a_throttle_holds_and_can_be_changed_while_it_runs(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    send(source, 3_000, size=1_000)
    chosen = link(source.bootstrap, target.bootstrap, throttle_bytes=1)
    with runner(chosen) as running:
        begun = time.monotonic()
        running.round()
        while time.monotonic() - begun < 0.5:
            assert running.round() == 0  # a step may be larger than its share; then its debt is paid off
        set_control(chosen, throttle_bytes=0)
        running.driver.keep()
        running.run_once()
        assert status(chosen).lag == 0


def test_the_bucket_fills_at_the_rate() -> None:
    now = [0.0]
    throttle = Throttle(100, lambda: now[0])
    assert throttle.allowed(0) == 0
    now[0] = 0.5
    assert throttle.allowed(0) == 50
    assert throttle.allowed(250) == 0  # 200 too many
    now[0] = 2.0
    assert throttle.allowed(250) == 0 and throttle.is_exhausted is True
    now[0] = 3.0
    assert throttle.allowed(250) == 50
    assert throttle.allowed(250, 0) is None


def test_clusters_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mirror", "--local"]) == 1
    assert "--from and --to name the clusters" in capsys.readouterr().err
    assert main(["mirror", "status", "--from", "a:1"]) == 1
    assert "go together" in capsys.readouterr().err


def test_figures_are_served_for_prometheus(sides: tuple[Broker, Broker]) -> None:
    source, target = sides
    send(source, 10)
    chosen = link(source.bootstrap, target.bootstrap)
    with runner(chosen) as running:
        running.run_once()
        send(source, 4)
        port = serve([chosen], 0)
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            shown = answer.read().decode().splitlines()
    assert 'ottla_mirror_running{link="A->B"} 1' in shown
    assert 'ottla_mirror_lag_records{link="A->B",topic="in",partition="0"} 2' in shown
    assert 'ottla_mirror_records_total{link="A->B",topic="in",partition="1"} 5' in shown
