"""A session with ZooKeeper lives through turns of the loop that take long, and leaves a server that is silent."""

import asyncio
import struct
import threading
import time

import pytest

from ottla.server.zookeeper.session import Options, Session

TIMEOUT_MS = 3000  # a busy machine may take a good part of it
PING_XID = -2


class Server:
    """Speaks as much as a session needs, in a thread of its own: it goes on while the broker's loop is busy."""

    def __init__(self):
        self.connections = self.pings = 0
        self.answers = True
        self.changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self._started = threading.Event()

    def __enter__(self):
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()

    def _run(self):
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self):
        self._done = asyncio.Event()
        server = await asyncio.start_server(self._on_connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._done.wait()
        server.close()

    async def _on_connection(self, reader, writer):
        self._count("connections")
        await self._frame(reader)
        self._say(writer, struct.pack(">iiqi16s", 0, TIMEOUT_MS, 1, 16, b"p" * 16))
        try:
            while True:
                (xid,) = struct.unpack_from(">i", await self._frame(reader))
                if xid == PING_XID:
                    if self.answers:
                        self._say(writer, struct.pack(">iqi", PING_XID, 0, 0))
                    self._count("pings")
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.close()

    def _count(self, name):
        with self.changed:
            setattr(self, name, getattr(self, name) + 1)
            self.changed.notify_all()

    @staticmethod
    async def _frame(reader):
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(size)

    @staticmethod
    def _say(writer, body):
        writer.write(struct.pack(">i", len(body)) + body)


async def until(condition):
    async with asyncio.timeout(90):
        while not condition():
            await asyncio.sleep(0.002)


def with_session(server, scenario, loop_factory):
    async def main():
        options = Options((("127.0.0.1", server.port),), TIMEOUT_MS)
        session = Session(
            options, on_connected=lambda: None, on_event=lambda path: None, on_expired=lambda: None
        )
        try:
            await until(lambda: session.is_connected)
            await scenario(session)
        finally:
            session.abandon()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())


@pytest.fixture(params=["asyncio", "uvloop"])
def loop_factory(request):
    return pytest.importorskip("uvloop").new_event_loop if request.param == "uvloop" else None


@pytest.mark.parametrize("pings", [1, 2])
def test_a_turn_of_the_loop_that_takes_long_does_not_cost_the_connection(loop_factory, pings):
    with Server() as server:

        async def scenario(session):
            await until(lambda: server.pings == pings)
            await asyncio.sleep(0 if pings == 1 else 0.1)  # with the answer unread, and read
            time.sleep(TIMEOUT_MS * 0.8 / 1000)  # the turn that takes long
            before = server.pings
            await until(lambda: server.pings >= before + 2)
            assert session.is_connected

        with_session(server, scenario, loop_factory)
        assert server.connections == 1


def test_a_server_that_does_not_answer_is_left(loop_factory):
    with Server() as server:

        async def scenario(session):
            server.answers = False
            await until(lambda: server.connections == 2)

        with_session(server, scenario, loop_factory)
