"""The console beside a broker, and in the demo."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from urllib.error import URLError

from tests.console.consoles import Client, rows, until


def test_a_broker_starts_its_console_and_takes_it_along(tmp_path):
    command = [
        sys.executable,
        "-m",
        "ottla",
        "start",
        "--memory",
        "--port",
        "0",
        "--console",
        "0",
        "--http",
        "0",
    ]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        lines: list[str] = []
        threading.Thread(target=lambda: lines.extend(broker.stdout), daemon=True).start()
        ready = _line(broker, lines, "ready ")
        address = _line(broker, lines, "console ")
        client = Client(address.partition("/?")[0])
        client.get("/?" + address.partition("/?")[2])
        shown = rows(client.json("/"), "brokers")
        assert [row["address"] for row in shown] == [ready]

        def bytes_out():
            chart = next(block for block in client.json("/")["blocks"] if block.get("key") == "bytes")
            return dict(chart["series"])["out"]

        until(bytes_out, "what consumers fetch, from /metrics")
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(30) == 0
        until(lambda: _is_away(client), "the console has ended with its broker")
    finally:
        broker.kill()
        broker.wait()


def test_a_console_ends_when_its_broker_is_killed():
    command = [sys.executable, "-m", "ottla", "start", "--memory", "--port", "0", "--console", "0"]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    lines: list[str] = []
    threading.Thread(target=lambda: lines.extend(broker.stdout), daemon=True).start()
    address = _line(broker, lines, "console ")
    broker.kill()
    broker.wait()
    client = Client(address.partition("/?")[0])
    until(lambda: _is_away(client), "the console has ended with its broker")


def test_a_broker_whose_listener_wants_a_login_says_what_to_do(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("listeners=SASL_PLAINTEXT://127.0.0.1:0\nsasl.enabled.mechanisms=SCRAM-SHA-512\n")
    command = [sys.executable, "-m", "ottla", "start", "--memory", "--config", str(file), "--console"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "ottla console --command-config" in done.stderr


def _line(process: subprocess.Popen, lines: list[str], begin: str) -> str:
    def found():
        assert process.poll() is None or any(line.startswith(begin) for line in lines), lines
        return next((line.removeprefix(begin).strip() for line in lines if line.startswith(begin)), None)

    return until(found, f"a line that begins with {begin!r}")


def _is_away(client: Client) -> bool:
    try:
        client.get("/")
    except (URLError, OSError):
        return True
    return False


def test_the_assets_are_in_the_package():
    import ottla.console

    static = Path(ottla.console.__file__).parent / "static"
    assert {each.name for each in static.iterdir()} >= {
        "console.css",
        "console.js",
        "live.js",
        "worker.js",
        "icon.svg",
    }
