"""Answers over TLS to clients that read slowly: whole, in order, and encrypted no faster than they are read."""

import asyncio
import contextlib
import ssl
import struct

import pytest
import trustme

from ottla.server.tls_connection import PIECE_BYTES
from ottla.wire import codec
from ottla.wire.gather import SPLICE_BYTES_MIN
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.unit.server.test_connection import a_produce, answer, frame, make_topic, with_node

VALUE_BYTES, RECORDS, FETCHES = 500_000, 20, 3
APPLICATION_DATA = 23  # the kind of a TLS record
TLS_RECORD_BYTES = 16384  # at most


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    authority = trustme.CA()
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(authority.issue_cert("localhost").private_key_and_cert_chain_pem.bytes())
    return path, ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())


def with_tls(scenario, loop, path):
    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    settings = {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.type": "PEM"}
    with_node(scenario, factory, **settings, **{"ssl.keystore.location": str(path)})


@contextlib.asynccontextmanager
async def connected(node, context):
    """Its buffers are small: what is not read soon waits at the broker."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", node.listeners[0].port, ssl=context, server_hostname="localhost", limit=PIECE_BYTES
    )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def values():
    return [bytes([number]) * VALUE_BYTES for number in range(RECORDS)]


async def fill(reader, writer):
    await make_topic(reader, writer)
    for number, value in enumerate(values()):
        writer.write(frame("Produce", 8, a_produce(value), number))
        await answer(reader)


def a_fetch(number):
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=20 << 20)
    topics = [FetchTopic(topic="t", partitions=[partition])]
    return frame(
        "Fetch", 4, FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=20 << 20, topics=topics), number
    )


def is_whole(body):
    records = bytes(codec.read(FetchResponse, 4, body)[0].responses[0].partitions[0].records)
    return all(value in records for value in values())


async def stalled(node):
    """The connection whose client does not read, once nothing more is sent."""
    (connection,) = node.listeners[0].connections
    while connection._writable:
        await asyncio.sleep(0)
    before = -1
    while before != connection.unsent_bytes:
        before = connection.unsent_bytes
        await asyncio.sleep(0.1)
    return connection


def test_an_answer_of_several_buffers_is_no_more_tls_records_than_its_bytes_need(certificate):
    """With a record for each buffer a broker needs three times as much of the processor."""
    path, context = certificate

    async def scenario(node):
        async with connected(node, context) as (reader, writer):
            await make_topic(reader, writer)
            writer.write(frame("Produce", 8, a_produce(bytes(2 * SPLICE_BYTES_MIN)), 1))
            await answer(reader)
        client = ssl.create_default_context()
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        client.maximum_version = ssl.TLSVersion.TLSv1_2  # 1.3 hides session tickets among the answers
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client.wrap_bio(incoming, outgoing)
        reader, writer = await asyncio.open_connection("127.0.0.1", node.listeners[0].port)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                writer.write(outgoing.read())
                incoming.write(await reader.read(PIECE_BYTES))
        tls.write(a_fetch(1))
        writer.write(outgoing.read())
        told, records = b"", 0
        while len(told) < 4 or len(told) < 4 + struct.unpack(">i", told[:4])[0]:
            header = await reader.readexactly(5)
            kind, size = struct.unpack(">BxxH", header)
            assert kind == APPLICATION_DATA
            incoming.write(header + await reader.readexactly(size))
            told, records = told + tls.read(TLS_RECORD_BYTES), records + 1
        assert len(told) > 2 * SPLICE_BYTES_MIN, "records of this size have a buffer of their own"
        assert records == -(-len(told) // TLS_RECORD_BYTES)
        writer.transport.abort()

    with_tls(scenario, "asyncio", path)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_slow_reader_gets_everything_in_order_and_little_of_it_is_encrypted_ahead(certificate, loop):
    path, context = certificate

    async def scenario(node):
        async with connected(node, context) as (reader, writer):
            await fill(reader, writer)
            for number in range(FETCHES):
                writer.write(a_fetch(number))
            connection = await stalled(node)
            assert connection.unsent_bytes > 4 * PIECE_BYTES
            assert connection._transport.get_write_buffer_size() < 3 * PIECE_BYTES
            assert not connection.is_reading
            for number in range(FETCHES):
                correlation_id, body = await answer(reader)
                assert correlation_id == number
                assert is_whole(body)
            assert connection.unsent_bytes == 0
            assert connection.is_reading

    with_tls(scenario, loop, path)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_what_waits_leaves_before_the_connection_is_closed(certificate, loop):
    path, context = certificate

    async def scenario(node):
        async with connected(node, context) as (reader, writer):
            await fill(reader, writer)
            writer.write(a_fetch(7))
            connection = await stalled(node)
            connection.close("enough")
            correlation_id, body = await answer(reader)
            assert (correlation_id, is_whole(body)) == (7, True)

    with_tls(scenario, loop, path)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_reader_that_is_gone_leaves_nothing(certificate, loop):
    path, context = certificate

    async def scenario(node):
        async with connected(node, context) as (reader, writer):
            await fill(reader, writer)
            writer.write(a_fetch(1))
            connection = await stalled(node)
            writer.transport.abort()
            while node.listeners[0].connections:
                await asyncio.sleep(0)
            assert connection.unsent_bytes == 0

    with_tls(scenario, loop, path)


def test_frames_of_two_connections_that_arrive_in_halves_are_not_mixed(certificate):
    path, context = certificate

    async def scenario(node):
        async with connected(node, context) as (reader, writer), connected(node, context) as other:
            await make_topic(reader, writer)
            pairs = [(reader, writer), other]
            requests = [frame("Produce", 8, a_produce(bytes([65 + i]) * 1000), i + 1) for i in range(2)]
            for half in (0, 1):
                for (_, to), request in zip(pairs, requests, strict=True):
                    middle = len(request) // 2
                    to.write(request[middle:] if half else request[:middle])
                    await to.drain()
                await asyncio.sleep(0.05)
            for i, (fetched, _) in enumerate(pairs):
                correlation_id, body = await answer(fetched)
                assert correlation_id == i + 1
                assert struct.unpack_from(">h", body, body.index(b"\0\1t") + 11)[0] == 0

    with_tls(scenario, "uvloop", path)
