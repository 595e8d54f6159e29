"""ZooKeeper behind the metadata port, for tests that expect answers at once: calls wait until all is quiet."""

import asyncio
import itertools
import os
import tempfile
from pathlib import Path

from ottla.ensemble import Ensemble
from ottla.server.zookeeper.log import ZooKeeperLog
from ottla.server.zookeeper.session import Options
from tests.oracle.ports import free_ports

_roots = itertools.count()


class OneServer:
    """One ZooKeeper for all tests of a process; each home has a root of its own."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="ottla-zookeeper-")
        self.ensemble = Ensemble(Path(self.folder.name), free_ports(1))
        self.ensemble.start()

    def stop(self):
        self.ensemble.stop()
        self.folder.cleanup()


class ZooKeeperHome:
    def __init__(self, server):
        host, port = server.ensemble.connect.split(":")
        self.options = Options(((host, int(port)),), 3000)
        self.root = f"/test-{os.getpid()}-{next(_roots)}/ottla"
        self.loop = asyncio.new_event_loop()
        self.logs = []

    def log(self, broker_id=1):
        made = self.run(self._made(broker_id))
        settled = Settled(self, made)
        self.logs.append(settled)
        return settled

    async def _made(self, broker_id):
        return ZooKeeperLog(broker_id, self.options, self.root, keep_entries=0)

    def run(self, coroutine):
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, 60))

    def close(self):
        for log in self.logs:
            log.close()
        self.loop.close()


class Settled:
    """A log whose calls return when what they set off has happened, here and at the others."""

    def __init__(self, home, log):
        self._home, self._log = home, log
        self._is_open = False

    def open(self, listener, position=0):
        self._is_open = True
        self._home.run(self._do(self._log.open, listener, position))

    def claim(self, *arguments, **options):
        self._home.run(self._do(self._log.claim, *arguments, **options))

    def register(self, *arguments):
        self._home.run(self._do(self._log.register, *arguments))

    def resign(self):
        self._home.run(self._do(self._log.resign))

    def append(self, *arguments):
        self._home.run(self._answered(self._log.append, *arguments))

    def snapshot(self, *arguments):
        self._home.run(self._answered(self._log.snapshot, *arguments))

    def close(self):
        if self._is_open:
            self._is_open = False
            self._home.run(self._do(self._log.close))

    async def _answered(self, call, *arguments):
        *before, done = arguments
        answered = asyncio.get_running_loop().create_future()
        call(*before, answered.set_result)
        done(await answered)
        await self._settle()

    async def _do(self, call, *arguments, **options):
        call(*arguments, **options)
        await self._settle()

    async def _settle(self):
        for each in self._home.logs:
            if each._is_open:
                await each._quiet()

    async def _quiet(self):
        while not self._log.is_quiet:
            await asyncio.sleep(0.002)
        caught_up = asyncio.get_running_loop().create_future()
        self._log.catch_up(lambda: caught_up.set_result(None))
        await caught_up
        while not self._log.is_quiet:
            await asyncio.sleep(0.002)
