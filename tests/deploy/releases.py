"""Data folders of releases, kept as they were: each later release must open them.

`python -m tests.deploy.releases 0.2` makes the folder of the release at hand; its file is committed with the release.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

import ottla
from tests.deploy.brokers import Process

HOME = Path(__file__).parent / "releases"
SETTINGS = ("offsets.topic.num.partitions=2", "transaction.state.log.num.partitions=2")
FOREVER = {"retention.ms": "-1"}  # the records grow old in the archive


def options() -> list[str]:
    return [part for setting in SETTINGS for part in ("--set", setting)]


def make(release: str) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with Process(data, *options()) as broker:
            _fill(broker.bootstrap)
        (data / ".lock").unlink()
        HOME.mkdir(exist_ok=True)
        path = HOME / f"{release}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            archive.add(data, "data")
    return path


def _fill(bootstrap: str) -> None:
    with ottla.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic("orders", partitions=2, configs=FOREVER)
        admin.create_topic("names", partitions=1, configs={"cleanup.policy": "compact"})
        admin.create_topic("payments", partitions=1, configs=FOREVER)
        admin.set_user("alice", "secret", ["SCRAM-SHA-256"])
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        with ottla.Producer(bootstrap_servers=bootstrap, compression_type=compression) as producer:
            for partition in (0, 1):
                producer.send("orders", compression, key="k", partition=partition).result(60)
    with ottla.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send("names", "Ottilie", key="o").result(60)
        producer.send("names", "Ottla", key="o").result(60)
    with ottla.Producer(bootstrap_servers=bootstrap, transactional_id="till") as producer:
        producer.init_transactions()
        for number, ends_well in enumerate((True, False, True)):
            producer.begin_transaction()
            producer.send("payments", str(number)).result(60)
            producer.commit_transaction() if ends_well else producer.abort_transaction()
    with ottla.Consumer(
        bootstrap_servers=bootstrap, group_id="shop", auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.subscribe("orders")
        seen = 0
        while seen < 10:
            seen += len(consumer.poll(1))
        consumer.commit()


if __name__ == "__main__":
    print(make(sys.argv[1]))
