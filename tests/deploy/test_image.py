"""deploy/Dockerfile: built, run as a course would, stopped."""

import json

import pytest

import ottla
from tests.deploy.containers import BASE, IMAGE
from tests.oracle.ports import free_ports

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def container(image):
    port, http = free_ports(2)
    name = f"broker-{port}"
    image.run(
        name,
        environment={
            "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:9093",
            "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
            "KAFKA_CREATE_TOPICS": "greetings:2:1",
            "OTTLA_HTTP_PORT": str(http),
        },
    )
    image.wait_for(name, "topic greetings is there")
    yield image, name, f"127.0.0.1:{port}"
    image.remove(name)


def test_kafkas_tools_answer_where_courses_look_for_them(container):
    image, name, bootstrap = container
    listed = image.execute(
        name, "/opt/kafka/bin/kafka-topics.sh", "--describe", "--bootstrap-server", bootstrap
    )
    assert "greetings" in listed and "PartitionCount: 2" in listed


def test_a_record_survives_a_restart_of_the_container(container):
    image, name, bootstrap = container
    with ottla.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send("greetings", "hello", key="world").result(60)
    assert image.stop(name) == 0
    image.podman("start", name)
    with ottla.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("greetings", 0), ("greetings", 1)])
        assert [record.value for record in consumer.poll(60.0)] == [b"hello"]


def test_the_health_check_is_good_while_it_runs(container):
    image, name, _ = container
    image.podman("healthcheck", "run", name)


def test_it_runs_as_nobody_special_and_without_a_compiler(container):
    image, name, _ = container
    assert image.execute(name, "id", "-u").strip() == "10001"
    assert image.execute(name, "sh", "-c", "command -v gcc cc pip || echo none").strip() == "none"


def test_what_we_add_to_the_base_is_small(image):
    added = image.size_bytes(IMAGE) - image.size_bytes(BASE)
    assert added < 100 << 20


def test_the_image_says_where_data_and_ports_are(image):
    (config,) = json.loads(image.podman("image", "inspect", IMAGE))
    assert "/var/lib/ottla" in config["Config"]["Volumes"]
    assert "9092/tcp" in config["Config"]["ExposedPorts"]


def test_a_cluster_of_controllers_ends_with_a_sentence(image):
    voters = "1@a:9093,2@b:9093,3@c:9093"
    image.run(
        "voters",
        environment={
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": voters,
            "OTTLA_HTTP_PORT": "0",
        },
    )
    image.wait_for("voters", "KAFKA_ZOOKEEPER_CONNECT")
    image.podman("wait", "voters")
    assert image.podman("inspect", "voters", "--format", "{{.State.ExitCode}}").strip() == "1"
    image.remove("voters")
