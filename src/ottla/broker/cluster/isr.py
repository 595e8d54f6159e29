"""Proposes to the controller who is in sync: followers that caught up come in, those that fell behind go."""

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ottla import errors
from ottla.broker.cluster.channel import ControllerChannel
from ottla.broker.cluster.peers import Lane
from ottla.config.settings import Config
from ottla.metadata.image import Image
from ottla.ports import Clock, TimerHandle
from ottla.replication.partition import Key, Partition, key_of

if TYPE_CHECKING:
    from ottla.wire.messages.alter_partition import (
        AlterPartitionRequest,
        AlterPartitionResponse,
        ResponsePartitionData,
    )

logger = logging.getLogger("ottla.replication")

ALTER_PARTITION_VERSION = 3
FIRST_PAUSE_MS, PAUSE_MS_MAX = 20, 500
# It was not taken and never will be; after anything else it may have been.
CERTAIN_REFUSALS = frozenset(
    {
        errors.IneligibleReplica.code,
        errors.InvalidRequest.code,
        errors.UnknownTopicId.code,
        errors.UnknownTopicOrPartition.code,
        errors.OperationNotAttempted.code,
    }
)


class IsrKeeper:
    """One request is under way at a time; what is wanted meanwhile goes with the next."""

    def __init__(
        self,
        node_id: int,
        image: Image,
        clock: Clock,
        channel: ControllerChannel,
        partitions: dict[tuple[str, int], Partition],
        config: Config,
    ) -> None:
        self._node_id, self._image, self._clock, self._channel = node_id, image, clock, channel
        self._partitions = partitions
        self._lag_ms_max = config.replica_lag_time_max_ms
        self._waiting: dict[Key, Partition] = {}
        self._asking = False
        self._pause_ms = 0
        self._timers: dict[str, TimerHandle] = {}
        self._closed = False

    def start(self) -> None:
        self._look_in()

    def close(self) -> None:
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()

    def on_wanted(self, partition: Partition, isr: frozenset[int]) -> None:
        """Proposes this ISR of the partition, unless a new member may not lead or fetches under an old registration."""
        if all(self._is_fit(partition, member) for member in isr - frozenset(partition.state.isr)):
            partition.propose(isr)
            self._waiting[key_of(partition)] = partition
            self._ask()

    def _is_fit(self, partition: Partition, broker_id: int) -> bool:
        broker = self._image.brokers.get(broker_id)
        follower = partition.followers.get(broker_id)
        return (
            broker is not None
            and broker.may_lead
            and follower is not None
            and follower.broker_epoch in (-1, broker.epoch)
        )

    # -- those that fell behind ------------------------------------------------------------------

    def _look_in(self) -> None:
        if not self._closed:
            self._timers["look"] = self._clock.call_later(self._lag_ms_max / 2, self._look)

    def _look(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for partition in list(self._partitions.values()):
            if len(partition.state.isr) > 1:
                isr = partition.shrunk_isr(now_ms, self._lag_ms_max)
                if isr is not None:
                    self.on_wanted(partition, isr)
        self._look_in()

    # -- asking ----------------------------------------------------------------------------------

    def _ask(self) -> None:
        if self._asking or self._closed or "pause" in self._timers:
            return
        # A newer state has come for some: there is nothing to ask for any more.
        self._waiting = {k: p for k, p in self._waiting.items() if p.proposed_isr is not None and p.is_leader}
        broker = self._image.brokers.get(self._node_id)
        if not self._waiting or broker is None:
            return
        asked, self._waiting = self._waiting, {}
        self._asking = True
        request = self._request(broker.epoch, asked)
        self._channel.ask(
            request, ALTER_PARTITION_VERSION, lambda answer: self._on_answer(asked, answer), Lane.CONTROLLER
        )

    def _request(self, broker_epoch: int, asked: dict[Key, Partition]) -> "AlterPartitionRequest":
        """Imported with the first question: a broker that is alone asks none."""
        from ottla.wire.messages.alter_partition import (
            AlterPartitionRequest,
            BrokerState,
            PartitionData,
            TopicData,
        )

        topics: dict[bytes, list[PartitionData]] = defaultdict(list)
        for (topic_id, index), partition in asked.items():
            assert partition.proposed_isr is not None
            topics[topic_id].append(
                PartitionData(
                    partition_index=index,
                    leader_epoch=partition.state.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(
                            broker_id=broker_id, broker_epoch=partition.proposed_epochs.get(broker_id, -1)
                        )
                        for broker_id in sorted(partition.proposed_isr)
                    ],
                    partition_epoch=partition.state.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=broker_epoch,
            topics=[
                TopicData(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()
            ],
        )

    def _on_answer(self, asked: dict[Key, Partition], answer: "AlterPartitionResponse | Exception") -> None:
        self._asking = False
        if self._closed:
            return
        if isinstance(answer, Exception) or answer.error_code:
            if not isinstance(answer, errors.NetworkException):
                logger.info("the ISR of %d partitions could not be changed: %s", len(asked), _reason(answer))
            self._again(asked)
            return
        self._pause_ms = 0
        results = {
            (t.topic_id, answered.partition_index): answered
            for t in answer.topics
            for answered in t.partitions
        }
        for key, partition in asked.items():
            self._on_result(key, partition, results.get(key))
        self._ask()

    def _on_result(self, key: Key, partition: Partition, result: "ResponsePartitionData | None") -> None:
        if partition.proposed_isr is None:
            return  # the metadata log was quicker
        if result is None or result.error_code in CERTAIN_REFUSALS:
            logger.info("%s: an ISR of %s was refused", partition.name, sorted(partition.proposed_isr))
            partition.on_proposal_refused()
        elif result.error_code == errors.NotController.code:
            self._again({key: partition})
        elif not result.error_code and result.partition_epoch <= partition.state.partition_epoch:
            partition.on_proposal_refused()  # nothing had to be changed

    def _again(self, asked: dict[Key, Partition]) -> None:
        self._waiting = asked | self._waiting
        if "pause" not in self._timers:
            self._pause_ms = min(max(self._pause_ms * 2, FIRST_PAUSE_MS), PAUSE_MS_MAX)
            self._timers["pause"] = self._clock.call_later(self._pause_ms, self._resume)

    def _resume(self) -> None:
        del self._timers["pause"]
        self._ask()


def _reason(answer: Any) -> str:
    return str(answer) if isinstance(answer, Exception) else errors.error_for(answer.error_code).name()
