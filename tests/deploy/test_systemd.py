"""The unit and the log rotation: checked by systemd and logrotate themselves, and what the broker tells systemd."""

import os
import re
import shutil
import signal
import socket
import subprocess

import pytest

from tests.deploy.brokers import OTTLA
from tests.deploy.containers import ROOT

HOME = ROOT / "deploy" / "systemd"


@pytest.fixture
def manager(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(60)
        yield receiver


def test_systemd_hears_when_the_broker_is_ready_and_when_it_stops(manager, tmp_path):
    process = subprocess.Popen(
        [OTTLA, "start", "--port", "0", "--data", str(tmp_path / "data")],
        env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
        stdout=subprocess.PIPE,
    )
    try:
        assert manager.recv(100) == b"READY=1"
        assert process.stdout is not None and process.stdout.readline().startswith(b"ready ")
        process.send_signal(signal.SIGTERM)
        assert manager.recv(100) == b"STOPPING=1"
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def unit(tmp_path):
    """The unit with a program that exists here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze (make tools)")
    path = tmp_path / "ottla.service"
    path.write_text((HOME / "ottla.service").read_text().replace("/opt/ottla/bin/ottla", OTTLA))
    return path


def analyze(*arguments):
    return subprocess.run(
        ["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, timeout=60, env=os.environ
    )


def test_systemd_finds_nothing_wrong_with_the_unit(unit):
    done = analyze("verify", "--man=no", unit)
    assert done.returncode == 0 and "ottla.service" not in done.stderr, done.stderr


def test_systemd_finds_a_wrong_line(unit):
    unit.write_text(unit.read_text().replace("Restart=on-failure", "Restart=sometimes"))
    assert "sometimes" in analyze("verify", "--man=no", unit).stderr


def test_little_is_left_open(unit):
    done = analyze("security", "--offline=true", unit)
    found = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    assert float(found[1]) < 3


def test_the_command_of_the_unit_is_understood():
    (line,) = [
        each for each in (HOME / "ottla.service").read_text().splitlines() if each.startswith("ExecStart=")
    ]
    done = subprocess.run([OTTLA, *line.split()[1:], "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_logrotate_rotates_the_log_of_a_running_broker(tmp_path):
    program = shutil.which("logrotate", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("needs logrotate (make tools)")
    log = tmp_path / "broker.log"
    config = tmp_path / "logrotate.conf"
    config.write_text((HOME / "ottla.logrotate").read_text().replace("/var/log/ottla", str(tmp_path)))
    config.chmod(0o644)
    with log.open("a") as writer:
        writer.write("before\n")
        writer.flush()
        done = subprocess.run(
            [program, "--force", "--state", str(tmp_path / "state"), str(config)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        writer.write("after\n")
    assert (tmp_path / "broker.log.1").read_text() == "before\n"
    assert log.read_text() == "after\n"
