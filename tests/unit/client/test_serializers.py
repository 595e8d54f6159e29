import pytest

from ottla.client.errors import SettingError
from ottla.client.serializers import deserializer_for, serializer_for
from ottla.client.settings import ProducerSettings

JAVA = "org.apache.kafka.common.serialization."


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("String", "ä", "ä".encode()),
        ("ByteArray", b"x", b"x"),
        ("Long", -2, b"\xff" * 7 + b"\xfe"),
        ("Integer", 7, b"\0\0\0\7"),
        ("Double", 0.5, b"\x3f\xe0" + bytes(6)),
    ],
)
def test_javas_class_names_mean_what_they_mean_there(name: str, value: object, data: bytes) -> None:
    assert serializer_for(f"{JAVA}{name}Serializer")(value) == data
    read = deserializer_for(f"{JAVA}{name}Deserializer")
    assert (data if read is None else read(data)) == value


def test_null_stays_null() -> None:
    for name in ("bytes", "str", "int", "float", "json"):
        assert serializer_for(name)(None) is None


def test_an_unknown_serializer_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingError, match="json"):
        serializer_for("avro")
    with pytest.raises(SettingError, match="json"):
        deserializer_for("avro")


def test_the_partitioner_by_its_java_class() -> None:
    named = {"partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"}
    assert ProducerSettings.parse(named).partitioner == "round_robin"
