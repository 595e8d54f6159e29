"""The parts of REST that need no broker: checks of configs, addresses of answers, forwarding."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest

from ottla.connect.errors import ConfigError
from ottla.connect.rest.app import app
from ottla.connect.rest.forwarding import Switch
from ottla.connect.store.configs import ConfigState
from ottla.connect.store.formats import topic_status, topic_status_key
from ottla.connect.store.statuses import Statuses
from ottla.connect.store.table import TopicTable
from ottla.connect.tasks.spec import Spec
from ottla.connect.worker.refusals import Refusal
from ottla.connect.worker.settings import WorkerSettings
from ottla.connect.worker.validation import check_config, infos
from ottla.testing import Broker

SOURCE = {"connector.class": "FileStreamSource", "name": "c", "file": "/tmp/in", "topic": "t"}
SINK = {"connector.class": "FileStreamSink", "name": "c", "file": "/tmp/out", "topics": "t"}


def refusal(config: dict[str, str]) -> Refusal:
    with pytest.raises(Refusal) as refused:
        check_config(config)
    return refused.value


def asked(
    application: Any,
    method: str,
    raw_path: bytes,
    path: str,
    body: bytes = b"",
    query: bytes = b"",
    content_type: bytes | None = b"application/json",
) -> tuple[int, dict[str, str], bytes]:
    """One request, as a server hands it to an ASGI application."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"worker:8083")] + ([(b"content-type", content_type)] if content_type else [])
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": raw_path, "query_string": query, "scheme": "http",
        "headers": headers, "server": ("worker", 8083), "root_path": "", "http_version": "1.1",
    }  # fmt: skip
    asyncio.run(application(scope, receive, send))
    answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], answered, b"".join(message.get("body", b"") for message in sent[1:])


# -- placeholders ----------------------------------------------------------------------------------------


def test_placeholders_that_cannot_be_resolved_are_all_errors_also_of_settings_without_a_definition():
    config = {
        **SOURCE,
        "producer.override.sasl.jaas.config": "${env:OTTLA_NOPE}",
        "producer.override.client.id": "${env:OTTLA_NOT_THIS_EITHER}",
        "topic": "${env:OTTLA_NO_TOPIC}",
    }
    answer = refusal(config)
    assert answer.code == 400
    for name in ("OTTLA_NOPE", "OTTLA_NOT_THIS_EITHER", "OTTLA_NO_TOPIC"):
        assert f"there is no environment variable {name}" in answer.message
    described = infos(config)
    assert described["error_count"] == 3
    named = {setting["value"]["name"]: setting["value"] for setting in described["configs"]}
    assert named["producer.override.sasl.jaas.config"]["value"] == "${env:OTTLA_NOPE}"


@pytest.mark.parametrize(
    ("base", "name", "secret"),
    [
        (SOURCE, "tasks.max", "hunter2"),
        (SOURCE, "tasks.max", "-0012345"),
        (SOURCE, "errors.log.enable", "hunter2"),
        (SOURCE, "errors.tolerance", " hunter2 "),
        (SOURCE, "value.converter", "hunter2"),
        (SINK, "topics.regex", "(hunter2"),
        (SINK, "errors.deadletterqueue.topic.name", "hunter2"),
        (SOURCE, "transforms.x.type", "hunter2"),
    ],
)
@pytest.mark.parametrize("provider", ["env", "file"])
def test_errors_show_the_placeholder_and_never_the_secret_behind_it(
    base: dict[str, str],
    name: str,
    secret: str,
    provider: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("MYSECRET", secret)
    (tmp_path / "secrets").write_text(f"my={secret}\n")
    placeholder = "${env:MYSECRET}" if provider == "env" else f"${{file:{tmp_path}/secrets:my}}"
    config = {**base, name: placeholder}
    if name == "errors.deadletterqueue.topic.name":
        config["topics"] = f"t,{secret}"  # the error is of `topics`, which is the caller's own text
    if name == "transforms.x.type":
        config["transforms"] = "x"
    answer = refusal(config)
    assert answer.code == 400 and placeholder in answer.message
    assert "hunter2" not in answer.message and "12345" not in answer.message
    if name != "errors.deadletterqueue.topic.name":
        assert "hunter2" not in json.dumps(infos(config)) and "12345" not in json.dumps(infos(config))


def test_a_secret_inside_a_longer_value_is_not_in_errors(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MYSECRET", "hunter2")
    answer = refusal({**SOURCE, "value.converter": "com.${env:MYSECRET}.Converter"})
    assert "hunter2" not in answer.message
    assert "Class com.${env:MYSECRET}.Converter could not be found" in answer.message


def test_a_short_secret_leaves_the_rest_of_an_error_readable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MYSECRET", "0")
    answer = refusal({**SOURCE, "tasks.max": "${env:MYSECRET}"})
    assert (
        "Invalid value ${env:MYSECRET} for configuration tasks.max: Value must be at least 1"
        in answer.message
    )


# -- names -----------------------------------------------------------------------------------------------


def test_a_name_with_control_characters_is_refused_as_java_does():
    answer = refusal({**SOURCE, "name": "a\nb\x85"})
    assert answer.code == 400
    assert (
        "String may not contain control sequences but had the following ASCII chars: 10, 133"
        in answer.message
    )
    check_config({**SOURCE, "name": "名 with a space"})


@pytest.mark.parametrize(
    ("name", "escaped"), [("名", "%E5%90%8D"), ("my conn", "my%20conn"), ("a/b?c", "a%2Fb%3Fc")]
)
def test_the_location_of_a_new_connector_has_its_name_escaped(name: str, escaped: str):
    herder: Any = SimpleNamespace(
        create=lambda name, config, initial: {"name": name}, put=lambda name, config: (True, {})
    )
    body = json.dumps({"name": name, "config": SOURCE | {"name": name}}).encode()
    code, headers, _ = asked(app(herder), "POST", b"/connectors", "/connectors", body)
    assert (code, headers["location"]) == (201, f"http://worker:8083/connectors/{escaped}")


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [("POST", "/connectors/", 201), ("PUT", "/connectors/c/config/", 200), ("DELETE", "/connectors/c/", 204)],
)
def test_an_address_may_end_with_a_slash(method: str, path: str, code: int):
    """Debezium's tutorial posts to /connectors/; curl does not follow a redirect of a POST."""
    names: list[str] = []
    herder: Any = SimpleNamespace(
        create=lambda name, config, initial: names.append(name) or {},
        put=lambda name, config: names.append(name) or (False, {}),
        delete=names.append,
    )
    body = b'{"name": "c", "config": {}}' if method == "POST" else b"{}" if method == "PUT" else b""
    assert asked(app(herder), method, path.encode(), path, body)[0] == code
    assert names == ["c"]


@pytest.mark.parametrize("raw_path", [b"/connectors/c%2F", b"/connectors/c//"])
def test_only_one_slash_that_the_caller_wrote_is_left_out(raw_path: bytes):
    """/connectors/c%2F is a connector named `c/`: it must not delete `c`."""
    herder: Any = SimpleNamespace(delete=lambda name: pytest.fail(f"{name} was deleted"))
    assert asked(app(herder), "DELETE", raw_path, unquote(raw_path.decode()))[0] == 404


FOREIGN_TYPES = [b"text/plain", b"application/x-www-form-urlencoded", b"text/plain; application/json", None]


@pytest.mark.parametrize("content_type", FOREIGN_TYPES)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/connectors"), ("PUT", "/connectors/c/config"), ("PATCH", "/connectors/c/config")],
)
def test_a_body_that_is_not_declared_as_json_is_refused(method: str, path: str, content_type: bytes | None):
    """Any web page may make a browser send the types refused here to a worker at localhost."""
    herder: Any = SimpleNamespace()
    body = b'{"name": "c", "config": {}}'
    code, _, answer = asked(app(herder), method, path.encode(), path, body, content_type=content_type)
    assert code == 415
    assert json.loads(answer) == {"error_code": 415, "message": "HTTP 415 Unsupported Media Type"}


@pytest.mark.parametrize("content_type", [b"application/json", b"Application/JSON; charset=utf-8"])
def test_a_body_of_json_is_taken(content_type: bytes):
    herder: Any = SimpleNamespace(patch=lambda name, changes: changes)
    path = "/connectors/c/config"
    answer = asked(app(herder), "PATCH", path.encode(), path, b'{"a": "b"}', content_type=content_type)
    assert (answer[0], answer[2]) == (200, b'{"a":"b"}')


def test_a_call_without_a_body_needs_no_type():
    names: list[str] = []
    herder: Any = SimpleNamespace(pause=names.append)
    path = "/connectors/c/pause"
    assert asked(app(herder), "PUT", path.encode(), path, content_type=None)[0] == 202
    assert names == ["c"]


def asked_in_pieces(application: Any, piece: bytes, declared: int | None = None) -> tuple[int, bytes, int]:
    """The code, the answer, and how many pieces of an endless body were taken."""
    taken = 0
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 1
        if taken > 100:
            pytest.fail("the body is read without a bound")
        return {"type": "http.request", "body": piece, "more_body": True}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"worker:8083"), (b"content-type", b"application/json")]
    if declared is not None:
        headers.append((b"content-length", b"%d" % declared))
    scope = {
        "type": "http", "method": "POST", "path": "/connectors", "raw_path": b"/connectors", "query_string": b"",
        "headers": headers, "server": ("worker", 8083), "root_path": "", "http_version": "1.1", "scheme": "http",
    }  # fmt: skip
    asyncio.run(application(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]), taken


@pytest.mark.parametrize("stands_by", [False, True])
def test_a_body_is_read_up_to_a_bound(stands_by: bool):
    """One caller could fill the worker's memory, and connectors of everybody would end with it."""
    herder: Any = SimpleNamespace()
    application = Switch(lambda: "http://worker") if stands_by else app(herder)
    code, answer, taken = asked_in_pieces(application, b" " * 2**20)
    assert (code, taken) == (413, 9)
    assert json.loads(answer)["error_code"] == 413
    code, _, taken = asked_in_pieces(application, b" " * 2**20, declared=2**23 + 1)
    assert (code, taken) == (413, 0)


def test_a_body_as_large_as_the_bound_is_taken():
    herder: Any = SimpleNamespace(patch=lambda name, changes: changes)
    path = "/connectors/c/config"
    body = b'{"a": "b"}'.ljust(2**23)
    assert asked(app(herder), "PATCH", path.encode(), path, body)[0] == 200


HALF = rb'"half \ud800 of a pair"'


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/connectors", b'{"name": "c", "config": {"file": %s}}' % HALF),
        ("POST", "/connectors", b'{"name": %s, "config": {}}' % HALF),
        ("PUT", "/connectors/c/config", b'{"file": %s}' % HALF),
        ("PUT", "/connectors/c/config", b'{%s: "x"}' % HALF),
        ("PATCH", "/connectors/c/config", b'{"file": %s}' % HALF),
        ("PATCH", "/connectors/c/offsets", b'{"offsets": [{"partition": {"file": %s}}]}' % HALF),
        ("PUT", "/connector-plugins/FileStreamSource/config/validate", b'{"name": "c", "file": %s}' % HALF),
    ],
)
def test_half_of_a_surrogate_pair_is_no_text(method: str, path: str, body: bytes):
    """No UTF-8 can hold it, so neither the config topic nor an answer could."""

    def never(*_: object) -> None:
        raise AssertionError("the herder was asked")

    herder: Any = SimpleNamespace(create=never, put=never, patch=never, alter_offsets=never, validate=never)
    code, _, answer = asked(app(herder), method, path.encode(), path, body)
    assert code == 400
    assert "surrogate" in json.loads(answer)["message"]


def test_a_whole_surrogate_pair_is_a_character():
    taken: list[dict[str, str]] = []
    herder: Any = SimpleNamespace(patch=lambda name, changes: taken.append(changes) or {})
    path = "/connectors/c/config"
    code, _, _ = asked(app(herder), "PATCH", path.encode(), path, rb'{"file": "\ud83d\ude00"}')
    assert (code, taken) == (200, [{"file": "\U0001f600"}])


# -- records of the config topic -------------------------------------------------------------------------


def test_a_task_whose_number_is_no_number_is_passed_over():
    state = ConfigState()
    for key in ("task-c-²", "task-c-0", "task-c-٣x"):
        state.apply(key.encode(), b'{"properties": {"file": "f"}}')
    state.apply(b"commit-c", b'{"tasks": 1}')
    assert state.tasks == {"c": [{"file": "f"}]}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"connector-d", b"no JSON"),
        (b"connector-d", b"\xff"),
        (b"connector-d", b"[" * 100_000),
        (b"connector-d", b"[]"),
        (b"connector-d", b"{}"),
        (b"connector-d", b'{"properties": []}'),
        (b"task-c-0", b'{"properties": 1}'),
        (b"commit-c", b'{"tasks": "many"}'),
        (b"commit-c", b"{}"),
        (b"commit-c", b'{"tasks": 1e999}'),
        (b"target-state-c", b"7"),
    ],
)
def test_a_record_that_is_none_of_connects_is_passed_over(key: bytes, value: bytes):
    """Java's worker logs it; one that stops at it would never start again."""
    state = ConfigState()
    state.apply(b"connector-c", b'{"properties": {"name": "c"}}')
    state.apply(b"task-c-0", b'{"properties": {"file": "f"}}')
    state.apply(key, value)
    state.apply(b"commit-c", b'{"tasks": 1}')
    assert (state.connectors, state.targets) == ({"c": {"name": "c"}}, {})
    assert state.tasks == {"c": [{"file": "f"}]}


@pytest.mark.parametrize("count", [-1, 100_001])
def test_a_count_of_tasks_that_no_connector_has_is_passed_over(count: int):
    """One record could fill the memory of every worker, at every start."""
    state = ConfigState()
    state.apply(b"task-c-0", b'{"properties": {"file": "f"}}')
    state.apply(b"commit-c", b'{"tasks": 1}')
    state.apply(b"commit-c", json.dumps({"tasks": count}).encode())
    assert state.tasks == {"c": [{"file": "f"}]}


def test_a_record_of_the_status_topic_that_is_none_of_connects_is_passed_over(broker: Broker):
    """A worker that stops at it could neither show nor remove the connector's topics."""
    broker.create_topic("status", partitions=1)
    bad = [
        b"no JSON",
        b"\xff",
        b"[" * 100_000,
        b"[]",
        b"7",
        b"null",
        b'{"topic": {}}',
        b'{"topic": {"name": 7}}',
    ]
    for number, value in enumerate(bad):
        broker.send("status", value, topic_status_key(f"bad-{number}", "c"))
    broker.send("status", topic_status("good", "c", 1), topic_status_key("good", "c"))
    table = TopicTable({"bootstrap.servers": broker.bootstrap}, "status")
    try:
        assert Statuses(None, table, "status").topics("c") == ["good"]
    finally:
        table.close()


# -- forwarding ------------------------------------------------------------------------------------------


@contextmanager
def active_worker() -> Iterator[tuple[str, list[str]]]:
    """The address of a worker that answers everything with {}, and the targets that it was asked for."""
    targets: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            targets.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def do_POST(self) -> None:
            targets.append(f"{self.path} {self.headers['Content-Type']}")
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", targets
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("raw_path", "path", "query", "forwarded"),
    [
        (b"/connectors/my%20conn", "/connectors/my conn", b"", "/connectors/my%20conn"),
        (b"/connectors/a%3Fb", "/connectors/a?b", b"expand=a%20b", "/connectors/a%3Fb?expand=a%20b"),
        (b"/connectors/\xe5\x90\x8d", "/connectors/名", b"", "/connectors/%E5%90%8D"),
        (None, "/connectors/my conn", b"", "/connectors/my%20conn"),
    ],
)
def test_a_worker_that_stands_by_forwards_the_path_as_it_was_written(
    raw_path: bytes, path: str, query: bytes, forwarded: str
):
    with active_worker() as (url, targets):
        code, _, body = asked(Switch(lambda: url), "GET", raw_path, path, query=query)
    assert (code, body, targets) == (200, b"{}", [forwarded])


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_a_worker_that_stands_by_does_not_change_the_type_of_a_body(content_type: str):
    """Declared as JSON on the way, the active worker could not refuse what a foreign web page has sent."""
    with active_worker() as (url, targets):
        declared = content_type.encode()
        asked(Switch(lambda: url), "POST", b"/connectors", "/connectors", b"{}", content_type=declared)
    assert targets == [f"/connectors {content_type}"]


def test_a_call_that_cannot_be_forwarded_is_told_why():
    code, _, body = asked(Switch(lambda: "http://a worker"), "GET", b"/connectors", "/connectors")
    assert code == 500 and b"IO Error trying to forward REST request" in body


# -- the worker's own settings ---------------------------------------------------------------------------


def test_a_port_that_is_no_number_is_an_error_of_listeners():
    with pytest.raises(ConfigError, match="write http://host:port"):
        WorkerSettings.parse({"bootstrap.servers": "x:1", "listeners": "http://h:²"}, distributed=False)


def test_placeholders_in_settings_of_the_worker_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Otherwise the worker's own passwords stand in its file as clear text."""
    monkeypatch.setenv("OTTLA_TEST_BROKER", "broker:9092")
    (tmp_path / "secrets").write_text("password=hunter2\n")
    (tmp_path / "jaas").write_text("login")
    settings = WorkerSettings.parse(
        {
            "bootstrap.servers": "${env:OTTLA_TEST_BROKER}",
            "ssl.keystore.password": f"${{file:{tmp_path}/secrets:password}}",
            "sasl.jaas.config": f"a ${{dir:{tmp_path}:jaas}};",
            "producer.ssl.key.password": f"${{file:{tmp_path}/secrets:password}}",
            "group.id": "${vault:of:another}",
        },
        distributed=True,
    )
    assert settings.client() == {
        "bootstrap.servers": "broker:9092",
        "ssl.keystore.password": "hunter2",
        "sasl.jaas.config": "a login;",
    }
    assert settings["group.id"] == "${vault:of:another}"
    assert Spec("c", SOURCE, settings.plain).client("producer")["ssl.key.password"] == "hunter2"


def test_placeholders_of_the_workers_converters_are_resolved_where_the_task_runs(
    monkeypatch: pytest.MonkeyPatch,
):
    """A connector inherits them, and its settings travel with their placeholders."""
    monkeypatch.setenv("OTTLA_TEST_LOGIN", "me:hunter2")
    name = "value.converter.basic.auth.user.info"
    settings = WorkerSettings.parse({name: "${env:OTTLA_TEST_LOGIN}"}, distributed=False)
    assert settings[name] == "${env:OTTLA_TEST_LOGIN}"
    assert Spec("c", SOURCE, settings.plain).resolved()[name] == "me:hunter2"


def test_a_placeholder_of_the_worker_that_cannot_be_resolved_is_an_error_of_its_setting():
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config: there is no environment variable OTTLA_NOPE"):
        WorkerSettings.parse({"sasl.jaas.config": "${env:OTTLA_NOPE}"}, distributed=False)
