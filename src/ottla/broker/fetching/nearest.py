"""Reading from the nearest replica (KIP-392): a consumer in a rack is sent to a replica there."""

from ottla.config.settings import Config
from ottla.metadata.image import Image
from ottla.replication.partition import Partition

RACK_AWARE = "RackAwareReplicaSelector"


def nearest_replica(partition: Partition, offset: int, rack: str, image: Image, config: Config) -> int | None:
    """Where the consumer should read; None when that is here. Only a leader sends anybody away."""
    if not rack or not partition.is_leader:
        return None
    selector = config.replica_selector_class
    if not selector or not selector.endswith(RACK_AWARE) or _rack(config.node_id, image) == rack:
        return None
    fit = [
        (follower.end_offset, replica_id)
        for replica_id, follower in partition.followers.items()
        if replica_id in partition.state.isr
        and _rack(replica_id, image) == rack
        and follower.log_start_offset <= offset <= follower.end_offset
    ]
    return max(fit)[1] if fit else None


def _rack(broker_id: int, image: Image) -> str | None:
    known = image.brokers.get(broker_id)
    return known.rack if known is not None and known.may_lead else None
