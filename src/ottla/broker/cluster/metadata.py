"""The cluster's metadata as handlers use it: its image to read, and changes that the controller decides."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ottla import errors
from ottla.broker.cluster.channel import ControllerChannel
from ottla.broker.requests.client import Sender
from ottla.broker.waits import Wait
from ottla.config.settings import Config
from ottla.metadata import topics
from ottla.metadata.controller import Controller
from ottla.metadata.decision import Decision
from ottla.metadata.image import Image
from ottla.metadata.internal import NewTopic, topic_by_itself
from ottla.wire.schema import Request

if TYPE_CHECKING:
    from ottla.wire.messages.create_topics import CreateTopicsRequest

logger = logging.getLogger("ottla.broker")

T = TypeVar("T")
ChargeOf = Callable[[Sender], topics.Charge]  # to the quota of the client

CREATE_TOPICS_VERSION = 7


class Metadata:
    def __init__(
        self,
        controller: Controller,
        channel: ControllerChannel,
        new_uuid: Callable[[], bytes],
        charge_of: ChargeOf,
        *,
        in_cluster: bool,
    ) -> None:
        self.image: Image = controller.image
        self.new_uuid = new_uuid
        self._controller, self._channel, self._charge_of = controller, channel, charge_of
        self._in_cluster = in_cluster
        self._logged_refusals: dict[str, str] = {}

    def topic_name(self, topic_id: bytes) -> str:
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None:
            raise errors.UnknownTopicId()
        return topic.name

    def name_of(self, topic_id: bytes) -> str:
        """Empty for a topic that is not known."""
        topic = self.image.topics_by_id.get(topic_id)
        return "" if topic is None else topic.name

    @property
    def is_controller_here(self) -> bool:
        return self._controller.epoch is not None

    async def change(
        self, decide: Callable[[Image, Config], Decision[T]], *, validate_only: bool = False
    ) -> T:
        """Has the controller decide and write; the answer, once this broker has applied it."""
        wait: Wait[T] = Wait()
        self._controller.submit(decide, wait.set, validate_only=validate_only)
        return await wait

    async def relay(self, request: Request[T], version: int, sender: Sender) -> T:
        """The controller's answer to a client's request, once this broker has applied what came of it."""
        return await self._channel.relay(request, version, sender)

    async def create_topics_quietly(
        self, names: list[str], sender: Sender | None = None
    ) -> dict[str, errors.ProtocolError]:
        """Topics that are created because they are needed; why some of them were not. With a sender it is a client
        that needs them, and its quota pays."""
        in_cluster = self._in_cluster
        if not self.is_controller_here:
            config = self._controller.cluster_config()
            wanted = [topic_by_itself(name, config, in_cluster=in_cluster) for name in names]
            return await self._create_elsewhere(wanted, sender)
        charge = topics.free_of_charge if sender is None else self._charge_of(sender)
        results = await self.change(
            lambda image, config: topics.create_topics(
                [topic_by_itself(name, config, in_cluster=in_cluster) for name in names],
                image,
                config,
                self.new_uuid,
                charge,
            )
        )
        return {result.name or "": result.error for result in results if result.error is not None}

    async def create_topics(
        self, wanted: list[NewTopic], sender: Sender | None = None
    ) -> dict[str, errors.ProtocolError]:
        """Topics that the operator asked for at the start, or an application of the sender; why some of them were
        not created."""
        if not self.is_controller_here:
            return await self._create_elsewhere(wanted, sender)
        charge = topics.free_of_charge if sender is None else self._charge_of(sender)
        results = await self.change(
            lambda image, config: topics.create_topics(wanted, image, config, self.new_uuid, charge)
        )
        return {result.name or "": result.error for result in results if result.error is not None}

    async def _create_elsewhere(
        self, wanted: list[NewTopic], sender: Sender | None
    ) -> dict[str, errors.ProtocolError]:
        response = await self._channel.relay(_create_request(wanted), CREATE_TOPICS_VERSION, sender)
        answers = [(topic.name, topic.error_code, topic.error_message) for topic in response.topics]
        return {name: errors.error_for(code, why) for name, code, why in answers if code != errors.NONE}

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


def _create_request(wanted: list[NewTopic]) -> "CreateTopicsRequest":
    """For a controller elsewhere."""
    from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                configs=[CreatableTopicConfig(name=c.name, value=c.value) for c in topic.configs],
            )
            for topic in wanted
        ]
    )
