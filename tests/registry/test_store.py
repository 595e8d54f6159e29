"""The topic is the only store: several writers, foreign records, kills, ids that are never given twice."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest

from ottla import Consumer, Producer
from ottla.registry import records
from ottla.registry.decisions import Registry
from ottla.registry.errors import RegistryError
from ottla.registry.records import Key, read
from ottla.registry.state import Content, State
from ottla.registry.store import TopicStore
from ottla.serialization import RegistryClient
from ottla.testing import Broker

KILLS = int(os.environ.get("OTTLA_REGISTRY_KILLS", "2"))


def record(number):
    return f'{{"type":"record","name":"R{number}","fields":[]}}'


@pytest.fixture
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def opened(broker):
    """Opens registries on the broker, and closes them."""
    stores = []

    def opened():
        store = TopicStore({"bootstrap.servers": broker.bootstrap}, timeout_s=20)
        store.start()
        stores.append(store)
        return store

    yield opened
    for store in stores:
        store.close()


def register(store, subject, schema):
    return store.change(lambda registry: registry.register(subject, Content(schema))).schema_id


def test_the_bytes_of_records_are_confluents():
    """By their JSON libraries' order of fields; seen in topics that their registry wrote."""
    assert Key(records.SCHEMA, "a-value", 1).to_bytes() == (
        b'{"keytype":"SCHEMA","subject":"a-value","version":1,"magic":1}'
    )
    assert Key(records.CONFIG).to_bytes() == b'{"keytype":"CONFIG","subject":null,"magic":0}'
    assert Key(records.DELETE_SUBJECT, "a").to_bytes() == (
        b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}'
    )
    assert Key(records.NOOP).to_bytes() == b'{"keytype":"NOOP","magic":0}'
    decision = Registry(State()).register("a-value", Content('{"type" : "string"}'))
    assert decision.records[0].value_bytes() == (
        b'{"subject":"a-value","version":1,"id":1,"schema":"\\"string\\"","deleted":false}'
    )


def test_two_registries_share_a_topic_and_never_give_an_id_twice(opened):
    stores = [opened(), opened()]
    ids: list[int] = []

    def work(store, offset):
        for number in range(15):
            ids.append(register(store, f"s{offset}-{number}", record(offset * 100 + number)))

    threads = [threading.Thread(target=work, args=(store, at)) for at, store in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(ids) == list(range(1, 31))
    for store in stores:
        store.catch_up()
        assert len(store.ask(lambda registry: registry.state.ids)) == 30


def test_a_fenced_writer_decides_again_on_what_the_other_wrote(opened):
    first, second = opened(), opened()
    assert register(first, "a", record(1)) == 1
    assert register(second, "b", record(2)) == 2
    assert register(first, "c", record(2)) == 2  # learns only now that this schema has an id
    assert register(first, "d", record(3)) == 3


def test_a_topic_of_another_registry_is_gone_on_with_and_keys_keep_their_bytes(broker, opened):
    broker.create_topic("_schemas", 1, cleanup_policy="compact")
    legacy = b'{"magic": 1, "keytype": "SCHEMA", "subject": "old", "version": 1}'
    value = json.dumps({"subject": "old", "version": 1, "id": 40, "md5": "x", "schema": '"int"'}).encode()
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("_schemas", b'{"compatibilityLevel":"FULL"}', Key(records.CONFIG).to_bytes())
        producer.send("_schemas", None, b'{"keytype":"NOOP","magic":0}')
        producer.send("_schemas", value, legacy)
        producer.send("_schemas", b"{", b"not a record of a registry")
        producer.send(
            "_schemas", b'{"tenant":"default","context":".x"}', Key(records.CONTEXT, ".x").to_bytes()
        )
    store = opened()
    assert store.ask(lambda registry: registry.state.level("old")) == "FULL"
    assert store.ask(lambda registry: sorted(registry.state.contexts)) == [".", ".x"]
    assert register(store, "new", record(1)) == 41
    store.change(lambda registry: registry.delete_version("old", 1, permanent=False))
    store.change(lambda registry: registry.delete_version("old", 1, permanent=True))
    written = [(each.key, each.value) for each in broker.records("_schemas")]
    assert (legacy, None) in written
    assert (
        json.loads(dict(written)[b'{"keytype":"SCHEMA","subject":"new","version":1,"magic":1}'])["id"] == 41
    )


def test_the_highest_id_survives_permanent_deletion_compaction_and_restart(broker, opened):
    store = opened()
    register(store, "a", record(1))
    register(store, "b", record(2))
    store.change(lambda registry: registry.delete_subject("b", permanent=False))
    store.change(lambda registry: registry.delete_subject("b", permanent=True))
    with pytest.raises(RegistryError):
        store.ask(lambda registry: registry.state.version("b", 1, deleted=True))
    state = State()
    survivors = {each.key: each for each in broker.records("_schemas")}  # as compaction leaves it
    for each in survivors.values():
        if each.value is not None:
            state.apply(read(each.key, each.value, list(each.headers)))
    assert 2 not in [number for _, number in state.ids]
    assert Registry(state).register("c", Content(record(3))).answer.schema_id == 3


def test_everything_is_there_after_a_restart_of_broker_and_registry(tmp_path):
    with Broker(data=tmp_path / "data") as broker:
        client = {"bootstrap.servers": broker.bootstrap}
        store = TopicStore(client)
        store.start()
        register(store, "a", record(1))
        store.change(lambda registry: registry.set_config("a", {"compatibility": "FULL"}))
        store.close()
        broker.crash()
        broker.restart()
        store = TopicStore(client)
        store.start()
        assert store.ask(lambda registry: registry.state.level("a")) == "FULL"
        assert register(store, "b", record(2)) == 2
        store.close()


class Registering:
    """A registry in a process of its own, and a client that registers one schema after the other until it is killed."""

    def __init__(self, bootstrap, name, answered):
        self._name, self._answered = name, answered
        self._moved = threading.Condition()
        self.count = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ottla", "registry", "serve", "-b", bootstrap, "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self):
        address = self._process.stdout.readline().split()[-1]
        self._client = RegistryClient(address, timeout_s=30)
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self):
        for number in range(100_000):
            subject = f"s-{self._name}-{number}"
            try:
                answer = self._client.register(subject, record(f"{self._name}{number}"))
            except Exception:
                return  # killed
            with self._moved:
                self._answered[subject] = answer.schema_id
                self.count += 1
                self._moved.notify_all()

    def wait_for(self, more):
        with self._moved:
            wanted = self.count + more
            assert self._moved.wait_for(lambda: self.count >= wanted, 60)

    def kill(self):
        os.kill(self._process.pid, signal.SIGKILL)
        self.end()
        self._thread.join(60)

    def end(self):
        """Also after a failure: nothing stays behind."""
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def test_nothing_is_given_twice_or_lost_when_registries_are_killed_in_the_middle(tmp_path):
    """Two registries write at the same time; by turns one is killed and another one started. What was answered stands,
    each id means one schema, and the one that is left goes on."""
    answered: dict[str, int] = {}
    with Broker(data=tmp_path / "data") as broker, ExitStack() as started:
        left = Registering(broker.bootstrap, "first", answered)
        started.callback(left.end)
        left.begin()
        for turn in range(KILLS):
            other = Registering(broker.bootstrap, f"r{turn}x", answered)
            started.callback(other.end)
            other.begin()
            other.wait_for(2)
            left.kill()
            other.wait_for(3)
            left = other
        left.kill()
        store = TopicStore({"bootstrap.servers": broker.bootstrap})
        store.start()
        state = store.ask(lambda registry: registry.state)
        assert len(answered) > 5 * KILLS
        for name, schema_id in answered.items():
            assert state.subjects[name][1].schema_id == schema_id
        every = [version for versions in state.subjects.values() for version in versions.values()]
        assert len({version.schema_id for version in every}) == len({version.content for version in every})
        store.close()


def test_readers_of_the_topic_see_only_what_was_committed(broker, opened):
    store = opened()
    register(store, "a", record(1))
    with Consumer(bootstrap_servers=broker.bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([("_schemas", 0)])
        consumer.seek_to_beginning()
        (first,) = consumer.poll(10.0)
    assert first.key == Key(records.SCHEMA, "a", 1).to_bytes()
