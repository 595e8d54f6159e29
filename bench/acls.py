"""What 10,000 ACLs cost a produce: two brokers side by side, one with an authorizer, by turns."""

from __future__ import annotations

import socket
import struct
from statistics import median

from bench.measure import Benchmark, Measured, Metric, Peer, Scale, cpu_seconds
from ottla.client import Admin
from ottla.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from ottla.wire import batch, codec
from ottla.wire.frames import request_header, seal
from ottla.wire.messages import APIS
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.records import Record
from tests.oracle.ottla import Ottla

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
RULES = 10_000
RULES_AT_ONCE = 500
TOPIC = "orders"
IN_FLIGHT = 50
VERSION = 9
ROUNDS = 7


def cost_of_rules(peer: Peer, scale: Scale) -> Measured:
    """The median over rounds of processor time with rules to without, for small requests: the dearest case."""
    requests = scale(40_000, 2_000)
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}
    settings["allow.everyone.if.no.acl.found"] = "true"  # until there are rules
    with Ottla() as free, Ottla(settings=settings) as ruled:
        for server in (free, ruled):
            with Admin(bootstrap_servers=server.bootstrap) as admin:
                admin.create_topic(TOPIC, 1, 1)
        _add_rules(ruled.bootstrap)
        ratios = []
        for server in (free, ruled):
            _produce(server.port, requests // 4)
        for _ in range(ROUNDS):
            took = [_cpu_of(server, requests) for server in (free, ruled)]
            ratios.append(took[1] / took[0])
    return {Metric("produce with 10,000 ACLs, broker CPU", "x without", "lower", "1.03"): median(ratios)}


def _add_rules(bootstrap: str) -> None:
    """Of other users on other topics, prefixes and hosts; two of them let the producer write."""
    own = [
        Acl(
            ResourceType.TOPIC, TOPIC, PatternType.LITERAL, "User:ANONYMOUS", "*", operation, Permission.ALLOW
        )
        for operation in (Operation.WRITE, Operation.DESCRIBE)
    ]
    others = [
        Acl(
            ResourceType.TOPIC,
            f"topic-{number // 2}",
            PatternType.PREFIXED if number % 3 == 0 else PatternType.LITERAL,
            f"User:user-{number % 100}",
            "*" if number % 5 else "10.0.0.1",
            Operation.READ if number % 2 else Operation.WRITE,
            Permission.DENY if number % 7 == 0 else Permission.ALLOW,
        )
        for number in range(RULES - len(own))
    ]
    cluster = Acl(
        ResourceType.CLUSTER,
        "kafka-cluster",
        PatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        Operation.ALL,
        Permission.ALLOW,
    )
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_acls([cluster, *own])
        for begin in range(0, len(others), RULES_AT_ONCE):
            admin.create_acls(others[begin : begin + RULES_AT_ONCE])


def _cpu_of(server: Ottla, requests: int) -> float:
    before = cpu_seconds(server.pid())
    _produce(server.port, requests)
    return cpu_seconds(server.pid()) - before


def _produce(port: int, requests: int) -> None:
    """So many requests of one record each, on one connection, many in flight."""
    frame = _request()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(requests // IN_FLIGHT):
            connection.sendall(frame * IN_FLIGHT)
            for _ in range(IN_FLIGHT):
                _check(_answer(connection))


def _request() -> bytes:
    records = bytes(batch.build([Record(-1, 1_790_000_000_000, None, b"x" * 100)]))
    data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=records)])]
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=data)
    frame = request_header(APIS[ProduceRequest.API_KEY], VERSION, 1, "bench")
    codec.write(request, VERSION, frame)
    return bytes(seal(frame))


def _answer(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _receive(connection, 4))
    return _receive(connection, size)


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        received += connection.recv(size - len(received))
    return received


def _check(answer: bytes) -> None:
    response, _ = codec.read(APIS[ProduceRequest.API_KEY].response(), VERSION, answer, 5)
    code = response.responses[0].partition_responses[0].error_code  # type: ignore[attr-defined]
    assert code == 0, code


BENCHMARKS = (Benchmark("acls", cost_of_rules, rounds=1, peers=("ottla",)),)
