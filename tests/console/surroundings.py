"""What may stand beside a cluster: a schema registry, Connect, a share and a streams group, a mirror into it."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from ottla import Producer
from ottla.client import Admin
from ottla.client.share_consumer import Acknowledge, ShareConsumer
from ottla.connect.running.threads import ThreadRunner
from ottla.connect.worker.settings import WorkerSettings
from ottla.connect.worker.standalone import Standalone
from ottla.mirror.link import Link
from ottla.mirror.local import LocalRunner
from ottla.mirror.metrics import serve
from ottla.serialization import AvroSerializer, JsonSchemaSerializer, ProtobufSerializer, RegistryClient
from ottla.serialization.framing import with_id
from ottla.testing import Broker
from ottla.testing.registry import BrokerRegistry
from tests.console.consoles import PATIENCE_S
from tests.console.streams_member import StreamsMember

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "number", "type": "int"}, {"name": "patient", "type": "string"}],
}
NEXT_ORDER = {**ORDER, "fields": [*ORDER["fields"], {"name": "ward", "type": "string", "default": "north"}]}
# Settings of groups.
SHARERS = {"share.auto.offset.reset": "earliest"}
AT_ONCE = {"streams.initial.rebalance.delay.ms": "0", "streams.assignment.interval.ms": "0"}
PATIENT = {"type": "object", "title": "Patient", "properties": {"name": {"type": "string"}}}


def _visit() -> type[Message]:
    """What protoc would make of `message Visit { int32 ward = 1; }`."""
    file = descriptor_pb2.FileDescriptorProto(name="visit.proto", syntax="proto3")
    file.message_type.add(name="Visit").field.add(name="ward", number=1, type=5, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Visit"))


Visit = _visit()


class Surroundings:
    """Context manager; `options` are those of a console that shall see all of it."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap, self._folder = bootstrap, folder
        self._stack = ExitStack()

    def __enter__(self) -> Surroundings:
        self._start_registry()
        self._start_connect()
        self._share()
        self._stream()
        self._mirror()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def options(self) -> list[str]:
        return ["--registry", self.registry, "--connect", self.connect, "--metrics", self.mirror_page]

    # -- schemas ---------------------------------------------------------------------------------------

    def _start_registry(self) -> None:
        running = BrokerRegistry({"bootstrap.servers": self.bootstrap})
        self._stack.callback(running.stop)
        self.registry = running.address
        client = self.client = RegistryClient(running.address)
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topic("described", 1)
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for topic, value, headers in self._values(client):
                producer.send(topic, value, headers=headers)
            producer.flush()
        client.register("described-value", json.dumps(NEXT_ORDER))

    def _values(self, client: RegistryClient) -> list[tuple[str, bytes | None, list[tuple[str, bytes]]]]:
        avro = AvroSerializer(client, ORDER, topic="described")
        guid = AvroSerializer(client, ORDER, topic="described", ids="header")
        patient = JsonSchemaSerializer(client, PATIENT, topic="patients")
        visit = ProtobufSerializer(client, Visit, topic="visits")
        ada, bob = {"number": 7, "patient": "Ada"}, {"number": 8, "patient": "Bob"}
        broken = with_id(client.version("described-value").schema_id, b"") if avro(ada) else b""
        return [
            ("described", avro(ada), []),
            ("described", guid(bob), guid.headers_of(bob)),
            ("described", patient({"name": "Cem"}), []),
            ("described", visit(Visit(ward=11)), []),
            ("described", broken, []),
            ("described", with_id(999_999, b"no schema"), []),
            ("described", b"plain text", []),
        ]

    # -- connectors ------------------------------------------------------------------------------------

    def _start_connect(self) -> None:
        source = self._folder / "lines.txt"
        source.write_text("one\ntwo\nthree\n")
        settings = {
            "bootstrap.servers": self.bootstrap,
            "listeners": "http://127.0.0.1:0",
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
        }
        worker = Standalone(WorkerSettings.parse(settings, distributed=False), ThreadRunner())
        self._stack.callback(worker.close)
        worker.start(
            {
                "lines": {
                    "name": "lines",
                    "connector.class": "FileStreamSource",
                    "file": str(source),
                    "topic": "lines",
                    "tasks.max": "1",
                    "a.password": "hunter2",
                }
            }
        )
        self.connect = f"http://127.0.0.1:{worker.port}"

    # -- a share group ---------------------------------------------------------------------------------

    def _share(self) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topic("shared", 1)
            admin.alter_configs("group", "sharers", set_=SHARERS)
        consumer = ShareConsumer(
            bootstrap_servers=self.bootstrap,
            group_id="sharers",
            client_id="sharer-1",
            share_acknowledgement_mode="explicit",
        )
        self._stack.callback(consumer.close)
        consumer.subscribe(["shared"])
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for i in range(10):
                producer.send("shared", b"%d" % i)
            producer.flush()
        accepted = 0
        deadline = time.monotonic() + PATIENCE_S
        while accepted < 4:
            assert time.monotonic() < deadline, "the share group got no records"
            for record in consumer.poll(1.0):
                accepted += record.offset < 4
                consumer.acknowledge(record, Acknowledge.ACCEPT if record.offset < 4 else Acknowledge.RELEASE)
            consumer.commit()

    # -- a streams group -------------------------------------------------------------------------------

    def _stream(self) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topic("sentences", 2)
            admin.alter_configs("group", "word-count", set_=AT_ONCE)
        member = StreamsMember(self.bootstrap, "word-count", "sentences")
        self._stack.callback(member.close)
        member.start()

    # -- a mirror --------------------------------------------------------------------------------------

    def _mirror(self) -> None:
        source = self.source = self._stack.enter_context(Broker())
        source.create_topic("visits", 1)
        for i in range(5):
            source.send("visits", f"visit {i}")
        ends = {"bootstrap.servers": source.bootstrap}, {"bootstrap.servers": self.bootstrap}
        link = Link("A", "B", *ends, topics=("visits",))
        runner = LocalRunner(link)
        self._stack.callback(runner.close)
        runner.start()
        runner.run_once()
        self.mirror_page = f"127.0.0.1:{serve([link], 0)}"
