"""Connections that break and dawdle. As with TCP, what arrives on one arrives in order, once, or not at all;
but a client that gave up on a connection may learn that its last words were heard after all."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from ottla.broker.requests.client import Client as Peer
from ottla.broker.requests.pipeline import Buffers, Pipeline, Slot
from ottla.broker.routes import ROUTES
from ottla.ports import Buffer
from ottla.testing.world.process import Process
from ottla.testing.world.time import Time
from ottla.wire import codec
from ottla.wire.frames import LENGTH, request_header, skip_tags
from ottla.wire.schema import Message

LOST = None  # the outcome when no answer arrives
BREAKS_BEFORE, BREAKS_AFTER, DAWDLES = 0.02, 0.03, 0.03


class Weather:
    """How bad the network is; calm at the end of every world, so that everything can come right."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.calm = False

    def strikes(self, chance: float) -> bool:
        return not self.calm and self.random.random() < chance

    def latency_ms(self) -> float:
        if self.strikes(DAWDLES):
            return self.random.uniform(10, 6_000)
        return self.random.uniform(0.1, 3)


class Connection:
    """One client's connection to one process."""

    def __init__(self, process: Process, time: Time, weather: Weather, client_id: str) -> None:
        self._process, self._time, self._weather = process, time, weather
        self._client_id = client_id
        self._peer = Peer("client", 1)
        self._pipeline = Pipeline(self._begin, self._write, self._go_on)
        self._held: deque[bytes] = deque()  # frames that the pipeline does not take yet
        self._waiting: deque[tuple[type[Message], int, bool, Callable[[Any], None]]] = deque()
        self._arrival_ms = self._departure_ms = 0.0
        self._correlation_id = 0
        self._incoming = b""
        self._deaf = self._mute = (
            False  # what comes after a lost frame is lost too, until the connection ends
        )
        self.is_open = True

    def send(
        self, request: Message, version: int, answer: Callable[[Any], None], heard: Callable[[], None]
    ) -> None:
        """`answer` is called with the response, or with LOST when the connection breaks before; `heard` when
        the request arrives."""
        api = ROUTES[request.API_KEY].api
        self._correlation_id += 1
        frame = request_header(api, version, self._correlation_id, self._client_id)
        codec.write(request, version, frame)
        flexible = version >= api.flexible_from
        self._waiting.append((api.response(), version, flexible, answer))
        if self._deaf:
            return
        if self._weather.strikes(BREAKS_BEFORE):
            self._deaf = True
            self._time.call_later(self._weather.latency_ms(), self.close)
            return
        body = bytes(frame[LENGTH.size :])
        self._arrival_ms = max(self._arrival_ms, self._time.exact_ms + self._weather.latency_ms())
        self._time.call_later(self._arrival_ms - self._time.exact_ms, lambda: self._arrive(body, heard))

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._pipeline.close()
        waiting, self._waiting = self._waiting, deque()
        for *_, answer in waiting:
            answer(LOST)

    def _arrive(self, frame: bytes, heard: Callable[[], None]) -> None:
        if self.is_open:
            heard()
            self._held.append(frame)
            self._go_on()

    def _go_on(self) -> None:
        while self._held and self._pipeline.ready and self.is_open:
            self._pipeline.on_frame(self._held.popleft())

    def _begin(self, frame: Buffer, slot: Slot) -> None:
        self._process.dispatcher.begin(frame, slot, self._peer, lambda reason: self.close())

    def _write(self, buffers: Buffers) -> None:
        data = b"".join(map(bytes, buffers))
        if self._mute:
            return
        if self._weather.strikes(BREAKS_AFTER):
            self._mute = True
            self._time.call_later(self._weather.latency_ms(), self.close)
            return
        self._departure_ms = max(self._departure_ms, self._time.exact_ms + self._weather.latency_ms())
        self._time.call_later(self._departure_ms - self._time.exact_ms, lambda: self._receive(data))

    def _receive(self, data: bytes) -> None:
        """One write may carry the answers to several requests."""
        while data and self.is_open and self._waiting:
            end = LENGTH.size + LENGTH.unpack_from(data)[0]
            self._take(data[:end])
            data = data[end:]

    def _take(self, data: bytes) -> None:
        kind, version, flexible, answer = self._waiting.popleft()
        position = LENGTH.size * 2
        if flexible:
            position = skip_tags(data, position)
        response, _ = codec.read(kind, version, data, position)
        answer(response)
