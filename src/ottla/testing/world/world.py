"""One world: a broker, its disk, its network and its clients, and everything that happens to them."""

from collections.abc import Callable
from typing import Any

from ottla.broker.waits import Running
from ottla.config.settings import Config
from ottla.metadata.records import NO_LEADER
from ottla.storage.memory import MemoryDisk
from ottla.testing.asking import ask
from ottla.testing.moves import set_leader
from ottla.testing.world import members, producers, readers
from ottla.testing.world.checks import Checks
from ottla.testing.world.client import Client, Script, Send
from ottla.testing.world.disasters import TILLS, Disasters
from ottla.testing.world.ledger import Ledger, TopicPartition, hold
from ottla.testing.world.network import Connection, Weather
from ottla.testing.world.process import Process
from ottla.testing.world.simulation import Simulation
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

THOROUGH_EVERY = 400  # events
STORM_MS = 18_000
PATIENCE_MS = 150_000  # of a calm world: nobody needs more to come to an end
TOPICS = {"plain": 3, "money": 3}


class World(Simulation):
    """`careful`: nothing is acknowledged before it is synced, so power may fail. Otherwise only processes die."""

    name = "scripted"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.careful = self.random.random() < 0.5
        self.disk = MemoryDisk(now_ms=self.time.now_ms)
        self.weather = Weather(self.random)
        self.ledger = Ledger()
        self.checks = Checks(self.ledger)
        self.process: Process | None = None
        self.connections: list[Connection] = []
        self.clients: list[Client] = []
        self.finishing = False
        self._topic_ids: dict[str, bytes] = {}
        self._owners: dict[tuple[str, int], dict[TopicPartition, str]] = {}
        self._numbers = 0
        self._names = 0
        self.config = self._new_config()

    # -- running -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        """A storm, then calm; in the end everything must have come right."""
        self.start()
        self._create_topics()
        disasters = Disasters(self)
        self._populate()
        disasters.begin()
        self.until(lambda: self.now_ms >= STORM_MS, STORM_MS + 1, "the storm")
        self.note("calm")
        self.weather.calm = True
        disasters.end()
        for number in range(TILLS):  # whatever a dead one left open is ended by its successor
            self.new_till(number)
        self.until(self._producers_are_done, PATIENCE_MS, "producers")
        self.until(self._no_open_transaction, PATIENCE_MS, "open transactions")
        self.finishing = True
        self.until(lambda: all(client.is_done for client in self.clients), PATIENCE_MS, "clients")
        assert self.process is not None
        self.checks.thorough(self.process.broker)
        self.ledger.check_transactions()

    def _after_event(self) -> None:
        if self.process is not None:
            # A disk that fails does so within an event, and what was done before is told all the same.
            self.checks.after_event(self.process.broker)
            if self.events % THOROUGH_EVERY == 0 and not self.process.is_useless:
                self.checks.thorough(self.process.broker)

    def _waiting(self) -> str:
        clients = (client for client in self.clients if not client.is_done)
        waiting = "; ".join(f"{client.name} for {_described(client.waits_for)}" for client in clients)
        return f"somebody waits for ever: {waiting or 'nobody'}"

    def _replay(self) -> str:
        world = "" if self.name == World.name else f" WORLD={self.name}"
        return f", replay with: make sim SEED={self.seed}{world}"

    # -- the broker --------------------------------------------------------------------------------------

    def start(self) -> None:
        self.disk.clear_faults()
        self.disk.capacity_bytes = None
        self.process = Process(self.config, self.disk, self.time, self.random)
        self.note("started, " + ("after a clean stop" if self.process.folder.was_clean else "unclean"))

    def stop(self, how: Callable[[Process], None]) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        connections, self.connections = self.connections, []
        how(process)
        for connection in connections:
            connection.close()

    def ask(self, request: Any, then: Callable[[Any], None] = lambda answer: None) -> None:
        assert self.process is not None
        self.drive(ask(self.process.broker, request), then)

    def drive(self, work: Any, then: Callable[[Any], None] = lambda answer: None) -> None:
        def finished(answer: Any, error: BaseException | None) -> None:
            if error is None:
                then(answer)

        Running(work, finished).step()

    def move_leader(self, name: TopicPartition, away_ms: float) -> None:
        """Nobody leads, and then the same broker again, under a new epoch."""
        process = self.process
        if process is None or process.is_useless:
            return

        def back() -> None:
            """Until it works: the disk may refuse to write it down."""
            known = process.broker.image.partition(*name)
            if known is not None and known.leader == NO_LEADER:
                self.drive(set_leader(process.broker, *name, process.broker.node_id))
                process.clock.call_later(200, back)

        def gone(_: Any) -> None:
            process.clock.call_later(away_ms, back)

        self.drive(set_leader(process.broker, *name, NO_LEADER), gone)

    # -- clients -----------------------------------------------------------------------------------------

    def add(self, name: str, script: Script) -> Client:
        client = Client(name, script, self.connect, self.time.call_later, lambda: self.random.uniform(0.1, 5))
        self.clients.append(client)
        client.start()
        return client

    def new_name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"

    def new_member(self) -> None:
        group, kind = self.random.choice([("new", members.consumer_member), ("old", members.classic_member)])
        name = self.new_name("member-")
        self.add(name, kind(self, name, group, "plain", self.random.randint(5, 40)))

    def new_till(self, number: int) -> None:
        """A transactional producer; one of the same id that still runs is fenced by it."""
        transactional_id = f"till-{number}"
        name = self.new_name(f"{transactional_id}-")
        self.add(
            name, producers.transactional_producer(self, name, transactional_id, self.random.randint(2, 8))
        )

    def _populate(self) -> None:
        for _ in range(2):
            name = self.new_name("writer-")
            self.add(name, producers.idempotent_producer(self, name, self.random.randint(10, 40)))
        for number in range(TILLS):
            self.new_till(number)
        for topic, committed in (("plain", False), ("money", True), ("money", False)):
            name = self.new_name("reader-")
            self.add(name, readers.reader(self, topic, read_committed=committed))
        for _ in range(3):
            self.new_member()

    def connect(self, client_id: str) -> Connection | None:
        if self.process is None:
            return None
        connection = Connection(self.process, self.time, self.weather, client_id)
        self.connections = [connection for connection in self.connections if connection.is_open]
        self.connections.append(connection)
        return connection

    # -- what clients ask the world ----------------------------------------------------------------------

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [(topic, index) for index in range(TOPICS[topic])]

    def some_partition(self, topic: str) -> TopicPartition:
        return self.random.choice(self.partitions(topic))

    def topic_id(self, topic: str) -> bytes:
        return self._topic_ids[topic]

    def is_at_the_end(self, name: TopicPartition, offset: int) -> bool:
        return offset >= self.ledger.truths[name].high_watermark

    def on_owned(self, generation: tuple[str, int], member_id: str, owned: list[TopicPartition]) -> None:
        owners = self._owners.setdefault(generation, {})
        for partition in owned:
            hold(owners.setdefault(partition, member_id) == member_id, f"{generation}: two own {partition}")

    def on_member_epoch(self, group: str, name: str, before: int, after: int) -> None:
        hold(after >= before, f"{group}: the epoch of {name} falls from {before} to {after}")

    # -- beginning and end -------------------------------------------------------------------------------

    def _new_config(self) -> Config:
        settings = {
            "offsets.topic.num.partitions": self.random.choice(["1", "3"]),
            "transaction.state.log.num.partitions": self.random.choice(["1", "2"]),
            "group.initial.rebalance.delay.ms": self.random.choice(["0", "1000"]),
            "log.flush.offset.checkpoint.interval.ms": self.random.choice(["1000", "60000"]),
            "log.roll.ms": self.random.choice(["604800000", "3000"]),
            "log.cleaner.backoff.ms": self.random.choice(["15000", "2000"]),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
        }
        if self.careful:
            settings["log.flush.interval.messages"] = "1"
        return Config(settings)

    def _create_topics(self) -> None:
        wanted = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in TOPICS.items()
        ]
        answers: list[Any] = []
        self.ask(CreateTopicsRequest(topics=wanted, timeout_ms=10_000), answers.append)
        self.until(lambda: bool(answers), 10_000, "topics")
        self._topic_ids = {topic.name: topic.topic_id for topic in answers[0].topics}

    def _producers_are_done(self) -> bool:
        return all(client.is_done for client in self.clients if client.name.startswith(("writer-", "till-")))

    def _no_open_transaction(self) -> bool:
        return not any(truth.open for truth in self.ledger.truths.values())


def _described(wanted: object) -> str:
    return type(wanted.request).__name__ if isinstance(wanted, Send) else repr(wanted)
