"""Random histories of a cluster on paper: replay equals live, and the rules of leaders and replicas hold."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.config.alter import Alteration
from ottla.errors import ProtocolError
from ottla.metadata import brokers, codec, leadership, partitions, topics
from ottla.metadata.configs import ResourceAlterations, alter_configs
from ottla.metadata.difference import differences
from ottla.metadata.image import Image
from ottla.metadata.partitions import IsrProposal
from ottla.metadata.reassignment import Move, alter_reassignments
from ottla.metadata.records import NO_LEADER, RECOVERING, PartitionChanged
from ottla.wire.messages.create_partitions import CreatePartitionsTopic
from ottla.wire.messages.delete_topics import DeleteTopicState
from tests.unit.metadata.cluster import Cluster, topic

BROKERS = (1, 2, 3, 4)
broker_ids = st.sampled_from(BROKERS)
subsets = st.lists(broker_ids, unique=True, min_size=1)
names = st.sampled_from(["a", "b", "c.d", "c_d"])
indexes = st.integers(0, 2)

steps = st.one_of(
    st.tuples(
        st.just("create"), names, st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.booleans()
    ),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("grow"), names, st.integers(1, 5)),
    st.tuples(st.just("lose"), broker_ids),
    st.tuples(st.just("restart"), broker_ids, st.booleans(), st.booleans()),
    st.tuples(st.just("unfence"), broker_ids),
    st.tuples(st.just("stop"), broker_ids),
    st.tuples(st.just("isr"), names, indexes, subsets),
    st.tuples(st.just("move"), names, indexes, st.none() | subsets),
    st.tuples(st.just("elect"), names, indexes, st.integers(0, 1)),
    st.tuples(st.just("config"), names, st.sampled_from(["0", "1", "2", "3"])),
    st.tuples(st.just("ids"), broker_ids),
)
histories = st.lists(steps, min_size=5, max_size=40)


def take(cluster, step):
    image, config = cluster.image, cluster.config
    match step:
        case "create", name, count, replicas, least, unclean:
            settings = {
                "min_insync_replicas": str(least),
                "unclean_leader_election_enable": str(unclean).lower(),
            }
            cluster.create(topic(name, count, replicas, **settings))
        case "delete", name:
            asked = [DeleteTopicState(name=name, topic_id=bytes(16))]
            cluster.carry_out(topics.delete_topics(asked, image, config))
        case "grow", name, count:
            grown = [CreatePartitionsTopic(name=name, count=count, assignments=None)]
            cluster.carry_out(topics.create_partitions(grown, image, config))
        case "lose", broker:
            cluster.lose(broker)
        case "restart", broker, clean, ready:
            cluster.lose(broker)
            cluster.restart(broker, clean=clean, ready=ready)
        case "unfence", broker:
            cluster.unfence(broker)
        case "stop", broker:
            cluster.stop(broker)
        case "isr", name, index, isr:
            propose(cluster, name, index, isr)
        case "move", name, index, replicas:
            cluster.carry_out(alter_reassignments([Move(name, index, replicas)], image, config))
        case "elect", name, index, kind:
            cluster.carry_out(partitions.elect_leaders(kind, [(name, index)], image))
        case "config", name, value:
            alterations = (Alteration("min.insync.replicas", 0 if value != "0" else 1, value),)
            wanted = [ResourceAlterations(2, name, alterations)]
            cluster.carry_out(alter_configs(wanted, image, config, incremental=True))
        case "ids", broker:
            cluster.carry_out(brokers.allocate_producer_ids(broker, image.brokers[broker].epoch, image))


def propose(cluster, name, index, isr):
    found = cluster.partition(name, index)
    if found is None or found.leader == NO_LEADER:
        return
    members = {found.leader, *(each for each in isr if each in found.replicas)}
    proposal = IsrProposal(
        found.topic_id,
        index,
        found.leader_epoch,
        found.partition_epoch,
        [(each, -1) for each in sorted(members)],
    )
    epoch = cluster.image.brokers[found.leader].epoch
    cluster.carry_out(
        partitions.alter_partitions(found.leader, epoch, [proposal], cluster.image, cluster.config)
    )


def check_partition(partition, cluster):
    image = cluster.image
    replicas = set(partition.replicas)
    assert len(replicas) == len(partition.replicas) > 0
    assert set(partition.isr) | set(partition.elr) <= replicas
    assert not set(partition.isr) & set(partition.elr)
    assert set(partition.adding) | set(partition.removing) <= replicas
    assert not set(partition.adding) & set(partition.removing)
    if partition.leader == NO_LEADER:
        assert not any(image.may_lead(each) for each in (*partition.isr, *partition.elr))
    else:
        assert partition.leader in partition.isr
        assert not image.brokers[partition.leader].fenced
    assert not any(image.brokers[each].fenced for each in partition.isr)


def check_change(before, after, cluster):
    """From one state of a partition to the next."""
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.leader_epoch >= before.leader_epoch
    if after.leader != before.leader:
        assert after.leader_epoch == before.leader_epoch + 1
        clean = after.leader == NO_LEADER or after.leader in (*before.isr, *before.elr)
        assert clean or after.recovery_state == RECOVERING, "who leads had everything that was committed"
    least = leadership.min_isr(before, cluster.image, cluster.config)
    if not set(before.isr) - set(after.isr):
        return
    survivors = {*after.isr, *after.elr}
    shrunk = set(after.replicas) < set(before.replicas)
    if len(before.isr) >= 1 and not survivors and not shrunk:
        assert after.last_known_elr, "somebody is always known to ask"
    assert len(after.isr) >= min(least, len(after.replicas)) or survivors or after.last_known_elr


class Watched(Cluster):
    """Checks every record as it is applied."""

    def write(self, *records):
        for record in records:
            before = None
            if isinstance(record, PartitionChanged):
                before = self.image.topics_by_id[record.topic_id].partitions[record.partition]
            self.image.apply(record)
            if before is not None:
                after = self.image.topics_by_id[record.topic_id].partitions[record.partition]
                check_change(before, after, self)
        self.image.position += 1
        self.written.extend(records)
        for partition in self.image.partitions():
            check_partition(partition, self)


def play(history):
    cluster = Watched(*BROKERS, racks={1: "x", 2: "y"})
    for step in history:
        try:
            take(cluster, step)
        except ProtocolError:
            continue  # refused as a whole; nothing was written
    return cluster


def replayed(records):
    image = Image()
    for record in records:
        image.apply(record)
    return image


@given(histories)
@settings(max_examples=150, deadline=None)
def test_replay_equals_live_and_every_step_keeps_the_rules(history):
    cluster = play(history)
    assert replayed(codec.decode(codec.encode(cluster.written))) == cluster.image
    assert replayed(cluster.image.records()) == cluster.image


@given(histories, st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_the_difference_of_two_images_leads_from_one_to_the_other(history, cut):
    cluster = play(history)
    behind = replayed(cluster.written[: int(cut * len(cluster.written))])
    for record in list(differences(behind, cluster.image)):
        behind.apply(record)
    assert behind == cluster.image


@given(histories)
@settings(max_examples=60, deadline=None)
def test_a_decision_changes_nothing_by_itself(history):
    cluster = play(history)
    before = replayed(cluster.written)
    config = cluster.config
    for broker in BROKERS:
        brokers.lost(broker, cluster.image, config)
        brokers.register(broker, b"new", (), None, cluster.image, config, clean=False, ready=True)
    topics.create_topics([topic("new", 3)], cluster.image, config, lambda: b"n" * 16)
    assert cluster.image == before
