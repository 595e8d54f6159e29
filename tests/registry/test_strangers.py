"""Other people's clients, unmodified, against our registry: franz-go's `pkg/sr` (go/main.go), Apicurio's serializers
(java/Serdes.java)."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.serialization import AvroDeserializer, AvroSerializer, JsonSchemaDeserializer, JsonSchemaSerializer

_JAVA = Path(__file__).with_name("java")
_GO = Path(__file__).with_name("go")
TOLD = """\
registered true 1
second 2 [1 2]
incompatible 409
check false true
references 1 true
still referred to 42206
by id true true
subjects by id [user] 1
by guid true user .
looked up 2
missing 40401
level <nil> <nil> FULL_TRANSITIVE
reset <nil>
mode <nil> READONLY
read only 42205 <nil>
context :.staging:user true [. .staging]
types PROTOBUF JSON
deleted <nil> <nil>
versions [1 2] [1 2]
left [:.staging:user j p]
"""


@pytest.fixture(scope="module")
def franz_go():
    """Built into a folder named after the sources, so that it is done once and never stale."""
    if shutil.which("go") is None:
        pytest.skip("franz-go needs go, which is not installed")
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in sorted(_GO.iterdir()))).hexdigest()[:16]
    built = _cache() / f"go-{digest}" / "registry"
    if not built.exists():
        fetched = subprocess.run(["go", "mod", "download"], cwd=_GO, capture_output=True, text=True)
        if fetched.returncode:
            pytest.skip(f"franz-go cannot be downloaded: {fetched.stderr.strip().splitlines()[-1]}")
        subprocess.run(["go", "build", "-o", built, "."], cwd=_GO, check=True)
    return built


@pytest.mark.timeout(300)
def test_franz_go_registers_refers_compares_and_deletes(franz_go, broker):
    told = subprocess.run([franz_go, broker.registry], capture_output=True, text=True, timeout=60)
    assert told.stdout == TOLD, told.stderr


def _cache():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ottla-oracle"


@pytest.fixture(scope="module")
def apicurio():
    """The class path of Apicurio's serializers, copied by Maven once."""
    if shutil.which("mvn") is None or shutil.which("java") is None:
        pytest.skip("Apicurio's serializers need Java and Maven, which are not installed")
    pom = _JAVA / "pom.xml"
    folder = _cache() / f"apicurio-{hashlib.sha256(pom.read_bytes()).hexdigest()[:16]}"
    if not folder.exists():
        aside = folder.with_suffix(".part")
        shutil.rmtree(aside, ignore_errors=True)
        command = [
            "mvn",
            "-q",
            "-B",
            "-f",
            str(pom),
            "dependency:copy-dependencies",
            f"-DoutputDirectory={aside}",
        ]
        fetched = subprocess.run(command, capture_output=True, text=True, timeout=280)
        if fetched.returncode:
            pytest.skip(f"Apicurio's serializers cannot be downloaded: {fetched.stdout.strip()[-200:]}")
        aside.rename(folder)
    return f"{folder}/*"


@pytest.mark.timeout(300)
def test_apicurios_serializers_in_confluent_mode_write_what_ours_read_and_read_what_ours_write(
    apicurio, broker, client
):
    fields = [{"name": "id", "type": "string"}, {"name": "amount", "type": "double"}]
    avro = json.dumps({"type": "record", "name": "Order", "fields": fields})
    properties = {"id": {"type": "string"}, "amount": {"type": "number"}}
    schema = {"type": "object", "properties": properties}
    for topic in ("java-json", "python-json"):
        client.register(f"{topic}-value", json.dumps(schema), "JSON")
    value = {"id": "from Python", "amount": 0.5}
    sent = {
        "avro": AvroSerializer(client, avro, topic="python-avro")(value),
        "json": JsonSchemaSerializer(client, schema, topic="python-json")(value),
    }
    lines = "".join(f"{form} {base64.b64encode(data).decode()}\n" for form, data in sent.items())
    command = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", apicurio, str(_JAVA / "Serdes.java")]
    java = subprocess.run(
        [*command, broker.registry, avro], input=lines, capture_output=True, text=True, timeout=200
    )
    answers = [line.partition(" ") for line in java.stdout.splitlines()]
    assert [form for form, _, _ in answers] == ["avro", "json", "avro", "json"], java.stderr
    written = [base64.b64decode(text) for _, _, text in answers[:2]]
    expected = {"id": "from Java", "amount": 2.5}
    assert AvroDeserializer(client)(written[0]) == expected
    assert JsonSchemaDeserializer(client)(written[1]) == expected
    assert [json.loads(text) for _, _, text in answers[2:]] == [value, value]
    # Not only readable: the very bytes that our serializer makes of the same value.
    assert AvroSerializer(client, avro, topic="java-avro")(expected) == written[0]
