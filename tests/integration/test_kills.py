"""SIGKILL at the worst moments: in the middle of compaction, of a roll, of a move, and during the start."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from ottla.server.disk import OsDisk
from ottla.storage.doctor import check_folder
from tests.integration.nodes import Client
from tests.oracle.ottla import Ottla

SETTINGS = {
    "log.cleaner.backoff.ms": 1,
    "log.retention.check.interval.ms": 50,
    "log.flush.offset.checkpoint.interval.ms": 20,
    "log.cleaner.dedupe.buffer.size": 1 << 20,
}


async def load(port, topic, seconds, acknowledged, start, keys):
    """Numbered values under a few keys, each acknowledged by all before the next."""
    number = start
    client = await Client.connect(port)
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            key = b"k%d" % (number % keys)
            answer = await client.produce(topic, b"%d " % number + bytes(500), key=key)
            assert answer.error_code == 0, answer
            acknowledged[key] = number
            number += 1
    finally:
        await client.close()
    return number


@pytest.mark.slow
def test_kills_during_compaction_and_rolls_lose_no_key_and_bring_none_back():
    chance = random.Random(4)
    acknowledged = {}
    with Ottla(settings=SETTINGS) as server:

        async def create():
            client = await Client.connect(server.port)
            await client.create(
                "t",
                cleanup_policy="compact",
                internal_segment_bytes=20_000,
                min_cleanable_dirty_ratio=0.01,
                file_delete_delay_ms=0,
            )
            await client.close()

        asyncio.run(create())
        number = 0
        for _ in range(6):
            number = asyncio.run(
                load(server.port, "t", chance.uniform(0.3, 0.8), acknowledged, number, keys=20)
            )
            server.kill()  # the cleaner never rests, so it is at work
            server.start()

        async def latest():
            client = await Client.connect(server.port)
            values = await client.read_all("t")
            await client.close()
            return values

        numbers = [int(value.split(b" ")[0]) for value in asyncio.run(latest())]
        assert numbers == sorted(set(numbers))  # in order, none twice
        assert {
            each: max(n for n in numbers if n % 20 == int(each[1:])) for each in acknowledged
        } == acknowledged
        assert len(numbers) < number  # and it was compacted all the while
        assert server.stop() == 0
        findings = list(check_folder(OsDisk(str(server.data)), deep=True, others=("metadata",)))
        assert findings == []


@pytest.mark.slow
def test_kills_during_the_start_do_no_harm():
    chance = random.Random(5)
    acknowledged = {}
    with Ottla(settings=SETTINGS) as server:

        async def create():
            client = await Client.connect(server.port)
            await client.create("t", internal_segment_bytes=20_000)
            await client.close()

        asyncio.run(create())
        number = asyncio.run(load(server.port, "t", 1, acknowledged, 0, keys=1_000_000))
        server.kill()
        command = [sys.executable, str(server_script()), "start", "--port", "0", "--data", str(server.data)]
        for _ in range(5):
            starting = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0.1, 0.8))
            os.kill(starting.pid, signal.SIGKILL)
            starting.wait()
        server.start()

        async def all_values():
            client = await Client.connect(server.port)
            values = await client.read_all("t")
            await client.close()
            return values

        found = [int(value.split(b" ")[0]) for value in asyncio.run(all_values())]
        assert found == list(range(number))


def server_script():
    from pathlib import Path

    return Path(sys.executable).with_name("ottla")
