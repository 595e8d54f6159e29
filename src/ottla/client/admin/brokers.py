"""The cluster itself: its brokers, their folders, what they serve."""

from ottla import errors
from ottla.client.core.cluster import Broker, Cluster
from ottla.client.core.dialogue import check
from ottla.client.core.leaders import all_of
from ottla.client.errors import NotSupported
from ottla.client.values import TopicPartition
from ottla.frozen import frozen
from ottla.wire.messages import APIS
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest


@frozen
class ClusterInfo:
    id: str | None
    controller: int
    brokers: tuple[Broker, ...]
    features: dict[str, int]


@frozen
class LogDir:
    """A folder of a broker; sizes by partition. Totals are -1 where the broker does not tell."""

    broker: int
    path: str
    error: str | None
    total_bytes: int
    usable_bytes: int
    sizes: dict[TopicPartition, int]


async def describe(cluster: Cluster) -> ClusterInfo:
    async def attempt() -> ClusterInfo:
        connection = await cluster.any_connection()
        features = dict(connection.dialogue.features)
        try:
            cluster_answer = await connection.ask(DescribeClusterRequest(endpoint_type=1))
        except NotSupported:
            await cluster.refresh([])
            image = cluster.image
            return ClusterInfo(image.cluster_id, image.controller, tuple(image.brokers.values()), features)
        check(cluster_answer)
        brokers = tuple(Broker(b.broker_id, b.host, b.port, b.rack) for b in cluster_answer.brokers)
        return ClusterInfo(cluster_answer.cluster_id, cluster_answer.controller_id, brokers, features)

    return await cluster.retrying(attempt, "the cluster could not be described")


async def log_dirs(cluster: Cluster) -> list[LogDir]:
    """Every folder of every broker."""
    request = DescribeLogDirsRequest()
    request.topics = None

    async def ask(node: int) -> list[LogDir]:
        answer = await cluster.ask(request, node)
        if getattr(answer, "error_code", 0):
            check(answer)
        return [
            LogDir(
                node,
                folder.log_dir,
                errors.NAMES.get(folder.error_code) if folder.error_code else None,
                folder.total_bytes,
                folder.usable_bytes,
                {
                    TopicPartition(t.name, p.partition_index): p.partition_size
                    for t in folder.topics
                    for p in t.partitions
                },
            )
            for folder in answer.results
        ]

    async def attempt() -> list[LogDir]:
        await cluster.refresh([])
        by_broker = await all_of(cluster, [ask(node) for node in sorted(cluster.image.brokers)])
        return [folder for folders in by_broker for folder in folders]

    return await cluster.retrying(attempt, "folders could not be described")


async def api_versions(cluster: Cluster, broker: int | None = None) -> dict[str, tuple[int, int]]:
    """The APIs that a broker serves, with their versions."""

    async def attempt() -> dict[str, tuple[int, int]]:
        connection = await (cluster.any_connection() if broker is None else cluster.connection(broker))
        served = connection.dialogue.versions
        return {APIS[key].name if key in APIS else f"API {key}": served[key] for key in sorted(served)}

    return await cluster.retrying(attempt, "versions could not be read")
