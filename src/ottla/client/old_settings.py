"""Names and values of clients before Kafka 1.0, which slides and books still print: taken with a warning where the
meaning is the same, refused with the modern name where it is not."""

# Old name: the name of today that means the same.
RENAMED = {
    "metadata_broker_list": "bootstrap_servers",
    "request_required_acks": "acks",
    "request_timeout": "request_timeout_ms",
    "compression_codec": "compression_type",
    "auto_commit_enable": "enable_auto_commit",
}

# Old name: what to write instead.
REPLACED = {
    "auto_commit_offset": "it never was a setting; enable.auto.commit is meant",
    "serializer_class": "set key.serializer and value.serializer",
    "key_serializer_class": "set key.serializer",
    "zookeeper_connect": "clients ask brokers, not ZooKeeper; set bootstrap.servers",
    "zk_connect": "clients ask brokers, not ZooKeeper; set bootstrap.servers",
    "consumer_timeout_ms": "give the time to poll()",
    "producer_type": "every send is asynchronous; wait for its future to make it synchronous",
    "queue_buffering_max_ms": "set linger.ms",
    "batch_num_messages": "set batch.size, in bytes",
    "fetch_message_max_bytes": "set max.partition.fetch.bytes",
}

# On the other kind of client they do nothing, and slides copy them there.
OF_THE_OTHER_CLIENT = {
    "ConsumerSettings": frozenset({"key_serializer", "value_serializer"}),
    "ProducerSettings": frozenset({"key_deserializer", "value_deserializer"}),
}

OLD_VALUES = {("auto_offset_reset", "smallest"): "earliest", ("auto_offset_reset", "largest"): "latest"}

ACKS = (
    "acks is {!r}; since Kafka 0.9 it is 0, 1 or all. For two replicas set min.insync.replicas=2 of the topic, "
    "and acks=all"
)
