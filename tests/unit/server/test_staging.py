"""Links of one moment: what is held, and when a held file may have changed."""

import pytest

from ottla.server.control import LINKS
from ottla.server.staging import Staging
from ottla.testing import Broker


@pytest.fixture
def broker(tmp_path):
    with Broker(data=tmp_path / "data") as running:
        running.create_topic("orders", partitions=2)
        for partition in (0, 1):
            for value in ("a", "b"):
                running.send("orders", value, partition=partition)
        yield running


@pytest.fixture
def staging(broker):
    held = Staging(broker._running())
    broker._call(held.hold)
    yield held
    held.release()


def log_of(broker, partition):
    return broker._running().broker.replicas.partition("orders", partition).log


def test_every_file_is_held_with_its_size(broker, staging, tmp_path):
    (folder,) = staging.folders
    (data,) = tmp_path.glob("data")
    log = f"orders-0/{0:020d}.log"
    assert folder.sizes[log] == (data / log).stat().st_size > 0
    assert "metadata/metadata.log" in folder.sizes and ".lock" not in folder.sizes
    broker.send("orders", "later", partition=0)
    assert (data / log).stat().st_size > folder.sizes[log]


def test_appends_and_deleted_topics_change_nothing_that_is_held(broker, staging):
    broker.send("orders", "later", partition=0)
    broker.delete_topic("orders")
    assert broker._call(staging.truncated) == []


def test_a_truncation_is_noticed(broker, staging):
    log_of(broker, 1).truncate_to(1)  # as a follower does; nothing else happens meanwhile
    broker.send("orders", "another", partition=1)  # the file is as long as before, with other records
    assert broker._call(staging.truncated) == ["orders-1"]


def test_release_leaves_nothing(broker, staging, tmp_path):
    assert list((tmp_path / "data").glob(f"{LINKS}*"))
    staging.release()
    assert not list((tmp_path / "data").glob(f"{LINKS}*"))
