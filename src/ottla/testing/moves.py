"""What a cluster does to its clients, on one broker: leaders and coordinators that move, producers fenced."""

from collections.abc import Sequence

from ottla import errors
from ottla.broker.broker import Broker
from ottla.broker.waits import pause
from ottla.config.settings import Config
from ottla.metadata.decision import Decision
from ottla.metadata.image import Image, changed
from ottla.metadata.records import NO_LEADER
from ottla.testing.asking import ask


async def set_leader(broker: Broker, topic: str, index: int, leader: int) -> None:
    """A new leader epoch under `leader`, which may be nobody (NO_LEADER)."""

    def decide(image: Image, config: Config) -> Decision[None]:
        partition = image.partition(topic, index)
        if partition is None:
            raise errors.UnknownTopicOrPartition(f"there is no {topic}-{index}")
        after = partition._replace(
            leader=leader,
            leader_epoch=partition.leader_epoch + 1,
            partition_epoch=partition.partition_epoch + 1,
        )
        return Decision((changed(after),), None)

    await broker.metadata.change(decide)


async def set_isr(broker: Broker, topic: str, index: int, isr: Sequence[int]) -> None:
    """As if the leader had proposed it: the controller notes eligible leaders too."""
    from ottla.metadata.partitions import IsrProposal, alter_partitions  # few tests need it

    def decide(image: Image, config: Config) -> Decision[None]:
        partition = image.partition(topic, index)
        if partition is None:
            raise errors.UnknownTopicOrPartition(f"there is no {topic}-{index}")
        proposal = IsrProposal(
            partition.topic_id,
            index,
            partition.leader_epoch,
            partition.partition_epoch,
            [(broker_id, -1) for broker_id in isr],
            partition.recovery_state,
        )
        leader = image.brokers[partition.leader]
        decision = alter_partitions(partition.leader, leader.epoch, [proposal], image, config)
        (result,) = decision.answer
        if result.error is not None:
            raise result.error
        return Decision(decision.records, None)

    await broker.metadata.change(decide)


async def move_leader(broker: Broker, topic: str, index: int, away_ms: int) -> None:
    """Moves leadership away for as long as asked, and back: waiting requests are answered, and the epoch has grown."""
    await set_leader(broker, topic, index, NO_LEADER)
    if away_ms:
        await pause(broker.clock, away_ms)
    await set_leader(broker, topic, index, broker.node_id)


def shard_of_group(broker: Broker, group: str) -> tuple[str, int]:
    return broker.groups.topic, broker.groups.index_of(group)


def shard_of_transactions(broker: Broker, transactional_id: str) -> tuple[str, int]:
    coordinator = broker.transactions.coordinator
    return coordinator.topic, coordinator.index_of(transactional_id)


async def fence(broker: Broker, transactional_id: str) -> None:
    """As another producer of the same transactional id would: its open transaction is aborted."""
    from ottla.wire.messages.init_producer_id import InitProducerIdRequest

    while True:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        response = await ask(broker, request)
        error = errors.error_for(response.error_code)
        if response.error_code == errors.NONE:
            return
        if not isinstance(error, errors.ConcurrentTransactions | errors.CoordinatorLoadInProgress):
            raise error
        await pause(broker.clock, 1)  # the abort that it has begun is being written
