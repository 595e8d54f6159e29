"""A start on folders that hold somebody else's data, or ours without its metadata, changes nothing in them."""

import shutil

import pytest

from ottla.broker.assembly import METADATA_FOLDER
from ottla.config.settings import Config
from ottla.metadata.shared import Shared
from ottla.server.folders import ForeignFolder
from ottla.server.node import Node
from tests.integration.nodes import SETTINGS, broker, run
from tests.integration.test_start import ottla

META = "version=1\ncluster.id=5L6g3nShT-eMCtK--X86sw\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAEQ\n"
KAFKA = {
    "meta.properties": META,
    "bootstrap.checkpoint": "x",
    "__cluster_metadata-0/00000000000000000000.log": "",
    "orders-0/00000000000000000000.log": "",
    "orders-1.0123456789abcdef0123456789abcdef-delete/00000000000000000000.log": "",
    "replication-offset-checkpoint": "0\n1\norders 0 0\n",
    ".kafka_cleanshutdown": "{}",
}


def a_folder(path, names):
    for name, text in names.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


def tree(path):
    """Names and contents of everything but the lock, which Apache Kafka leaves behind as well, and of a journal
    that was there before: the controller's epoch is written to it."""
    return {
        str(each.relative_to(path)): each.read_bytes() if each.is_file() else None
        for each in path.rglob("*")
        if each.name != ".lock" and each.parent.name != METADATA_FOLDER
    }


def without(*left_out):
    return {name: text for name, text in KAFKA.items() if not name.startswith(left_out)}


def refusal(folders, shared=None, **settings):
    """What a start says; the folders are as they were."""
    before = [tree(folder) for folder in folders]
    config = Config({**SETTINGS, "log.dirs": ",".join(map(str, folders)), **settings})

    async def scenario():
        node = Node(config, metadata_log=None if shared is None else shared.session())
        with pytest.raises(ForeignFolder) as refused:
            await node.start()
        return str(refused.value)

    text = run(scenario())
    assert [tree(folder) for folder in folders] == before
    return text


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize(
    "names",
    [
        KAFKA,
        {"meta.properties": META, "bootstrap.checkpoint": "x"},  # formatted, never started
        without("__cluster", "bootstrap"),  # its metadata log has a disk of its own
        without("__cluster", "bootstrap", "meta"),
        {"meta.properties": META},
        {"t-0.0123456789abcdef0123456789abcdef-delete/a": ""},
    ],
)
def test_a_folder_of_apache_kafka_is_refused_and_left_alone(tmp_path, names, clustered):
    folder = a_folder(tmp_path / "kafka", names)
    text = refusal([folder], Shared() if clustered else None)
    assert f"ottla import-kafka --from {folder} --data" in text


def test_a_second_log_folder_of_apache_kafka_is_refused_beside_an_empty_first(tmp_path):
    (tmp_path / "new").mkdir()
    assert str(tmp_path / "kafka") in refusal([tmp_path / "new", a_folder(tmp_path / "kafka", KAFKA)])


def test_no_setting_lets_a_broker_take_apart_the_metadata_log_of_apache_kafka(tmp_path):
    refusal([a_folder(tmp_path / "kafka", KAFKA)], **{"ottla.start.without.metadata": "true"})


async def with_records(data, topic="t"):
    async with broker(log_dirs=data) as (_, client):
        await client.create(topic)
        assert (await client.produce(topic, b"precious")).error_code == 0


@pytest.mark.parametrize("other", ["empty ensemble", "lost journal", "empty journal", "folders swapped"])
def test_our_folder_without_its_metadata_is_refused_and_left_alone(tmp_path, other):
    data, second = tmp_path / "data", tmp_path / "second"
    run(with_records(data))
    if other == "lost journal":
        shutil.rmtree(data / METADATA_FOLDER)
    if other == "empty journal":
        for name in (data / METADATA_FOLDER).iterdir():
            name.write_bytes(b"ottla metadata 1\n" if name.name.endswith("log") else name.read_bytes())
        (data / METADATA_FOLDER / "metadata.snapshot").unlink(missing_ok=True)
    second.mkdir()
    folders = [second, data] if other == "folders swapped" else [data]
    text = refusal(folders, Shared() if other == "empty ensemble" else None)
    assert "ottla.start.without.metadata=true" in text


def test_told_to_start_from_nothing_it_puts_partitions_and_unfinished_deletions_aside(tmp_path):
    data = tmp_path / "data"
    run(with_records(data))
    shutil.rmtree(data / METADATA_FOLDER)
    a_folder(data, {"old-0.0123456789abcdef0123456789abcdef-delete/kept": "kept"})
    log = (data / "t-0" / f"{0:020d}.log").read_bytes()

    async def scenario():
        async with broker(log_dirs=data, ottla_start_without_metadata="true") as (_, client):
            assert (await client.produce("t", b"new")).error_code != 0

    run(scenario())
    (stray,) = data.glob("t-0.*-stray")
    assert (stray / f"{0:020d}.log").read_bytes() == log
    assert (data / "old-0.0123456789abcdef0123456789abcdef-stray" / "kept").read_text() == "kept"


def test_partitions_in_an_added_folder_that_nobody_knows_are_refused(tmp_path):
    data, added = tmp_path / "data", tmp_path / "added"
    run(with_records(data))
    a_folder(added, {"alien-0/00000000000000000000.log": ""})
    assert "alien-0" in refusal([data, added])


def test_a_lost_meta_properties_beside_metadata_that_knows_the_partitions_is_written_again(tmp_path):
    data = tmp_path / "data"
    run(with_records(data))
    (data / "meta.properties").unlink()

    async def scenario():
        async with broker(log_dirs=data) as (_, client):
            assert b"precious" in bytes((await client.fetch("t")).records)

    run(scenario())
    assert (data / "meta.properties").exists()


def test_the_doctor_names_a_folder_of_apache_kafka_and_changes_nothing(tmp_path):
    folder = a_folder(tmp_path / "kafka", KAFKA)
    before = {*tree(folder), *folder.glob(".*")}
    result = ottla("doctor", "--data", str(folder))
    assert result.returncode == 1
    assert "log folder of Apache Kafka" in result.stdout
    assert "ottla import-kafka" in result.stdout
    assert result.stdout.count("BAD") == 1, "what Kafka would do at its next start is not ours to tell"
    assert {*tree(folder), *folder.glob(".*")} == before
