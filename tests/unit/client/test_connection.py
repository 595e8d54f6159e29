import asyncio

import pytest

from ottla.client.errors import ConnectionLost
from ottla.client.loop.connection import Connection
from ottla.client.settings import Settings
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.client.scripted import ScriptedBroker, api_versions

SETTINGS = Settings(request_timeout_ms=5_000)


def metadata(_: object) -> MetadataResponse:
    return MetadataResponse(cluster_id="c" * 40, controller_id=1)


async def ask(broker: ScriptedBroker, settings: Settings = SETTINGS) -> MetadataResponse:
    connection = await Connection.open("127.0.0.1", broker.port, settings)
    try:
        answer: MetadataResponse = await connection.ask(MetadataRequest())
        return answer
    finally:
        connection.close()


def test_requests_overlap_and_find_their_answers() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({"MetadataRequest": metadata}) as broker:
            connection = await Connection.open("127.0.0.1", broker.port, SETTINGS)
            answers = await asyncio.gather(*(connection.ask(MetadataRequest()) for _ in range(20)))
            assert all(answer.controller_id == 1 for answer in answers)
            connection.close()

    asyncio.run(scenario())


def test_a_connection_lost_at_any_byte_is_one_clean_retriable_error() -> None:
    async def scenario() -> None:
        async with ScriptedBroker({"MetadataRequest": metadata}) as whole:
            await ask(whole)
        frames = [whole._answer(frame) for frame in _request_frames()]
        total = sum(map(len, frames))
        for cut in [*range(12), *range(12, total, 37), total - 1]:
            async with ScriptedBroker({"MetadataRequest": metadata}, cut_after=cut) as broker:
                with pytest.raises(ConnectionLost) as caught:
                    await ask(broker)
                assert caught.value.retriable

    asyncio.run(scenario())


def _request_frames() -> list[bytes]:
    from ottla.client.core.dialogue import Dialogue
    from ottla.wire.messages.api_versions import ApiVersionsRequest

    dialogue = Dialogue("ottla")
    hello = ApiVersionsRequest(client_software_name="ottla", client_software_version="0")
    return [bytes(dialogue.request(m, m.VERSIONS[1])[1][4:]) for m in (hello, MetadataRequest())]


def test_an_older_broker_is_asked_again_in_its_own_version() -> None:
    def old(request: object) -> ApiVersionsResponse:
        return api_versions()

    class Old(ScriptedBroker):
        def _answer(self, frame: bytes) -> bytes:
            import struct

            from ottla.wire import codec

            version, correlation_id = struct.unpack_from(">hi", frame, 2)
            if frame[:2] == b"\0\x12" and version > 2:
                self.requests.append(("ApiVersionsRequest", version))
                told = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, max_version=2)])
                body = struct.pack(">i", correlation_id) + bytes(codec.write(told, 0))
                return struct.pack(">i", len(body)) + body
            return super()._answer(frame)

    async def scenario() -> None:
        async with Old({"ApiVersionsRequest": old, "MetadataRequest": metadata}) as broker:
            assert (await ask(broker)).controller_id == 1
            assert [version for name, version in broker.requests if name == "ApiVersionsRequest"] == [4, 2]

    asyncio.run(scenario())


class Silent(ScriptedBroker):
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)


class Web(ScriptedBroker):
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read(-1)


def test_a_broker_that_never_answers_is_given_up() -> None:
    async def scenario() -> None:
        async with Silent() as broker:
            with pytest.raises(ConnectionLost, match="did not answer"):
                await Connection.open("127.0.0.1", broker.port, Settings(request_timeout_ms=50))

    asyncio.run(scenario())


def test_nobody_there_is_a_retriable_error_that_names_the_address() -> None:
    async def scenario() -> None:
        with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1"):
            await Connection.open("127.0.0.1", 1, SETTINGS)

    asyncio.run(scenario())


def test_something_that_is_not_kafka_is_refused_and_not_waited_for() -> None:
    async def scenario() -> None:
        async with Web() as broker:
            with pytest.raises(ConnectionLost, match="Kafka port"):
                await Connection.open("127.0.0.1", broker.port, SETTINGS)

    asyncio.run(scenario())
