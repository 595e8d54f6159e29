"""The watch over event loops: what blocks one fails the test, unless it is known to."""

import asyncio

import pytest
from blockbuster import BlockingError

from ottla.server.disk import OsDisk


def test_a_sync_on_a_loop_is_refused_and_beside_one_is_not(tmp_path):
    disk = OsDisk(tmp_path)
    file = disk.open("f", create=True)

    async def on_the_loop():
        file.sync()

    file.sync()
    with pytest.raises(BlockingError, match=r"fsync|fdatasync"):
        asyncio.run(on_the_loop())
    asyncio.run(asyncio.to_thread(file.sync))
    file.close()
