"""Questions to other brokers: who is lost is not waited for."""

import asyncio

import pytest

from ottla.broker.cluster.peers import Lane, credential, is_credential
from ottla.client.settings import Settings
from ottla.errors import NetworkException
from ottla.metadata.image import Image
from ottla.metadata.records import BrokerFenced, BrokerRegistered, BrokerUnfenced, Endpoint
from ottla.server.links import Link
from ottla.server.peers import BrokerPeers
from ottla.wire.messages.metadata import MetadataRequest
from tests.unit.client.scripted import ScriptedBroker


class SilentBroker(ScriptedBroker):
    """A process that was stopped: its connections stay, nothing is answered."""

    def __init__(self):
        super().__init__()
        self.is_asked = asyncio.Event()

    def _answer(self, frame):
        if frame[:2] == b"\0\3":
            self.is_asked.set()
            return b""
        return super()._answer(frame)


def registered(port, epoch):
    return BrokerRegistered(2, epoch, bytes([epoch]) * 16, (Endpoint("PLAINTEXT", "127.0.0.1", port),))


@pytest.mark.parametrize("news", ["fenced", "registered anew"])
def test_whoever_waits_for_a_broker_hears_at_once_that_it_is_lost(news):
    async def story():
        async with SilentBroker() as broker:
            image = Image()
            image.apply_entry(0, [registered(broker.port, 1), BrokerUnfenced(2)])
            peers = BrokerPeers(1, image, Link(None, Settings(client_id="broker-1")))
            answered = asyncio.get_running_loop().create_future()
            peers.ask(2, Lane.MARKERS, MetadataRequest(), 9, answered.set_result, timeout_ms=60_000)
            await broker.is_asked.wait()
            image.apply_entry(1, [BrokerFenced(2) if news == "fenced" else registered(broker.port, 2)])
            assert isinstance(await answered, NetworkException)
            await peers.close()

    asyncio.run(asyncio.wait_for(story(), 60))


@pytest.mark.parametrize("proof", ["", "1", "1.", ".x", "x.y", "1.\xe9", "9" * 5000 + ".x"])
def test_a_proof_that_is_none_is_refused(proof):
    assert not is_credential(proof, b"0123456789abcdef")
    assert is_credential(credential(1, b"0123456789abcdef"), b"0123456789abcdef")
