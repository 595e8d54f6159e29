"""The compose files: services run as real containers with ZooKeeper; a rolling restart under load loses nothing."""

import argparse
import subprocess
import sys
import threading
import time
from importlib import import_module

import pytest

import ottla
import ottla.testing
from ottla.cli.main import COMMANDS
from ottla.config.environment import read_environment
from ottla.config.settings import Config
from ottla.ensemble import why_not
from tests.console.consoles import Client, Console, rows
from tests.deploy.brokers import OTTLA
from tests.deploy.composition import Composition
from tests.deploy.containers import ROOT
from tests.deploy.test_pages import consecutive

yaml = pytest.importorskip("yaml", reason="needs the group deploy-tests")
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]
COURSE = yaml.safe_load((ROOT / "deploy/compose-course.yaml").read_text())["services"]
BROKERS = ("kafka-1", "kafka-2", "kafka-3")


@pytest.mark.parametrize("service", BROKERS)
def test_a_broker_understands_the_variables_of_its_service(service):
    variables = {name: str(text) for name, text in COMPOSE[service]["environment"].items()}
    found = read_environment(variables, {}, hostname=service)
    config = Config(found.settings)
    assert config.node_id == int(service[-1]) and not found.notes and not config.ignored
    (published,) = COMPOSE[service]["ports"]
    assert f"OUTSIDE://localhost:{published.split(':')[0]}" in config.advertised_listeners


def test_zookeeper_keeps_snapshots_and_transactions_in_volumes():
    folders = {volume.partition(":")[2] for volume in COMPOSE["zookeeper"]["volumes"]}
    assert folders == {"/data", "/datalog"}  # of the official image


def test_the_courses_file_differs_in_one_line():
    text = (ROOT / "deploy/compose-course.yaml").read_text()
    assert [line.split("#")[1].strip() for line in text.splitlines() if "# was:" in line] == [
        "was: wurstmeister/kafka"
    ]


def test_services_run_commands_that_exist():
    commands = [
        each["command"] for each in COMPOSE.values() if "command" in each and "entrypoint" not in each
    ]
    assert {name for name, *_ in commands} == {"console", "homecare"}
    for name, *rest in commands:
        parser = argparse.ArgumentParser()
        import_module(COMMANDS[name][0]).add_arguments(parser)
        parser.parse_args([str(each) for each in rest])


def test_the_console_shows_the_brokers():
    """Its command as it stands in the file, but for addresses; `make soak PART=images` has it as a container."""
    name, *words = COMPOSE["console"]["command"]
    bootstrap, port = words.index("--bootstrap"), words.index("--port")
    options = [word for i, word in enumerate(words) if i not in (bootstrap, bootstrap + 1, port, port + 1)]
    with ottla.testing.Cluster() as cluster, Console(cluster.bootstrap, *options) as console:
        base, _, query = console.login().partition("/?")
        client = Client(f"http://localhost:{base.rpartition(':')[2]}")
        client.get(f"/?{query}")
        brokers = rows(client.json("/"), "brokers")
    assert name == "console" and sorted(row["broker"] for row in brokers) == [1, 2, 3]


def wait_until(condition, seconds=90):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.fixture
def course(image):
    if why_not() is not None:
        pytest.skip(str(why_not()))
    zookeeper, port = consecutive(2)
    composition = Composition(image, COURSE, {"zookeeper:2181": zookeeper}, f"course-{port}")
    composition.start_zookeeper()
    # On the host's network two courses cannot both have port 9092.
    composition.start(
        "kafka", {"KAFKA_PORT": str(port), "KAFKA_HOST_NAME": "127.0.0.1", "OTTLA_HTTP_PORT": "0"}
    )
    name = composition.name("kafka")
    image.wait_for(name, "topic names is there")
    yield image, name, port
    for service in ("kafka", "zookeeper"):
        image.remove(composition.name(service))


@pytest.mark.slow
def test_the_courses_commands_run_as_printed(course):
    image, name, port = course
    topics = image.execute(
        name, "/opt/kafka/bin/kafka-topics.sh", "--list", "--bootstrap-server", f"localhost:{port}"
    )
    assert topics.split() == ["greetings", "names"]
    producer = (
        f"/opt/kafka/bin/kafka-console-producer.sh --topic greetings --bootstrap-server localhost:{port}"
    )
    image.execute(name, "sh", "-c", f"echo hello | {producer}")
    printed = image.execute(
        name,
        "/opt/kafka/bin/kafka-console-consumer.sh",
        *("--topic", "greetings", "--from-beginning", "--max-messages", "1", "--group", "g"),
        *("--bootstrap-server", f"localhost:{port}"),
    )
    assert "hello" in printed


class Load:
    """Numbers under acks=all; those that were acknowledged must all be there in the end."""

    def __init__(self, bootstrap):
        self.acknowledged = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(bootstrap,))
        self._thread.start()

    def _run(self, bootstrap):
        with ottla.Producer(bootstrap_servers=bootstrap, acks="all", delivery_timeout_ms=120_000) as producer:
            number = 0
            while not self._stop.is_set():
                sent = [(each, producer.send("load", str(each))) for each in range(number, number + 20)]
                for each, future in sent:
                    future.result(150)
                    self.acknowledged.append(each)
                number += 20

    def wait_for(self, more):
        wanted = len(self.acknowledged) + more
        wait_until(lambda: len(self.acknowledged) >= wanted or not self._thread.is_alive())
        assert self._thread.is_alive()

    def close(self):
        self._stop.set()
        self._thread.join()


@pytest.fixture
def cluster(image):
    if why_not() is not None:
        pytest.skip(str(why_not()))
    ports = consecutive(7)
    places = {"zookeeper:2181": ports[0]}
    for index, service in enumerate(BROKERS):
        places[f"{service}:29092"] = ports[1 + index]
        places[f"localhost:{9092 + index}"] = ports[4 + index]
    composition = Composition(image, COMPOSE, places, f"compose-{ports[0]}")
    composition.start_zookeeper()
    for index, service in enumerate(BROKERS):
        inside, outside = ports[1 + index], ports[4 + index]
        listeners = f"INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}"
        composition.start(service, {"KAFKA_LISTENERS": listeners, "OTTLA_HTTP_PORT": "0"})
    for service in BROKERS:
        image.wait_for(composition.name(service), "ready ")
    yield (
        image,
        [composition.name(service) for service in BROKERS],
        f"127.0.0.1:{ports[4]},127.0.0.1:{ports[5]}",
    )
    for service in (*BROKERS, "zookeeper"):
        image.remove(composition.name(service))


def in_sync(bootstrap):
    done = subprocess.run([OTTLA, "cluster", "describe", "-b", bootstrap], capture_output=True, timeout=60)
    return done.returncode == 0


@pytest.mark.slow
def test_a_rolling_restart_under_load_loses_nothing(cluster):
    image, names, bootstrap = cluster
    with ottla.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic("load", partitions=3)
        wait_until(
            lambda: "load" in admin.list_topics()
        )  # the broker that is asked hears of it a moment later
        assert len(admin.describe_topics(["load"])["load"].partitions[0].replicas) == 3
    load = Load(bootstrap)
    try:
        load.wait_for(100)
        for name in names:
            wait_until(lambda: in_sync(bootstrap))
            assert image.stop(name) == 0, image.logs(name)
            load.wait_for(100)  # the other two take over
            image.podman("start", name)
        wait_until(lambda: in_sync(bootstrap))
        load.wait_for(100)
    finally:
        load.close()
    assert sorted(load.acknowledged) == list(range(len(load.acknowledged)))
    missing = set(load.acknowledged) - set(numbers(bootstrap))
    assert not missing, f"{len(missing)} acknowledged records are gone"
    print(f"{len(load.acknowledged)} records through three restarts", file=sys.stderr)


def numbers(bootstrap):
    with ottla.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        places = [ottla.TopicPartition("load", each) for each in range(3)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        found = []
        while any(consumer.position(place) < end for place, end in ends.items()):
            found += [int(record.value) for record in consumer.poll(1)]
        return found
