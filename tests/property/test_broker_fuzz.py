"""Whatever bytes come in: an answer in the right form, or a closed connection with a reason. Never a bug.

Requests of every API and version with random contents, whole or damaged, straight into the dispatcher of a
running broker. Anything the broker itself calls a failure is one: so is an answer nobody can read.
"""

import asyncio
import logging
import random
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.broker.requests.client import Client
from ottla.broker.requests.pipeline import Pipeline
from ottla.broker.routes import ROUTES
from ottla.server.node import memory_disk
from ottla.wire import batch, codec
from ottla.wire.frames import request_header, skip_tags
from ottla.wire.records import Record
from ottla.wire.schema import Message, covers
from tests.integration.nodes import Client as Connection
from tests.integration.nodes import a_node

TOPICS = ("t", "compacted", "u", "__consumer_offsets", "__transaction_state", "", "bad/name", "x" * 300)
GROUPS = ("g", "h", "")
DUPLICATES = 100
PADDING_BYTES = 10_000
INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 15}
REQUESTS = [
    (route.api, version)
    for route in ROUTES.values()
    for version in range(route.version_min, route.version_max + 1)
]


RULES = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow_everyone_if_no_acl_found": "true",
}


class Broker:
    """A node on a loop of its own, driven step by step. Where there are rules, all requests come on one connection:
    what it was allowed is remembered with it."""

    def __init__(self, rules):
        self.runner = asyncio.Runner()
        self.node = a_node(
            [memory_disk()], offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0, **rules
        )
        self._known = Client("127.0.0.1", 1) if rules else None
        self.failures = []
        self.runner.run(self._start())

    async def _start(self):
        await self.node.start()
        handler = logging.Handler(logging.ERROR)
        handler.emit = self.failures.append  # type: ignore[method-assign, assignment]
        logging.getLogger("ottla").addHandler(handler)
        self._handler = handler
        client = await Connection.connect(self.node.listeners[0].port)
        await client.create("t", partitions=2)
        await client.create("compacted", cleanup_policy="compact")
        await client.create("safe")  # nobody else speaks of it
        await client.close()

    def close(self):
        logging.getLogger("ottla").removeHandler(self._handler)
        self.runner.run(self.node.crash())
        self.runner.close()

    def feed(self, frames):
        """Answers and reasons for closing, of each frame."""
        return self.runner.run(self._feed(frames))

    async def _feed(self, frames):
        answers, reasons = [], []

        def begin(frame, slot):
            client = self._known or Client("127.0.0.1", 1)
            self.node.dispatcher.begin(frame, slot, client, reasons.append)

        def write(buffers):
            answers.append(b"".join(map(bytes, buffers)))

        for frame in frames:
            pipeline = Pipeline(begin, write, lambda: None)
            pipeline.on_frame(frame)
            for _ in range(3):
                await asyncio.sleep(0)
            pipeline.close()
        return answers, reasons

    async def _works(self):
        client = await Connection.connect(self.node.listeners[0].port)
        answer = await client.produce("safe", b"v")
        await client.close()
        return answer.error_code

    def works(self):
        return self.runner.run(asyncio.wait_for(self._works(), 60))


@pytest.fixture(scope="module", params=[{}, RULES], ids=["without rules", "with rules"])
def broker(request):
    running = Broker(request.param)
    yield running
    running.close()


def a_value(field, version, chance, depth):
    if field.array:
        if covers(field.nullable, version) and chance.random() < 0.1:
            return None
        if chance.random() < 0.05:
            return [an_item(field, version, chance, depth)] * chance.choice((2, DUPLICATES))
        return [an_item(field, version, chance, depth) for _ in range(chance.choice((0, 1, 1, 1, 2, 3)))]
    if covers(field.nullable, version) and chance.random() < 0.2:
        return None
    return an_item(field, version, chance, depth)


def an_item(field, version, chance, depth):
    kind = field.kind
    if isinstance(kind, type):
        return a_message(kind, version, chance, depth + 1)
    match kind:
        case "bool":
            return chance.random() < 0.5
        case "string":
            return a_string(field.name, chance)
        case "bytes" | "records":
            return some_bytes(chance)
        case "uuid":
            return chance.choice((bytes(16), chance.randbytes(16)))
        case "float64":
            return chance.choice((0.0, -1.0, float("inf"), float("nan"), chance.random()))
    bits = INTEGERS[kind]
    if field.name in ("partition_index", "index", "partition") or field.name.endswith("epoch"):
        return chance.choice((0, 0, 0, 1, -1, 2**bits - 1))
    low = 0 if kind == "uint16" else -(2**bits)
    return chance.choice(
        (0, 1, -1 if low else 2, 2, 3, 100, 2**bits - 1, low, chance.randrange(low, 2**bits))
    )


def a_string(name, chance):
    if "group" in name:
        return chance.choice(GROUPS)
    if name in ("name", "topic", "topic_name", "resource_name"):
        return chance.choice(TOPICS)
    return chance.choice(("", "a", "range", "consumer", "1", "retention.ms", "é" * 9, "x" * 300))


def some_bytes(chance):
    made = bytearray(
        batch.build(
            [
                Record(-1, 1, b"k", chance.randbytes(chance.randrange(40)))
                for _ in range(chance.randrange(1, 4))
            ],
            codec=chance.randrange(5),
            producer_id=chance.choice((-1, 1)),
            producer_epoch=0,
            base_sequence=chance.choice((0, 1, -1)),
            transactional=chance.random() < 0.1,
        )
    )
    if chance.random() < 0.5:
        damage(made, chance)
    return bytes(made) if chance.random() < 0.8 else chance.randbytes(chance.randrange(30))


def a_message(kind: type[Message], version, chance, depth=0):
    made = kind()
    for field in kind.FIELDS:
        if covers(field.versions, version):
            setattr(made, field.name, a_value(field, version, chance, depth))
    return made


def damage(data: bytearray, chance):
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                data[at : at + 4] = chance.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0"))
            case 2:
                del data[at : at + chance.randrange(1, 9)]
            case _:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))


def a_frame(chance, api, version, damaged):
    frame = request_header(api, version, 77, chance.choice((None, "fuzz")))
    codec.write(a_message(api.request(), version, chance), version, frame)
    del frame[:4]
    if damaged:
        damage(frame, chance)
    if chance.random() < 0.05:
        frame += bytes(PADDING_BYTES)  # behind the request, where nobody looks
    return bytes(frame)


def check_answer(answer, api, version):
    (size, correlation_id) = struct.unpack_from(">ii", answer)
    assert size == len(answer) - 4 and correlation_id == 77
    position = 8
    if version >= api.flexible_from and api.name != "ApiVersions":
        position = skip_tags(answer, position)
    _, end = codec.read(api.response(), version, answer, position)
    assert end == len(answer)


fuzzing = settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@fuzzing
@given(seed=st.integers(0, 2**32))
def test_a_request_of_any_contents_gets_an_answer_of_its_own_form(broker, seed):
    chance = random.Random(seed)
    for _ in range(20):
        api, version = chance.choice(REQUESTS)
        frame = a_frame(chance, api, version, damaged=False)
        answers, reasons = broker.feed([frame])
        assert not broker.failures, (api.name, version, broker.failures.pop().exc_text or frame)
        assert len(answers) + len(reasons) <= 1, (api.name, version)  # none: it waits, or wants no answer
        for answer in answers:
            check_answer(answer, api, version)


@fuzzing
@given(seed=st.integers(0, 2**32))
def test_a_damaged_request_is_answered_or_closes_the_connection(broker, seed):
    chance = random.Random(seed)
    frames = [a_frame(chance, *chance.choice(REQUESTS), damaged=True) for _ in range(20)]
    frames += [chance.randbytes(chance.randrange(1, 200)) for _ in range(5)]
    broker.feed([frame for frame in frames if frame])
    assert not broker.failures, broker.failures.pop().getMessage()


def test_afterwards_it_still_works(broker):
    assert broker.works() == 0
