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
        store = TopicStore({"bootstrap.servers": broker.bootstrap}, timeout_s=120)
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
    registry = Registry(State())
    written = [
        *registry.register(":.c:a", Content('"int"')).records[:1],
        *registry.set_config("a", {"compatibility": "full", "normalize": True}).records,
        *registry.set_config(None, {"compatibility": "NONE"}).records,
        *registry.set_mode("a", "readonly", force=False).records,
        *registry.set_mode("a", "IMPORT", force=False).records[:1],
    ]
    assert [(each.key_bytes(), each.value_bytes()) for each in written] == [
        (b'{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}', b'{"tenant":"default","context":".c"}'),
        (b'{"keytype":"CONFIG","subject":"a","magic":0}',
         b'{"subject":"a","normalize":true,"compatibilityLevel":"FULL"}'),
        (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"NONE"}'),
        (b'{"keytype":"MODE","subject":"a","magic":0}', b'{"subject":"a","mode":"READONLY"}'),
        (b'{"keytype":"CLEAR_SUBJECT","subject":"a","magic":0}', b'{"subject":"a"}'),
    ]  # fmt: skip


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


class Paused:
    """A registry that is stopped at a point of a registration, as a machine may be that swaps, and wakes later."""

    def __init__(self, store, subject, schema):
        self._store, self._subject, self._schema = store, subject, schema
        self.reached, self._goes_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.schema_id = 0

    def after_deciding(self):
        self._decide = self._decided_then_paused
        return self._begun()

    def before_committing(self):
        """What it decided is in the topic, in a transaction that is open."""
        producer, self._decide = self._store._owner(), self._decided
        commit = producer.commit_transaction
        producer.commit_transaction = lambda: (self._pause(), commit())[1]
        return self._begun()

    def woken(self):
        self._goes_on.set()
        self._thread.join(60)
        return self.schema_id

    def _begun(self):
        self._thread.start()
        assert self.reached.wait(30)
        return self

    def _work(self):
        self.schema_id = self._store.change(lambda registry: self._decide(registry)).schema_id

    def _decided(self, registry):
        return registry.register(self._subject, Content(self._schema))

    def _decided_then_paused(self, registry):
        decision = self._decided(registry)
        self._pause()
        return decision

    def _pause(self):
        if not self._goes_on.is_set():
            self.reached.set()
            self._goes_on.wait(60)


@pytest.mark.parametrize("where", ["after_deciding", "before_committing"])
def test_a_registry_that_was_paused_and_wakes_gives_no_id_that_another_has_given(opened, where):
    first, second, reader = opened(), opened(), opened()
    assert register(first, "before", record(0)) == 1  # it believes that it is the writer
    paused = getattr(Paused(first, "paused", record(1)), where)()
    assert register(second, "other", record(2)) == 2
    assert register(second, "another", record(3)) == 3
    assert paused.woken() == 4
    reader.catch_up()
    state = reader.ask(lambda registry: registry.state)
    assert {name: versions[1].schema_id for name, versions in state.subjects.items()} == {
        "before": 1, "other": 2, "another": 3, "paused": 4,
    }  # fmt: skip


def test_a_registry_that_did_not_write_for_a_while_refuses_nothing_on_what_it_knew(opened):
    """It was the last writer as far as it knows; everything that others had answered counts."""
    first, second = opened(), opened()
    register(first, "a", '"int"')
    others = [lambda registry: registry.set_config("a", {"compatibility": "NONE"})]

    def decide(registry):
        while others:  # while this one decides; it hears of nothing before it has
            second.change(others.pop())
        return registry.register("a", Content('"string"'))

    assert first.change(decide).schema_id == 2
    others.append(lambda registry: registry.delete_version("a", 2, permanent=False))
    assert first.change(decide).version == 3  # not the version that it still sees


def test_a_schema_that_is_too_large_for_the_topic_is_refused_at_once(opened):
    store = opened()
    fields = ",".join(f'{{"name":"f{n}","type":"string"}}' for n in range(40_000))
    with pytest.raises(RegistryError, match="too large") as refused:
        register(store, "a", f'{{"type":"record","name":"R","fields":[{fields}]}}')
    assert refused.value.code == 42209
    assert register(store, "a", '"int"') == 1


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


def schema_record(key=(), **value):
    """Of subject `bad`, apart from what is named."""
    parts = {"keytype": "SCHEMA", "subject": "bad", "version": 1, "magic": 1, **dict(key)}
    return json.dumps(parts), json.dumps(
        {"subject": "bad", "version": 1, "id": 7, "schema": '"int"', **value}
    )


REFERENCE = {"name": "a", "subject": "a"}
UNREADABLE = [
    schema_record(id=2**40),
    schema_record(id=-5),
    schema_record(id=float("inf")),
    schema_record(id=[]),
    schema_record(schema="\ud800"),
    schema_record(schemaType=["AVRO"]),
    schema_record(references=[{**REFERENCE, "version": 2**40}]),
    schema_record(references=[{**REFERENCE, "version": float("inf")}]),
    schema_record(references=5),
    schema_record({"version": 2**40}),
    schema_record({"version": "1"}),
    schema_record({"subject": 5}),
    schema_record({"subject": ["a"]}),
    schema_record({"subject": "\ud800"}),
    schema_record({"keytype": ["SCHEMA"]}),
    ('{"keytype":"SCHEMA","subject":"bad","version":1,"magic":1}', '{"id":' * 100_000),
    ("[" * 100_000, "{}"),
    ('{"keytype":"MODE","subject":"bad","magic":0}', "{}"),
    ('{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}', '{"subject":"a","version":1e999}'),
]


@pytest.mark.parametrize("highest", [b"{", b"[]", b'{".":1e999}', b'{".":"x"}', b'{".":1099511627776}'])
def test_a_header_that_cannot_be_read_stops_no_registry(highest):
    store = TopicStore({})
    store._apply(Key(records.CONFIG).to_bytes(), b"{}", [(records.HIGHEST_ID_HEADER, highest)])
    key, value = schema_record(id=6)
    store._apply(key.encode(), value.encode(), [])
    assert Registry(store._registry.state).register("a", Content(record(1))).answer.schema_id == 7


@pytest.mark.parametrize(("key", "value"), UNREADABLE)
def test_a_record_that_cannot_be_read_changes_nothing_and_stops_no_registry(key, value):
    store = TopicStore({})
    good_key, good_value = schema_record({"subject": "a"}, subject="a")
    store._apply(good_key.encode(), good_value.encode(), [])
    store._apply(key.encode(), value.encode(), [])
    state = store._registry.state
    assert set(state.subjects) == {"a"} and set(state.ids) == {(".", 7)} and len(state.guids) == 1
    assert not state.versions("a")[0].deleted
    assert Registry(state).register("b", Content(record(1))).answer.schema_id == 8
    store._apply(good_key.encode(), None, [])  # and what is there can still be deleted
    assert not state.subjects and not state.ids and not state.guids


def test_a_registry_starts_and_writes_behind_records_that_cannot_be_read(broker, opened):
    broker.create_topic("_schemas", 1, cleanup_policy="compact")
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for key, value in UNREADABLE:
            producer.send("_schemas", value.encode(), key.encode())
        producer.send(
            "_schemas", b"{}", Key(records.CONFIG).to_bytes(), headers=[(records.HIGHEST_ID_HEADER, b"x")]
        )
    store = opened()
    assert register(store, "new", record(1)) == 8


def test_no_id_is_given_beyond_the_highest_that_clients_know():
    state, (key, value) = State(), schema_record(id=2**31 - 1)
    state.apply(read(key.encode(), value.encode(), []))
    with pytest.raises(RegistryError, match="no ids left"):
        Registry(state).register("a", Content(record(1)))
    state, (key, value) = State(), schema_record({"version": 2**31 - 1})
    state.apply(read(key.encode(), value.encode(), []))
    with pytest.raises(RegistryError, match="not a valid version"):
        Registry(state).register("bad", Content('"long"'))


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
        (first,) = consumer.poll(60.0)
    assert first.key == Key(records.SCHEMA, "a", 1).to_bytes()
