"""Log folders: what is where (DescribeLogDirs), and moving it (AlterReplicaLogDirs)."""

from collections import defaultdict

from ottla import errors
from ottla.broker.requests.context import Context
from ottla.broker.requests.refusals import protocol_error
from ottla.storage.folder import LogFolder, Usage
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


async def describe_log_dirs(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(
        results=[_described(folder, wanted, context) for folder in context.replicas.folders]
    )


def _described(
    folder: LogFolder, wanted: set[tuple[str, int]] | None, context: Context
) -> DescribeLogDirsResult:
    if folder.is_offline:
        return DescribeLogDirsResult(error_code=errors.KafkaStorageError.code, log_dir=folder.path)
    topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for usage in folder.usage():
        if wanted is None or usage.partition in wanted:
            topic, index = usage.partition
            topics[topic].append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=usage.size_bytes,
                    offset_lag=_lag(usage, context),
                    is_future_key=usage.is_future,
                )
            )
    return DescribeLogDirsResult(
        log_dir=folder.path,
        topics=[
            DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()
        ],
        total_bytes=folder.disk.total_bytes(),
        usable_bytes=folder.disk.free_bytes(),
    )


def _lag(usage: Usage, context: Context) -> int:
    """How far a copy on its way to another folder is behind its original; of a replica, behind its leader."""
    partition = context.replicas.partitions.get(usage.partition)
    if partition is None or partition.log is None:
        return 0
    end = partition.log.end_offset if usage.is_future else partition.log.high_watermark
    return max(0, end - usage.end_offset)


async def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, context: Context
) -> AlterReplicaLogDirsResponse:
    paths = {
        (topic.name, index): wanted.path
        for wanted in request.dirs
        for topic in wanted.topics
        for index in topic.partitions
    }
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
    for (name, index), path in paths.items():
        code = _move(name, index, path, context)
        results[name].append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )


def _move(topic: str, index: int, path: str, context: Context) -> int:
    """Begins the move; its progress shows in DescribeLogDirs."""
    try:
        target = next((folder for folder in context.replicas.folders if folder.path == path), None)
        if target is None:
            raise errors.LogDirNotFound(f"there is no log folder {path}")
        partition = context.replicas.partition(topic, index)
        if partition.log is None or target.is_offline:
            raise errors.KafkaStorageError()
        context.housekeeping.move((topic, index), target)
    except Exception as failure:
        return protocol_error(failure, f"moving partition {index} of {topic} to {path}").code
    return errors.NONE
