"""Three controllers over one shared log, under any order of messages, cuts and expired sessions."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import NotController
from ottla.metadata import codec, topics
from ottla.metadata.records import ControllerChanged
from ottla.metadata.shared import Shared
from tests.unit.metadata.cluster import topic
from tests.unit.metadata.test_controller import Node, new_id

nodes = st.integers(0, 2)
steps = st.one_of(
    st.tuples(st.just("run"), st.integers(0, 50), st.integers(1, 12)),
    st.tuples(st.just("create"), nodes),
    st.tuples(st.just("cut"), nodes),
    st.tuples(st.just("reconnect"), nodes),
    st.tuples(st.just("expire"), nodes),
    st.tuples(st.just("restart"), nodes),
)


class Controllers:
    def __init__(self):
        self.pending = []
        self.shared = Shared(self.pending.append)
        self.nodes = [self._node(index) for index in range(3)]
        self.acknowledged = []
        self.names = 0
        for node in self.nodes:
            node.start()

    def _node(self, index):
        log = self.shared.session()
        # Snapshots often, so that nodes fall behind them.
        return Node(index + 1, log, comes_back=True, ottla_metadata_snapshot_entries="4")

    def take(self, step):
        match step:
            case "run", which, times:
                for _ in range(times):
                    if self.pending:
                        self.pending.pop(which % len(self.pending))()
            case "create", index:
                self.create(self.nodes[index])
            case "cut", index:
                self.nodes[index].log.cut()
            case "reconnect", index:
                self.nodes[index].log.reconnect()
            case "expire", index:
                self.nodes[index].log.expire()
            case "restart", index:
                self.nodes[index].log.close()
                self.nodes[index] = self._node(index)
                self.nodes[index].start()

    def create(self, node):
        self.names += 1
        name = f"t{self.names}"
        node.controller.submit(self._creating(name), lambda answer: self.on_answer(name, answer))

    def _creating(self, name):
        return lambda image, config: topics.create_topics([topic(name, 1, 1)], image, config, new_id)

    def on_answer(self, name, answer):
        if not isinstance(answer, NotController) and answer[0].error is None:
            self.acknowledged.append(name)

    def heal(self):
        for node in self.nodes:
            node.log.reconnect()
        while self.pending:
            self.pending.pop(0)()


@given(st.lists(steps, max_size=60))
@settings(max_examples=150, deadline=None)
def test_all_agree_in_the_end_and_nothing_acknowledged_is_missing(history):
    controllers = Controllers()
    for step in history:
        controllers.take(step)
    controllers.heal()
    images = [node.image for node in controllers.nodes]
    assert images[0] == images[1] == images[2]
    assert images[0].position == controllers.shared.end
    assert set(controllers.acknowledged) <= set(images[0].topics)
    assert sum(node.controller.is_active for node in controllers.nodes) == 1
    assert all(not broker.fenced for broker in images[0].brokers.values())
    epochs = [controllers.shared.entries[position][0] for position in sorted(controllers.shared.entries)]
    assert epochs == sorted(epochs)


@given(st.lists(steps, max_size=60))
@settings(max_examples=100, deadline=None)
def test_an_epoch_has_one_writer(history):
    controllers = Controllers()
    for step in history:
        controllers.take(step)
    writers = {}
    for epoch, body in controllers.shared.entries.values():
        for record in codec.decode(body):
            if isinstance(record, ControllerChanged):
                assert record.epoch == epoch
                assert writers.setdefault(epoch, record.controller_id) == record.controller_id
