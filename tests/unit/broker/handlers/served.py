"""Handlers on simulated ports: the real parts of a broker over memory and a clock that the test moves.

A test passes a context of its own: another client, another version, a port in place of the real one.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from ottla.broker.permits.table import guarded
from ottla.broker.requests.client import Client
from ottla.broker.requests.context import Context
from ottla.broker.routes import ROUTES
from ottla.broker.waits import Running
from ottla.config.settings import Config
from ottla.replication.partition import Partition
from ottla.storage.memory import MemoryDisk
from ottla.testing.world.process import Process
from ottla.testing.world.time import Time
from ottla.wire import batch as batches
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.records import Record
from ottla.wire.schema import Message

SETTINGS = {
    "node.id": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class Call:
    """A request under way: `response` is None while it waits, and `error` what its handler raised."""

    def __init__(self, handler: Any, request: Message, context: Context) -> None:
        self.response: Any = None
        self.error: BaseException | None = None
        self.is_over = False
        self.running = Running(handler(request, context), self._finished)
        self.running.step()

    def _finished(self, response: Any, error: BaseException | None) -> None:
        self.response, self.error, self.is_over = response, error, True


class Served:
    """One broker, alone in its cluster, with the topics that the test creates."""

    def __init__(self, **settings: str) -> None:
        self.time = Time()
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.process = Process(Config(SETTINGS | named), MemoryDisk(), self.time, Random(1))
        self.process.jobs.at_once = True
        self.broker = self.process.broker
        self.released: list[bool] = []  # one entry for each request that let the next one start

    def create(self, name: str, partitions: int = 1) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        response = self.answer(CreateTopicsRequest(topics=[topic]))
        assert [each.error_code for each in response.topics] == [0]

    def context(self, request: Message, version: int | None = None, **ports: Any) -> Context:
        """`ports` replaces fields of the context."""
        chosen = ROUTES[request.API_KEY].version_max if version is None else version
        context = self.broker.context(Client("client", 1), "a client", chosen, self._appended)
        return replace(context, **ports)

    def call(self, request: Message, version: int | None = None, **ports: Any) -> Call:
        return Call(ROUTES[request.API_KEY].handler, request, self.context(request, version, **ports))

    def answer(self, request: Message, version: int | None = None, **ports: Any) -> Any:
        return self.finish(self.call(request, version, **ports))

    def permitted(self, request: Message, access: Any) -> Any:
        """The answer behind the API's entry in the table of rights."""
        route = ROUTES[request.API_KEY]
        handler = guarded(route.api.name, route.handler)
        return self.finish(Call(handler, request, self.context(request, access=access)))

    def finish(self, call: Call) -> Any:
        for _ in range(1000):
            if call.is_over:
                break
            assert self.time.next_event(), "nothing happens any more, and the request waits"
        assert call.error is None, call.error
        return call.response

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self.broker.replicas.partition(topic, index)

    def give_follower(self, topic: str, replica_id: int = 2) -> Partition:
        """As if the partition had a second replica, in sync: nothing is committed before it has fetched it."""
        partition = self.partition(topic)
        partition.on_state(partition.state._replace(replicas=(1, replica_id), isr=(1, replica_id)))
        return partition

    def _appended(self) -> None:
        self.released.append(True)


def a_batch(*values: bytes) -> bytes:
    return bytes(batches.build([Record(at, 0, None, value) for at, value in enumerate(values)]))


class Denies:
    """An `Access` that refuses what a function of (operation, resource type, name) says."""

    def __init__(self, denied: Callable[[int, int, str], bool]) -> None:
        self._denied = denied

    def allows(self, client: Client, operation: int, resource_type: int, name: str) -> bool:
        return not self._denied(operation, resource_type, name)

    def allows_any(self, client: Client, operation: int, resource_type: int) -> bool:
        return True
