"""Bad records, failing other sides, secrets: what a connector does then."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ottla.client import Admin
from ottla.connect.errors import ConfigError, DataError, RetriableError
from ottla.connect.secrets import resolve
from ottla.connect.settings import Setting
from ottla.connect.spi import Batch, Json, Limit, Sink, SinkBatch, Source, SourceRecord
from ottla.connect.tasks.handling import Handling
from ottla.connect.transforms.times import TimestampConverter
from ottla.connect.worker.standalone import Standalone
from ottla.testing import Broker
from tests.connect.waiting import wait_for

HERE = "tests.connect.test_errors"
STRING = "org.apache.kafka.connect.storage.StringConverter"


class Collecting(Sink):
    """Keeps what it is given; refuses values with `bad` in them, is away for the first calls."""

    written: ClassVar[list[Any]] = []
    away: ClassVar[int] = 0

    def write(self, batch: SinkBatch) -> None:
        cls = type(self)
        if cls.away > 0:
            cls.away -= 1
            raise RetriableError("the other side is away")
        for record in batch.records:
            if isinstance(record.value, dict) and record.value.get("bad"):
                raise DataError("refused by the other side")
        cls.written += [record.value for record in batch.records]


class Flaky(Source):
    """Fails a few times, then counts to three."""

    failures: ClassVar[int] = 0

    def partitions(self) -> Iterable[Json]:
        return [{"counter": 1}]

    def read(self, partition: Json, offset: Json | None, limit: Limit) -> Batch | None:
        cls = type(self)
        if cls.failures > 0:
            cls.failures -= 1
            raise RuntimeError("the other side has a bad day")
        at = (offset or {"n": 0})["n"]
        return Batch([SourceRecord("counted", at)], {"n": at + 1}) if at < 3 else None


class Stumbling(Source):
    """Counts to four, and fails once before each number but the first."""

    failed_at: ClassVar[set[int]] = set()

    def partitions(self) -> Iterable[Json]:
        return [{"counter": 1}]

    def read(self, partition: Json, offset: Json | None, limit: Limit) -> Batch | None:
        at = (offset or {"n": 0})["n"]
        if at not in {0, 4, *self.failed_at}:
            self.failed_at.add(at)
            raise RuntimeError("the other side has a bad moment")
        return Batch([SourceRecord("counted", at)], {"n": at + 1}) if at < 4 else None


class Secret(Sink):
    seen: ClassVar[list[str]] = []
    settings = (Setting("login", "PASSWORD"),)

    def write(self, batch: SinkBatch) -> None:
        type(self).seen.append(self.config.password("login") or "")


@pytest.fixture(autouse=True)
def fresh() -> None:
    Collecting.written, Collecting.away, Flaky.failures, Secret.seen = [], 0, 0, []
    Stumbling.failed_at = set()


def sink(made: str, **more: str) -> dict[str, dict[str, str]]:
    config = {"connector.class": f"{HERE}:{made}", "topics": "in", "value.converter": "JsonConverter"}
    return {"sink": {"name": "sink", **config, "value.converter.schemas.enable": "false", **more}}


def send(broker: Broker, *values: str) -> None:
    for value in values:
        broker.send("in", value)


def test_bad_records_go_to_the_dead_letters_with_connects_headers(
    broker: Broker, standalone: Callable[..., Standalone]
) -> None:
    broker.create_topic("in", partitions=1)
    letters = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "letters",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    send(broker, '{"n":1}', "{not json", '{"n":2}', '{"bad":true}', '{"n":3}')
    standalone(sink("Collecting", **letters))
    wait_for(lambda: len(Collecting.written) >= 3)
    found = wait_for(lambda: len(told := list(broker.records("letters"))) == 2 and told)
    assert Collecting.written == [{"n": 1}, {"n": 2}, {"n": 3}]
    unparsable, refused = ({name: value.decode() for name, value in each.headers} for each in found)
    assert found[0].value == b"{not json" and found[1].value == b'{"bad":true}'
    assert unparsable["__connect.errors.stage"] == "VALUE_CONVERTER"
    assert unparsable["__connect.errors.class.name"] == "JsonConverter"
    assert unparsable["__connect.errors.topic"] == "in" and unparsable["__connect.errors.offset"] == "1"
    assert unparsable["__connect.errors.connector.name"] == "sink"
    assert (
        unparsable["__connect.errors.exception.class.name"] == "org.apache.kafka.connect.errors.DataException"
    )
    assert refused["__connect.errors.stage"] == "TASK_PUT"
    assert refused["__connect.errors.exception.message"] == "refused by the other side"
    assert len(unparsable) == 10


def test_rows_that_a_database_refuses_go_to_the_dead_letters(
    broker: Broker, standalone: Callable[..., Standalone], tmp_path: Path
) -> None:
    broker.create_topic("in", partitions=1)
    fields = [{"type": "int64", "field": "id"}]
    schema = {"type": "struct", "fields": fields, "optional": False}
    texts = [json.dumps({"schema": schema, "payload": {"id": number}}) for number in (1, 2, 1, 3)]
    send(broker, *texts[:3], "{not json", texts[3])
    more = {
        "connector.class": "JdbcSinkConnector", "connection.url": f"jdbc:sqlite:{tmp_path / 'rows'}",
        "value.converter.schemas.enable": "true", "auto.create": "true", "pk.mode": "record_value", "pk.fields": "id",
        "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "letters",
        "errors.deadletterqueue.context.headers.enable": "true",
    }  # fmt: skip
    standalone(sink("", **more))
    found = wait_for(lambda: len(told := list(broker.records("letters"))) == 2 and told)
    assert [letter.value.decode() for letter in found] == [texts[2], "{not json"]
    refused = {name: value.decode() for name, value in found[0].headers}
    assert refused["__connect.errors.stage"] == "TASK_PUT" and refused["__connect.errors.offset"] == "2"
    assert "UNIQUE constraint failed: in.id" in refused["__connect.errors.exception.message"]
    with closing(sqlite3.connect(tmp_path / "rows")) as database:
        assert database.execute('SELECT id FROM "in" ORDER BY id').fetchall() == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("dd MMM yyyy", "01 Foo 2026"),
        ("yyyy-MM-dd", "0000-01-01"),
        ("yyyy-MM-dd", "99999-01-01"),
        ("yyyy-MM-dd", "9999-13-01"),
        ("yyyy-MM-dd", "2026-01-99999999999999"),
        ("yyyy-MM-dd Z", "2026-01-01 +9900"),
        ("yyyy-MM-dd Z", "0001-01-01 +0100"),
    ],
)
def test_a_date_that_does_not_exist_is_an_error_of_its_record(pattern: str, text: str) -> None:
    """Any other exception would fail the task, whatever `errors.tolerance` says."""
    config: Any = {
        "field": "", "target.type": "Timestamp", "format": pattern, "unix.precision": "milliseconds",
        "replace.null.with.default": True,
    }  # fmt: skip
    converter = TimestampConverter(config, "Value")
    with pytest.raises(DataError, match="Could not parse timestamp"):
        converter.apply(SourceRecord("t", text))


def test_without_tolerance_a_bad_record_fails_the_task_and_the_reason_is_told(
    broker: Broker, standalone: Callable[..., Standalone]
) -> None:
    broker.create_topic("in", partitions=1)
    send(broker, '{"n":1}', "{not json")
    worker = standalone(sink("Collecting"))
    status = wait_for(lambda: _failed(worker, "sink"))
    assert status["connector"]["state"] == "RUNNING"
    assert "Tolerance exceeded in error handler" in status["tasks"][0]["trace"]


def test_what_may_pass_is_tried_again_with_growing_pauses() -> None:
    pauses: list[float] = []
    config: Any = {
        "errors.retry.timeout": 60_000, "errors.retry.delay.max.ms": 1_000, "errors.tolerance": "none",
        "errors.log.enable": False, "errors.log.include.messages": False,
    }  # fmt: skip
    left = [5]

    def call() -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise RetriableError("away")
        return "done"

    assert Handling(config, sleep=pauses.append).retried(call) == "done"
    assert pauses[:2] == [0.3, 0.6] and all(0.5 <= pause <= 1 for pause in pauses[2:])


def test_a_sink_that_is_away_for_a_while_loses_nothing(
    broker: Broker, standalone: Callable[..., Standalone]
) -> None:
    broker.create_topic("in", partitions=1)
    Collecting.away = 2
    send(broker, '{"n":1}', '{"n":2}')
    standalone(sink("Collecting", **{"errors.retry.timeout": "60000"}))
    wait_for(lambda: Collecting.written)
    assert Collecting.written == [{"n": 1}, {"n": 2}]


def test_a_sink_that_its_group_has_forgotten_joins_again_and_goes_on(
    broker: Broker, standalone: Callable[..., Standalone]
) -> None:
    """A broker that was away for longer than the session has no member left. Nobody else has taken over."""
    broker.create_topic("in", partitions=1)
    standalone(sink("Collecting", **{"consumer.override.fetch.min.bytes": "1"}))  # means nothing to a sink
    send(broker, '{"n":1}')
    wait_for(lambda: Collecting.written == [{"n": 1}])
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        # Before that, the record would rightly be written again.
        wait_for(
            lambda: [position.offset for position in admin.group_offsets("connect-sink").values()] == [1]
        )
        (member,) = admin.describe_group("connect-sink").members
        admin.remove_members("connect-sink", [member])
        wait_for(
            lambda: (
                [each.id for each in admin.describe_group("connect-sink").members] not in ([], [member.id])
            )
        )
    send(broker, '{"n":2}')
    wait_for(lambda: Collecting.written == [{"n": 1}, {"n": 2}])


def test_a_task_that_fails_starts_again_by_itself(
    broker: Broker, standalone: Callable[..., Standalone]
) -> None:
    Flaky.failures = 1
    worker = standalone(
        {"flaky": {"name": "flaky", "connector.class": f"{HERE}:Flaky", "value.converter": STRING}}
    )
    status = wait_for(lambda: _failed(worker, "flaky"))
    assert "the other side has a bad day" in status["tasks"][0]["trace"]
    wait_for(lambda: "counted" in broker.topics() and len(list(broker.records("counted"))) == 3)
    wait_for(lambda: worker.herder.status("flaky")["tasks"][0]["state"] == "RUNNING")


def test_a_task_that_had_made_a_step_before_it_failed_starts_again_after_the_shortest_pause(
    broker: Broker, standalone: Callable[..., Standalone], caplog: pytest.LogCaptureFixture
) -> None:
    """Pauses that grow from one bad moment to the next would leave a busy connector ever further behind."""
    config = {"name": "stumbling", "connector.class": f"{HERE}:Stumbling", "value.converter": STRING}
    standalone({"stumbling": config})
    wait_for(lambda: "counted" in broker.topics() and len(list(broker.records("counted"))) == 4)
    told = [record.getMessage() for record in caplog.records if "starts again in" in record.getMessage()]
    assert len(told) == 3 and all("starts again in 1.0 s" in text for text in told)


def _failed(worker: Standalone, name: str) -> Any:
    status = worker.herder.status(name)
    return status if status["tasks"] and status["tasks"][0]["state"] == "FAILED" else None


def test_secrets_come_from_files_folders_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secrets.properties").write_text("login=from-file\n")
    (tmp_path / "login").write_text("from-folder")
    monkeypatch.setenv("LOGIN", "from-environment")
    given = {
        "a": f"${{file:{tmp_path}/secrets.properties:login}}",
        "b": "user:${env:LOGIN}@host",
        "c": f"${{dir:{tmp_path}:login}}",
        "d": "${topic}-${timestamp}",
        "e": "${other:x}",
    }
    assert resolve(given) == {
        "a": "from-file", "b": "user:from-environment@host", "c": "from-folder", "d": "${topic}-${timestamp}",
        "e": "${other:x}",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="setting x: there is no nothing in"):
        resolve({"x": f"${{file:{tmp_path}/secrets.properties:nothing}}"})


def test_secrets_reach_the_connector_and_nobody_else(
    broker: Broker, standalone: Callable[..., Standalone], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic("in", partitions=1)
    send(broker, '{"n":1}')
    file = tmp_path / "secrets.properties"
    file.write_text("login=open-sesame\n")
    placeholder = f"${{file:{file}:login}}"
    worker = standalone(sink("Secret", login=placeholder))
    wait_for(lambda: Secret.seen)
    assert Secret.seen == ["open-sesame"]
    herder = worker.herder
    answers = [
        herder.info("sink"),
        herder.tasks("sink"),
        herder.validate(herder.config("sink")),
        herder.status("sink"),
    ]
    kept = [
        value
        for topic in broker.topics()
        for value in (each.value for each in broker.records(topic))
        if value
    ]
    assert "open-sesame" not in json.dumps(answers) + repr(kept) + caplog.text
    assert herder.config("sink")["login"] == placeholder


def test_a_setting_that_is_a_secret_itself_is_hidden_by_validate(
    standalone: Callable[..., Standalone],
) -> None:
    config = sink("Secret", login="open-sesame")["sink"]
    told = standalone().herder.validate(dict(config))
    shown = next(each["value"] for each in told["configs"] if each["value"]["name"] == "login")
    assert shown["value"] == "[hidden]" and "open-sesame" not in json.dumps(told)


def test_validate_lists_the_settings_of_transforms(standalone: Callable[..., Standalone]) -> None:
    package = "org.apache.kafka.connect.transforms."
    config = {
        **sink("Collecting")["sink"], "transforms": "route,mask", "transforms.route.type": f"{package}RegexRouter",
        "transforms.route.replacement": "x", "transforms.mask.type": f"{package}MaskField$Value",
        "transforms.mask.fields": "name", "transforms.mask.predicate": "nobody",
    }  # fmt: skip
    told = standalone().herder.validate(dict(config))
    values = {each["value"]["name"]: each["value"] for each in told["configs"]}
    assert values["transforms.mask.fields"]["value"] == "name"
    assert values["transforms.route.regex"]["errors"] == [
        'Missing required configuration "transforms.route.regex" which has no default value.'
    ]
    assert "Transforms: mask" in told["groups"]


def test_nothing_is_left_running(broker: Broker, standalone: Callable[..., Standalone]) -> None:
    broker.create_topic("in", partitions=1)
    worker = standalone(sink("Collecting"))
    worker.herder.delete("sink")
    assert not [thread for thread in threading.enumerate() if thread.name == "connector-sink"]
