"""The schema registry and contracts in the broker.

    python -m bench.registry [--schemas 10000] [--megabytes 200]

Prints: start to the first registered schema, start and memory with many schemas, schemas by id a second, and what
the check of ids costs a broker that is produced to.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from bench.console import Running
from bench.measure import cpu_seconds
from ottla import Admin, NewTopic, Producer
from ottla.broker.routes import ROUTES
from ottla.registry.records import SCHEMA, Key
from ottla.serialization import RegistryClient
from ottla.wire import batch, codec
from ottla.wire.frames import request_header, seal
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record

ROUNDS = 5
REQUESTS_MAX = 20_000  # of a round: small ones cost more time than they tell
READERS, READ_S = 4, 3.0
ID_BYTES = 5
PRODUCE_VERSION = 12


@contextmanager
def running(*command: str) -> Iterator[Running]:
    made = Running(*command)
    try:
        yield made
    finally:
        made.stop()


def show(what: str, value: float, unit: str, target: str) -> None:
    print(f"| {what:<62} | {value:>9,.3g} | {unit:<8} | {target:<9} |", flush=True)


def start(bootstrap: str) -> None:
    """From the command to the answer to a registration."""
    times = []
    for number in range(ROUNDS):
        began = time.perf_counter()
        with running("registry", "serve", "-b", bootstrap, "--port", "0") as registry:
            client = RegistryClient(registry.line("schema registry: "))
            client.register(f"start-{number}", f'{{"type":"record","name":"S{number}","fields":[]}}')
            times.append(time.perf_counter() - began)
    show("registry beside a broker: start to first registered schema", statistics.median(times), "s", "< 0.5")


def fill(bootstrap: str, count: int) -> None:
    """As the registry writes them, in one transaction under its id."""
    with Producer(bootstrap_servers=bootstrap, transactional_id="schema-registry-_schemas") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(100, 100 + count):
            fields = [{"name": f"f{at}", "type": "string"} for at in range(7)]
            schema = json.dumps({"type": "record", "name": f"R{number}", "fields": fields})
            value = {"subject": f"s-{number}", "version": 1, "id": number, "schema": schema, "deleted": False}
            producer.send("_schemas", json.dumps(value).encode(), Key(SCHEMA, f"s-{number}", 1).to_bytes())
        producer.commit_transaction()


def many(bootstrap: str, count: int) -> None:
    before = time.perf_counter()
    with running("registry", "serve", "-b", bootstrap, "--port", "0") as registry:
        address = registry.line("schema registry: ")
        took = time.perf_counter() - before
        show(f"registry with {count:,} schemas: start", took, "s", "")
        client = RegistryClient(address)
        began = time.perf_counter()
        client.register("one-more", '{"type":"record","name":"More","fields":[]}')
        show(f"registry with {count:,} schemas: one more registered", time.perf_counter() - began, "s", "")
        show(f"registry with {count:,} schemas: memory", registry.memory_mb, "MB", "")
        show("schemas by id", _gets_a_second(address, count), "a second", ">= 2,000")


def _gets_a_second(address: str, count: int) -> float:
    host, port = address.removeprefix("http://").rsplit(":", 1)
    deadline, answered = time.perf_counter() + READ_S, [0] * READERS

    def work(worker: int) -> None:
        with socket.create_connection((host, int(port))) as connection:
            number = worker
            while time.perf_counter() < deadline:
                number = (number + 7) % count
                connection.sendall(b"GET /schemas/ids/%d HTTP/1.1\r\nhost: x\r\n\r\n" % (100 + number))
                answered[worker] += _is_whole(connection)

    workers = [threading.Thread(target=work, args=(at,)) for at in range(READERS)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    return sum(answered) / READ_S


def _is_whole(connection: socket.socket) -> bool:
    """Reads one answer: whether it is a schema."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(65536)
    head, _, body = answer.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split()[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head.startswith(b"HTTP/1.1 200")


def id_check(bootstrap: str, pid: int, records: int, size: int, megabytes: int) -> None:
    """The broker's time for a produce to a topic with a contract beside one without, by turns."""
    plain, checked = f"plain-{records}", f"checked-{records}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        settings = {"retention.bytes": "100000000", "segment.bytes": "50000000"}
        contract = {**settings, "confluent.value.schema.validation": "true"}
        admin.create_topics([NewTopic(plain, 1, 1, settings), NewTopic(checked, 1, 1, contract)])
    schema_id = _registered(bootstrap, f"{checked}-value")
    now_ms = time.time_ns() // 1_000_000
    value = struct.pack(">bi", 0, schema_id) + os.urandom(size - ID_BYTES)
    data = bytes(batch.build([Record(at, now_ms, None, value) for at in range(records)]))
    send = _sender(bootstrap, data)
    shares: dict[str, list[float]] = {plain: [], checked: []}
    count = min(max(200, megabytes * 1_000_000 // len(data)), REQUESTS_MAX)
    for topic in (plain, checked):
        for _ in range(20):
            send(topic)
    for _ in range(ROUNDS):
        for topic, times in shares.items():
            before = cpu_seconds(pid)
            for _ in range(count):
                send(topic)
            times.append((cpu_seconds(pid) - before) / count)
    without, with_check = (statistics.median(times) for times in shares.values())
    what = f"{records:,} records of {size} B"
    show(f"produce of {what}: broker's processor time", without * 1e6, "us", "")
    show(f"produce of {what}: more with the check of ids", (with_check / without - 1) * 100, "%", "< 5")


def _registered(bootstrap: str, subject: str) -> int:
    with running("registry", "serve", "-b", bootstrap, "--port", "0") as registry:
        return RegistryClient(registry.line("schema registry: ")).register(subject, '"bytes"').schema_id


def _sender(bootstrap: str, data: bytes) -> Callable[[str], None]:
    host, port = bootstrap.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    frames: dict[str, bytes] = {}

    def send(topic: str) -> None:
        if topic not in frames:
            partition = PartitionProduceData(index=0, records=data)
            topics = [TopicProduceData(name=topic, partition_data=[partition])]
            request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=topics)
            header = request_header(ROUTES[request.API_KEY].api, PRODUCE_VERSION, 1, "bench")
            frames[topic] = bytes(seal(codec.write(request, PRODUCE_VERSION, header)))
        connection.sendall(frames[topic])
        size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
        answer = connection.recv(size, socket.MSG_WAITALL)
        if topic.encode() not in answer or b"schema" in answer:
            raise SystemExit(f"the broker refused: {answer!r}")

    return send


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--schemas", type=int, default=10_000)
    parser.add_argument(
        "--megabytes", type=int, default=200, help="of each produce that is measured, in each round"
    )
    options = parser.parse_args()
    with (
        TemporaryDirectory(prefix="ottla-bench-") as folder,
        running("start", "--port", "0", "--data", folder, "--log-level", "ERROR") as broker,
    ):
        bootstrap = broker.line("ready ")
        start(bootstrap)
        for records in (10, 150, 5_000):
            id_check(bootstrap, broker.process.pid, records, 100, options.megabytes)
        fill(bootstrap, options.schemas)
        many(bootstrap, options.schemas)


if __name__ == "__main__":
    main()
