"""Records that cannot be read, processed or written: by policy."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cli.main import main
from ottla.streams import App, Processor, Record, TestDriver, int64, json, keyed_store, string
from ottla.streams.errors import BadTopology, BadValue
from ottla.testing import Broker
from tests.pipelines.local import query


def halves(**policy: Any) -> App:
    """Reads numbers in JSON, halves the even ones; odd ones and zero are errors of different kinds."""
    app = App("app", **policy)
    numbers = app.stream("in", value=json)
    halved = numbers.map_values(lambda n: 8 // n if n < 4 else n / 2, value=int64)
    halved.to("out")
    numbers.group_by_key().count(name="all").to_stream().to("counts")
    return app


BAD = (b"no json", b"0", b"5")  # unreadable; divided by zero; 2.5 is no int64


def test_an_error_stops_the_app_by_default() -> None:
    with TestDriver(halves()) as driver:
        driver.input("in").pipe(6, key="k")
        for value, kind in zip(BAD, (BadValue, ZeroDivisionError, BadValue), strict=True):
            with pytest.raises(kind):
                driver.input("in").pipe_bytes(b"k", value)


def test_bad_records_are_skipped_and_counted() -> None:
    with TestDriver(halves(errors="skip")) as driver:
        for value in (b"6", *BAD, b"2"):
            driver.input("in").pipe_bytes(b"k", value)
        assert driver.output("out").values() == [3, 4]
        assert driver.errors() == {"deserialization": 1, "processing": 1, "production": 1}
        # Only behind the node that failed is the record missing.
        assert driver.store("all")["k"] == 4


def test_bad_records_go_to_the_dead_letter_topic_with_kafkas_headers() -> None:
    app = halves(errors_dead_letter_queue_topic_name="dead")
    with TestDriver(app) as driver:
        for at, value in enumerate(BAD):
            driver.input("in").pipe_bytes(b"k", value, at=at, headers=[("trace", b"7")])
        assert driver.output("dead").records() == [(b"k", value, at) for at, value in enumerate(BAD)]
        headers = driver.output("dead").headers()[1]
        assert [name for name, _ in headers] == [
            "trace",
            "__streams.errors.exception",
            "__streams.errors.message",
            "__streams.errors.stacktrace",
            "__streams.errors.topic",
            "__streams.errors.partition",
            "__streams.errors.offset",
        ]
        told = dict(headers)
        assert told["__streams.errors.exception"] == b"builtins.ZeroDivisionError"
        assert b"by zero" in told["__streams.errors.message"]
        assert b"Traceback" in told["__streams.errors.stacktrace"]
        assert told["__streams.errors.topic"] == b"in"
        assert told["__streams.errors.partition"] == b"0"


# no JSON; no object; fields of other types; no text
MISFITS = (b"no json", b'{"v":', b"[7]", b'{"v":"7"}', b'{"v":1.5}', b'{"v":99999999999}', b"\xff", b"")


def latest(**policy: Any) -> App:
    app = App("app", **policy)
    app.table("rows", value=json("v int"), name="latest")
    return app


def test_json_that_does_not_fit_its_schema_stops_the_app_by_default() -> None:
    for value in MISFITS:
        with TestDriver(latest()) as driver, pytest.raises(BadValue, match="not JSON as expected"):
            driver.input("rows").pipe_bytes(b"k", value)


def test_json_that_does_not_fit_its_schema_is_a_dead_letter_and_deletes_no_row() -> None:
    with TestDriver(latest(errors_dead_letter_queue_topic_name="dead")) as driver:
        for value in (b'{"v":7,"more":[1]}', *MISFITS):
            driver.input("rows").pipe_bytes(b"k", value)
        assert driver.store("latest")["k"] == {"v": 7}
        assert [value for _, value, _ in driver.output("dead").records()] == list(MISFITS)
        assert driver.errors() == {"deserialization": len(MISFITS)}


def test_a_null_and_the_null_of_json_delete_a_row_of_a_schema() -> None:
    for value in (None, b"null", b" null\n"):
        with TestDriver(latest()) as driver:
            driver.input("rows").pipe_bytes(b"k", b'{"v":7}')
            driver.input("rows").pipe_bytes(b"k", value)
            assert len(driver.store("latest")) == 0


class Stubborn(Processor):
    def process(self, record: Record) -> None:
        seen = self.context.store("seen")
        seen["n"] = seen.get("n", 0) + 1
        if record.value == "bad":
            raise ValueError("I do not like it")
        self.context.forward(record)


def test_a_processor_sees_each_record_once_whatever_fails() -> None:
    app = App("app", errors="skip")
    words = app.stream("in", value=string).flat_map_values(str.split, value=string)
    words.process(Stubborn, stores=[keyed_store("seen")], value=string).to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("a bad b", key="k")
        assert driver.output("out").values() == ["a", "b"]
        assert driver.store("seen")["n"] == 3
        assert driver.errors() == {"processing": 1}


def test_an_aggregate_goes_on_behind_a_bad_record() -> None:
    app = App("app", errors="skip")
    words = app.stream("in", value=string).flat_map_values(str.split, value=string)
    total = words.group_by_key().aggregate(int, lambda k, word, n: n + int(word), name="total")
    total.to_stream().to("out")
    with TestDriver(app) as driver:
        driver.input("in").pipe("1 x 2", key="k")
        assert driver.store("total")["k"] == 3


def test_a_policy_that_contradicts_itself_is_told() -> None:
    with pytest.raises(BadTopology, match="errors='never'"):
        App("app", errors="never")
    with pytest.raises(BadTopology, match="a step that stops writes nothing"):
        App("app", errors="fail", errors_dead_letter_queue_topic_name="dead")


def test_errors_are_in_the_status_and_dead_letters_in_the_topic(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        for topic in ("in", "out", "counts", "dead"):
            broker.create_topic(topic, partitions=1)
        app = halves(bootstrap=broker.bootstrap, errors_dead_letter_queue_topic_name="dead")
        with query(app.pipeline()) as running:
            for value in (b"6", *BAD, b"2"):
                broker.send("in", value, key="k")
            running.drain()
            running.replace_workers()
            broker.send("in", BAD[0], key="k")
            running.drain()
        assert [record.value for record in broker.records("dead")] == [*BAD, BAD[0]]
        offsets = [dict(record.headers)["__streams.errors.offset"] for record in broker.records("dead")]
        assert offsets == [b"1", b"2", b"3", b"5"]
        assert [int.from_bytes(record.value) for record in broker.records("out")] == [3, 4]
        assert main(["streams", "status", "app", "--bootstrap", broker.bootstrap]) == 0
        assert capsys.readouterr().out.splitlines()[1].split()[-1] == "4"
