"""The data folder of every release opens, with everything in it."""

import tarfile

import pytest

import ottla
from tests.deploy import brokers
from tests.deploy.brokers import Process
from tests.deploy.releases import HOME, options
from tests.oracle.transactions import wait_for_markers

RELEASES = sorted(path.name.removesuffix(".tar.gz") for path in HOME.glob("*.tar.gz"))


@pytest.fixture(params=RELEASES)
def broker(request, tmp_path):
    with tarfile.open(HOME / f"{request.param}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    brokers.ottla("doctor", "--deep", "--data", tmp_path / "data")
    with Process(tmp_path / "data", *options()) as running:
        yield running
    brokers.ottla("doctor", "--deep", "--data", tmp_path / "data")


def values(bootstrap, *partitions, **settings):
    with ottla.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign(list(partitions))
        ends = consumer.end_offsets(list(partitions))
        found = []
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            found += [record.value.decode() for record in consumer.poll(1)]
        return found


def test_records_groups_transactions_and_users_are_there(broker):
    at = broker.bootstrap
    assert sorted(values(at, ("orders", 0), ("orders", 1))) == sorted(
        2 * ["none", "gzip", "snappy", "lz4", "zstd"]
    )
    assert values(at, ("names", 0))[-1] == "Ottla"
    assert values(at, ("payments", 0), isolation_level="read_committed") == ["0", "2"]
    with ottla.Admin(bootstrap_servers=at) as admin:
        assert {key.partition: found.offset for key, found in admin.group_offsets("shop").items()} == {
            0: 5,
            1: 5,
        }
        assert admin.describe_configs("topic", "names")["cleanup.policy"].value == "compact"
        assert [user.name for user in admin.describe_users()] == ["alice"]


def test_transactions_go_on_under_the_same_id(broker):
    with ottla.Producer(bootstrap_servers=broker.bootstrap, transactional_id="till") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("payments", "3").result(60)
        producer.commit_transaction()
    wait_for_markers(broker.bootstrap, "payments")
    assert values(broker.bootstrap, ("payments", 0), isolation_level="read_committed") == ["0", "2", "3"]


def test_there_is_a_folder_to_open():
    assert RELEASES
