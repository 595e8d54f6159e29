"""What a broker registers with its session, and what the controller decides when brokers come and go."""

from collections.abc import Iterator, Mapping

from ottla.config.settings import Config
from ottla.frozen import frozen
from ottla.metadata import brokers, codec
from ottla.metadata.decision import Decision
from ottla.metadata.image import Image
from ottla.metadata.records import BrokerRegistered, Endpoint, FeatureSet, Record

RECORDS_PER_ENTRY = 4000
"""With many replicas, 100 bytes each: well within an entry."""


@frozen
class Registration:
    """`ready`: it has read the log up to its own registration. `stopping`: it is about to stop cleanly."""

    broker_id: int
    incarnation: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    clean: bool = False
    ready: bool = False
    stopping: bool = False
    directories: tuple[bytes, ...] = ()


def encode(registration: Registration) -> bytes:
    """In the log's own bytes: a broker record and its flags."""
    flags = registration.clean | registration.ready << 1 | registration.stopping << 2
    broker = BrokerRegistered(
        registration.broker_id,
        -1,
        registration.incarnation,
        registration.endpoints,
        registration.rack,
        registration.directories,
    )
    return codec.encode([broker, FeatureSet("registration", flags)])


def decode(data: bytes) -> Registration:
    broker, state = codec.decode(data)
    if not isinstance(broker, BrokerRegistered) or not isinstance(state, FeatureSet):
        raise codec.BadRecord("no registration")
    return Registration(
        broker.broker_id,
        broker.incarnation,
        broker.endpoints,
        broker.rack,
        clean=bool(state.level & 1),
        ready=bool(state.level & 2),
        stopping=bool(state.level & 4),
        directories=broker.directories,
    )


def next_step(members: Mapping[int, Registration], image: Image, config: Config) -> Decision[None] | None:
    """One broker's change towards what the sessions say, or None when the image agrees with them."""
    for step in _steps(members, image, config):
        if step:
            return Decision(step, None)
    return None


def _steps(members: Mapping[int, Registration], image: Image, config: Config) -> Iterator[tuple[Record, ...]]:
    # Losses first: clients wait for them. Among them brokers that may have lost data (unclean restart) come first:
    # if a complete replica left an ISR that still counts such a broker, the complete one would not stay eligible.
    for broker_id, member in members.items():
        if not member.clean and broker_id in image.brokers:
            yield _registered(broker_id, member, image, config)
    for broker_id in image.brokers:
        if broker_id not in members:
            yield brokers.lost(broker_id, image, config).records
    for broker_id, member in members.items():
        known = image.brokers.get(broker_id)
        if known is None or known.incarnation != member.incarnation:
            yield _registered(broker_id, member, image, config)
        elif member.stopping:
            yield brokers.hand_over(broker_id, known.epoch, image, config).records
            yield brokers.stop(broker_id, known.epoch, image, config).records
        elif member.ready:
            yield brokers.unfence(broker_id, known.epoch, image, config).records


def _registered(broker_id: int, member: Registration, image: Image, config: Config) -> tuple[Record, ...]:
    return brokers.register(
        broker_id,
        member.incarnation,
        member.endpoints,
        member.rack,
        image,
        config,
        clean=member.clean,
        ready=member.ready and _replicated(image) < RECORDS_PER_ENTRY,
        directories=member.directories,
    ).records


def _replicated(image: Image) -> int:
    return sum(len(partition.replicas) > 1 for partition in image.partitions())
