"""The same REST calls to Java's Connect and to ours: good and bad input for every endpoint, and what was answered.

`python -m tests.connect.rest_script FILE` writes down what Java's worker answers (distributed, on an Ottla broker); the
tests play the calls to ours and compare.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

SOURCE_CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK_CLASS = "org.apache.kafka.connect.file.FileStreamSinkConnector"


class Call(NamedTuple):
    """`until`: repeat until the answer's text contains this. Settings of a folder are written {folder}."""

    method: str
    path: str
    body: Any = None
    until: str | None = None
    compared: str = "all"  # all, status (only the code), keys (only which keys there are)


SOURCE = {
    "connector.class": "FileStreamSource",
    "tasks.max": "1",
    "file": "{folder}/in.txt",
    "topic": "lines",
}
SINK = {"connector.class": "FileStreamSink", "tasks.max": "1", "file": "{folder}/out.txt", "topics": "lines"}
JSON = {"Content-Type": "application/json"}


def calls() -> Iterator[Call]:
    yield Call("GET", "/")
    yield Call("GET", "/connectors")
    yield Call("GET", "/health")
    yield Call("GET", "/connector-plugins", compared="status")
    yield Call("GET", "/connector-plugins/FileStreamSource/config")
    yield Call("GET", "/connector-plugins/FileStreamSink/config")
    yield Call("GET", "/connector-plugins/RegexRouter/config", compared="status")
    yield Call("GET", "/connector-plugins/NoSuchPlugin/config")
    yield from _validating()
    yield from _unknown("nobody")
    yield from _malformed()
    yield from _creating()
    yield from _asking()
    yield from _changing()
    yield from _offsets()
    yield from _pausing()
    yield from _deleting()
    yield from _loggers()


def _validating() -> Iterator[Call]:
    put = "/connector-plugins/FileStreamSource/config/validate"
    yield Call("PUT", put, {**SOURCE, "name": "v"}, compared="validate")
    yield Call("PUT", put, {"connector.class": "FileStreamSource", "name": "v"}, compared="validate")
    yield Call("PUT", put, {**SOURCE, "name": "v", "tasks.max": "many"}, compared="validate")
    yield Call("PUT", put, {**SOURCE, "name": "v", "tasks.max": "0"}, compared="validate")
    yield Call("PUT", put, {**SOURCE, "name": "v", "errors.tolerance": "some"}, compared="validate")
    yield Call("PUT", put, {**SOURCE, "name": "v", "batch.size": "x"}, compared="validate")
    yield Call("PUT", put, {**SINK, "name": "v"})
    yield Call("PUT", put, {"name": "v"})
    yield Call("PUT", put, "[]")
    sink = "/connector-plugins/FileStreamSink/config/validate"
    yield Call("PUT", sink, {**SINK, "name": "v"}, compared="validate")
    yield Call("PUT", sink, {**SINK, "name": "v", "topics.regex": "l.*"}, compared="validate")
    yield Call("PUT", sink, {"connector.class": "FileStreamSink", "name": "v"}, compared="validate")
    yield Call(
        "PUT",
        "/connector-plugins/NoSuchPlugin/config/validate",
        {"connector.class": "NoSuchPlugin", "name": "v"},
    )


def _unknown(name: str) -> Iterator[Call]:
    """Every endpoint of a connector that does not exist."""
    for method, path in (
        ("GET", ""), ("GET", "/config"), ("GET", "/status"), ("GET", "/tasks"), ("GET", "/tasks/0/status"),
        ("GET", "/topics"), ("PUT", "/topics/reset"), ("GET", "/offsets"), ("DELETE", "/offsets"),
        ("PUT", "/pause"), ("PUT", "/resume"), ("PUT", "/stop"), ("POST", "/restart"),
        ("POST", "/restart?includeTasks=true"), ("POST", "/tasks/0/restart"), ("DELETE", ""), ("GET", "/tasks-config"),
        ("GET", "/nothing"), ("POST", "/pause"), ("PUT", ""), ("GET", "/tasks/x/status"),
    ):  # fmt: skip
        yield Call(method, f"/connectors/{name}{path}")
    yield Call("PATCH", f"/connectors/{name}/config", {"a": "b"})
    yield Call(
        "PATCH", f"/connectors/{name}/offsets", {"offsets": [{"partition": {"a": 1}, "offset": {"b": 2}}]}
    )
    yield Call("GET", "/nothing")
    yield Call("DELETE", "/connectors")
    yield Call("POST", "/")


def _malformed() -> Iterator[Call]:
    yield Call("POST", "/connectors", "{")
    yield Call("POST", "/connectors", "[]")
    yield Call("POST", "/connectors", {})
    yield Call("POST", "/connectors", {"name": "x"})
    yield Call("POST", "/connectors", {"config": SOURCE})
    yield Call("POST", "/connectors", {"name": "x", "config": {}})
    yield Call("POST", "/connectors", {"name": "x", "config": {"connector.class": "NoSuchPlugin"}})
    yield Call("POST", "/connectors", {"name": "x", "config": {**SOURCE, "name": "y"}})
    yield Call("POST", "/connectors", {"name": "x", "config": {"connector.class": "FileStreamSource"}})
    yield Call("POST", "/connectors", {"name": "x", "config": {**SOURCE, "tasks.max": "many"}})
    yield Call("POST", "/connectors", {"name": "x", "config": {"connector.class": "FileStreamSink"}})
    yield Call("POST", "/connectors", {"name": "x", "config": SOURCE, "other": 1})
    yield Call("POST", "/connectors", {"name": "x", "config": SOURCE, "initial_state": "SLEEPING"})
    yield Call("POST", "/connectors", {"name": "", "config": SOURCE})
    yield Call("PUT", "/connectors/x/config", {})
    yield Call("PUT", "/connectors/x/config", {"connector.class": "FileStreamSource"})
    yield Call("PUT", "/connectors/x/config", {**SOURCE, "name": "y"})


def _creating() -> Iterator[Call]:
    yield Call("POST", "/connectors", {"name": "source", "config": SOURCE})
    yield Call("POST", "/connectors", {"name": "source", "config": SOURCE})
    yield Call("GET", "/connectors/source/status", until='"tasks":[{"id":0,"state":"RUNNING"')
    yield Call("POST", "/connectors", {"name": "sink", "config": SINK, "initial_state": "STOPPED"})
    yield Call("GET", "/connectors/sink/status", until='"state":"STOPPED"')
    yield Call("GET", "/connectors/sink/tasks")
    yield Call("PUT", "/connectors/sink/resume")
    yield Call("GET", "/connectors/sink/status", until='"tasks":[{"id":0,"state":"RUNNING"')
    yield Call("PUT", "/connectors/other/config", {**SINK, "file": "{folder}/other.txt"})
    yield Call("GET", "/connectors/other/status", until='"tasks":[{"id":0,"state":"RUNNING"')


def _asking() -> Iterator[Call]:
    yield Call("GET", "/connectors", compared="sorted")
    yield Call("GET", "/connectors?expand=info")
    yield Call("GET", "/connectors?expand=status")
    yield Call("GET", "/connectors?expand=info&expand=status")
    yield Call("GET", "/connectors?expand=nothing")
    for name in ("source", "sink"):
        yield Call("GET", f"/connectors/{name}", until='"tasks":[{')
        yield Call("GET", f"/connectors/{name}/config")
        yield Call("GET", f"/connectors/{name}/status")
        yield Call("GET", f"/connectors/{name}/tasks")
        yield Call("GET", f"/connectors/{name}/tasks/0/status")
        yield Call("GET", f"/connectors/{name}/tasks/7/status")
        yield Call("GET", f"/connectors/{name}/topics", until="lines")
        yield Call("GET", f"/connectors/{name}/offsets", until='offset":{')
    yield Call("PUT", "/connectors/source/topics/reset")


def _changing() -> Iterator[Call]:
    yield Call("PUT", "/connectors/other/config", {**SINK, "file": "{folder}/other.txt", "tasks.max": "2"})
    yield Call("PATCH", "/connectors/other/config", {"tasks.max": "1", "extra": "1"})
    yield Call("PATCH", "/connectors/other/config", {"extra": None})
    yield Call("PATCH", "/connectors/other/config", {"tasks.max": "many"})
    yield Call("GET", "/connectors/other/config")
    yield Call("POST", "/connectors/source/restart")
    yield Call("POST", "/connectors/source/tasks/0/restart")
    yield Call("POST", "/connectors/source/tasks/7/restart")
    yield Call("POST", "/connectors/source/restart?includeTasks=true&onlyFailed=true", compared="status")
    yield Call("POST", "/connectors/source/restart?includeTasks=perhaps")


def _offsets() -> Iterator[Call]:
    partition = {"filename": "{folder}/in.txt"}
    running = "/connectors/source/offsets"
    yield Call("PATCH", running, {"offsets": [{"partition": partition, "offset": {"position": 2}}]})
    yield Call("DELETE", running)
    yield Call("PUT", "/connectors/source/stop")
    yield Call("GET", "/connectors/source/status", until='"state":"STOPPED"', compared="status")
    yield Call("GET", "/connectors/source/status", until='"tasks":[]')
    yield Call("PATCH", running, {"offsets": [{"partition": partition, "offset": {"position": 2}}]})
    yield Call("GET", running)
    yield Call("PATCH", running, {"offsets": [{"partition": {"x": 1}, "offset": {"position": 2}}]})
    yield Call("PATCH", running, {"offsets": [{"partition": partition, "offset": {"position": -2}}]})
    yield Call("PATCH", running, {"offsets": []})
    yield Call("PATCH", running, {})
    yield Call("PATCH", running, "{")
    yield Call("DELETE", running)
    yield Call("GET", running)
    yield Call("PUT", "/connectors/sink/stop")
    yield Call("GET", "/connectors/sink/status", until='"state":"STOPPED"', compared="status")
    yield Call("GET", "/connectors/sink/status", until='"tasks":[]')
    sink = "/connectors/sink/offsets"
    lines = {"kafka_topic": "lines", "kafka_partition": 0}
    yield Call("GET", sink)
    yield Call("PATCH", sink, {"offsets": [{"partition": lines, "offset": {"kafka_offset": 1}}]})
    yield Call("GET", sink)
    yield Call(
        "PATCH", sink, {"offsets": [{"partition": {"kafka_topic": "lines"}, "offset": {"kafka_offset": 1}}]}
    )
    yield Call("PATCH", sink, {"offsets": [{"partition": lines, "offset": {"other": 1}}]})
    yield Call("PATCH", sink, {"offsets": [{"partition": lines, "offset": {"kafka_offset": "x"}}]})
    yield Call("PATCH", sink, {"offsets": [{"partition": lines, "offset": None}]})
    yield Call("GET", sink)
    yield Call("DELETE", sink)
    yield Call("GET", sink)


def _pausing() -> Iterator[Call]:
    yield Call("PUT", "/connectors/other/pause")
    yield Call("GET", "/connectors/other/status", until='"tasks":[{"id":0,"state":"PAUSED"')
    yield Call("PUT", "/connectors/other/pause")
    yield Call("PUT", "/connectors/other/resume")
    yield Call("GET", "/connectors/other/status", until='"tasks":[{"id":0,"state":"RUNNING"')


def _deleting() -> Iterator[Call]:
    for name in ("source", "sink", "other"):
        yield Call("DELETE", f"/connectors/{name}")
    yield Call("GET", "/connectors", until="[]")
    yield Call("DELETE", "/connectors/source")


def _loggers() -> Iterator[Call]:
    logger = "/admin/loggers/org.apache.kafka.connect.runtime.WorkerSourceTask"
    yield Call("GET", "/admin/loggers", compared="status")
    yield Call("PUT", logger, {"level": "DEBUG"})
    yield Call("GET", logger, compared="level")
    yield Call("PUT", logger, {"level": "LOUD"})
    yield Call("PUT", logger, {})
    yield Call("PUT", f"{logger}?scope=cluster", {"level": "ERROR"})
    yield Call("GET", "/admin/loggers/no.such.Logger.here", compared="status")


# -- playing them ----------------------------------------------------------------------------------


class Answer(NamedTuple):
    code: int
    body: Any
    type: str | None = None
    location: str | None = None


class Player:
    """`shown` makes answers of different folders and ports comparable."""

    def __init__(self, url: str, folder: Path, timeout_s: float = 60) -> None:
        self.url, self._folder, self._timeout_s = url.rstrip("/"), folder, timeout_s

    def play(self, call: Call) -> Answer:
        deadline = time.monotonic() + self._timeout_s
        while True:
            code, text, kind, location = self._once(call)
            if call.until is None or call.until in text:
                break
            assert time.monotonic() < deadline, f"{call}: still {code} {text}"
            time.sleep(0.1)
        return Answer(code, self._body(text), kind, self._plain(location) if location else None)

    def _once(self, call: Call) -> tuple[int, str, str | None, str | None]:
        text = call.body if isinstance(call.body, str) else json.dumps(call.body)
        text = text.replace("{folder}", str(self._folder))
        data = None if call.body is None else text.encode()
        request = urllib.request.Request(self.url + call.path, data, JSON, method=call.method)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as response:
                told = response.headers
                return response.status, response.read().decode(), told["Content-Type"], told["Location"]
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), error.headers["Content-Type"], None

    def _body(self, text: str) -> Any:
        plain = self._plain(text)
        try:
            return _without_texts(json.loads(plain)) if plain else None
        except ValueError:
            return plain

    def _plain(self, text: str) -> str:
        text = text.replace(str(self._folder), "{folder}").replace(self.url, "{url}")
        text = re.sub(r"127\.0\.0\.1:\d+", "{worker}", text)
        return re.sub(r'"last_modified":\d+', '"last_modified":0', text)


def _without_texts(body: Any) -> Any:
    """Descriptions of settings are in each one's own words."""
    if isinstance(body, dict):
        return {name: _without_texts(value) for name, value in body.items() if name != "documentation"}
    return [_without_texts(value) for value in body] if isinstance(body, list) else body


def prepare(folder: Path) -> None:
    (folder / "in.txt").write_text("one\ntwo\nthree\n")


@contextmanager
def java_worker(bootstrap: str, port: int, folder: Path, **more: str) -> Iterator[str]:
    """Java's Connect, distributed; its URL once it answers."""
    from tests.oracle.cluster import start_tool

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "connect-cluster",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "offset.storage.topic": "connect-offsets",
        "config.storage.topic": "connect-configs",
        "status.storage.topic": "connect-status",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        **{f"{kind}.storage.replication.factor": "1" for kind in ("offset", "config", "status")},
        "listeners": f"http://127.0.0.1:{port}",
        "rest.advertised.host.name": "127.0.0.1",
        "plugin.discovery": "service_load",
        "exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "0",
        **more,
    }
    properties = folder / "worker.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    with (folder / "worker.log").open("w") as log:
        process = start_tool("connect-distributed", str(properties), stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        _await(lambda: _answers(url), process, folder / "worker.log")
        yield url
    finally:
        process.terminate()
        process.wait(120)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/connectors", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def _await(
    done: Callable[[], bool], process: subprocess.Popen[str], log: Path, timeout_s: float = 180
) -> None:
    deadline = time.monotonic() + timeout_s
    while not done():
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.1)


def main(file: str) -> None:
    from tests.oracle.ottla import Ottla
    from tests.oracle.ports import free_ports

    folder = Path(tempfile.mkdtemp(prefix="connect-rest-"))
    prepare(folder)
    told = []
    with (
        Ottla(options=["--memory"]) as broker,
        java_worker(broker.bootstrap, free_ports(1)[0], folder) as url,
    ):
        player = Player(url, folder)
        for call in calls():
            answer = player.play(call)
            told.append({"call": call._asdict(), "answer": answer._asdict()})
            print(call.method, call.path, answer.code, flush=True)
    Path(file).write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
