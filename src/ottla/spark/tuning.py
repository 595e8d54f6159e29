"""Spark settings that suit topics: plain values, for a local session or any cluster's configuration."""

import os

_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def settings(cores: int | None = None, *, local: bool = True) -> dict[str, str]:
    """What to give to a session's builder, or to `spark-submit --conf`. `local`: one machine, one disk."""
    cores = cores or os.cpu_count() or 1
    settings = {
        # A task's Python worker answers without waiting for TCP's delayed acknowledgement: 40 ms each.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # A micro-batch that is done again must have the same tasks with the same rows.
        "spark.sql.adaptive.streaming.stateless.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
    }
    if local:
        settings |= {
            "spark.master": f"local[{cores}]",
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.python.daemon.module": "ottla.spark.daemon",
            # Plain renames instead of forked commands: right on one local disk, not on shared storage.
            "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
        }
    return settings
