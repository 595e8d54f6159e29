from dataclasses import replace
from itertools import count

import pytest

from ottla import errors
from ottla.config.alter import Alteration
from ottla.config.settings import Config
from ottla.metadata import topics
from ottla.metadata.configs import ResourceAlterations, alter_configs
from ottla.metadata.controller import Controller
from ottla.metadata.decision import Decision
from ottla.metadata.internal import topic_by_itself
from ottla.metadata.journal import Journal
from ottla.metadata.log import Outrun
from ottla.metadata.membership import Registration, encode
from ottla.metadata.records import ConfigSet, PartitionChanged
from ottla.metadata.shared import Shared
from ottla.storage.memory import MemoryDisk
from ottla.wire.messages.delete_topics import DeleteTopicState

from .cluster import ENDPOINTS, topic

_ids = count(1)


def new_id():
    return next(_ids).to_bytes(16, "big")


class Node:
    """A broker's part in the metadata: a controller and its registration."""

    def __init__(self, broker_id, log, *, comes_back=False, **settings):
        config = {"default.replication.factor": "3"} | {
            name.replace("_", "."): value for name, value in settings.items()
        }
        self.log = log
        self.controller = Controller(
            broker_id, log, Config(config), on_session_over=self.start if comes_back else lambda: None
        )
        self.registration = Registration(broker_id, new_id(), ENDPOINTS, ready=True)

    def start(self, **changes):
        self.registration = replace(self.registration, incarnation=new_id(), **changes)
        self.controller.open()
        self.log.register(self.controller.broker_id, encode(self.registration))
        return self

    def update(self, **changes):
        self.registration = replace(self.registration, **changes)
        self.log.register(self.controller.broker_id, encode(self.registration))

    @property
    def image(self):
        return self.controller.image

    def submit(self, decide, **options):
        answers = []
        self.controller.submit(decide, answers.append, **options)
        return answers[0] if answers else None

    def create(self, *wanted, **options):
        return self.submit(
            lambda image, config: topics.create_topics(wanted, image, config, new_id), **options
        )


def alone(disk=None, **settings):
    settings.setdefault("default_replication_factor", "1")
    return Node(1, Journal(disk or MemoryDisk(), "meta"), **settings).start()


@pytest.fixture
def trio():
    shared = Shared()
    return [Node(broker_id, shared.session()).start() for broker_id in (1, 2, 3)]


def test_a_broker_alone_is_controller_at_once_and_leads_what_it_creates():
    node = alone()
    assert node.controller.is_active
    (made,) = node.create(topic(partitions=2))
    assert made.error is None
    assert [each.leader for each in node.image.partitions()] == [1, 1]


def test_everything_is_there_again_after_a_kill_under_new_epochs():
    disk = MemoryDisk()
    first = alone(disk)
    first.create(topic(partitions=2, retention_ms="5"))
    disk.crash()
    second = alone(disk)
    found = second.image.topics["t"]
    assert found.topic_id == first.image.topics["t"].topic_id
    assert [(each.leader, each.leader_epoch) for each in found.partitions] == [(1, 1), (1, 1)]
    assert second.image.settings(2, "t") == {"retention.ms": "5"}
    assert second.image.controller_epoch == first.image.controller_epoch + 1


def test_whoever_watches_hears_of_every_partition_that_a_restart_changes():
    disk = MemoryDisk()
    alone(disk).create(topic(partitions=2))
    node = Node(1, Journal(disk, "meta"))
    node.controller.open()
    heard = []
    node.image.watch(lambda record: heard.append(record))
    node.log.register(1, encode(node.registration))
    epochs = [record.leader_epoch for record in heard if isinstance(record, PartitionChanged)]
    assert epochs == [1, 1]


def test_a_failing_disk_is_answered_and_does_not_spin():
    disk = MemoryDisk()
    node = alone(disk)
    disk.fail("append")
    assert isinstance(node.create(topic()), errors.KafkaStorageError)
    assert isinstance(node.create(topic()), errors.KafkaStorageError)
    disk.clear_faults()
    assert node.create(topic())[0].error is None


def test_a_broker_on_a_failing_disk_starts_once_the_disk_works():
    disk = MemoryDisk()
    alone(disk).create(topic())
    disk.fail("append")
    node = alone(disk)
    assert not node.controller.is_active
    disk.clear_faults()
    assert node.create(topic("u"))[0].error is None


def test_a_controller_whose_answer_was_lost_resigns_and_leads_again_under_a_new_epoch(trio):
    old, epoch = trio[0], trio[0].controller.epoch
    old.log.cut()
    assert isinstance(old.create(topic()), errors.NotController)
    old.log.reconnect()
    active = [node for node in trio if node.controller.is_active]
    assert len(active) == 1
    assert active[0].controller.epoch == epoch + 1
    assert active[0].create(topic("u"))[0].error is None


def test_a_snapshot_keeps_the_journal_short_and_loses_nothing():
    disk = MemoryDisk()
    node = alone(disk, ottla_metadata_snapshot_entries="5")
    for number in range(23):
        node.create(topic(f"t{number}"))
    assert disk.exists("meta/metadata.snapshot")
    size = disk.size("meta/metadata.log")
    assert size < 600
    again = alone(disk, ottla_metadata_snapshot_entries="5")
    assert set(again.image.topics) == {f"t{number}" for number in range(23)}


def test_what_is_only_validated_is_not_written():
    node = alone()
    version = node.image.version
    (result,) = node.create(topic(partitions=3), validate_only=True)
    assert (result.error, result.partitions, node.image.version) == (None, 3, version)


def test_an_error_of_a_decision_is_its_answer():
    def decide(image, config):
        raise errors.InvalidRequest("no")

    assert alone().submit(decide).message == "no"


def test_many_decisions_queued_by_decisions_do_not_pile_up_the_stack():
    node = alone()
    left = [3000]

    def again(_):
        if left[0]:
            left[0] -= 1
            node.controller.submit(
                lambda image, config: Decision((ConfigSet(2, "x", "y", str(left[0])),), None), again
            )

    again(None)
    assert left == [0]


def test_a_decision_too_large_for_an_entry_is_refused_and_the_next_goes_on():
    node = alone()
    records = (ConfigSet(2, "t", "x", "v" * 600_000),)
    assert isinstance(node.submit(lambda image, config: Decision(records, None)), errors.PolicyViolation)
    assert node.create(topic())[0].error is None


def test_decisions_see_the_dynamic_defaults_of_the_cluster():
    node = alone()
    node.create(topic())
    change = [ResourceAlterations(4, "", (Alteration("min.insync.replicas", 0, "2"),))]
    node.submit(lambda image, config: alter_configs(change, image, config, incremental=True))
    assert node.controller.cluster_config().min_insync_replicas == 2


class Outrunning(Journal):
    """Somebody else is always first, once."""

    refuse = 0

    def append(self, position, epoch, records, done):
        if self.refuse:
            self.refuse -= 1
            return done(Outrun("somebody was first"))
        return super().append(position, epoch, records, done)


def test_a_decision_that_was_outrun_is_decided_anew():
    node = Node(1, Outrunning(MemoryDisk(), "meta"), default_replication_factor="1").start()
    decided = []
    node.log.refuse = 1

    def decide(image, config):
        decided.append(image.version)
        return topics.create_topics([topic()], image, config, new_id)

    assert node.submit(decide)[0].error is None
    assert len(decided) == 2


def test_three_brokers_find_each_other_and_one_controls(trio):
    assert [node.controller.is_active for node in trio] == [True, False, False]
    assert trio[0].create(topic(partitions=3))[0].error is None
    assert trio[0].image == trio[1].image == trio[2].image
    assert {each.leader for each in trio[2].image.partitions()} == {1, 2, 3}
    assert isinstance(trio[1].create(topic("u")), errors.NotController)


def test_when_the_controller_is_lost_another_takes_over_and_elects(trio):
    trio[0].create(topic(partitions=3))
    trio[0].log.cut()
    trio[0].log.expire()
    heir = next(node for node in trio[1:] if node.controller.is_active)
    assert heir.image.brokers[1].fenced
    assert all(each.leader != 1 and 1 not in each.isr for each in heir.image.partitions())
    assert heir.create(topic("u", replicas=2))[0].error is None


def test_a_controller_that_was_cut_off_and_comes_back_is_refused_and_steps_down(trio):
    old = trio[0]
    old.log.cut()
    old.log.expire()
    assert old.controller.is_active, "it has not noticed"
    assert isinstance(old.create(topic("z")), errors.NotController)
    assert not old.controller.is_active
    old.log.reconnect()
    heir = next(node for node in trio[1:] if node.controller.is_active)
    assert "z" not in heir.image.topics


def test_a_lost_broker_that_comes_back_follows_again(trio):
    trio[0].create(topic(partitions=3))
    trio[2].log.expire()
    assert trio[0].image.brokers[3].fenced
    trio[0].create(topic("u", partitions=3, replicas=2))
    trio[2].start()
    assert not trio[0].image.brokers[3].fenced
    assert trio[2].image == trio[0].image


def test_a_broker_not_ready_is_known_and_leads_nothing():
    shared = Shared()
    one = Node(1, shared.session()).start()
    two = Node(2, shared.session()).start(ready=False)
    assert one.image.brokers[2].fenced
    two.update(ready=True)
    assert not one.image.brokers[2].fenced


def test_a_broker_that_stops_cleanly_hands_over_first(trio):
    trio[0].create(topic(partitions=3))
    trio[1].update(stopping=True)
    assert trio[0].image.brokers[2].stopping
    assert all(each.leader != 2 and 2 not in each.isr for each in trio[0].image.partitions())
    trio[1].log.close()
    assert trio[0].image.brokers[2].fenced


def test_a_follower_that_fell_behind_the_snapshot_hears_of_what_is_gone():
    shared = Shared()
    settings = {"ottla_metadata_snapshot_entries": "3"}
    one = Node(1, shared.session(), **settings).start()
    two = Node(2, shared.session(), **settings).start()
    one.create(topic("old", replicas=1, retention_ms="1"), topic("stays", partitions=1, replicas=1))
    two.log.cut()
    asked = [DeleteTopicState(name="old", topic_id=bytes(16))]
    one.submit(lambda image, config: topics.delete_topics(asked, image, config))
    for number in range(5):
        one.create(topic(f"t{number}", replicas=1))
    heard = []
    two.image.watch(lambda record: heard.append(type(record).__name__))
    two.log.reconnect()
    assert two.image == one.image
    assert "TopicDeleted" in heard
    assert heard.count("TopicCreated") == 5


def test_a_lost_broker_with_more_partitions_than_an_entry_holds_is_handled_in_parts(trio, monkeypatch):
    monkeypatch.setattr("ottla.metadata.membership.RECORDS_PER_ENTRY", 4)
    trio[0].create(topic(partitions=30))
    trio[2].log.expire()
    assert trio[0].image.brokers[3].fenced
    assert all(each.leader != 3 and 3 not in each.isr for each in trio[0].image.partitions())
    trio[2].start()
    assert trio[2].image == trio[0].image


def internal_topics(node, in_cluster):
    config = node.controller.cluster_config()
    names = ("__consumer_offsets", "__transaction_state")
    return node.create(*(topic_by_itself(name, config, in_cluster=in_cluster) for name in names))


def test_internal_topics_have_the_replicas_of_their_setting_and_one_without_a_cluster(trio):
    for node, replicas in ((alone(), 1), (trio[0], 3)):
        results = internal_topics(node, in_cluster=replicas > 1)
        assert [(each.error, each.partitions, each.replication_factor) for each in results] == [
            (None, 50, replicas),
            (None, 50, replicas),
        ]
        assert node.image.settings(2, "__consumer_offsets")["cleanup.policy"] == "compact"
        least = node.image.settings(2, "__transaction_state")["min.insync.replicas"]
        assert least == str(min(2, replicas))


def test_internal_topics_wait_for_as_many_brokers_as_they_need():
    results = internal_topics(alone(), in_cluster=True)
    assert [type(each.error) for each in results] == [errors.InvalidReplicationFactor] * 2


def test_internal_topics_created_while_brokers_are_away_have_replicas_for_them(trio):
    trio[1].log.expire()
    trio[2].log.expire()
    assert [each.replication_factor for each in internal_topics(trio[0], in_cluster=True)] == [3, 3]
    assert {each.isr for each in trio[0].image.partitions()} == {(1,)}


def set_unclean(node, kind, name, value="true"):
    wanted = [ResourceAlterations(kind, name, (Alteration("unclean.leader.election.enable", 0, value),))]
    (result,) = node.submit(
        lambda image, config: alter_configs(wanted, image, config, incremental=True),
    )
    assert result.error is None


def leaderless(trio, **settings):
    """Partitions whose only replica in sync is away, while another one lives."""
    trio[0].create(topic(assignments=[(index, [3, 2]) for index in range(10)], **settings))
    shrunk = [
        PartitionChanged(each.topic_id, each.index, each.replicas, (3,), 3, 0, 1)
        for each in trio[0].image.partitions()
    ]
    trio[0].submit(lambda image, config: Decision(tuple(shrunk), None))
    trio[2].log.expire()
    assert {each.leader for each in trio[0].image.partitions()} == {-1}


@pytest.mark.parametrize(("kind", "name"), [(2, "t"), (4, "")])
def test_unclean_election_is_held_when_it_is_allowed_while_nobody_leads(trio, monkeypatch, kind, name):
    monkeypatch.setattr("ottla.metadata.membership.RECORDS_PER_ENTRY", 4)
    leaderless(trio)
    set_unclean(trio[0], kind, name)
    assert {(each.leader, each.isr) for each in trio[0].image.partitions()} == {(2, (2,))}


def test_unclean_election_for_all_topics_leaves_those_that_forbid_it(trio):
    leaderless(trio, unclean_leader_election_enable="false")
    set_unclean(trio[0], 4, "")
    assert {each.leader for each in trio[0].image.partitions()} == {-1}


def test_the_next_controller_holds_the_unclean_election_that_the_last_one_owed(trio):
    leaderless(trio)
    controller = next(node for node in trio if node.controller.is_active)
    set_records = (ConfigSet(2, "t", "unclean.leader.election.enable", "true"),)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ottla.metadata.controller.unclean_elections", lambda image, config: ())
        controller.submit(lambda image, config: Decision(set_records, None))
    assert {each.leader for each in controller.image.partitions()} == {-1}
    other = next(node for node in trio[:2] if node is not controller)
    controller.log.expire()
    assert other.controller.is_active
    assert {each.leader for each in other.image.partitions()} == {2}


def test_a_broker_back_before_it_was_missed_with_more_partitions_than_an_entry_holds(trio, monkeypatch):
    monkeypatch.setattr("ottla.metadata.membership.RECORDS_PER_ENTRY", 4)
    trio[0].create(topic(partitions=30))
    epochs = [each.leader_epoch for each in trio[0].image.partitions() if each.leader == 3]
    trio[2].update(incarnation=new_id(), clean=True)
    assert not trio[0].image.brokers[3].fenced
    assert epochs
    assert all(each.leader != 3 and 3 not in each.isr for each in trio[0].image.partitions())
