"""Names that slides still print: taken where they mean the same, refused with the modern name where not."""

import logging

import pytest

from ottla.client.errors import SettingError
from ottla.client.settings import ConsumerSettings, ProducerSettings


def test_old_names_that_mean_the_same_are_taken_with_a_warning(caplog):
    found = ProducerSettings.parse({"metadata.broker.list": "a:1", "request.required.acks": "1"})
    assert (found.bootstrap_servers, found.acks) == ("a:1", "1")
    assert "request.required.acks is the old name of acks" in caplog.text
    consumer = ConsumerSettings.parse({"auto.commit.enable": "false", "auto.offset.reset": "smallest"})
    assert (consumer.enable_auto_commit, consumer.auto_offset_reset) == (False, "earliest")


def test_serializers_on_a_consumer_have_no_effect_and_that_is_said(caplog):
    with caplog.at_level(logging.WARNING, "ottla.client"):
        ConsumerSettings.parse({"key.serializer": "org.apache.kafka.common.serialization.StringSerializer"})
        ProducerSettings.parse({"value.deserializer": "x"})
    assert [record.message for record in caplog.records] == [
        "key.serializer has no effect on this kind of client",
        "value.deserializer has no effect on this kind of client",
    ]


@pytest.mark.parametrize(
    ("settings", "modern"),
    [
        ({"auto.commit.offset": "true"}, "enable.auto.commit"),
        ({"serializer.class": "kafka.serializer.StringEncoder"}, "value.serializer"),
        ({"zookeeper.connect": "localhost:2181"}, "bootstrap.servers"),
        ({"fetch.message.max.bytes": "1000"}, "max.partition.fetch.bytes"),
    ],
)
def test_what_means_something_else_is_refused_with_the_modern_name(settings, modern):
    with pytest.raises(SettingError, match=modern.replace(".", r"\.")):
        ConsumerSettings.parse(settings)


def test_two_acknowledgements_are_a_matter_of_the_topic():
    with pytest.raises(SettingError, match=r"acks is '2'.*min\.insync\.replicas=2.*acks=all"):
        ProducerSettings.parse({"acks": "2"})
