"""Schemas and requests that want too much of a registry."""

import http.client
import json
import socket
from urllib.parse import urlsplit

import pytest

from ottla.registry.connections import Impatient
from ottla.registry.decisions import Registry
from ottla.registry.errors import RegistryError
from ottla.registry.formats.json_compatibility import COMPARISONS_MAX, Comparison
from ottla.registry.records import SCHEMA, Key, Record
from ottla.registry.state import Content, Reference, State
from ottla.testing import Broker

POST = b"POST /subjects/s/versions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
ANSWERED = b"GET /subjects HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def registry():
    with Broker(registry=True) as broker:
        yield urlsplit(broker.registry)


def asked(registry, method, path, body=None):
    connection = http.client.HTTPConnection(registry.hostname, registry.port, timeout=60)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def registered(registry, schema, kind="AVRO", subject="s"):
    body = json.dumps({"schema": schema, "schemaType": kind})
    return asked(registry, "POST", f"/subjects/{subject}/versions", body)


def test_json_that_nests_without_end_is_refused_and_not_a_fault_of_ours(registry, caplog):
    status, text = asked(registry, "POST", "/subjects/s/versions", "[" * 1_000_000)
    assert status == 400, text
    assert "is not JSON" in text.decode()
    assert not caplog.records


@pytest.mark.parametrize(
    "kind, schema",
    [
        ("AVRO", '{"type":"array","items":' * 300 + '"int"' + "}" * 300),
        ("AVRO", '{"type":"array","items":' * 100_000),
        ("JSON", '{"not":' * 300 + "true" + "}" * 300),
        ("JSON", '{"not":' * 100_000),
        ("PROTOBUF", "message M {" * 300 + "}" * 300),
        ("PROTOBUF", "message M {" * 100_000),
        ("PROTOBUF", 'syntax = "proto3"; option java_package = ' + "[" * 100_000),
    ],
    ids=["avro", "avro endless", "json", "json endless", "protobuf", "protobuf endless", "option"],
)
def test_a_schema_that_nests_deep_is_taken_or_refused_and_the_registry_goes_on(
    registry, kind, schema, caplog
):
    status, text = registered(registry, schema, kind, subject=f"deep-{kind}")
    assert status in (200, 422), text[:300]
    assert asked(registry, "GET", "/subjects")[0] == 200
    assert not [record for record in caplog.records if record.exc_info]


def test_half_a_body_and_a_body_without_end_hold_nobody_up(registry):
    address = (registry.hostname, registry.port)
    with socket.create_connection(address) as half, socket.create_connection(address) as endless:
        half.sendall(POST % 1_000_000 + b'{"schema":')
        endless.sendall(POST % (1 << 40))
        endless.settimeout(60)
        try:
            for _ in range(80):
                endless.sendall(b" " * 100_000)
        except OSError:
            pass  # it stopped listening
        assert b"413" in endless.recv(4096).split(b"\r\n")[0]
        assert asked(registry, "GET", "/subjects")[0] == 200


@pytest.mark.parametrize(
    "said", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n", POST % 100 + b"{", ANSWERED + b"GET"]
)
def test_a_connection_that_asks_for_nothing_is_closed(registry, monkeypatch, said):
    monkeypatch.setattr(Impatient, "patience_s", 0.2)
    with socket.create_connection((registry.hostname, registry.port), timeout=60) as silent:
        silent.sendall(said)
        try:
            while silent.recv(65536):
                pass
        except ConnectionResetError:
            pass
    assert asked(registry, "GET", "/subjects")[0] == 200


def test_references_that_meet_again_and_again_are_followed_once(monkeypatch):
    """Each of fifty schemas refers to the one before it under two names: 2^50 ways lead to the first."""
    state = State()
    for number in range(49):
        references = [] if number == 0 else [(f"{side}{number}", number - 1) for side in "ab"]
        value = {
            "subject": f"s{number}",
            "version": 1,
            "id": number + 1,
            "schema": json.dumps({"type": "record", "name": f"R{number}", "fields": []}),
            "references": [{"name": name, "subject": f"s{at}", "version": 1} for name, at in references],
        }
        state.apply(Record(Key(SCHEMA, f"s{number}", 1), value, b"{}"))
    last = Content('"string"', "AVRO", (Reference("a", "s48", 1), Reference("b", "s48", 1)))
    assert len(Registry(state).references(last)) == 2 + 2 * 48


def test_a_circle_of_references_is_refused():
    state = State()
    value = {"subject": "s", "version": 1, "id": 1, "schema": '"int"'}
    value["references"] = [{"name": "s", "subject": "s", "version": 1}]
    state.apply(Record(Key(SCHEMA, "s", 1), value, b"{}"))
    with pytest.raises(RegistryError, match="circle"):
        Registry(state).references(Content('"int"', "AVRO", (Reference("s", "s", 1),)))


def test_json_schemas_with_very_many_ways_through_them_are_not_compared_to_the_end():
    def branching(kind):
        parts = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(40)}
        return {"$defs": {**parts, "a40": {"type": kind}}, "$ref": "#/$defs/a0"}

    compared = Comparison(branching("string"), {}, branching("integer"), {})
    (problem,) = compared.problems()
    assert "TOO_COMPLEX" in problem and str(COMPARISONS_MAX) in problem


def test_a_long_schema_full_of_errors_is_given_up_and_does_not_hold_others_up(monkeypatch):
    from ottla.registry.formats import protobuf

    with monkeypatch.context() as patched, pytest.raises(RegistryError, match="takes longer"):
        patched.setattr(protobuf, "_COMPILE_S", 1)
        protobuf.parse("/*" * 200_000, {})
    with pytest.raises(RegistryError, match="label"):
        protobuf.parse("message M {" + "".join(f"string a{i} = {i + 1};" for i in range(300)) + "}", {})


def test_brackets_in_comments_and_strings_are_no_nesting():
    from ottla.registry.formats.protobuf import parse

    lines = "\n".join(f"  string a{i} = {i}; // is a < b, or {{ [ (" for i in range(1, 200))
    text = (
        'syntax = "proto3";\n/* { { { */ message M {\n'
        + lines
        + '\n  string z = 999 [json_name = "\\"{"];\n}'
    )
    assert [field.number for field in parse(text, {}).file.message_type[0].field][-1] == 999
