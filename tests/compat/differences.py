"""Where Ottla answers differently from Apache Kafka on purpose, and why. Everything else must be equal."""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """Patterns as in a shell: of the scenario's name, and of the path `/label/field/...` in its answers."""

    scenario: str
    path: str
    reason: str


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "*",
        "*/min.insync.replicas/*",
        "a default like any other; Apache Kafka stores it as a cluster-wide setting when it formats a folder",
    ),
    Difference(
        "alter_broker_configs",
        "*/incremental_alter_configs v? unknown/*",
        "an unknown name is refused, so that a misspelling is noticed; Apache Kafka stores it",
    ),
    Difference(
        "alter_broker_configs",
        "*/incremental_alter_configs v? wrong value/*/error_code",
        "INVALID_CONFIG, as for topics; Apache Kafka says INVALID_REQUEST for brokers only",
    ),
    Difference(
        "incremental_alter_configs",
        "*unknown operation/*/error_code",
        "INVALID_REQUEST; Apache Kafka fails with UNKNOWN_SERVER_ERROR",
    ),
    Difference(
        "produce_wrongly",
        "*/produce v* unknown codec/*/error_code",
        "UNSUPPORTED_COMPRESSION_TYPE; Apache Kafka fails with UNKNOWN_SERVER_ERROR",
    ),
    Difference(
        "produce_wrongly",
        "*/produce v* not compressed at all/*/error_code",
        "CORRUPT_MESSAGE; Apache Kafka fails with UNKNOWN_SERVER_ERROR",
    ),
    Difference(
        "describe_group_configs",
        "*/describe_configs v? */results/0/configs",
        "settings without effect (consumer.assignment.interval.ms, `*.assignor.offload.enable`) are listed "
        "only where they are set",
    ),
    *(
        Difference(
            "describe_topic_configs",
            f"*/describe_configs v? all/results/0/configs/{name}/synonyms",
            "has no effect, so that no broker setting lends it a default",
        )
        for name in ("local.retention.bytes", "local.retention.ms", "preallocate")
    ),
    Difference(
        "the_life_of_a_new_member",
        "*/heartbeat_interval",
        "shorter while a group changes, so that it settles sooner",
    ),
    Difference(
        "*streams*",
        "*/heartbeat_interval",
        "shorter while a group changes, so that it settles sooner",
    ),
    Difference(
        "fetch_after_delete_records",
        "*at -3/*/offset",
        "the first offset that can be read; Apache Kafka names one that is deleted already",
    ),
    Difference(
        "named_twice",
        "*/describe_configs v4/results",
        "a resource that is named twice is answered once, so that repeats do not multiply the answer",
    ),
    Difference(
        "named_twice",
        "*/produce v9/*",
        "two entries for one partition are refused; Apache Kafka keeps the last and drops the other records",
    ),
)
