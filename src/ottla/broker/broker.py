"""The broker as its handlers see it: one object that holds the parts, and the questions asked everywhere."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ottla import errors
from ottla.broker.channel import ControllerChannel
from ottla.broker.context import Context
from ottla.broker.duties import Duties
from ottla.broker.followers import Followers
from ottla.broker.groups import group_coordinator
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.isr import IsrKeeper
from ottla.broker.metrics import Metrics
from ottla.broker.peers import NoPeers, Peers, is_credential
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.replicas import Replicas
from ottla.broker.sessions import FetchSessions
from ottla.broker.stepping import HeavyWork
from ottla.broker.throttles import Throttles
from ottla.broker.transactions import Transactions
from ottla.broker.waits import Wait
from ottla.config.settings import Config
from ottla.metadata import topics
from ottla.metadata.controller import Controller
from ottla.metadata.decision import Decision
from ottla.metadata.image import BROKER_RESOURCE, Image
from ottla.metadata.internal import NewTopic, topic_by_itself
from ottla.metadata.names import check_name, is_internal
from ottla.metadata.records import ConfigSet, PartitionCreated, QuotaSet, Record, TopicCreated, TopicDeleted
from ottla.ports import Clock
from ottla.replication.partition import Partition
from ottla.wire.compression import Scratch
from ottla.wire.schema import Message

logger = logging.getLogger("ottla.broker")

if TYPE_CHECKING:
    from ottla.broker.access import Access
    from ottla.security.quotas import Quotas

T = TypeVar("T")

ADMIN_CLIENT_ID = "__admin_client"
CREATE_TOPICS_VERSION = 7


class Broker:
    def __init__(
        self,
        config: Config,
        clock: Clock,
        controller: Controller,
        replicas: Replicas,
        sessions: FetchSessions,
        housekeeping: Housekeeping,
        metrics: Metrics,
        new_uuid: Callable[[], bytes],
        heavy_work: HeavyWork,
        peers: Peers | None = None,
    ) -> None:
        self.node_id = config.node_id
        self.config = config
        self.clock = clock
        self.controller = controller
        self.replicas = replicas
        self.sessions = sessions
        self.housekeeping = housekeeping
        self.metrics = metrics
        self.new_uuid = new_uuid
        self.heavy_work = heavy_work
        self.pattern_work = heavy_work.lane(1)  # topics that fit a pattern
        self.scratch = Scratch()  # for records of one batch while it is checked
        self.peers: Peers = peers or NoPeers()
        self._in_cluster = peers is not None
        self._logged_refusals: dict[str, str] = {}
        self.channel = ControllerChannel(self, self.peers)
        self.throttles = Throttles(self.node_id, self.image, config)
        self.followers = Followers(self.node_id, self.image, clock, self.peers, config, self.throttles)
        self.isr = IsrKeeper(self.node_id, self.image, clock, self.channel, replicas.partitions, config)
        self.duties = Duties(controller, clock, config)
        self.producer_ids = ProducerIds(self.node_id, self.image, self.channel)
        self.groups = group_coordinator(self)
        self.transactions = Transactions(self)
        self._is_joined = False
        self._topic_names = {topic_id: topic.name for topic_id, topic in self.image.topics_by_id.items()}
        replicas.on_partition = self._on_partition
        for key, partition in replicas.partitions.items():
            self._on_partition(key, partition)
        self._on_dynamic_config()
        self.image.watch(self._on_record)
        self.supported_features: dict[str, tuple[int, int]] = {}
        self.quotas: Quotas | None = None  # of clients; None: there are none
        self._on_quotas()
        self.access: Access | None = None  # None: there is no authorizer, and everything is allowed

    @property
    def image(self) -> Image:
        return self.controller.image

    def on_joined(self) -> None:
        """This broker is registered: leaders will know which incarnation of it follows them."""
        self._is_joined = True
        self.replicas.join()
        for key, partition in self.replicas.partitions.items():
            self.followers.on_partition(key, partition)
        self.isr.start()
        self.duties.start()

    def close(self) -> None:
        self.followers.close()
        self.isr.close()
        self.duties.close()
        self.housekeeping.close()

    def is_peer(self, credential: str, listener: str) -> bool:
        """Whether a connection is of another broker of this cluster, as far as can be told (see peers.py)."""
        own = self.image.brokers.get(self.node_id)
        expected = self.config.inter_broker_listener_name or listener
        return own is not None and listener == expected and is_credential(credential, own.incarnation)

    # -- partitions ------------------------------------------------------------------------------

    def partition(self, topic: str, index: int) -> Partition:
        """The replica on this broker, whether it leads or not."""
        found = self.replicas.partitions.get((topic, index))
        if found is None:
            if self.image.partition(topic, index) is None:
                raise errors.UnknownTopicOrPartition()
            raise errors.NotLeaderOrFollower()
        return found

    def is_offline(self, topic: str, index: int) -> bool:
        found = self.replicas.partitions.get((topic, index))
        return found is not None and found.is_offline

    def topic_name(self, topic_id: bytes) -> str:
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            raise errors.UnknownTopicId()
        return topic.name

    def name_of(self, topic_id: bytes) -> str:
        """Empty for a topic that is not known."""
        topic = self.image.topics_by_id.get(topic_id)
        return "" if topic is None else topic.name

    def is_legal_name(self, name: str) -> bool:
        try:
            check_name(name)
        except errors.InvalidTopicException:
            return False
        return True

    def check_writable(self, topic: str, context: Context) -> None:
        """Internal topics are written by coordinators; Kafka lets one client id in, and so do we."""
        if is_internal(topic) and context.client_id != ADMIN_CLIENT_ID:
            raise errors.InvalidTopicException(f"{topic} is written by the brokers alone")

    # -- metadata --------------------------------------------------------------------------------

    async def change(
        self, decide: Callable[[Image, Config], Decision[T]], *, validate_only: bool = False
    ) -> T:
        """Has the controller decide and write; the answer, once this broker has applied it."""
        wait: Wait[T] = Wait()
        self.controller.submit(decide, wait.set, validate_only=validate_only)
        return await wait

    async def create_topics_quietly(self, names: list[str]) -> dict[str, errors.ProtocolError]:
        """Topics that are created because a client asked for them by name; why some of them were not."""
        in_cluster = self._in_cluster
        if self.controller.epoch is None:
            config = self.controller.cluster_config()
            wanted = [topic_by_itself(name, config, in_cluster=in_cluster) for name in names]
            response = await self.channel.relay(_create_request(wanted), CREATE_TOPICS_VERSION)
            answers = [(each.name, each.error_code, each.error_message) for each in response.topics]
            return {name: errors.error_for(code, why) for name, code, why in answers if code != errors.NONE}
        results = await self.change(
            lambda image, config: topics.create_topics(
                [topic_by_itself(name, config, in_cluster=in_cluster) for name in names],
                image,
                config,
                self.new_uuid,
            )
        )
        return {result.name or "": result.error for result in results if result.error is not None}

    async def ensure_topic(self, name: str) -> None:
        """An internal topic, created when it is first needed."""
        if name in self.image.topics:
            return
        error = (await self.create_topics_quietly([name])).get(name)
        if error is None or isinstance(error, errors.TopicAlreadyExists):
            self._logged_refusals.pop(name, None)
            return
        if self._logged_refusals.get(name) != error.message:  # once for each reason, not for each request
            self._logged_refusals[name] = error.message
            logger.warning("%s cannot be created yet: %s", name, error.message)
        raise errors.CoordinatorNotAvailable(f"{name} cannot be created yet: {error.message}")

    def _on_partition(self, key: tuple[str, int], partition: Partition | None) -> None:
        topic, index = key
        if partition is not None:
            partition.on_isr_wanted = self.isr.on_wanted
        if self._is_joined:
            self.followers.on_partition(key, partition)
        for coordinator in (self.groups, self.transactions.coordinator):
            if coordinator.topic == topic:
                coordinator.on_partition(index, partition)

    def _on_record(self, record: Record) -> None:
        """Groups hear of topics that come, grow or go."""
        match record:
            case TopicCreated():
                self._topic_names[record.topic_id] = record.name
            case TopicDeleted():
                name = self._topic_names.pop(record.topic_id)
                for shard in self.groups.shards.values():
                    shard.carry_out(shard.machine.on_topic_deleted(name, self.clock.now_ms()))
                    shard.machine.on_topics_changed()
            case ConfigSet(resource_type=kind) if kind == BROKER_RESOURCE:
                self._on_dynamic_config()
            case QuotaSet():
                self._on_quotas()
            case PartitionCreated():
                for shard in self.groups.shards.values():
                    shard.machine.on_topics_changed()

    def _on_quotas(self) -> None:
        """Counting begins with the first quota, and ends with the last."""
        rules = self.image.security.quotas
        if not rules:
            self.quotas = None
        elif self.quotas is not None:
            self.quotas.on_changed()
        else:
            from ottla.security.quotas import Quotas

            self.quotas = Quotas(rules)

    def _on_dynamic_config(self) -> None:
        image = self.image
        self.config = self.config.with_dynamic(
            image.settings(BROKER_RESOURCE, ""), image.settings(BROKER_RESOURCE, str(self.node_id))
        )
        self.replicas.on_config(self.config)
        self.housekeeping.on_config(self.config)
        self.throttles.on_config(self.config)

    async def sleep(self, milliseconds: int) -> None:
        wait: Wait[None] = Wait()
        self.clock.call_later(milliseconds, lambda: wait.set(None))
        await wait


def _create_request(wanted: list[NewTopic]) -> Message:
    """For a controller elsewhere."""
    from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=each.name,
                num_partitions=each.num_partitions,
                replication_factor=each.replication_factor,
                configs=[CreatableTopicConfig(name=c.name, value=c.value) for c in each.configs],
            )
            for each in wanted
        ]
    )
