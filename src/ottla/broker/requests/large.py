"""Requests with very many elements: read in steps, one at a time."""

from collections.abc import Generator
from typing import TypeVar

from ottla.broker.requests.client import Client
from ottla.broker.stepping import STEP_BYTES, Places, Turns
from ottla.ports import Buffer
from ottla.wire import codec
from ottla.wire.schema import Message

T = TypeVar("T")
AT_ONCE = 1  # the others wait as bytes, which take less memory


class Place:
    """Of a request that is worked on. It is given back once."""

    def __init__(self, places: Places) -> None:
        self._places, self._is_held = places, False

    async def take(self) -> None:
        await self._places.take()
        self._is_held = True

    def give_back(self) -> None:
        if self._is_held:
            self._is_held = False
            self._places.give_back()


class LargeRequests:
    def __init__(self, turns: Turns, elements_max: int) -> None:
        self._turns, self._elements_max = turns, elements_max
        self._places = Places(AT_ONCE)

    def place(self) -> Place:
        return Place(self._places)

    async def read(
        self, cls: type[Message], version: int, frame: Buffer, position: int, client: Client, place: Place
    ) -> tuple[Message, int, int]:
        """The message, where it ends, and how many elements it has."""
        if not client.is_peer:
            await place.take()
            # In a turn of its own: hundreds that fail at once would else run inside each other, from the one that gave
            # back its place.
            await self._turns.rest(client.work)
        steps = codec.read_in_steps(cls, version, frame, position, elements_max=self._elements_max)
        return await self.stepped(steps, client)

    async def stepped(self, steps: Generator[None, None, T], client: Client) -> T:
        """All of the steps, with a turn for others when the client has used up its share."""
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                result: T = stop.value
                return result
            client.work.spend(STEP_BYTES // 2)
            await self._turns.rest(client.work, first=client.is_peer)
