"""Options as users write them, in any case, and errors that say what to write instead."""

import pytest

from ottla.client.core.offsets import EARLIEST, LATEST
from ottla.spark.errors import OptionError
from ottla.spark.options import COLUMNS, ReadOptions, WriteOptions

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def read(streaming=True, **options):
    return ReadOptions.parse({**SERVERS, "subscribe": "t", **options}, streaming=streaming)


def test_a_stream_begins_at_the_end_and_a_batch_at_the_beginning():
    assert read().starting.everywhere == LATEST
    assert read(streaming=False).starting.everywhere == EARLIEST
    assert read(streaming=False).ending.everywhere == LATEST


def test_names_are_known_in_any_case():
    options = read(MAXOFFSETSPERTRIGGER="7", failondataloss="FALSE", IncludeHeaders="true")
    assert (options.max_offsets, options.fail_on_data_loss) == (7, False)
    assert options.columns == COLUMNS


def test_client_settings_lose_their_prefix():
    given = {**SERVERS, "subscribe": "a, b,a", "kafka.group.id": "g", "kafka.client.id": "c"}
    options = ReadOptions.parse(given, streaming=True)
    assert options.client == {"bootstrap.servers": "localhost:9092", "group.id": "g", "client.id": "c"}
    assert options.group == "g"
    assert options.subscribe == ("a", "b")


def test_offsets_may_be_given_for_each_partition():
    options = read(startingOffsets='{"t": {"0": 23, "1": -2}}')
    assert options.starting.offsets == {("t", 0): 23, ("t", 1): -2}


def test_times_come_before_offsets():
    options = read(startingTimestamp="1000", startingOffsets="earliest")
    assert options.starting.timestamp == 1000
    both = read(startingOffsetsByTimestamp='{"t": {"0": 5}}', startingTimestamp="1")
    assert (both.starting.timestamp, both.starting.timestamps) == (1, {})
    by_partition = read(startingOffsetsByTimestamp='{"t": {"0": 5}}', startingOffsets="earliest")
    assert by_partition.starting.timestamps == {("t", 0): 5}


def test_assign_names_partitions():
    options = ReadOptions.parse({**SERVERS, "assign": '{"t": [2, 0]}'}, streaming=True)
    assert options.assign == {"t": (0, 2)}


@pytest.mark.parametrize(
    ("text", "ms"), [("30s", 30_000), ("15m", 900_000), ("2 hours", None), ("5 seconds", 5000)]
)
def test_delays(text, ms):
    if ms is None:
        with pytest.raises(OptionError, match="maxTriggerDelay"):
            read(maxTriggerDelay=text)
    else:
        assert read(maxTriggerDelay=text).max_delay_ms == ms


def test_a_value_schema_becomes_a_struct():
    assert read(valueFormat="json", valueSchema="a INT").value_schema == "struct<a INT>"
    assert read(valueFormat="json", valueSchema="struct<a:int>").value_schema == "struct<a:int>"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "exactly one of subscribe"),
        ({"subscribe": "a", "assign": "{}"}, "exactly one of"),
        ({"subscribe": "a", "subscribePatern": "b"}, "did you mean subscribePattern"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "many"}, "whole number"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "²"}, "whole number"),
        ({"subscribe": "a", "startingOffsets": "{0"}, "no JSON"),
        ({"subscribe": "a", "startingOffsets": "[1]"}, "must look like"),
        ({"subscribe": "a", "failOnDataLoss": "perhaps"}, "one of true, false"),
        ({"subscribe": "a", "columns": "key,keys"}, "there is no keys"),
        ({"subscribe": "a", "columns": "key,KEY"}, "each column once"),
        ({"subscribe": "a", "valueFormat": "json"}, "needs valueSchema"),
        ({"subscribe": "a", "valueSchema": "a INT"}, "needs valueFormat"),
    ],
)
def test_what_cannot_be_is_said(options, text):
    with pytest.raises(OptionError, match=text):
        ReadOptions.parse({**SERVERS, **options}, streaming=True)


def test_the_servers_must_be_given():
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        ReadOptions.parse({"subscribe": "t"}, streaming=True)


def test_streams_write_exactly_once_and_batches_at_least_once_unless_told_otherwise():
    assert WriteOptions.parse(SERVERS, streaming=True).exactly_once
    assert not WriteOptions.parse(SERVERS, streaming=False).exactly_once
    assert not WriteOptions.parse({**SERVERS, "guarantee": "at-least-once"}, streaming=True).exactly_once


def test_an_unknown_option_of_the_sink_is_refused():
    with pytest.raises(OptionError, match="the sink has no option topics; did you mean topic"):
        WriteOptions.parse({**SERVERS, "topics": "t"}, streaming=True)


@pytest.mark.parametrize(
    ("streaming", "options", "text"),
    [
        (False, {"startingOffsets": "latest"}, "startingOffsets cannot be latest in a batch"),
        (False, {"startingOffsets": '{"t": {"0": -1}}'}, "startingOffsets cannot be latest in a batch"),
        (False, {"endingOffsets": '{"t": {"0": -2}}'}, "endingOffsets cannot be earliest"),
        (False, {"endingOffsets": "earliest"}, "nothing would be read"),
        (True, {"endingOffsets": "latest"}, "endingOffsets: a stream has no end"),
        (True, {"endingTimestamp": "1"}, "endingTimestamp: a stream has no end"),
        (True, {"endingOffsetsByTimestamp": '{"t": {"0": 1}}'}, "a stream has no end"),
        (True, {"maxRecordsPerPartition": "5"}, "set minPartitions"),
        (True, {"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0'; .* at least 1"),
        (True, {"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"}, "is above maxOffsetsPerTrigger=5"),
        (True, {"minPartitions": "0"}, "minPartitions is '0'"),
        (False, {"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition is '0'"),
        (True, {"subscribe": " , "}, "subscribe is empty"),
        (True, {"kafka.auto.offset.reset": "earliest"}, r"kafka\.auto\.offset\.reset is not supported"),
        (True, {"kafka.enable.auto.commit": "false"}, "is not supported"),
        (True, {"kafka.key.deserializer": "a.B"}, "cast or decode the column key"),
        (True, {"kafka.interceptor.classes": "a.B"}, "no Java"),
        (True, {"kafka.ssl.truststore.location": "/x.jks"}, r"PEM files, kafka\.ssl\.ca\.location"),
        (True, {"kafka.ssl.truststore.type": "PKCS12"}, "Java key stores cannot be read"),
        (True, {"kafka.ssl.truststore.password": "x"}, "Java key stores cannot be read"),
        (True, {"kafka.ssl.keystore.location": "/x.p12"}, r"kafka\.ssl\.certificate\.location"),
        (True, {"kafka.fetch.mix.bytes": "1"}, r"did you mean fetch\.m.*bytes"),
    ],
)
def test_what_would_mean_nothing_is_refused(streaming, options, text):
    with pytest.raises(OptionError, match=text):
        read(streaming=streaming, **options)


def test_the_schema_is_known_before_it_is_known_how_to_read():
    for options in ({"endingOffsets": "latest"}, {"startingOffsets": "latest"}):
        assert read(streaming=None, **options).columns == COLUMNS[:-1]


def test_a_batch_says_which_options_are_of_streams(caplog):
    read(streaming=False, maxOffsetsPerTrigger="5")
    assert "maxOffsetsPerTrigger is of streams" in caplog.text


def test_serializers_are_refused_by_the_sink():
    with pytest.raises(OptionError, match="make them in the column key"):
        WriteOptions.parse({**SERVERS, "kafka.key.serializer": "a.B"}, streaming=False)


def test_a_micro_batch_of_foreach_batch_is_written_once():
    options = WriteOptions.parse({**SERVERS, "queryId": "q", "batchId": "7"}, streaming=False)
    assert (options.exactly_once, options.query, options.batch) == (True, "q", 7)
    for wrong in ({"queryId": "q"}, {"batchId": "7"}):
        with pytest.raises(OptionError, match="belong together"):
            WriteOptions.parse({**SERVERS, **wrong}, streaming=False)
    with pytest.raises(OptionError, match="leave out guarantee"):
        given = {**SERVERS, "queryId": "q", "batchId": "7", "guarantee": "at-least-once"}
        WriteOptions.parse(given, streaming=False)


def test_what_is_read_has_a_name():
    assert read().description == "ottla[subscribe: t]"
    given = {**SERVERS, "assign": '{"t": [1, 0]}'}
    assert ReadOptions.parse(given, streaming=True).description == "ottla[assign: t-0, t-1]"
    given = {**SERVERS, "subscribePattern": "t.*"}
    assert ReadOptions.parse(given, streaming=True).description == "ottla[subscribePattern: t.*]"
