"""Whether a broker lives, and whether it is ready for clients: with the reasons why not."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.server.node import Node

LAG_MS_MAX = 30_000  # a loop that is this late serves nobody


class Health(NamedTuple):
    reasons: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        return not self.reasons


def liveness(node: "Node") -> Health:
    """A restart would help: no log folder is left. (A loop that stands still does not even answer.)"""
    folders = node.broker.replicas.folders
    if folders and all(folder.is_offline for folder in folders):
        return Health(("every log folder is offline: " + ", ".join(folder.path for folder in folders),))
    return Health()


def readiness(node: "Node") -> Health:
    """Of this broker alone: while another one restarts, this one stays ready.

    Partitions that lost a follower, or are below min.insync.replicas because of that, are for alerts: taking their
    leader out of service too would only make it worse.
    """
    reasons = []
    broker = node.broker
    own = broker.image.brokers.get(node.config.node_id)
    if node.is_stopping:
        reasons.append("the broker is stopping")
    elif own is None:
        reasons.append("not registered with the cluster yet")
    elif not own.may_lead:
        reasons.append(
            "registered, but the controller does not let it lead yet: it catches up, or was cut off"
        )
    if not broker.controller.is_caught_up:
        reasons.append("behind the metadata log")
    loading = [
        f"{coordinator.topic}-{index}"
        for coordinator in (broker.groups, broker.transactions.coordinator)
        for index, shard in coordinator.shards.items()
        if not shard.is_loaded
    ]
    if loading:
        reasons.append(f"loading {len(loading)} coordinator partitions ({', '.join(sorted(loading)[:3])})")
    offline = [folder.path for folder in broker.replicas.folders if folder.is_offline]
    if offline:
        reasons.append(f"offline log folders: {', '.join(offline)}")
    return Health(tuple(reasons))
