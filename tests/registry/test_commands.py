"""`ottla registry`, and values with schemas in `produce` and `consume`."""

import io
import json
import subprocess
import sys

import pytest

from ottla import Producer
from ottla.cli.main import main
from ottla.errors import OttlaError
from ottla.serialization import AvroSerializer, RegistryClient

AVRO = '{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}'


@pytest.fixture
def ask(broker, capsys, monkeypatch):
    monkeypatch.setenv("OTTLA_REGISTRY", broker.registry)
    monkeypatch.setenv("OTTLA_BOOTSTRAP", broker.bootstrap)

    def ask(*words, typed=""):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        code = main(list(words))
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return ask


def test_a_schema_is_registered_listed_shown_checked_and_deleted(ask, tmp_path):
    file = tmp_path / "order.avsc"
    file.write_text(AVRO)
    assert ask("registry", "register", "orders-value", str(file)) == (
        0,
        "orders-value: version 1, id 1\n",
        "",
    )
    assert ask("registry", "list", "--json")[1] == (
        '[{"subject": "orders-value", "version": 1, "id": 1, "type": "AVRO"}]\n'
    )
    assert json.loads(ask("registry", "show", "orders-value")[1]) == json.loads(AVRO)
    assert json.loads(ask("registry", "show", "1", "--json")[1])["id"] == 1
    assert ask("registry", "check", "orders-value", "-", typed=AVRO)[:2] == (0, "compatible\n")
    code, out, _ = ask("registry", "check", "orders-value", "-", typed='"int"')
    assert code == 1 and out.startswith("not compatible\n")
    assert "FULL" in ask("registry", "level", "full")[1]
    assert ask("registry", "delete", "orders-value")[0] == 0
    code, _, err = ask("registry", "delete", "orders-value")
    assert code == 1 and "was soft deleted" in err


def test_json_lines_are_written_with_a_schema_and_read_back(ask, broker, tmp_path):
    file = tmp_path / "order.avsc"
    file.write_text(AVRO)
    given = ("produce", "orders", "--schema", str(file), "--registry", broker.registry)
    assert ask(*given, typed='{"id":"7"}\n')[0] == 0
    assert broker.records("orders")[0].value == b"\0\0\0\0\1\x027"
    broker.send("orders", "plain")
    code, _, err = ask("consume", "orders", "-e", "--decode", broker.registry)
    assert code == 1 and "written without a registry's serializer" in err
    code, out, _ = ask("consume", "orders", "-n", "1", "--decode", broker.registry)
    assert (code, out) == (0, '{"id": "7"}\n')


def test_a_value_whose_schema_stands_in_its_header_is_decoded_too(ask, broker):
    registry = RegistryClient(broker.registry)
    serializer = AvroSerializer(registry, AVRO, topic="guids", ids="header")
    value = {"id": "7"}
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("guids", serializer(value), headers=serializer.headers_of(value)).result(30)
    assert ask("consume", "guids", "-n", "1", "--decode", broker.registry)[:2] == (0, '{"id": "7"}\n')


def test_no_registry_is_said_in_a_sentence(ask):
    code, _, err = ask("registry", "list", "--url", "http://127.0.0.1:1")
    assert code == 1 and "no schema registry answers at http://127.0.0.1:1" in err


def test_a_broker_may_bring_its_registry_along():
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ottla",
            "start",
            "--memory",
            "--port",
            "0",
            "--registry",
            "0",
            "--log-level",
            "ERROR",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline().startswith("ready ")
        address = process.stdout.readline().split()[-1]
        assert RegistryClient(address).register("a", '"int"').schema_id == 1
        process.terminate()
        assert process.wait(30) == 0
        with pytest.raises(OttlaError, match="no schema registry answers"):
            RegistryClient(address).subjects()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
