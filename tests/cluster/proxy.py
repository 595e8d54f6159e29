"""A TCP proxy that can fall silent: what a cut network looks like from both ends."""

import asyncio
import threading


class Proxies:
    """All proxies of a test, on one loop in a thread."""

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._made = []

    def add(self, target_port):
        proxy = Proxy(self._loop, target_port)
        self._run(proxy.start())
        self._made.append(proxy)
        return proxy

    def close(self):
        for proxy in self._made:
            self._run(proxy.close())
        self._run(asyncio.sleep(0.02))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)


class Proxy:
    def __init__(self, loop, target_port):
        self._loop, self._target_port = loop, target_port
        self._open = asyncio.Event()
        self._writers = set()
        self._tasks = set()
        self.port = 0

    async def start(self):
        self._open.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self):
        """Nothing passes in either direction, and nobody is told."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def heal(self):
        self._loop.call_soon_threadsafe(self._open.set)

    async def _serve(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        try:
            await self._open.wait()
            to_target = await asyncio.open_connection("127.0.0.1", self._target_port)
        except (OSError, asyncio.CancelledError):
            writer.close()
            return
        self._writers |= {writer, to_target[1]}
        ways = asyncio.gather(
            self._pipe(reader, to_target[1]), self._pipe(to_target[0], writer), return_exceptions=True
        )
        try:
            await ways
        except asyncio.CancelledError:
            ways.cancel()
        finally:
            for each in (writer, to_target[1]):
                each.close()
                self._writers.discard(each)

    async def _pipe(self, reader, writer):
        try:
            while data := await reader.read(65536):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()  # whether it ended or was reset: the other end hears of it

    async def close(self):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        for writer in list(self._writers):
            writer.close()
