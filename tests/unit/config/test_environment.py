"""Variables of a container: what they become, what is ignored, what is refused."""

import pytest

from ottla.config.environment import WantedTopic, read_environment
from ottla.config.settings import Config
from ottla.errors import InvalidConfig


def read(variables, file_settings=(), hostname="4f1c0a9b2d3e"):
    return read_environment(variables, dict(file_settings), hostname)


def settings(variables, file_settings=(), hostname="4f1c0a9b2d3e"):
    found = read(variables, file_settings, hostname).settings
    Config(found)  # a broker takes it
    return found


def test_an_empty_environment_listens_everywhere_and_tells_clients_localhost():
    found = settings({})
    assert found["listeners"] == "PLAINTEXT://0.0.0.0:9092"
    assert found["advertised.listeners"] == "PLAINTEXT://localhost:9092"
    assert found["offsets.topic.replication.factor"] == "1"


@pytest.mark.parametrize("prefix", ["KAFKA_", "KAFKA_CFG_", "OTTLA_"])
def test_underscores_become_dots(prefix):
    assert settings({f"{prefix}NUM_PARTITIONS": "3"})["num.partitions"] == "3"


def test_two_underscores_become_one_and_three_a_dash():
    variables = {"KAFKA_LISTENER_NAME_MY__LAN_SSL_KEYSTORE___X": "y"}
    assert read(variables).settings["listener.name.my_lan.ssl.keystore-x"] == "y"


def test_our_own_settings_need_no_second_ottla():
    assert settings({"OTTLA_OPEN_FILES_MAX": "7"})["ottla.open.files.max"] == "7"


def test_an_empty_variable_is_none():
    assert settings({"KAFKA_BROKER_RACK": ""}) == settings({})


def test_variables_win_over_the_file():
    found = settings({"KAFKA_NUM_PARTITIONS": "3"}, {"num.partitions": "1", "log.retention.hours": "5"})
    assert (found["num.partitions"], found["log.retention.hours"]) == ("3", "5")


def test_an_unknown_variable_of_kafka_is_noted_and_one_of_ours_is_refused():
    assert "KAFKA_NO_SUCH_THING" in read({"KAFKA_NO_SUCH_THING": "1"}).notes[0]
    with pytest.raises(InvalidConfig, match=r"no\.such\.thing"):
        read({"OTTLA_NO_SUCH_THING": "1"})


def test_variables_of_the_jvm_and_of_kubernetes_services_are_no_settings():
    found = read(
        {
            "KAFKA_HEAP_OPTS": "-Xmx1G",
            "KAFKA_JMX_PORT": "9999",
            "KAFKA_PORT": "tcp://10.0.0.1:9092",
            "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
            "KAFKA_SERVICE_HOST": "10.0.0.1",
            "OTTLA_SERVICE_PORT_KAFKA": "9092",
            "OTTLA_PORT": "tcp://10.0.0.1:9092",
            "OTTLA_BROKERS_SERVICE_HOST": "10.0.0.1",
        }
    )
    assert found == read({})


def test_variables_of_our_other_programs_are_no_settings():
    assert read(
        {"OTTLA_BOOTSTRAP": "a:1", "OTTLA_REGISTRY": "http://a", "OTTLA_CONNECT": "http://a"}
    ) == read({})


def test_the_courses_image_is_taken_by_its_variables():
    found = read(
        {
            "KAFKA_ADVERTISED_HOST_NAME": "192.168.99.100",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_BROKER_ID": "-1",
            "KAFKA_CREATE_TOPICS": "greetings:2:1,names:1:1:compact,log:1:1:delete --config=segment.bytes=1000",
        }
    )
    assert found.settings["zookeeper.connect"] == "zookeeper:2181"
    assert found.settings["advertised.listeners"] == "PLAINTEXT://192.168.99.100:9092"
    assert "broker.id" not in found.settings
    assert found.topics == (
        WantedTopic("greetings", 2, 1, {}),
        WantedTopic("names", 1, 1, {"cleanup.policy": "compact"}),
        WantedTopic("log", 1, 1, {"cleanup.policy": "delete", "segment.bytes": "1000"}),
    )


def test_the_old_port_moves_the_listener():
    found = settings({"KAFKA_PORT": "9095", "KAFKA_ADVERTISED_PORT": "32000"})
    assert found["listeners"] == "PLAINTEXT://0.0.0.0:9095"
    assert found["advertised.listeners"] == "PLAINTEXT://localhost:32000"


def test_one_advertised_name_for_several_listeners_is_refused():
    with pytest.raises(InvalidConfig, match="KAFKA_ADVERTISED_LISTENERS"):
        read({"KAFKA_ADVERTISED_HOST_NAME": "a", "KAFKA_LISTENERS": "PLAINTEXT://:1,INSIDE://:2"})


@pytest.mark.parametrize("text", ["orders", "orders:1", "orders:0:1", "orders:x:1", "orders:²:1", ":1:1"])
def test_a_topic_that_is_not_understood_is_refused(text):
    with pytest.raises(InvalidConfig, match="KAFKA_CREATE_TOPICS"):
        read({"KAFKA_CREATE_TOPICS": text})


def test_each_network_gets_its_own_address():
    found = settings(
        {
            "KAFKA_LISTENERS": "INSIDE://:29092,OUTSIDE://:9092",
            "KAFKA_ADVERTISED_LISTENERS": "INSIDE://kafka:29092,OUTSIDE://localhost:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
        }
    )
    assert found["advertised.listeners"] == "INSIDE://kafka:29092,OUTSIDE://localhost:9092"


KRAFT = {
    "KAFKA_NODE_ID": "1",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_LISTENERS": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
}


def test_the_controllers_listener_of_one_node_is_left_out():
    found = read(KRAFT)
    Config(found.settings)
    assert found.settings["listeners"] == "PLAINTEXT://localhost:9092"
    assert any("CONTROLLER" in note for note in found.notes)


def test_several_controllers_are_refused_with_the_name_of_zookeeper():
    with pytest.raises(InvalidConfig, match="KAFKA_ZOOKEEPER_CONNECT"):
        read({**KRAFT, "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:9093,2@b:9093,3@c:9093"})


def test_a_node_that_is_only_a_controller_is_refused():
    with pytest.raises(InvalidConfig, match="ZooKeeper"):
        read({**KRAFT, "KAFKA_PROCESS_ROLES": "controller"})


def test_commands_in_variables_are_not_run():
    with pytest.raises(InvalidConfig, match="HOSTNAME_COMMAND"):
        read({"HOSTNAME_COMMAND": "wget -qO- http://metadata/hostname"})


@pytest.mark.parametrize("hostname", ["ottla-2", "ottla-2.ottla.default.svc"])
def test_the_node_id_comes_from_the_ordinal_of_a_stateful_set(hostname):
    found = settings({"OTTLA_NODE_ID_FROM_HOSTNAME": "true"}, hostname=hostname)
    assert found["node.id"] == "2"


def test_a_host_name_without_ordinal_is_refused():
    with pytest.raises(InvalidConfig, match="-NUMBER"):
        read({"OTTLA_NODE_ID_FROM_HOSTNAME": "true"}, hostname="laptop")
