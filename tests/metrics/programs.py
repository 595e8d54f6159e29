"""Prometheus and promtool, as Debian brings them; tests that need them are skipped where they are missing."""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from tests.oracle.ports import free_ports

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="Prometheus is not installed (make tools)",
)


def promtool(*arguments, text=None):
    return subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True, timeout=60)


def get(address, path, accept=""):
    """Status, kind, text."""
    request = urllib.request.Request(f"http://{address}{path}", headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def samples(text):
    """Series with labels -> value."""
    rows = (line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return {series: float(value) for series, _, value in rows}


class Prometheus:
    """A real one, until the end of the test."""

    def __init__(self, folder, configuration):
        path = folder / "prometheus.yml"
        path.write_text(configuration)
        checked = promtool("check", "config", str(path))
        assert checked.returncode == 0, checked.stdout + checked.stderr
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self._log = (folder / "prometheus.log").open("w+")
        self._process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={path}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address={self.address}",
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(60)
        self._log.close()

    def ask(self, path, **parameters):
        query = urllib.parse.urlencode(parameters)
        status, _, text = get(self.address, f"/api/v1/{path}?{query}")
        assert status == 200, text
        return json.loads(text)["data"]

    def value(self, expression):
        return self.ask("query", query=expression)["result"]

    def until(self, condition, what, timeout_s=90):
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                found = condition()
            except (OSError, AssertionError):
                found = None  # it still starts
            if found:
                return found
            if time.monotonic() > deadline:
                self._log.seek(0)
                raise AssertionError(f"not in {timeout_s} s: {what}\n{self._log.read()[-3000:]}")
            time.sleep(0.25)
